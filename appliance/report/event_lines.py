"""Each event of a run as lines of text, for logs and for screens that cannot be redrawn."""

from functools import singledispatch

from appliance.models import events
from appliance.models.run import StageState
from appliance.report.formatting import about, acceptance_words, duration, fold, measured, one_line
from appliance.report.symbols import STATE, STATUS, VERDICT
from appliance.text import plural


@singledispatch
def lines(event: events.Event) -> list[str]:
    """Return the lines of ``event``; empty if it has none."""
    raise TypeError(f"no words for {type(event).__name__}")


@lines.register
def _(event: events.RunStarted) -> list[str]:
    told = [f"{event.verb} {event.site} · {event.profile} · {plural(len(event.hosts), 'host')}"]
    if event.simulated and not event.note:
        told.append(f"simulated: {', '.join(event.simulated)}")
    return [*([event.note] if event.note else []), *told]


@lines.register
def _(event: events.FactsTaken) -> list[str]:
    total = len(event.hosts)
    known = total - len(event.unreachable)
    told = [f"facts {event.seconds:.1f} s, {known} of {plural(total, 'host')}"]
    return told + [f"? {host} did not answer: {why}" for host, why in event.unreachable.items()]


@lines.register
def _(event: events.StageStarted) -> list[str]:
    expected = event.expected_seconds
    estimate = "" if expected is None else f" ({about(expected / 60)})"
    return [f"> {event.stage} starts on {fold(event.hosts)}{estimate}"]


@lines.register
def _(event: events.HostTask) -> list[str]:
    return [f"  {event.stage} {event.host}: {event.task}"]


@lines.register
def _(event: events.HostDone) -> list[str]:
    sign = STATE[event.state]
    took = f"{duration(event.seconds)}, {plural(event.changes, 'change')}"
    head = f"{sign.mark} {event.stage} {event.host}: {sign.word} after {took}"
    return [head, *trouble(event.cause, event.fix)]


@lines.register
def _(event: events.StageDone) -> list[str]:
    sign = STATE[event.state]
    counts = f"{event.done}/{plural(event.hosts, 'host')}, {duration(event.seconds)}"
    note = event.note or plural(event.changes, "change")
    return [f"{sign.mark} {event.stage} {sign.word}: {counts}, {note}"]


@lines.register
def _(event: events.CheckDone) -> list[str]:
    result = event.result
    sign = STATUS[result.status]
    value = measured(result.value, result.unit)
    head = f"{sign.mark} {result.id} {result.place}: {sign.word}{' ' + value if value else ''}"
    return [head, *trouble(result.cause, result.fix)]


@lines.register
def _(event: events.Message) -> list[str]:
    where = f"{event.host}: " if event.host else ""
    level = "" if event.level == "info" else f"{event.level}: "
    return [f"{level}{where}{event.text}"]


@lines.register
def _(event: events.RunFinished) -> list[str]:
    sign = VERDICT[event.verdict]
    told = [f"{sign.mark} {sign.word} after {duration(event.seconds)} (exit {event.exit_code})"]
    if event.acceptance:
        word, rest = acceptance_words(event.acceptance)
        told.append(f"accepted: {word}. {rest.removesuffix(':')}")
    return told + ([f"report {event.report}"] if event.report else [])


def trouble(cause: str, fix: str) -> list[str]:
    """Return cause and remedy, indented below their subject."""
    told = (("cause", one_line(cause)), ("fix", one_line(fix)))
    return [f"    {word}: {text}" for word, text in told if text]


def failed(state: StageState) -> bool:
    """Return whether a stage in ``state`` needs attention."""
    return state in {StageState.FAILED, StageState.BLOCKED}
