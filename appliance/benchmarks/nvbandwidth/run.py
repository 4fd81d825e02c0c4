"""Runs nvbandwidth on each GPU host, and judges each GPU's way to its host and each pair of GPUs."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from appliance.adapters.remote import Remote
from appliance.benchmarks import ceilings, floors
from appliance.benchmarks.batch import Book, Memory
from appliance.benchmarks.benchmark import Outcome, Raw
from appliance.benchmarks.ceilings import Bounded, Most
from appliance.benchmarks.equals import Figure, in_container, judge_places
from appliance.benchmarks.gating import gpu_hosts
from appliance.benchmarks.jobs import HostAccess, HostOutput, Task, on_each
from appliance.benchmarks.nvbandwidth.gates import CHECKS, FROM_GPU, PEER, TO_GPU, places
from appliance.benchmarks.nvbandwidth.report import Matrix, Report, Word, corrupted, read
from appliance.benchmarks.reading import Unread
from appliance.checks.check import View, failed, judged, not_assessed
from appliance.models.gpu_counts import gpu_count
from appliance.models.profile import Interconnect
from appliance.models.result import CLUSTER, CheckResult, Measurement, Place, Status
from appliance.models.run import Table
from appliance.stages.gpu.facts import Gpu
from appliance.text import first_few

CASES = {
    TO_GPU: ("host_to_device_memcpy_ce",),
    FROM_GPU: ("device_to_host_memcpy_ce",),
    PEER: ("device_to_device_memcpy_write_ce", "device_to_device_memcpy_read_ce"),
}
"""Copies by the GPU's copy engines, one at a time. Of two GPUs each writes to the other and reads from it."""
TOOLS = {
    "nvbandwidth": "install nvbandwidth (github NVIDIA/nvbandwidth, 0.7 or newer, built with CUDA) in /opt/nvbandwidth there, "
    "or in the container of slurm.containers.benchmark"
}
NEWER = "use nvbandwidth 0.7 or newer"
SECONDS = 900.0
"""For eight GPUs connected only by PCIe: 112 pairs and directions of 24 GiB take four minutes at about 12 GB/s."""
BUSY = "appliance-at-work="
# MiB of a copy: the default of 0.5 is less. Numbers of CUDA are those of NVML in the order of the bus. Outside of a job of Slurm, other processes may use the GPUs.
SCRIPT = f"""
export CUDA_DEVICE_ORDER=PCI_BUS_ID
at_work=$(nvidia-smi --query-compute-apps=pid --format=csv,noheader 2>/dev/null | grep -c '^ *[0-9]')
[ "$at_work" -gt 0 ] && {{ echo "{BUSY}$at_work"; exit 0; }}
exec nvbandwidth --json --bufferSize 512 --testcase "$@"
"""
FIX_SLOT = "check gpu.pcie there (appliance health); then dmesg for AER errors, the slot, the riser, power settings of the BIOS"
FIX_PEER = "check there nvidia-smi nvlink -s, nvidia-smi topo -m, ACS of the bridges; then appliance validate dcgm"
FIX_HIGH = "run it by hand on the host; check the version of nvbandwidth and the clock"
FIX_HAND = "run it by hand on the host: nvbandwidth --json; check dmesg for Xid messages"
FIX_CORRUPT = "drain the host, then run appliance validate dcgm"
FIX_WAIVED = "check there nvidia-smi topo -p2p r: IOMMU and ACS of the bridges isolate GPUs"
WHAT = {
    TO_GPU: "the rate from the host's memory",
    FROM_GPU: "the rate to the host's memory",
    PEER: "the slowest rate between the two",
}
DIVIDED = "its GPUs are in MIG mode: programs see only one instance"


@dataclass
class Figures:
    """Rates by check and place, of a pair those of all ways; the release by host; and results of all that is no rate."""

    rates: dict[str, dict[Place, tuple[float, ...]]] = field(
        default_factory=lambda: {check: {} for check in CHECKS}
    )
    releases: dict[str, str] = field(default_factory=dict)
    results: list[CheckResult] = field(default_factory=list)

    def error(self, check: str, at: Place | str, cause: str, fix: str = FIX_HAND) -> None:
        """Adds an error instead of a rate, because the output is wrong."""
        self.results.append(judged(at, Status.ERROR, cause=cause, fix=fix).of(check))


def run(view: View, remote: Remote, book: Book | None = None) -> Outcome:
    """Each host by itself; then every GPU and every pair against its limit, its links and its equals."""
    counts = {name: gpu_count(view.profile, view.site.host(name)) for name in gpu_hosts(view)}
    if not counts:
        return Outcome((not_assessed(CLUSTER, "the site has no GPU host").of(TO_GPU),))
    found, raw, reach = Figures(), [], HostAccess(remote, book or Memory())
    whole = {host: count for host, count in counts.items() if not _divided(view, host)}
    for host in counts.keys() - whole.keys():
        for check in _checks_of(counts[host]):
            required = view.limit(check) is not None
            found.results.append(not_assessed(host, DIVIDED, required=required).of(check))
    for count in sorted(set(whole.values())):
        hosts = [host for host, its in whole.items() if its == count]
        for host, said in on_each(view, reach, task(count), hosts).items():
            raw.append(Raw(f"{host}.json", said.output or said.cause))
            take(view, host, count, said, found)
    results = (*found.results, *_judged(view, found))
    order = {host: at for at, host in enumerate(counts)}
    ordered = sorted(results, key=lambda r: (order.get(r.host or "", -1), CHECKS.index(r.id)))
    return Outcome(tuple(ordered), tuple(_measured(ordered)), tuple(_tables(ordered)), tuple(raw))


def _checks_of(count: int) -> tuple[str, ...]:
    """The checks of a host: one GPU has no peer."""
    return CHECKS if count > 1 else (TO_GPU, FROM_GPU)


def task(count: int) -> Task:
    """All testcases in one run, on a host of so many GPUs."""
    names = tuple(name for check in _checks_of(count) for name in CASES[check])
    return Task("nvbandwidth", SCRIPT, SECONDS, TOOLS, "", names, gpus=count, contained=True)


def _devices(view: View, host: str) -> tuple[Gpu, ...]:
    facts = view.facts.get(host)
    return facts.gpus.devices if facts and facts.gpus else ()


def _divided(view: View, host: str) -> bool:
    return any(gpu.mig_enabled for gpu in _devices(view, host))


def take(view: View, host: str, count: int, said: HostOutput, found: Figures) -> None:
    """Reads the output of one host into ``found``: each check of it has a result or rates."""
    asked, simulated = _checks_of(count), in_container(view, host)
    if said.trouble:
        found.results += [said.verdict(check, host, simulated=simulated) for check in asked]
        return
    if busy := re.fullmatch(rf"{BUSY}(\d{{1,6}})\s*", said.output):
        why = f"programs are running on its GPUs: {busy[1]}"
        fix = "nvidia-smi on the host shows them; then run it again"
        found.results += [not_assessed(host, why, fix=fix).of(check) for check in asked]
        return
    try:
        report = read(said.output)
    except Unread as refused:
        cause, fix = _unread(said, str(refused))
        for check in asked:
            if corrupted(said.output):
                why = "data was corrupted in transit, and its report cannot be read"
                found.results.append(failed(host, why, FIX_CORRUPT).of(check))
            else:
                found.error(check, host, cause, fix)
        return
    names = [name for check in asked for name in CASES[check]]
    ended = all(_whole(report.cases.get(name)) for name in names)
    for check in asked:
        bad = [name for name in CASES[check] if not _whole(report.cases.get(name))]
        if corrupted(said.output) and (bad or ended):
            cause = f"data was corrupted in transit, in {first_few(bad or names)}"
            found.results.append(failed(host, cause, FIX_CORRUPT).of(check))
        elif bad:
            found.results.append(_left(view, host, check, bad[0], report, said))
        elif ended and (said.code or report.error):
            found.error(check, host, _why("", None, report, said))
        else:
            _rates(view, host, count, check, report, found)


def _whole(case: Matrix | None) -> bool:
    return case is not None and case.word is Word.PASSED


def _unread(said: HostOutput, refused: str) -> tuple[str, str]:
    """The message if there is no document."""
    if not said.code and not said.output.strip():
        return "it printed nothing, like release 0.6 with --json", NEWER
    if said.code and "Invalid Arguments" in said.output:
        return "it does not support --json, like releases before 0.5", NEWER
    ended = f"; it ended with {said.code}: {said.last or 'no reason given'}" if said.code else ""
    return f"{refused}{ended}", FIX_HAND


def _why(name: str, case: Matrix | None, report: Report, said: HostOutput) -> str:
    """Returns the reason why a testcase did not pass."""
    what = f"{name} did not end" if case else f"it does not report {name}" if name else ""
    told = (case.said if case else "") or report.error or said.last
    ended = f"nvbandwidth ended with {said.code}" if said.code else ""
    return "; ".join(filter(None, (what, ended, told))) or "it failed without a message"


def _left(
    view: View, host: str, check: str, name: str, report: Report, said: HostOutput
) -> CheckResult:
    """The result of a testcase that did not pass. If a limit requires it, a testcase that did not run is missing."""
    case = report.cases.get(name)
    if case is not None and case.word is Word.UNKNOWN:
        return not_assessed(host, f"{name}: no verdict ({case.said})", fix=FIX_HAND).of(check)
    if case is not None and case.word is Word.WAIVED:
        cause = f"{name} was waived: GPUs cannot access each other's memory"
        required = view.limit(check) is not None
        return not_assessed(host, cause, fix=FIX_WAIVED, required=required).of(check)
    cause = _why(name, case, report, said)
    return judged(host, Status.ERROR, cause=cause, fix=FIX_HAND).of(check)


def _rates(view: View, host: str, count: int, check: str, report: Report, found: Figures) -> None:
    """The rates of a check, by GPU or pair; an implausible one is a separate error."""
    matrices = [report.cases[name].rows for name in CASES[check]]
    try:
        order = _order(view, host, count, report, len(matrices[0][0]))
    except Unread as refused:
        found.error(check, host, str(refused))
        return
    height = len(order) if check == PEER else 1
    if any(len(rows) != height or len(rows[0]) != len(order) for rows in matrices):
        found.error(check, host, "its matrices are of different GPUs")
        return
    index = {gpu: at for at, gpu in enumerate(order)}
    for at in places(check, host, count):
        gpus = [int(part.rpartition(" ")[2]) for part in at.parts]
        if lost := [gpu for gpu in gpus if gpu not in index]:
            found.error(check, at, f"nvbandwidth did not see GPU {lost[0]}")
            continue
        columns = [index[gpu] for gpu in gpus]
        values = _cells(check, matrices, columns)
        got = [value for value in values if value is not None]
        if len(got) < len(values):
            found.results.append(_unmeasured(view, check, at))
        elif not min(got):
            found.error(check, at, f"{WHAT[check]} cannot be 0 GB/s")
        else:
            found.rates[check][at] = tuple(got)
            found.releases[host] = report.version or "of unknown release"


def _unmeasured(view: View, check: str, at: Place) -> CheckResult:
    if check != PEER:
        return not_assessed(at, "it was not measured (N/A)", fix=FIX_HAND).of(check)
    cause = "a path between them was not measured (N/A): one GPU cannot access the other's memory"
    required = view.limit(check) is not None
    return not_assessed(at, cause, fix=FIX_WAIVED, required=required).of(check)


def _cells(
    check: str, matrices: Sequence[Sequence[Sequence[float | None]]], columns: Sequence[int]
) -> list[float | None]:
    if check != PEER:
        return [rows[0][columns[0]] for rows in matrices]
    one, other = columns
    return [rows[y][x] for rows in matrices for y, x in ((one, other), (other, one))]


def _order(view: View, host: str, count: int, report: Report, width: int) -> list[int]:
    """NVML's numbers of the GPUs, in the order of the matrices. Raises Unread."""
    devices = {_address(gpu): gpu.index for gpu in _devices(view, host)}
    if report.gpus and devices:
        if len(report.gpus) != width:
            raise Unread(f"it lists {len(report.gpus)} GPUs, but measured {width}")
        strange = [at for at in report.gpus if at not in devices]
        if strange:
            raise Unread(f"it measured a GPU at {strange[0]} that the host does not have")
        return [devices[at] for at in report.gpus]
    if width != count:
        raise Unread(f"it measured {width} GPUs, but the host has {count}")
    return list(range(count))


def _address(gpu: Gpu) -> str:
    """Domain of eight digits, bus and device: as nvbandwidth writes it."""
    domain, _, rest = gpu.bus_id.lower().partition(":")
    return f"{domain:0>8}:{rest.partition('.')[0]}"


def _judged(view: View, found: Figures) -> Iterator[CheckResult]:
    for check, rates in found.rates.items():
        fix = FIX_PEER if check == PEER else FIX_SLOT
        of = "pairs" if check == PEER else "GPUs"
        figure = Figure(check, WHAT[check], "GB/s", fix, equals=of)
        sound: dict[object, dict[Place, float]] = {}
        told = {}
        for at, ways in rates.items():
            most = _most(view, check, at)
            told[at] = _evidence(found, at, ways, most)
            if isinstance(most, Most) and most.passed_by(max(ways)):
                yield _impossible(view, check, at, max(ways), most)
            else:
                sound.setdefault(_kind(view, check, at), {})[at] = min(ways)
        for equals in sound.values():
            yield from judge_places(view, figure, equals, told, floors.floor(view, check))


def _evidence(found: Figures, at: Place, ways: Sequence[float], most: Bounded) -> str:
    release = f"nvbandwidth {found.releases[at.host or '']}"
    told = ceilings.bound_text(most, "GB/s")
    if len(ways) == 1:
        return f"{release}; {told}"
    shown = [f"{way:.4g}" for way in ways]
    return f"{release}; written {shown[0]} and {shown[1]}, read {shown[2]} and {shown[3]}; {told}"


def _most(view: View, check: str, at: Place) -> Bounded:
    gpus = [int(part.rpartition(" ")[2]) for part in at.parts]
    host = at.host or ""
    if check == PEER:
        return ceilings.of_pair(view, host, gpus[0], gpus[1])
    return ceilings.of_slot(view, host, gpus[0])


def _kind(view: View, check: str, at: Place) -> object:
    """The key of peers: the product; for pairs without a switch, also the positions of the two GPUs in the host."""
    models = {f"GPU {gpu.index}": gpu.name for gpu in _devices(view, at.host or "")}
    names = tuple(models.get(part, "") for part in at.parts)
    switched = view.profile.hardware.gpu.interconnect is Interconnect.NVSWITCH
    return names, at.parts if check == PEER and not switched else ()


def _impossible(view: View, check: str, at: Place, rate: float, most: Most) -> CheckResult:
    what = "a rate between the two" if check == PEER else WHAT[check]
    cause = f"{what} cannot be {rate:.4g} GB/s: {ceilings.bound_text(most, 'GB/s')}"
    return judged(
        at,
        Status.ERROR,
        value=float(f"{rate:.4g}"),
        unit="GB/s",
        cause=cause,
        fix=FIX_HIGH,
        simulated=in_container(view, at.host or ""),
    ).of(check)


def _measured(results: Sequence[CheckResult]) -> Iterator[Measurement]:
    """The lowest possible rate by host and check."""
    least: dict[tuple[str, str], CheckResult] = {}
    for one in results:
        if isinstance(one.value, float) and one.status is not Status.ERROR and one.host:
            key = (one.id, one.host)
            known = least.get(key)
            if known is None or one.value < float(str(known.value)):
                least[key] = one
    for (check, host), one in least.items():
        yield Measurement(
            name=check,
            value=float(str(one.value)),
            unit=one.unit,
            target=host,
            simulated=one.simulated,
        )


def _tables(results: Sequence[CheckResult]) -> Iterator[Table]:
    """Each GPU: to it, from it, and with its slowest peer."""
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for one in results:
        if not isinstance(one.value, float):
            continue
        for part in one.parts:
            row = rows.setdefault((one.host or "", part), {})
            row[one.id] = min(row.get(one.id, one.value), one.value)
    if rows:
        yield Table(
            title="Copies of each GPU, GB/s",
            columns=("host", "GPU", "from host", "to host", "slowest peer"),
            rows=tuple(
                (host, part, *(row.get(check, "") for check in CHECKS))
                for (host, part), row in rows.items()
            ),
        )
