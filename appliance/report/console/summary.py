"""The end of a run on one screen: whether it succeeded, what failed where, and the next command."""

from collections.abc import Collection, Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from appliance.models.result import COMPLAINTS, Status, Verdict
from appliance.models.run import RunRecord, StageOutcome, StageState
from appliance.models.waiver import Waiver
from appliance.report.console.acceptance import acceptance_fold, acceptance_lines, waiver_line
from appliance.report.console.findings import findings_list
from appliance.report.findings import findings, gaps_line, tells_of
from appliance.report.formatting import duration, fold, one_line
from appliance.report.merged_hosts import of_hosts, without_host
from appliance.report.symbols import STATE, VERDICT
from appliance.text import plural

_GRAVITY = (
    StageState.FAILED,
    StageState.BLOCKED,
    StageState.DONE,
    StageState.NOT_RUN,
    StageState.SKIPPED,
)


def run_summary(
    console: Console,
    record: RunRecord,
    report: str = "",
    next_command: str = "",
    *,
    stages: bool = True,
    first: bool = False,
    offers: Sequence[tuple[str, str]] = (),
) -> None:
    """Print stages, failed hosts with cause and fix, failed checks, the gates, the verdict and the next step.

    The verdict is among the last lines, for readers who watched the run; with ``first``, it is the first line.

    ``stages`` False omits the stages if they were shown just above. ``offers``: further lines before the last
    one, each a word and a text.
    """
    head, *rest = (Padding(line, (0, 0, 0, 2), expand=False) for line in _verdict(record))
    if first:
        console.print(head)
    if record.outcomes and stages:
        console.print(_stages(console, record))
        console.print()
    failed = [o for o in record.outcomes if o.state is StageState.FAILED]
    for line in _failures(console, failed, _never_run(record)):
        console.print(Padding(line, (0, 0, 0, 2), expand=False))
    results = [r for r in record.results if not tells_of(r, record.outcomes)]
    open_points = [f for f in findings(results) if f.result.status in COMPLAINTS]
    findings_list(console, open_points)
    for note in rest:
        console.print(note)
    shown: set[Waiver] = set()
    if record.acceptance and record.verb in _MEASURING:
        shown = acceptance_lines(console, record.acceptance)
    elif record.acceptance:
        whole = record.verdict is Verdict.PASSED and not record.narrowed
        shown = acceptance_fold(console, record.acceptance, stands=whole)
    waivers_list(console, record, shown)
    width = max([8, *(len(word) + 2 for word, _ in offers)])
    for word, text in (("report", report), *offers, ("", ""), ("next", next_command)):
        if text:
            console.print(f"  {word:<{width}}{text}", markup=False, highlight=False, soft_wrap=True)
        elif not word and not first:
            console.print(head)


def waivers_list(console: Console, record: RunRecord, shown: Collection[Waiver] = ()) -> None:
    """Print the active waivers that were not ``shown`` at a gate above."""
    for waiver in record.waivers:
        if waiver not in shown:
            console.print(Padding(waiver_line(waiver), (0, 0, 0, 4), expand=False))


_MEASURING = {"accept", "validate"}
"""Verbs that print every gate."""
_UNASSESSED = 6


def _stages(console: Console, record: RunRecord) -> Padding:
    table = Table.grid(padding=(0, 2, 0, 0))
    for name in ("mark", "stage", "hosts", "time"):
        table.add_column(no_wrap=True, justify="right" if name == "time" else "left")
    table.add_column(overflow="fold")
    for stage in dict.fromkeys(o.stage for o in record.outcomes):
        table.add_row(*_row(console, stage, [o for o in record.outcomes if o.stage == stage]))
    return Padding(table, (0, 0, 0, 2), expand=False)


def _row(console: Console, stage: str, outcomes: Sequence[StageOutcome]) -> list[Text | str]:
    state = min((o.state for o in outcomes), key=_GRAVITY.index)
    sign = STATE[state]
    good = sum(1 for o in outcomes if o.state in {StageState.DONE, StageState.SKIPPED})
    changes = sum(o.changes for o in outcomes)
    hosts = [o.host for o in outcomes if o.state is state]
    bad = state in {StageState.FAILED, StageState.BLOCKED}
    note = f"{sign.word} {fold(hosts)}" if bad else plural(changes, "change")
    if state in {StageState.SKIPPED, StageState.NOT_RUN}:
        note = sign.word
    elif left := [o.host for o in outcomes if o.state is StageState.NOT_RUN]:
        note += f"; not run on {fold(left)}"
    seconds = max(o.seconds for o in outcomes)
    mark = Text(sign.glyph(console.options.ascii_only), sign.style)
    return [mark, stage, f"{good}/{len(outcomes)}", duration(seconds), Text(note)]


def _never_run(record: RunRecord) -> dict[str, list[str]]:
    """Return by host the stages it was excluded from because it failed an earlier one or became unreachable."""
    left = {StageState.BLOCKED, StageState.NOT_RUN}
    failed = {o.host for o in record.outcomes if o.state is StageState.FAILED}
    stages: dict[str, list[str]] = {}
    for o in record.outcomes:
        if o.state in left and o.host in failed:
            stages.setdefault(o.host, []).append(o.stage)
    return stages


def _failures(
    console: Console, failed: Sequence[StageOutcome], never_run: Mapping[str, list[str]]
) -> list[Text]:
    """Yield each reason once, with its hosts and stages and the stages that were not tried afterwards."""
    by_reason: dict[tuple[str, str], list[StageOutcome]] = {}
    for o in failed:
        said = without_host(one_line(o.cause or o.why), o.host)
        by_reason.setdefault((said, without_host(o.fix, o.host)), []).append(o)
    told: list[Text] = []
    mark = STATE[StageState.FAILED].glyph(console.options.ascii_only)
    for met in by_reason.values():
        hosts, stages = dict.fromkeys(o.host for o in met), dict.fromkeys(o.stage for o in met)
        head = Text.assemble(
            (f"{mark} FAILED  ", "bold red"), (fold(hosts), "bold"), f"  {', '.join(stages)}  "
        )
        first = met[0]
        cause = of_hosts(one_line(first.cause or first.why), first.host, hosts)
        told.append(head.append(cause or "no cause was reported"))
        fix = of_hosts(first.fix, first.host, hosts)
        told += [Text.assemble("  ", ("fix: ", "bold"), fix)] if fix else []
        left = dict.fromkeys(s for host in hosts for s in never_run.get(host, ()))
        told += [Text(f"  not run there after that: {', '.join(left)}", "dim")] if left else []
    return [*told, Text()] if told else []


def _verdict(record: RunRecord) -> list[Text]:
    sign = VERDICT[record.verdict]
    word = f"{sign.word}."
    if record.verdict is Verdict.PASSED:
        word = "The selected part passed." if record.narrowed else "Deployed."
    simulated = f" (simulated: {', '.join(record.simulated)})" if record.simulated else ""
    size = f"{plural(len(record.hosts), 'host')}, {plural(record.gpu_count, 'GPU')}"
    size = f"{size if record.hosts else 'No host was asked'}{simulated}"
    missing = record.count(Status.NOT_ASSESSED, Status.SKIP)
    errors = record.count(Status.ERROR)
    passed = plural(record.count(Status.PASS), "check")
    checks = f"{passed} passed, {record.count(Status.FAIL)} failed"
    checks += f", {errors} could not run" if errors else ""
    checks += f", {missing} not assessed" if missing else ""
    if record.verb != "deploy" and record.verdict is Verdict.PASSED:
        word = "Passed."
    told = [Text.assemble((word, sign.style), f" {size} · {checks} · {duration(record.seconds)}")]
    gaps = gaps_line(record.results)
    lines = [*record.left_out, *_unassessed(record), *([f"{gaps}; see the report"] if gaps else [])]
    return [*told, *(Text(line, "dim") for line in lines)]


def _unassessed(record: RunRecord) -> list[str]:
    """Print required checks without a verdict, one line for each check and reason."""
    unknown = [
        f.result
        for f in findings(record.results)
        if f.result.required and f.result.status in {Status.NOT_ASSESSED, Status.SKIP}
    ]
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for r in unknown:
        reasons.setdefault((r.id, one_line(r.cause), r.fix), []).append(r.target)
    lines = [
        f"not assessed: {check} {fold(targets)}: {cause}{f' (fix: {fix})' if fix else ''}"
        for (check, cause, fix), targets in reasons.items()
    ]
    more = len(lines) - _UNASSESSED
    return lines[:_UNASSESSED] + (
        [f"not assessed: {more} more, see the report"] if more > 0 else []
    )
