"""The acceptance verdict on a site: one line, then each gate with its state and the command that closes it.

Verbs that measure or accept show every gate. Plan and deploy show open gates only, folded: a new site has a dozen.
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from appliance.models.acceptance import Acceptance, Accepted, Gate, GateState
from appliance.models.waiver import Waiver
from appliance.report.formatting import acceptance_words, gate_value, one_line, waiver_words
from appliance.report.symbols import GATE
from appliance.text import plural

LINES = 14
"""Maximum number of lines of the folded block. Further gates are counted, and ``appliance accept --look`` lists them."""
_STYLE = {
    Accepted.YES: "bold green",
    Accepted.NOT_YET: "bold yellow",
    Accepted.NO: "bold red",
    Accepted.SIMULATED: "dim",
    Accepted.NO_GATES: "dim",
}
_DOUBTED = {Accepted.NOT_YET, Accepted.NO, Accepted.SIMULATED}


def acceptance_lines(console: Console, acceptance: Acceptance) -> set[Waiver]:
    """Print the verdict and the gates, and return the waivers shown.

    For simulated hardware, print only the verdict: its gates cannot be closed.
    """
    _head(console, acceptance)
    if acceptance.verdict is Accepted.SIMULATED:
        return set()
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for gates in _blocks(acceptance.gates):
        first, *more = gates
        mark = _mark(console, first)
        if more:
            names = ", ".join(gate.id for gate in gates)
            said = Text(f"{one_line(first.why)}: {names}")
            table.add_row(mark, plural(len(gates), "gate"), said)
        else:
            table.add_row(mark, first.id, _gate_text(first))
        for waiver in first.waivers:
            table.add_row("", "", waiver_line(waiver))
        for close in dict.fromkeys(g.close for g in gates if g.close and not g.waivers):
            table.add_row("", "", Text.assemble(("close: ", "bold"), close))
    console.print(Padding(table, (0, 0, 0, 4), expand=False))
    return {waiver for gate in acceptance.gates for waiver in gate.waivers}


def acceptance_fold(
    console: Console, acceptance: Acceptance, *, stands: bool = False
) -> set[Waiver]:
    """Print the verdict and the open gates, folded: a line for the reason, then one for each command and its gates.

    Returns the waivers shown. ``stands``: the deployment is proved; this is printed if an open gate could look like
    its failure.
    """
    said = "The deployment stands." if stands and acceptance.verdict in _DOUBTED else ""
    _head(console, acceptance, said)
    left, told = 0, set[Waiver]()
    room = 0 if acceptance.verdict is Accepted.SIMULATED else LINES
    for gates in _by_reason(
        gate for gate in acceptance.gates if gate.state is not GateState.PASSED
    ):
        lines = list(_folded(console, gates))
        left += len(gates) if len(lines) > room else 0
        room -= len(lines)
        if room < 0:
            continue
        told.update(gates[0].waivers)
        for line in lines:
            console.print(Padding(line, (0, 0, 0, 4), expand=False))
    if left:
        more = f"and {plural(left, 'gate')} more: accept --look lists them"
        if acceptance.verdict is Accepted.SIMULATED:
            more = f"Real hardware of its class has {plural(left, 'gate')} to pass."
        console.print(Padding(Text(more, "dim"), (0, 0, 0, 4), expand=False))
    return told


def waiver_line(waiver: Waiver) -> Text:
    """Print a waiver in red: what it covers is still a failure."""
    return Text(waiver_words(waiver), "bold red")


def _head(console: Console, acceptance: Acceptance, more: str = "") -> None:
    word, rest = acceptance_words(acceptance)
    style = "bold yellow" if acceptance.waivers else _STYLE[acceptance.verdict]
    said = f" {rest.rstrip(':.')}. {more}" if more else f" {rest}"
    head = Text.assemble((f"Accepted: {word}.", style), said.rstrip())
    console.print(Padding(head, (0, 0, 0, 2), expand=False))


def _mark(console: Console, gate: Gate) -> Text:
    sign = GATE[gate.state]
    return Text(sign.glyph(console.options.ascii_only), sign.style)


def _by_reason(gates: Iterable[Gate]) -> list[list[Gate]]:
    """Group open and failed gates by reason, failed ones first."""
    blocks: dict[tuple[object, ...], list[Gate]] = {}
    for gate in sorted(gates, key=lambda gate: gate.state is GateState.OPEN):
        blocks.setdefault((gate.state, gate.why, gate.waivers), []).append(gate)
    return list(blocks.values())


def _folded(console: Console, gates: Sequence[Gate]) -> Iterator[RenderableType]:
    """Print one reason: its line, its waivers, and by command the gates that it closes."""
    first = gates[0]
    style = "bold red" if first.state is GateState.FAILED else ""
    value = gate_value(first) if len(gates) == 1 else ""
    said = " · ".join(part for part in (one_line(first.why), value) if part)
    yield Text.assemble(_mark(console, first), "  ", (said, style))
    yield from (Padding(waiver_line(waiver), (0, 0, 0, 3)) for waiver in first.waivers)
    by_close: dict[str, list[str]] = {}
    for gate in gates:
        by_close.setdefault("" if gate.waivers else gate.close, []).append(gate.id)
    for close, names in by_close.items():
        yield Text(f"   {', '.join(names)}" + (f": {close}" if close else ""))


def _blocks(gates: Iterable[Gate]) -> list[list[Gate]]:
    """Print one block per gate; gates without a measurement or waiver, for the same reason, share a block at the first one's place."""
    blocks: dict[str, list[Gate]] = {}
    for gate in gates:
        bare = gate.state is GateState.OPEN and not gate.source and not gate.waivers
        blocks.setdefault(gate.why if bare else f"gate {gate.id}", []).append(gate)
    return list(blocks.values())


def _gate_text(gate: Gate) -> Text:
    of = f"{gate.source}, {gate.measured:%Y-%m-%d}" if gate.source and gate.measured else ""
    parts = [one_line(gate.why), gate_value(gate), of]
    style = "bold red" if gate.state is GateState.FAILED else ""
    return Text(" · ".join(part for part in parts if part), style)
