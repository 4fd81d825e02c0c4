"""Which failure explains which others: one broken part is one finding, with its consequences listed under it.

Only a failure explains, never a warning or a gap. A consequence keeps its status, so no verdict improves.
A check declares its causes, and its effects elsewhere (``Cause``, ``Effect``). Conditions here are for all
stages; those of one stage are in its ``causes``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from appliance.models.result import CheckResult, Status

NAMED_CHECK = "*"
"""In place of an id: the checks that the effect names."""


class Reach(StrEnum):
    """Where a cause has an effect."""

    PART = "the same part of the same host"
    HOST = "the same host"
    NAMED = "any host, and the cluster, if it names the failed host"
    SITE = "any host, and the cluster"


Condition = Callable[[CheckResult, CheckResult], bool]
"""A condition on cause and effect, in addition to their places."""


def always(cause: CheckResult, effect: CheckResult) -> bool:
    """No further condition."""
    del cause, effect
    return True


@dataclass(frozen=True)
class Cause:
    """A failure of ``check`` explains bad results of the check that declares it; ``because`` is a clause of the sentence."""

    check: str
    because: str
    reach: Reach = Reach.HOST
    when: Condition = always

    def covers(self, cause: CheckResult, effect: CheckResult) -> bool:
        """Return whether ``cause`` explains ``effect``, a result of the check that declares this."""
        of_it = effect.names if self.check == NAMED_CHECK else (self.check,)
        return cause.id in of_it and self.leads_to(cause, effect)

    def leads_to(self, cause: CheckResult, effect: CheckResult) -> bool:
        """Return the same for results that are known to be of its checks."""
        return (
            cause.key != effect.key
            and _within(self.reach, cause, effect)
            and self.when(cause, effect)
        )


@dataclass(frozen=True)
class Effect:
    """Declares the same from the other end, for an earlier stage's ``check``, or a whole area: ``gpu.*``."""

    check: str
    because: str
    reach: Reach = Reach.HOST
    when: Condition = always

    def concerns(self, check: str) -> bool:
        """Return whether it applies to this check."""
        return fnmatchcase(check, self.check)


Causes = Mapping[str, Sequence[Cause]]
"""The causes of each check, in order: the first that matches counts."""


def explain(results: Sequence[CheckResult], causes: Causes) -> list[CheckResult]:
    """Return the same results; those that follow from another failure name it."""
    # Attribute access on an enumeration is slow, and most results are passes.
    bad, good = Status.FAIL, Status.PASS
    failures = _Failures(r for r in results if r.status is bad)
    return [
        r if r.status is good else _explained(r, causes.get(r.id, ()), failures) for r in results
    ]


def _explained(result: CheckResult, rows: Sequence[Cause], failures: "_Failures") -> CheckResult:
    found = next(_causes_of(result, rows, failures), None)
    return result.model_copy(update={"explained_by": found.name}) if found else result


def _causes_of(
    effect: CheckResult, rows: Sequence[Cause], failures: "_Failures"
) -> Iterator[CheckResult]:
    for row in rows:
        yield from (c for c in failures.within(row, effect) if row.leads_to(c, effect))


class _Failures:
    """Failures by where they have an effect, each in the order given."""

    def __init__(self, failures: Iterable[CheckResult]) -> None:
        self._of_check: dict[str, list[CheckResult]] = {}
        self._on_host: dict[tuple[str, str | None], list[CheckResult]] = {}
        self._order: dict[int, int] = {}
        for place, failure in enumerate(failures):
            self._order[id(failure)] = place
            self._of_check.setdefault(failure.id, []).append(failure)
            self._on_host.setdefault((failure.id, failure.host), []).append(failure)

    def within(self, row: Cause, effect: CheckResult) -> Sequence[CheckResult]:
        """Return the candidates for ``row`` as causes of ``effect``; some may not match."""
        if row.check == NAMED_CHECK:
            return self._first((name, effect.host) for name in effect.names)
        if row.reach is Reach.SITE:
            return self._of_check.get(row.check, ())
        if row.reach is Reach.NAMED:
            return self._first((row.check, name) for name in effect.names)
        return self._on_host.get((row.check, effect.host), ())

    def _first(self, places: Iterable[tuple[str, str | None]]) -> Sequence[CheckResult]:
        found = [failure for place in places for failure in self._on_host.get(place, ())]
        return sorted(found, key=lambda failure: self._order[id(failure)])


def _within(reach: Reach, cause: CheckResult, effect: CheckResult) -> bool:
    if reach is Reach.SITE:
        return True
    if reach is Reach.NAMED:
        return cause.host in effect.names
    if cause.host is None or cause.host != effect.host:
        return False
    return reach is Reach.HOST or _share(cause.parts, effect.parts)


def _share(some: Iterable[str], others: Iterable[str]) -> bool:
    return not set(some).isdisjoint(others)


def is_unknown(cause: CheckResult, effect: CheckResult) -> bool:
    """The effect could not be read."""
    del cause
    return effect.status is Status.NOT_ASSESSED


def is_of(*units: str) -> Condition:
    """The cause is one of these services."""
    return lambda cause, effect: _share(cause.parts, units)


def on(*units: str) -> Condition:
    """The effect is one of these services."""
    return lambda cause, effect: _share(effect.parts, units)


def names_only(*things: str) -> Condition:
    """The effect names these, and nothing else."""
    known = frozenset(things)
    return lambda cause, effect: bool(effect.names) and known.issuperset(effect.names)


def both(*conditions: Condition) -> Condition:
    """All of these conditions hold."""
    return lambda cause, effect: all(condition(cause, effect) for condition in conditions)


def no_value(cause: CheckResult, effect: CheckResult) -> bool:
    """The cause has no value: its subject does not exist."""
    del effect
    return cause.value is None


SILENT = Cause("host.reachable", "its daemons and ports are silent too")
UNASKED = Cause(
    "host.reachable",
    "data that is read from there or compared with it is missing",
    Reach.NAMED,
    is_unknown,
)
