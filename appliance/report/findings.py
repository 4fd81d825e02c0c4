"""Results in the order people need them: what is broken first, consequences under their cause."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from appliance.models.result import SEVERITY, CheckResult, Status
from appliance.models.run import StageOutcome

Key = tuple[str, str]
"""A check's id and its target."""

ORDER = (Status.FAIL, Status.ERROR, Status.WARN, Status.NOT_ASSESSED, Status.SKIP)


@dataclass(frozen=True)
class Finding:
    """A result that is not simply good, with what follows from it and since when it stands."""

    result: CheckResult
    since: date | None = None
    explains: tuple[CheckResult, ...] = ()

    @property
    def more(self) -> str:
        """What follows from it in a few words: "explains 3 more: gpu.ecc, gpu.remap"; "" where nothing does."""
        if not self.explains:
            return ""
        ids = list(dict.fromkeys(r.id for r in self.explains))
        rest = f" and {len(ids) - _NAMED} others" if len(ids) > _NAMED else ""
        return f"explains {len(self.explains)} more: {', '.join(ids[:_NAMED])}{rest}"


_NAMED = 6


def key(result: CheckResult) -> Key:
    """What tells one result from another."""
    return (result.id, result.target)


def findings(
    results: Iterable[CheckResult], since: Mapping[Key, date] | None = None
) -> tuple[Finding, ...]:
    """Everything but passes, worst first; what another failure explains stands under that one only."""
    seen = [result for result in results if result.status is not Status.PASS]
    roots = {result.name: root_of(result, seen) for result in seen}
    follow: dict[str, list[CheckResult]] = {}
    for result in seen:
        if roots[result.name] is not result:
            follow.setdefault(roots[result.name].name, []).append(result)
    shown = [result for result in seen if roots[result.name] is result]
    ranked = sorted(shown, key=lambda result: ORDER.index(result.status))
    return tuple(
        Finding(r, (since or {}).get(key(r)), tuple(follow.get(r.name, ()))) for r in ranked
    )


def root_of(result: CheckResult, known: Iterable[CheckResult]) -> CheckResult:
    """The failure at the beginning of a chain of causes; the result itself where that is not known."""
    by_name = {r.name: r for r in known}
    met = {result.name}
    root = result
    while root.explained_by in by_name:
        root = by_name[root.explained_by]
        if root.name in met:
            return result
        met.add(root.name)
    return root


def tells_of(result: CheckResult, outcomes: Iterable[StageOutcome]) -> bool:
    """Whether ``result`` (``stage.<name>``) says of a host what one of ``outcomes`` says already."""
    return any((f"stage.{o.stage}", o.host) == key(result) for o in outcomes)


def worst(results: Iterable[CheckResult]) -> Status | None:
    """The gravest status among ``results``, None when there is none."""
    return max((r.status for r in results), key=SEVERITY.index, default=None)
