"""Every check with its values against its limit; results that differ only in target and value share a row.

Texts that name the result's own host differ with it: in a row of several hosts, HOST stands for each of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from appliance.models.result import COMPLAINTS, CheckResult, Status, Value
from appliance.models.run import RunRecord
from appliance.report.findings import ORDER, Finding, findings
from appliance.report.formatting import measured, number, one_line, targets
from appliance.report.html.matrix import anchor, area, check_ids
from appliance.report.merged_hosts import without_host
from appliance.report.symbols import STATUS, Sign, amount

BAR_WIDTH = 100.0
NOWHERE = {"target": "", "host": None, "parts": (), "names": ()}
WORDS = ("cause", "fix", "evidence", "explained_by")
"""Fields of a result that may name its host."""


@dataclass(frozen=True)
class Bar:
    """Lengths of the distinct values, lowest first, and of the limit, in units of a bar ``BAR_WIDTH`` wide."""

    values: tuple[float, ...]
    limit: float


@dataclass(frozen=True)
class Line:
    """One row of the table of checks. ``each``: targets and their values if these differ."""

    id: str
    anchor: str
    first: bool
    targets: str
    status: str
    sign: Sign
    value: str
    limit: str
    bound: str
    source: str
    bar: Bar | None
    cause: str
    fix: str
    evidence: str
    simulated: bool
    required: bool
    each: tuple[tuple[str, str], ...] = ()
    explained_by: str = ""
    more: str = ""


@dataclass(frozen=True)
class Section:
    """The checks of one area."""

    name: str
    lines: tuple[Line, ...]
    summary: str


def sections(record: RunRecord) -> tuple[Section, ...]:
    """Return all results, by area and check, the worst of each check first."""
    ids = check_ids(record)
    made: list[Section] = []
    for name in dict.fromkeys(map(area, ids)):
        of_area = [r for r in record.results if area(r.id) == name]
        checks = [check for check in ids if area(check) == name]
        lines = [line for check in checks for line in _lines(ids, check, of_area)]
        made.append(Section(name, tuple(lines), counted(of_area)))
    return tuple(made)


def open_points(record: RunRecord) -> tuple[Line, ...]:
    """Return failures and warnings, worst first; similar ones share a row, whatever their evidence, which is shown with every check."""
    ids = check_ids(record)
    found = {id(f.result): f for f in findings(record.results) if f.result.status in COMPLAINTS}
    return tuple(
        replace(_line(ids, group, first=True), more=_more(found[id(r)] for r in group))
        for group in _alike([f.result for f in found.values()], apart=False)
    )


def _more(alike: Iterable[Finding]) -> str:
    """Return the consequences of several findings that share a row."""
    group = list(alike)
    return Finding(group[0].result, explains=tuple(r for f in group for r in f.explains)).more


def unassessed(record: RunRecord) -> tuple[str, ...]:
    """Return sentences on what this run does not cover: the record's own, or else its results'."""
    unknown = {Status.NOT_ASSESSED, Status.SKIP}
    found = [f.result for f in findings(record.results)]
    groups = _alike(r for r in found if r.status in unknown)
    told = [
        f"{group[0].id} on {_targets(group)}: {_group_text(group, 'cause') or 'no reason given'}"
        for group in groups
    ]
    return (*record.left_out, *(record.not_assessed or told))


def counted(results: Sequence[CheckResult]) -> str:
    """``49 passed, 1 failed``."""
    order = (Status.PASS, *ORDER)
    counts = [(s, sum(1 for r in results if r.status is s)) for s in order]
    return ", ".join(amount(s, n) for s, n in counts if n)


def bar(values: Iterable[Value], limit: Value) -> Bar | None:
    """Return the bar of numeric values against a numeric limit; None if there is nothing to draw."""
    bounds, found = _numbers([limit]), sorted(_numbers(values))
    if not bounds or not found or min(*bounds, *found) < 0 or max(*bounds, *found) == 0:
        return None
    scale = BAR_WIDTH / (1.15 * max(*bounds, *found))
    lengths = dict.fromkeys(round(v * scale, 1) for v in found)
    return Bar(tuple(lengths), round(bounds[0] * scale, 1))


def _numbers(values: Iterable[Value]) -> list[float]:
    return [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]


def _lines(ids: Sequence[str], check: str, results: Iterable[CheckResult]) -> list[Line]:
    severity = (*ORDER, Status.PASS)
    own = sorted((r for r in results if r.id == check), key=lambda r: severity.index(r.status))
    return [_line(ids, group, first=not index) for index, group in enumerate(_alike(own))]


def _alike(results: Iterable[CheckResult], *, apart: bool = True) -> list[list[CheckResult]]:
    """Group results by all but target and value, so that texts about a value keep a row of their own.

    Passes may differ in evidence, too: it is shown with each value. ``apart``: other results may not.
    """
    same = _grouped((_bare(result, apart=apart), [result]) for result in results)
    own = (
        (bare, group) if _of_several(group) else (_unnamed(group, apart=apart), group)
        for bare, group in same
    )
    return [group for _, group in _grouped(own)]


def _grouped(
    keyed: Iterable[tuple[CheckResult, list[CheckResult]]],
) -> Iterable[tuple[CheckResult, list[CheckResult]]]:
    groups: dict[CheckResult, list[CheckResult]] = {}
    for key, results in keyed:
        groups.setdefault(key, []).extend(results)
    return groups.items()


def _bare(result: CheckResult, *, apart: bool) -> CheckResult:
    left_out: dict[str, object] = {**NOWHERE, "value": None}
    if result.status is Status.PASS or not apart:
        left_out["evidence"] = ""
    return result.model_copy(update=left_out)


def _of_several(group: Sequence[CheckResult]) -> bool:
    return any(r.host != group[0].host for r in group)


def _unnamed(group: Sequence[CheckResult], *, apart: bool) -> CheckResult:
    return _bare(group[0].model_copy(update=_without_host(group[0])), apart=apart)


def _without_host(result: CheckResult) -> dict[str, str]:
    """Return its texts with HOST in place of its own host."""
    return {name: without_host(getattr(result, name), result.host) for name in WORDS}


def _group_text(group: Sequence[CheckResult], name: str) -> str:
    """Return the text that all of a group share, or the same with HOST for the host of each; "" if they differ."""
    words = {getattr(r, name) for r in group}
    if len(words) > 1:
        words = {_without_host(r).get(name, getattr(r, name)) for r in group}
    return one_line(words.pop()) if len(words) == 1 else ""


def _targets(group: Iterable[CheckResult]) -> str:
    return targets(dict.fromkeys(result.target for result in group))


def _spread(group: Sequence[CheckResult]) -> str:
    """Return the value that all share, or the lowest and the highest."""
    unit = group[0].unit
    if len({r.value for r in group}) == 1:
        return measured(group[0].value, unit)
    found = _numbers(r.value for r in group)
    if len(found) < len(group):
        return f"{len({r.value for r in group})} different values"
    return f"{number(min(found))} to {measured(max(found), unit)}"


def _each(group: Sequence[CheckResult]) -> tuple[tuple[str, str], ...]:
    told = any(r.evidence for r in group) and not _group_text(group, "evidence")
    if len({r.value for r in group}) == 1 and not told:
        return ()
    by_host: dict[str, list[CheckResult]] = {}
    for result in group:
        by_host.setdefault(result.target.partition("/")[0], []).append(result)
    alike: dict[tuple[tuple[str, str], ...], list[CheckResult]] = {}
    for own in by_host.values():
        same = tuple((r.target.partition("/")[2], _single(r, told)) for r in own)
        alike.setdefault(same, []).extend(own)
    return tuple((_targets(rows), ", ".join(v for _, v in same)) for same, rows in alike.items())


def _single(result: CheckResult, told: bool) -> str:
    value = number(result.value) or "no value"
    return f"{value} ({result.evidence})" if told and result.evidence else value


def _line(ids: Sequence[str], group: Sequence[CheckResult], first: bool) -> Line:
    r = group[0]
    return Line(
        id=r.id,
        anchor=anchor(ids, r.id),
        first=first,
        targets=_targets(group),
        status=r.status.value,
        sign=STATUS[r.status],
        value=_spread(group),
        limit=number(r.limit),
        bound="limit" if _numbers([r.limit]) else "expected",
        source=r.limit_source,
        bar=bar([g.value for g in group], r.limit),
        cause=_group_text(group, "cause"),
        fix=_group_text(group, "fix"),
        evidence=_group_text(group, "evidence"),
        simulated=r.simulated,
        required=r.required,
        each=_each(group),
        explained_by=_group_text(group, "explained_by"),
    )
