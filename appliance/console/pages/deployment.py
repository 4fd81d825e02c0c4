"""Page 5: the last deployment as a grid of hosts and stages, which fills while it runs; or the plan as it is now."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.text import Text

from appliance.actions.sites.last_deployment import Cell, Deployment, Progress
from appliance.console.loaded import ago
from appliance.console.page import Look, Page, Row, failure_lines, labelled
from appliance.console.state import State
from appliance.models.plan import HostStage, Plan
from appliance.models.run import StageState
from appliance.report import symbols
from appliance.report.formatting import about, duration, one_line
from appliance.report.symbols import STATE, Sign

PROGRESS = {
    Progress.PLANNED: Sign("o", "o", "planned", "dim"),
    Progress.RUNNING: Sign("▸", ">", "running", "bold cyan"),
    Progress.DONE: STATE[StageState.DONE],
    Progress.FAILED: STATE[StageState.FAILED],
    Progress.INTERRUPTED: Sign("#", "#", "interrupted", "yellow"),
}
TELLING = frozenset({Progress.FAILED, Progress.RUNNING})
"""States with a text next to the grid."""
ABSENT = Sign("-", "-", "not in this run", "dim")
SHORT = 4
"""Letters of a stage above its column: thirteen stages fit next to a host's name on 80 columns."""


def deployment_page(state: State) -> Page:
    """The run, or the plan if the user asked for it."""
    return _plan_page(state) if state.shows_plan else _run_page(state)


def _run_page(state: State) -> Page:
    head = failure_lines(state.record.failure)
    if state.record.value is None:
        return Page("Deployment", tuple(head), empty=f"journal {state.record.age(state.time)}")
    found = state.record.value.deployment
    if found is None:
        empty = "this journal has no deployment; p shows what one would do"
        return Page("Deployment", tuple(head), empty=empty)
    head.append(_title(found, state.time))
    if not found.cells:
        empty = "this run has nothing to do on any host, or has not planned yet"
        return Page("Deployment", tuple(head), empty=empty)
    head.append(_columns(found.hosts, found.stages))
    rows = [_run_row(state, found, host) for host in found.hosts]
    legend = state.terminal.legend((*PROGRESS.values(), ABSENT))
    first = next((h for h in found.hosts for c in _of_host(found, h) if c.state in TELLING), "")
    return Page("Deployment", tuple(head), tuple(rows), legend=legend, first=first)


def _of_host(found: Deployment, host: str) -> list[Cell]:
    return [cell for (_, name), cell in found.cells.items() if name == host]


def _title(found: Deployment, time: datetime) -> Text:
    run = found.run
    states = [cell.state for cell in found.cells.values()]
    done = sum(state is Progress.DONE for state in states)
    outcome = "running" if found.is_running else run.outcome
    took = duration(((run.finished or time) - run.started).total_seconds())
    when = (
        ""
        if found.is_running and not run.finished
        else f", {ago(run.finished or run.started, time)}"
    )
    bad = Progress.FAILED in states or outcome in {"failed", "interrupted", "unfinished"}
    style = "bold red" if bad else "bold"
    text = f"  {done} of {len(states)} done · {took} · {run.run} · {run.who or 'user not recorded'}{when}"
    return Text.assemble((outcome, style), text)


def _columns(hosts: Sequence[str], stages: Sequence[str]) -> Text:
    names = " ".join(f"{stage[:SHORT]:<{SHORT}}" for stage in stages)
    return Text(f"{'':<{_width(hosts)}}  {names}", "bold")


def _width(hosts: Sequence[str]) -> int:
    return max(map(len, hosts), default=0)


def _grid_line(look: Look, host: str, width: int, signs: Sequence[Sign]) -> Text:
    line = Text.assemble((f"{host:<{width}}  ", "bold"))
    for sign in signs:
        mark, style = look.mark(sign)
        line.append(f"{mark:<{SHORT}} ", style)
    return line


def _run_row(state: State, found: Deployment, host: str) -> Row:
    cells = {stage: found.cells.get((stage, host)) for stage in found.stages}
    signs = [PROGRESS[cell.state] if cell else ABSENT for cell in cells.values()]
    line = _grid_line(state.terminal, host, _width(found.hosts), signs)
    now = [(stage, cell) for stage, cell in cells.items() if cell]
    for stage, cell in now:
        if cell.state in TELLING:
            line.append(f" {stage}: {one_line(cell.cause or cell.task or 'starting')}")
            break
    detail = [Text(host, "bold")]
    for stage, cell in now:
        detail += _cell_lines(state, stage, cell)
    return Row(host, line, tuple(detail))


def _cell_lines(state: State, stage: str, cell: Cell) -> Iterator[Text]:
    sign = PROGRESS[cell.state]
    seconds = cell.seconds
    if cell.state is Progress.RUNNING and cell.since:
        seconds = (state.time - cell.since).total_seconds()
    took = f"  {duration(seconds)}" if seconds else ""
    changes = f"  {cell.changes} changes" if cell.changes else ""
    task = f"  {one_line(cell.task)}" if cell.state is Progress.RUNNING and cell.task else ""
    mark = state.terminal.mark(sign)
    yield Text.assemble(mark, f" {stage:<10} {sign.word.lower()}{took}{changes}{task}")
    for label, text in (("cause", cell.cause), ("fix", cell.fix), ("planned because", cell.why)):
        if text and (label != "planned because" or cell.state is not Progress.DONE):
            yield labelled(f"    {label}", text)


def _plan_page(state: State) -> Page:
    head = failure_lines(state.plan.failure)
    plan = state.plan.value
    if plan is None:
        return Page("Plan", tuple(head), empty=f"plan {state.plan.age(state.time)}")
    changed = len({cell.host for cell in plan.pending()})
    parts = [f"{changed} of {len(plan.hosts)} hosts to change"] if changed else []
    if plan.unreachable:
        parts.append(f"{len(plan.unreachable)} of {len(plan.hosts)} hosts did not answer")
    if plan.reboots:
        parts.append(f"{len(plan.reboots)} reboot")
    if plan.changes:
        parts.append(about(plan.minutes))
    age = state.plan.age(state.time)
    said = " · ".join(parts) or "nothing to do"
    head.append(Text.assemble((said, "bold"), f"  {age} · nothing was changed"))
    head.append(_columns(plan.hosts, plan.stages))
    rows = [_plan_row(state, plan, host) for host in plan.hosts]
    legend = state.terminal.legend(symbols.PLANNED)
    first = next((cell.host for cell in plan.pending()), "")
    return Page("Plan", tuple(head), tuple(rows), legend=legend, first=first)


def _plan_row(state: State, plan: Plan, host: str) -> Row:
    cells = [(stage, plan.cell(stage, host)) for stage in plan.stages]
    signs = [symbols.planned(cell) for _, cell in cells]
    line = _grid_line(state.terminal, host, _width(plan.hosts), signs)
    detail = [Text(host, "bold")]
    for stage, cell in cells:
        if cell and cell.why:
            detail += _plan_lines(state.terminal, stage, cell)
    if len(detail) == 1:
        detail.append(Text("nothing to do"))
    return Row(host, line, tuple(detail))


def _plan_lines(look: Look, stage: str, cell: HostStage) -> Iterator[Text]:
    sign = symbols.planned(cell)
    yield Text.assemble(look.mark(sign), f" {stage:<10} {sign.word}: {one_line(cell.why)}")
    if cell.restarts:
        yield labelled("    restarts", ", ".join(cell.restarts))
