"""Results in the order people need them: what is broken first, consequences under their cause."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from appliance.models.result import SEVERITY, CheckResult, Status
from appliance.models.run import StageOutcome
from appliance.text import plural

Key = tuple[str, str]
"""A check's id and its target."""

ORDER = (Status.FAIL, Status.ERROR, Status.WARN, Status.NOT_ASSESSED, Status.SKIP)


@dataclass(frozen=True)
class Finding:
    """A result that is not simply good, with what follows from it and since when it stands."""

    result: CheckResult
    since: datetime | None = None
    explains: tuple[CheckResult, ...] = ()

    @property
    def more(self) -> str:
        """What follows from it in a few words: "explains 3 more: gpu.ecc, gpu.remap"; "" where nothing does."""
        if not self.explains:
            return ""
        ids = list(dict.fromkeys(r.id for r in self.explains))
        rest = f" and {plural(len(ids) - _NAMED, 'other')}" if len(ids) > _NAMED else ""
        return f"explains {len(self.explains)} more: {', '.join(ids[:_NAMED])}{rest}"


_NAMED = 6


def key(result: CheckResult) -> Key:
    """What tells one result from another."""
    return (result.id, result.target)


def findings(
    results: Iterable[CheckResult], since: Mapping[Key, datetime] | None = None
) -> tuple[Finding, ...]:
    """Everything but passes, worst first; what another failure explains stands under that one only."""
    seen = [result for result in results if result.status is not Status.PASS]
    known = Roots(seen)
    roots = {result.name: known.of(result) for result in seen}
    follow: dict[str, list[CheckResult]] = {}
    for result in seen:
        if roots[result.name] is not result:
            follow.setdefault(roots[result.name].name, []).append(result)
    shown = [result for result in seen if roots[result.name] is result]
    ranked = sorted(shown, key=lambda result: (ORDER.index(result.status), not result.required))
    return tuple(
        Finding(r, (since or {}).get(key(r)), tuple(follow.get(r.name, ()))) for r in ranked
    )


class Roots:
    """Where chains of causes begin among some results."""

    def __init__(self, known: Iterable[CheckResult]) -> None:
        self._by_name = {result.name: result for result in known}

    def of(self, result: CheckResult) -> CheckResult:
        """The failure at the beginning of the chain; the result itself where that is not known."""
        met = {result.name}
        root = result
        while root.explained_by in self._by_name:
            root = self._by_name[root.explained_by]
            if root.name in met:
                return result
            met.add(root.name)
        return root


def tells_of(result: CheckResult, outcomes: Iterable[StageOutcome]) -> bool:
    """Whether ``result`` (a stage's, or that a host is silent) says what one of ``outcomes`` says already."""
    return any(
        key(result) == (f"stage.{o.stage}", o.host)
        or (o.away and key(result) == ("host.reachable", o.host))
        for o in outcomes
    )


def is_optional_gap(result: CheckResult) -> bool:
    """Whether nobody has to care that this result is missing."""
    return not result.required and result.status in {Status.NOT_ASSESSED, Status.SKIP}


def gaps_line(results: Iterable[CheckResult]) -> str:
    """Optional results that are missing, as one line: how many, and the first few checks; "" for none."""
    gaps = [r for r in results if is_optional_gap(r)]
    ids = list(dict.fromkeys(r.id for r in gaps))
    rest = f" and {plural(len(ids) - _NAMED, 'more check')}" if len(ids) > _NAMED else ""
    named = ", ".join(ids[:_NAMED]) + rest
    return f"{plural(len(gaps), 'optional value')} not assessed: {named}" if gaps else ""


def worst(results: Iterable[CheckResult]) -> Status | None:
    """The gravest status among ``results``, None when there is none."""
    return max((r.status for r in results), key=SEVERITY.index, default=None)
