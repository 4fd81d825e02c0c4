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
    """A result that is not simply good, with what it explains and since when it stands."""

    result: CheckResult
    since: date | None = None
    explains: tuple[Key, ...] = ()


def key(result: CheckResult) -> Key:
    """What tells one result from another."""
    return (result.id, result.target)


def findings(
    results: Iterable[CheckResult],
    since: Mapping[Key, date] | None = None,
    explains: Mapping[Key, Iterable[Key]] | None = None,
) -> tuple[Finding, ...]:
    """Everything but passes, worst first; what another failure explains stands under that one only."""
    seen = [result for result in results if result.status is not Status.PASS]
    found = {key(result) for result in seen}
    causes = {k: _present(v, found - {k}) for k, v in (explains or {}).items() if k in found}
    hidden = {effect for effects in causes.values() for effect in effects}
    shown = [result for result in seen if key(result) not in hidden - set(causes)]
    ranked = sorted(shown, key=lambda result: ORDER.index(result.status))
    return tuple(Finding(r, (since or {}).get(key(r)), causes.get(key(r), ())) for r in ranked)


def tells_of(result: CheckResult, outcomes: Iterable[StageOutcome]) -> bool:
    """Whether ``result`` (``stage.<name>``) says of a host what one of ``outcomes`` says already."""
    return any((f"stage.{o.stage}", o.host) == key(result) for o in outcomes)


def worst(results: Iterable[CheckResult]) -> Status | None:
    """The gravest status among ``results``, None when there is none."""
    return max((r.status for r in results), key=SEVERITY.index, default=None)


def _present(keys: Iterable[Key], found: set[Key]) -> tuple[Key, ...]:
    return tuple(k for k in keys if k in found)
