"""Orders results for people: failures first, consequences under their cause."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from appliance.models.result import SEVERITY, CheckResult, ResultKey, Status
from appliance.models.run import StageOutcome
from appliance.text import plural

ORDER = (Status.FAIL, Status.ERROR, Status.WARN, Status.NOT_ASSESSED, Status.SKIP)


@dataclass(frozen=True)
class Finding:
    """A result that is not a plain pass, with its consequences and its start."""

    result: CheckResult
    since: datetime | None = None
    explains: tuple[CheckResult, ...] = ()

    @property
    def more(self) -> str:
        """Summarise its consequences: "explains 3 more: gpu.ecc, gpu.remap"; "" if there are none."""
        if not self.explains:
            return ""
        ids = list(dict.fromkeys(r.id for r in self.explains))
        rest = f" and {plural(len(ids) - _NAMED, 'other')}" if len(ids) > _NAMED else ""
        return f"explains {len(self.explains)} more: {', '.join(ids[:_NAMED])}{rest}"


_NAMED = 6


def findings(
    results: Iterable[CheckResult], since: Mapping[ResultKey, datetime] | None = None
) -> tuple[Finding, ...]:
    """Return everything but passes, worst first; consequences are listed only under their cause."""
    seen = sorted((r for r in results if r.status is not Status.PASS), key=_rank)
    known = Roots(seen)
    roots = [known.of(result) for result in seen]
    follow: dict[int, list[CheckResult]] = {}
    for result, root in zip(seen, roots, strict=True):
        if root is not result:
            follow.setdefault(id(root), []).append(result)
    return tuple(
        Finding(r, (since or {}).get(r.key), tuple(follow.get(id(r), ())))
        for r, root in zip(seen, roots, strict=True)
        if root is r
    )


def _rank(result: CheckResult) -> tuple[int, bool]:
    return ORDER.index(result.status), not result.required


class Roots:
    """Finds the root cause of each result; of two results with one name, the first is the cause."""

    def __init__(self, known: Iterable[CheckResult]) -> None:
        self._by_name: dict[str, CheckResult] = {}
        for result in known:
            self._by_name.setdefault(result.name, result)

    def of(self, result: CheckResult) -> CheckResult:
        """Return the failure at the start of the chain; the result itself if that is unknown."""
        met = {result.name}
        root = result
        while root.explained_by in self._by_name:
            root = self._by_name[root.explained_by]
            if root.name in met:
                return result
            met.add(root.name)
        return root


def tells_of(result: CheckResult, outcomes: Iterable[StageOutcome]) -> bool:
    """Return whether ``result`` (a stage's, or that a host does not answer) repeats one of ``outcomes``."""
    return any(
        (result.id, result.target) == (f"stage.{o.stage}", o.host)
        or (o.away and (result.id, result.target) == ("host.reachable", o.host))
        for o in outcomes
    )


def is_optional_gap(result: CheckResult) -> bool:
    """Return whether this missing result needs no attention."""
    return not result.required and result.status in {Status.NOT_ASSESSED, Status.SKIP}


def gaps_line(results: Iterable[CheckResult]) -> str:
    """Return missing optional results as one line: how many, and the first few checks; "" for none."""
    gaps = [r for r in results if is_optional_gap(r)]
    ids = list(dict.fromkeys(r.id for r in gaps))
    rest = f" and {plural(len(ids) - _NAMED, 'more check')}" if len(ids) > _NAMED else ""
    named = ", ".join(ids[:_NAMED]) + rest
    return f"{plural(len(gaps), 'optional value')} not assessed: {named}" if gaps else ""


def worst(results: Iterable[CheckResult]) -> Status | None:
    """Return the worst status among ``results``, None if there is none."""
    return max((r.status for r in results), key=SEVERITY.index, default=None)
