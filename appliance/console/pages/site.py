"""Page 1: the site at a glance. Each line has the age of its figures; enter goes to the page with the details."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from appliance.actions.sites.history import Run
from appliance.actions.sites.last_deployment import Progress
from appliance.console.loaded import Loaded, ago
from appliance.console.page import Page, Row, failure_lines, labelled
from appliance.console.state import State
from appliance.models.acceptance import Accepted
from appliance.models.result import Status, Verdict
from appliance.report import difference_lines
from appliance.report.console.findings import counts
from appliance.report.formatting import acceptance_words, duration, fold, moment, one_line
from appliance.report.symbols import STATUS, VERDICT, Sign
from appliance.text import plural

GOOD, BAD, WARNS = STATUS[Status.PASS], STATUS[Status.FAIL], STATUS[Status.WARN]
UNKNOWN = STATUS[Status.NOT_ASSESSED]
ACCEPTED = {
    Accepted.YES: GOOD,
    Accepted.NO: BAD,
    Accepted.NOT_YET: UNKNOWN,
    Accepted.SIMULATED: UNKNOWN,
    Accepted.NO_GATES: UNKNOWN,
}
OUTCOMES = {"passed": GOOD, "done": GOOD, "failed": BAD, "incomplete": UNKNOWN}
SHOWN_RUNS = 20
LABEL, AGE = 10, 4
FINDINGS, HOSTS, QUEUES, DEPLOYMENT, GATES = 2, 3, 4, 5, 6
"""Numbers of the other pages."""


def site_page(state: State) -> Page:
    """One line for each question of the first minute."""
    head = [
        *failure_lines(state.look.failure),
        *failure_lines(state.record.failure),
        Text(f"{'':<{LABEL + 4}}{'age':>{AGE}}", "dim"),
    ]
    rows = (
        _deployed(state),
        _accepted(state),
        _health(state),
        _hosts(state),
        _waiting(state),
        _lease(state),
        _changed(state),
        _history(state),
        *_warnings(state),
    )
    return Page(
        "Site", tuple(head), rows, legend=state.terminal.legend((GOOD, WARNS, BAD, UNKNOWN))
    )


def _row(
    state: State,
    sign: Sign,
    label: str,
    said: str,
    source: Loaded[Any],
    *,
    detail: Sequence[Text] = (),
    page: int = 0,
) -> Row:
    """``source``: the load that the line is from, whose age is shown."""
    line = Text.assemble(
        state.terminal.mark(sign),
        (f" {label:<{LABEL}}", "bold"),
        (f"{source.short_age(state.time):>{AGE}}  ", "dim"),
        one_line(said),
    )
    age = source.age(state.time)
    more = Text(f"enter: page {page}", "dim") if page else Text("")
    whole = (labelled(label, said), Text(age, "dim"), *detail, more)
    return Row(label, line, whole, page=page)


def _deployed(state: State) -> Row:
    source, record = state.record, state.record.value
    if record is None:
        return _row(state, UNKNOWN, "Deployed", "not known", source, page=DEPLOYMENT)
    found = record.deployment
    if found is None:
        said = "no deployment in this journal; next: appliance deploy"
        return _row(state, UNKNOWN, "Deployed", said, source, page=DEPLOYMENT)
    run = found.run
    if found.is_running:
        cells = found.cells.values()
        done = sum(cell.state is Progress.DONE for cell in cells)
        said = f"a deployment is running: {done} of {len(cells)} stages done, by {run.who or '?'}"
        return _row(state, WARNS, "Deployed", said, source, page=DEPLOYMENT)
    when = ago(run.finished or run.started, state.time)
    scope = f" ({run.scope})" if run.scope else ""
    said = f"{run.outcome}{scope}, {when}, by {run.who or 'user not recorded'}"
    sign = OUTCOMES.get(run.outcome, WARNS)
    why = _undeployed(state)
    detail = [labelled("as declared now", why)] if why else []
    if why and sign is GOOD:
        sign, said = UNKNOWN, f"{said}; {why}"
    return _row(state, sign, "Deployed", said, source, detail=detail, page=DEPLOYMENT)


def _undeployed(state: State) -> str:
    """Why the last deployment does not cover the site as declared now; "" if it does, or is not known."""
    found = state.look.value and state.look.value.health.acceptance
    return found.why if found and found.verdict is Accepted.NOT_YET else ""


def _accepted(state: State) -> Row:
    found = state.look.value and state.look.value.health.acceptance
    if not found:
        return _row(state, UNKNOWN, "Accepted", "not judged", state.look, page=GATES)
    word, rest = acceptance_words(found)
    said = f"{word}. {rest.rstrip(':')}"
    return _row(state, ACCEPTED[found.verdict], "Accepted", said, state.look, page=GATES)


def _health(state: State) -> Row:
    if state.look.value is None:
        return _row(state, UNKNOWN, "Health", "not known", state.look, page=FINDINGS)
    seen = state.look.value.health
    sign = VERDICT[seen.verdict]
    mark = {Verdict.PASSED: GOOD, Verdict.FAILED: BAD, Verdict.INCOMPLETE: UNKNOWN}[seen.verdict]
    said = f"{sign.word} · {counts(seen.results)}"
    simulated = f" · simulated: {', '.join(seen.simulated)}" if seen.simulated else ""
    return _row(state, mark, "Health", said + simulated, state.look, page=FINDINGS)


def _hosts(state: State) -> Row:
    """Hosts that answer, GPUs and ports that were found. Fewer than expected is a failure."""
    if state.look.value is None:
        return _row(state, UNKNOWN, "Hosts", "not known", state.look, page=HOSTS)
    records = state.look.value.health.records
    answering = [record for record in records if not record.unreachable]
    wanted = [record.expected for record in records if record.expected]
    pairs = (
        ("hosts answer", len(answering), len(records)),
        ("GPUs seen", sum(len(r.gpus) for r in records), sum(w.gpus for w in wanted)),
        (
            "ports active",
            sum("ACTIVE" in p.state.upper() for r in records if r.expected for p in r.ports),
            sum(w.ports for w in wanted),
        ),
    )
    said = " · ".join(f"{seen} of {of} {what}" for what, seen, of in pairs if of)
    sign = GOOD if all(seen >= of for _, seen, of in pairs) else BAD
    return _row(state, sign, "Hosts", said, state.look, page=HOSTS)


def _waiting(state: State) -> Row:
    found = state.waiting.value
    if found is None:
        return _row(state, UNKNOWN, "Waiting", "not known", state.waiting, page=QUEUES)
    pods = len(found.queues.waiting) if found.queues else 0
    jobs = len(found.partitions.pending) if found.partitions else 0
    parts = [plural(pods, "pod waits", "pods wait")] if found.queues else []
    parts += [plural(jobs, "job waits", "jobs wait")] if found.partitions else []
    unread = [one_line(missing.cause) for missing in found.missing]
    sign = WARNS if pods or jobs else GOOD
    if unread or not parts:
        sign = UNKNOWN
    said = " · ".join((*parts, *unread) or found.absent)
    return _row(state, sign, "Waiting", said, state.waiting, page=QUEUES)


def _lease(state: State) -> Row:
    """Who changes the site: a run of this checkout by its lock, others by the leases on the hosts."""
    record, seen = state.record.value, state.look.value
    held = record.holder if record else {}
    parts = []
    if held:
        word = {key: one_line(held.get(key, "?")) for key in ("run", "verb", "pid", "since")}
        parts.append(
            f"run {word['run']} ({word['verb']}, process {word['pid']} since {word['since']})"
        )
    if seen and seen.health.leases:
        parts.append(seen.health.leases)
    if parts:
        return _row(state, WARNS, "Lease", "; ".join(parts), state.record)
    if record is None or seen is None:
        return _row(state, UNKNOWN, "Lease", "not known", state.record)
    if silent := sum(bool(one.unreachable) for one in seen.health.records):
        said = f"no run of this checkout; leases on {plural(silent, 'host')} are unknown"
        return _row(state, UNKNOWN, "Lease", said, state.look)
    return _row(state, GOOD, "Lease", "no run changes the site", state.record)


def _changed(state: State) -> Row:
    """Differences from the hand-over or the baseline. Without either, nothing can be said."""
    if state.look.value is None:
        return _row(state, UNKNOWN, "Changed", "not known", state.look)
    seen = state.look.value.health
    if seen.then is None:
        said = "no hand-over and no baseline to compare with; next: appliance baseline accept"
        return _row(state, UNKNOWN, "Changed", said, state.look)
    lines = difference_lines.lines(seen.differences)
    since = f"since {seen.then.said} of {moment(seen.then.time)}"
    if not lines:
        return _row(state, GOOD, "Changed", f"nothing {since}", state.look)
    unknown = all(not one.known for one in seen.differences)
    said = f"{plural(len(lines), 'difference')} {since}: {lines[0]}"
    detail = [Text(line) for line in lines]
    return _row(state, UNKNOWN if unknown else WARNS, "Changed", said, state.look, detail=detail)


def _history(state: State) -> Row:
    record = state.record.value
    runs = record.runs if record else ()
    if not runs:
        said = "not known" if record is None else "no run has changed this site from here"
        return _row(state, UNKNOWN, "History", said, state.record)
    last = runs[-1]
    who = last.who or "user not recorded"
    said = f"{last.verb} by {who} {ago(last.started, state.time)}: {last.outcome}"
    detail = [line for run in reversed(runs[-SHOWN_RUNS:]) for line in _run_lines(run)]
    sign = OUTCOMES.get(last.outcome, WARNS)
    return _row(state, sign, "History", said, state.record, detail=detail)


def _run_lines(run: Run) -> Iterator[Text]:
    took = f" in {duration((run.finished - run.started).total_seconds())}" if run.finished else ""
    words = " ".join(filter(None, (run.verb, run.scope)))
    who = run.who or "user not recorded"
    yield Text(f"{run.started.astimezone():%Y-%m-%d %H:%M}  {words}  {who}  {run.outcome}{took}")
    for word, stages in (("changed", run.changed), ("failed", run.failed)):
        for stage, hosts in stages.items():
            yield Text(f"    {word} {stage} on {fold(hosts)}", "dim")


def _warnings(state: State) -> Iterator[Row]:
    """What the look warned of; a lease has its own line already."""
    if state.look.value is None:
        return
    seen = state.look.value
    for number, text in enumerate(seen.warnings):
        if text != seen.health.leases:
            row = _row(state, WARNS, "Warning", text, state.look)
            yield Row(f"Warning {number}", row.line, row.detail)
