"""The verdict on a whole site: one line, then each gate with what is known of it and the command that closes it.

Gates of which nothing is known are told in one block: a new site has a dozen of them.
"""

from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from appliance.models.acceptance import Acceptance, Accepted, Gate, GateState
from appliance.models.waiver import Waiver
from appliance.report.symbols import GATE
from appliance.report.wording import (
    acceptance_words,
    gate_value,
    one_line,
    plural,
    waiver_words,
)

_STYLE = {
    Accepted.YES: "bold green",
    Accepted.NOT_YET: "bold yellow",
    Accepted.NO: "bold red",
    Accepted.SIMULATED: "dim",
    Accepted.NO_GATES: "dim",
}


def acceptance_lines(console: Console, acceptance: Acceptance) -> None:
    """Print the verdict and the gates. Of simulated hardware the verdict alone: its gates are for nobody to close."""
    word, rest = acceptance_words(acceptance)
    style = "bold yellow" if acceptance.waivers else _STYLE[acceptance.verdict]
    head = Text.assemble((f"Accepted: {word}.", style), f" {rest}".rstrip())
    console.print(Padding(head, (0, 0, 0, 2), expand=False))
    if acceptance.verdict is Accepted.SIMULATED:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for gates in _blocks(acceptance.gates):
        first, *more = gates
        sign = GATE[first.state]
        mark = Text(sign.glyph(console.options.ascii_only), sign.style)
        if more:
            names = ", ".join(gate.id for gate in gates)
            said = Text(f"{one_line(first.why)}: {names}")
            table.add_row(mark, plural(len(gates), "gate"), said)
        else:
            table.add_row(mark, first.id, _said(first))
        for waiver in first.waivers:
            table.add_row("", "", waiver_line(waiver))
        for close in dict.fromkeys(g.close for g in gates if g.close and not g.waivers):
            table.add_row("", "", Text.assemble(("close: ", "bold"), close))
    console.print(Padding(table, (0, 0, 0, 4), expand=False))


def _blocks(gates: Iterable[Gate]) -> list[list[Gate]]:
    """One block per gate; those without a measurement or waiver, for the same reason, share one, in the place of the first."""
    blocks: dict[str, list[Gate]] = {}
    for gate in gates:
        bare = gate.state is GateState.OPEN and not gate.source and not gate.waivers
        blocks.setdefault(gate.why if bare else f"gate {gate.id}", []).append(gate)
    return list(blocks.values())


def waiver_line(waiver: Waiver) -> Text:
    """A waiver in red: what it covers is no better for it."""
    return Text(waiver_words(waiver), "bold red")


def _said(gate: Gate) -> Text:
    of = f"{gate.source}, {gate.measured:%Y-%m-%d}" if gate.source and gate.measured else ""
    parts = [one_line(gate.why), gate_value(gate), of]
    style = "bold red" if gate.state is GateState.FAILED else ""
    return Text(" · ".join(part for part in parts if part), style)
