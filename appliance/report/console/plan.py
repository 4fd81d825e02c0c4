"""Prints the plan: which stage would change which host, and why."""

from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from appliance.models.plan import Action, HostStage, Plan
from appliance.report import symbols
from appliance.report.console.acceptance import acceptance_fold
from appliance.report.console.findings import findings_list
from appliance.report.findings import findings
from appliance.report.formatting import about, fold
from appliance.report.symbols import Sign
from appliance.stages import OF_CLUSTER
from appliance.text import plural

Column = tuple[str, ...]
"""Hosts that share a column of the table."""

_WRONG = "Faults on the hosts that a deployment cannot fix:"
_REACHABLE = "host.reachable"
_WHY_MIN = 28
_WHY_LINES = 1.5
_TELLING = {Action.RUN, Action.REPAIR, Action.BLOCKED, Action.SKIP}
_TODO = {"validate": "benchmarks to run"}


def plan_table(console: Console, plan: Plan, facts_seconds: float | None = None) -> None:
    """Print ``plan``: the totals, then one line per stage, one column per host, and the reasons."""
    columns = _columns(plan, console.width)
    whys = {stage: _whys(plan, stage) for stage in plan.stages}
    console.print(_title(plan, facts_seconds))
    for line in (*_sums(plan), *_silent(plan)):
        console.print(Padding(line, (0, 0, 0, 2), expand=False))
    console.print()
    beside = _fits_why(plan, columns, whys, console.width)
    for index, block in enumerate(_blocks(plan, columns, console.width)):
        if index:
            console.print()
        console.print(_table(console, plan, block, whys if beside else {}))
    if not beside:
        _print_whys(console, whys)
    console.print()
    console.print(_legend(console, plan))
    for line in _restarts(plan):
        console.print(Padding(line, (0, 0, 0, 2), expand=False))
    # A host that does not answer is listed at the top already.
    silent = set(plan.unreachable)
    told = [r for r in plan.results if r.host not in silent]
    if told:
        console.print()
        console.print(Padding(Text(_WRONG, "bold"), (0, 0, 0, 2), expand=False))
        findings_list(console, findings(told))
    if plan.acceptance:
        console.print()
        acceptance_fold(console, plan.acceptance)


def _title(plan: Plan, facts_seconds: float | None) -> Text:
    known = len(plan.hosts) - len(plan.unreachable)
    answered = f"{known} of {plural(len(plan.hosts), 'host')}"
    facts = f"facts {facts_seconds:.1f} s, {answered}" if facts_seconds is not None else answered
    classes: dict[str, list[str]] = {}
    for host, name in plan.classes.items():
        classes.setdefault(name, []).append(host)
    told = [f"{name}: {fold(hosts)}" for name, hosts in classes.items()]
    return Text.assemble((plan.site, "bold"), " · ", ", ".join(told) or plan.profile, " · ", facts)


def _silent(plan: Plan) -> list[Text]:
    """Print hosts of unknown state once, with the reason."""
    by_why: dict[tuple[str, str], list[str]] = {}
    remedies = {r.host: r.fix for r in plan.results if r.id == _REACHABLE}
    for host in plan.unreachable:
        unknown = [c for c in plan.by_host(host) if c.action is Action.UNKNOWN]
        told = unknown[0].why or "no answer", remedies.get(host, "")
        by_why.setdefault(told, []).append(host)
    sign = symbols.UNKNOWN
    lines: list[Text] = []
    for (why, fix), hosts in by_why.items():
        lines.append(Text.assemble((f"{sign.mark} {fold(hosts)}", sign.style), f"  {why}"))
        lines += [Text.assemble("  ", ("fix: ", "bold"), fix)] if fix else []
    return lines


def _columns(plan: Plan, width: int) -> list[Column]:
    single: list[Column] = [(host,) for host in plan.hosts]
    if _width(plan, single) <= width:
        return single
    grouped: dict[tuple[Sign, ...], list[str]] = {}
    for host in plan.hosts:
        signs = tuple(symbols.planned(plan.cell(stage, host)) for stage in plan.stages)
        grouped.setdefault(signs, []).append(host)
    return [tuple(hosts) for hosts in grouped.values()]


def _blocks(plan: Plan, columns: list[Column], width: int) -> list[list[Column]]:
    blocks: list[list[Column]] = [[]]
    for column in columns:
        if blocks[-1] and _width(plan, [*blocks[-1], column]) > width:
            blocks.append([])
        blocks[-1].append(column)
    return blocks


def _width(plan: Plan, columns: Sequence[Column]) -> int:
    stage = max(map(len, (*plan.stages, "stage")))
    return 2 + stage + sum(2 + len(fold(column)) for column in columns)


def _fits_why(
    plan: Plan, columns: Sequence[Column], whys: dict[str, list[str]], width: int
) -> bool:
    """Return whether the reasons fit next to the table; otherwise they are printed below it."""
    room = width - _width(plan, columns) - 2
    longest = max((len(line) for lines in whys.values() for line in lines), default=0)
    return room >= _WHY_MIN and longest <= room * _WHY_LINES


def _table(
    console: Console, plan: Plan, columns: Sequence[Column], whys: dict[str, list[str]]
) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("stage", no_wrap=True)
    for column in columns:
        table.add_column(Text(fold(column)), justify="center", overflow="fold")
    if whys:
        table.add_column("why", ratio=1, overflow="fold")
    for stage in plan.stages:
        cells = [_cell(console, plan.cell(stage, column[0])) for column in columns]
        table.add_row(stage, *cells, *([Text("\n".join(whys[stage]))] if whys else []))
    return Padding(table, (0, 0, 0, 2), expand=False)


def _cell(console: Console, cell: HostStage | None) -> Text:
    sign = symbols.planned(cell)
    return Text(sign.glyph(console.options.ascii_only), sign.style)


def _whys(plan: Plan, stage: str) -> list[str]:
    telling = [c for c in plan.by_stage(stage) if c.why and c.action in _TELLING]
    by_why: dict[str, list[str]] = {}
    for cell in telling:
        whole = ", ".join(cell.differences) if len(plan.hosts) == 1 else ""
        by_why.setdefault(whole or cell.why, []).append(cell.host)
    groups = list(by_why.items())
    concerned = len([c for c in plan.by_stage(stage) if c.action is not Action.NOT_CONCERNED])
    if len(groups) == 1 and len(groups[0][1]) == concerned:
        return [groups[0][0]]
    return [f"{fold(hosts)}: {why}" for why, hosts in groups]


def _print_whys(console: Console, whys: dict[str, list[str]]) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for stage, lines in whys.items():
        for index, line in enumerate(lines):
            table.add_row("" if index else stage, Text(line))
    if table.rows:
        console.print()
        console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _legend(console: Console, plan: Plan) -> RenderableType:
    seen = {symbols.planned(plan.cell(s, h)) for s in plan.stages for h in plan.hosts}
    ascii_only = console.options.ascii_only
    shown = [s for s in symbols.PLANNED if s in seen]
    words = [Text.assemble((s.glyph(ascii_only), s.style), f" {s.word}") for s in shown]
    lines = [Text()]
    for word in words:
        if len(lines[-1]) + len(word) + 5 > console.width:
            lines.append(Text())
        lines[-1] += Text("   " if lines[-1] else "") + word
    return Padding(Text("\n").join(lines), (0, 0, 0, 2), expand=False)


def _sums(plan: Plan) -> list[Text]:
    if not plan.changes and plan.blocked:
        return [
            Text(f"Nothing can be done: {fold([c.host for c in plan.blocked])} must wait.", "bold")
        ]
    if not plan.changes:
        if set(plan.hosts) <= set(plan.unreachable):
            return [Text("Cannot plan: no host answered.", "bold")]
        silent = f", except that {fold(plan.unreachable)} did not answer"
        return [Text(f"Nothing to do{silent if plan.unreachable else ''}.", "bold")]
    changed = {c.host for c in plan.pending() if c.stage not in OF_CLUSTER}
    untouched = len(plan.hosts) - len(changed | set(plan.unreachable))
    parts = [f"{plural(len(changed), 'host')} to change, {untouched} untouched"]
    if not changed:
        named = [_TODO.get(c.stage, f"{c.stage} to bring") for c in plan.pending()]
        parts = [", ".join(("no host to change", *dict.fromkeys(named)))]
    parts += [f"{len(plan.unreachable)} unknown"] if plan.unreachable else []
    if plan.reboots:
        verb = "reboots" if len(plan.reboots) == 1 else "reboot"
        parts.append(f"{fold(plan.reboots)} {verb} ({', '.join(plan.rebooting_stages)})")
    if plan.drained:
        verb = "is" if len(plan.drained) == 1 else "are"
        parts.append(f"{fold(plan.drained)} {verb} drained ({', '.join(plan.draining_stages)})")
    parts.append(about(plan.minutes))
    return [Text(" · ".join(parts), "bold")]


def _restarts(plan: Plan) -> list[Text]:
    """Print one line for hosts on which the same units restart."""
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for host in plan.hosts:
        alike.setdefault(plan.restarts(host), []).append(host)
    return [
        Text(f"{fold(hosts)}: {_restarted(*units)}") for units, hosts in alike.items() if any(units)
    ]


def _restarted(sure: Sequence[str], maybe: Sequence[str]) -> str:
    words = (("restarts", sure), ("may restart", maybe))
    return "; ".join(f"{word} {', '.join(units)}" for word, units in words if units)
