"""Every check with its values against its limit; results that differ in target and value alone share a row."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from appliance.models.result import CheckResult, Status, Value
from appliance.models.run import RunRecord
from appliance.report.findings import ORDER, Finding, findings
from appliance.report.html.matrix import anchor, area, check_ids
from appliance.report.symbols import STATUS, Sign
from appliance.report.wording import fold, measured, number, one_line

BAR_WIDTH = 100.0


@dataclass(frozen=True)
class Bar:
    """Lengths of values, lowest first, and limit in units of a bar ``BAR_WIDTH`` wide."""

    values: tuple[float, ...]
    limit: float


@dataclass(frozen=True)
class Line:
    """One row of the table of checks. ``each``: targets and their values where these differ."""

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
    """All results, by area and check, the worst of each check first."""
    ids = check_ids(record)
    made: list[Section] = []
    for name in dict.fromkeys(map(area, ids)):
        of_area = [r for r in record.results if area(r.id) == name]
        checks = [check for check in ids if area(check) == name]
        lines = [line for check in checks for line in _lines(ids, check, of_area)]
        made.append(Section(name, tuple(lines), counted(of_area)))
    return tuple(made)


def open_points(record: RunRecord) -> tuple[Line, ...]:
    """What failed or is near its limit, worst first, alike ones together."""
    ids = check_ids(record)
    wanted = {Status.FAIL, Status.ERROR, Status.WARN}
    found = {f.result.name: f for f in findings(record.results) if f.result.status in wanted}
    return tuple(
        replace(_line(ids, group, first=True), more=_more(found[r.name] for r in group))
        for group in _alike(f.result for f in found.values())
    )


def _more(alike: Iterable[Finding]) -> str:
    """What follows from several findings that share a row."""
    group = list(alike)
    return Finding(group[0].result, explains=tuple(r for f in group for r in f.explains)).more


def unassessed(record: RunRecord) -> tuple[str, ...]:
    """Sentences on what this run cannot say: the record's own, and results it has no words for."""
    unknown = {Status.NOT_ASSESSED, Status.SKIP}
    found = [f.result for f in findings(record.results)]
    groups = _alike(r for r in found if r.status in unknown)
    told = [
        f"{group[0].id} on {_targets(group)}: {one_line(group[0].cause) or 'no reason given'}"
        for group in groups
        if not any(line.startswith(f"{group[0].id}: ") for line in record.not_assessed)
    ]
    return (*record.left_out, *record.not_assessed, *told)


def counted(results: Sequence[CheckResult]) -> str:
    """``49 passed, 1 failed``."""
    order = (Status.PASS, *ORDER)
    counts = [(s, sum(1 for r in results if r.status is s)) for s in order]
    return ", ".join(f"{n} {STATUS[s].word.lower()}" for s, n in counts if n)


def bar(values: Iterable[Value], limit: Value) -> Bar | None:
    """The bar of numeric values against a numeric limit; None where there is nothing to draw."""
    bounds, found = _numbers([limit]), sorted(_numbers(values))
    if not bounds or not found or min(*bounds, *found) < 0 or max(*bounds, *found) == 0:
        return None
    scale = BAR_WIDTH / (1.15 * max(*bounds, *found))
    return Bar(tuple(round(v * scale, 1) for v in found), round(bounds[0] * scale, 1))


def _numbers(values: Iterable[Value]) -> list[float]:
    return [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]


def _lines(ids: Sequence[str], check: str, results: Iterable[CheckResult]) -> list[Line]:
    severity = (*ORDER, Status.PASS)
    own = sorted((r for r in results if r.id == check), key=lambda r: severity.index(r.status))
    return [_line(ids, group, first=not index) for index, group in enumerate(_alike(own))]


def _alike(results: Iterable[CheckResult]) -> list[list[CheckResult]]:
    """Results by all but target and value; so words that tell of one value keep a row of their own."""
    groups: dict[CheckResult, list[CheckResult]] = {}
    for result in results:
        bare = result.model_copy(update={"target": "", "value": None})
        groups.setdefault(bare, []).append(result)
    return list(groups.values())


def _spread(group: Sequence[CheckResult]) -> str:
    """The one value all share, or the lowest and the highest."""
    unit = group[0].unit
    if len({r.value for r in group}) == 1:
        return measured(group[0].value, unit)
    found = _numbers(r.value for r in group)
    if len(found) < len(group):
        return f"{len({r.value for r in group})} different values"
    return f"{number(min(found))} to {measured(max(found), unit)}"


def _each(group: Sequence[CheckResult]) -> tuple[tuple[str, str], ...]:
    if len({r.value for r in group}) == 1:
        return ()
    by_host: dict[str, list[CheckResult]] = {}
    for result in group:
        by_host.setdefault(result.target.partition("/")[0], []).append(result)
    alike: dict[tuple[tuple[str, str], ...], list[CheckResult]] = {}
    for own in by_host.values():
        same = tuple((r.target.partition("/")[2], number(r.value) or "no value") for r in own)
        alike.setdefault(same, []).extend(own)
    return tuple((_targets(rows), ", ".join(v for _, v in same)) for same, rows in alike.items())


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
        cause=one_line(r.cause),
        fix=one_line(r.fix),
        evidence=r.evidence,
        simulated=r.simulated,
        required=r.required,
        each=_each(group),
        explained_by=r.explained_by,
    )


def _targets(group: Sequence[CheckResult]) -> str:
    """Hosts folded, and their parts folded where several hosts share them: ``gpu-[1-4] GPU [0-7]``."""
    parts: dict[str, list[str]] = {}
    for result in group:
        host, _, part = result.target.partition("/")
        parts.setdefault(host, []).append(part)
    alike: dict[tuple[str, ...], list[str]] = {}
    for host, own in parts.items():
        alike.setdefault(tuple(own), []).append(host)
    return "; ".join(f"{fold(h)} {fold(p) if any(p) else ''}".strip() for p, h in alike.items())
