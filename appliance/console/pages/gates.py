"""Page 6: the gates of acceptance, with value, limit, evidence and the command that closes each."""

from collections.abc import Iterator

from rich.text import Text

from appliance.console.page import Look, Page, Row, failure_lines, labelled
from appliance.console.state import State
from appliance.models.acceptance import Gate, GateState
from appliance.report.formatting import (
    acceptance_words,
    gate_value,
    moment,
    one_line,
    waiver_words,
)
from appliance.report.symbols import GATE

ORDER = (GateState.FAILED, GateState.OPEN, GateState.PASSED)


def gates_page(state: State) -> Page:
    """The gates as the last look judged them, failed ones first."""
    head = failure_lines(state.look.failure)
    if state.look.value is None:
        return Page("Gates", tuple(head), empty=f"hosts {state.look.age(state.time)}")
    found = state.look.value.health.acceptance
    if found is None:
        return Page("Gates", tuple(head), empty="acceptance was not judged")
    word, rest = acceptance_words(found)
    head.append(Text.assemble((f"Accepted: {word}. ", "bold"), rest.rstrip(":")))
    gates = sorted(found.gates, key=lambda gate: ORDER.index(gate.state))
    rows = tuple(_row(state.terminal, gate) for gate in gates)
    empty = "the profile requires no measurement"
    return Page("Gates", tuple(head), rows, empty, state.terminal.legend(GATE.values()))


def _row(look: Look, gate: Gate) -> Row:
    parts = (gate_value(gate), one_line(gate.why), *(["waived"] if gate.waivers else []))
    line = Text.assemble(
        look.mark(GATE[gate.state]),
        (f" {gate.id:<22} ", "bold"),
        " · ".join(part for part in parts if part),
    )
    return Row(f"{gate.profile} {gate.id}", line, tuple(_detail(gate)), check=gate.id)


def _detail(gate: Gate) -> Iterator[Text]:
    sign = GATE[gate.state]
    level = f", level {gate.level.value}" if gate.level else ""
    yield Text.assemble((sign.word, sign.style), f"  {gate.id}  {gate.title}{level}")
    measured = moment(gate.measured) if gate.measured else ""
    for label, text in (
        ("why", gate.why),
        ("measured", gate_value(gate)),
        ("limit from", gate.limit_source),
        ("evidence", " · ".join(filter(None, (gate.source, gate.run, measured)))),
        ("close", gate.close),
        ("class", gate.profile),
    ):
        if text:
            yield labelled(label, text)
    for waiver in gate.waivers:
        yield Text(waiver_words(waiver), "bold red")
