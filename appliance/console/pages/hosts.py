"""Page 3: hosts with a cell for each GPU and each rail of the fabric. A sign and a colour show the state of each."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from appliance.console.page import Look, Page, Row, failure_lines, labelled
from appliance.console.state import State
from appliance.models.result import COMPLAINTS, SEVERITY, CheckResult, Status
from appliance.models.run import GpuRecord, HostRecord, PortRecord
from appliance.report.findings import is_optional_gap
from appliance.report.formatting import binary_size, one_line
from appliance.report.symbols import STATUS, Sign
from appliance.stages.fabric import ids as fabric_ids
from appliance.stages.gpu import ids as gpu_ids
from appliance.text import plural

MISSING = Sign("M", "M", "missing", "bold red")
UNKNOWN = STATUS[Status.NOT_ASSESSED]
OF_GPUS = frozenset(
    {
        *(gpu_ids.MODEL, gpu_ids.MEMORY, gpu_ids.ERROR, gpu_ids.PCIE, gpu_ids.NVLINK),
        *(gpu_ids.ECC, gpu_ids.REMAP, gpu_ids.CLOCKS, gpu_ids.TEMPERATURE, gpu_ids.POWER),
        gpu_ids.DRIVER,
    }
)
"""Checks that judge every GPU of a host; without a part they speak of all of them."""
OF_PORTS = frozenset({fabric_ids.STATE, fabric_ids.ACTIVE, fabric_ids.RATE, fabric_ids.ERRORS})
"""Checks that judge every port of a host."""
GROUP = 4
"""Cells between two blanks."""


@dataclass(frozen=True)
class Cell:
    """A GPU or a port: its sign, its name, and what the sign is based on."""

    sign: Sign
    name: str
    said: str = ""


def hosts_page(state: State) -> Page:
    """The hosts in the order of the site."""
    head = failure_lines(state.look.failure)
    if state.look.value is None:
        return Page("Hosts", tuple(head), empty=f"hosts {state.look.age(state.time)}")
    seen = state.look.value.health
    of_host: dict[str, list[CheckResult]] = {}
    for result in seen.results:
        of_host.setdefault(result.host or "", []).append(result)
    width = max((len(record.name) for record in seen.records), default=0)
    rows = tuple(
        _row(state.terminal, record, of_host.get(record.name, []), width) for record in seen.records
    )
    bad = {r.host for r in seen.results if r.status in COMPLAINTS and not r.explained_by}
    silent = {record.name for record in seen.records if record.unreachable}
    first = next((r.name for r in seen.records if r.name in bad | silent), "")
    signs = (*(STATUS[s] for s in Status if s is not Status.SKIP), MISSING)
    legend = state.terminal.legend(signs)
    return Page("Hosts", tuple(head), rows, "no hosts", legend, first)


def gpu_cells(record: HostRecord, results: Sequence[CheckResult]) -> list[Cell]:
    """One cell per expected GPU. If none answers nothing is known of any; a GPU that others do not list is missing."""
    expected = record.expected.gpus if record.expected else 0
    return _cells([f"GPU {gpu.index}" for gpu in record.gpus], results, OF_GPUS, expected, "GPU")


def rail_cells(record: HostRecord, results: Sequence[CheckResult]) -> list[Cell]:
    """One cell per expected port of a GPU host; a port that is not active is never good, whatever its checks say."""
    if record.expected is None:
        return []
    expected = record.expected.ports
    names = [port.device for port in record.ports]
    cells = _cells(names, results, OF_PORTS, expected, "port")
    state = {port.device: port.state for port in record.ports}
    return [
        Cell(STATUS[Status.FAIL], cell.name, f"state {state[cell.name]}")
        if cell.sign is STATUS[Status.PASS] and "ACTIVE" not in state[cell.name].upper()
        else cell
        for cell in cells
    ]


def _cells(
    names: Sequence[str],
    results: Sequence[CheckResult],
    of_all: frozenset[str],
    expected: int,
    noun: str,
) -> list[Cell]:
    if not names:
        return [Cell(UNKNOWN, f"{noun} {n}", "not seen by the host") for n in range(expected)]
    cells = [_cell(name, results, of_all) for name in names]
    lost = max(0, expected - len(names))
    return cells + [Cell(MISSING, f"a {noun}", "expected, and not found")] * lost


def _cell(name: str, results: Iterable[CheckResult], of_all: frozenset[str]) -> Cell:
    """The worst result that speaks of it; without any result it is not assessed."""
    said = [
        r
        for r in results
        if not is_optional_gap(r) and (name in r.parts or (not r.parts and r.id in of_all))
    ]
    if not said:
        return Cell(UNKNOWN, name, "no check has judged it")
    worst = max(said, key=lambda r: (SEVERITY.index(r.status), name in r.parts))
    if worst.status is Status.SKIP:
        return Cell(UNKNOWN, name, f"{worst.id}: {one_line(worst.cause)}")
    text = "" if worst.status is Status.PASS else f"{worst.id}: {one_line(worst.cause)}"
    return Cell(STATUS[worst.status], name, text)


def _row(look: Look, record: HostRecord, results: Sequence[CheckResult], width: int) -> Row:
    bad = [r for r in results if r.status in COMPLAINTS and not r.explained_by]
    unknown = [r for r in results if _is_unknown(r)]
    gpus, rails = gpu_cells(record, results), rail_cells(record, results)
    parts: list[Text | str | tuple[str, str]] = [(f"{record.name:<{width}}", "bold")]
    for label, cells in (("GPU", gpus), ("rails", rails)):
        if cells:
            parts += [f"  {label} ", _strip(look, cells)]
    if not gpus:
        parts.append(f"  {', '.join(record.roles)}")
    if record.unreachable:
        parts.append((f"  no answer: {one_line(record.unreachable)}", "bold red"))
    elif bad:
        parts.append((f"  {plural(len(bad), 'finding')}", "bold"))
    if unknown:
        parts.append((f"  {len(unknown)} not assessed", UNKNOWN.style))
    line = Text.assemble(*parts)
    return Row(record.name, line, tuple(_detail(look, record, gpus, rails, (*bad, *unknown))))


def _is_unknown(result: CheckResult) -> bool:
    """A required check without a verdict, for which no other finding is the reason."""
    return result.required and result.status is Status.NOT_ASSESSED and not result.explained_by


def _strip(look: Look, cells: Sequence[Cell]) -> Text:
    text = Text()
    for number, cell in enumerate(cells):
        if number and number % GROUP == 0:
            text.append(" ")
        text.append(*look.mark(cell.sign))
    return text


def _detail(
    look: Look,
    record: HostRecord,
    gpus: Sequence[Cell],
    rails: Sequence[Cell],
    told: Sequence[CheckResult],
) -> Iterator[Text]:
    """Findings of the host first, then its inventory."""
    head = (record.name, ", ".join(record.roles), record.address, record.profile)
    yield Text(" · ".join(filter(None, head)), "bold")
    for result in told:
        sign = STATUS[result.status]
        yield Text.assemble(
            look.mark(sign), f" {result.place}  {result.id}  {one_line(result.cause)}"
        )
        if result.fix:
            yield labelled("  fix", result.fix)
    known = {f"GPU {gpu.index}": _gpu(gpu) for gpu in record.gpus}
    known |= {port.device: _port(port) for port in record.ports}
    for cell in (*gpus, *rails):
        said = "  ".join(filter(None, (known.get(cell.name, ""), cell.said)))
        yield Text.assemble(look.mark(cell.sign), f" {cell.name:<8} {said}")
    memory = binary_size(record.memory) if record.memory else ""
    rest = " · ".join(filter(None, (record.os, record.kernel, record.cpu, memory)))
    if rest:
        yield Text(rest, "dim")


def _gpu(gpu: GpuRecord) -> str:
    rail = f"rail {', '.join(gpu.adapters)}" if gpu.adapters else ""
    serial = f"serial {gpu.serial}" if gpu.serial else ""
    return "  ".join(filter(None, (gpu.name, serial, gpu.bus_id, rail)))


def _port(port: PortRecord) -> str:
    rate = f"{port.rate:g} Gb/s"
    return "  ".join(filter(None, (port.state, rate, port.link_layer, port.firmware)))
