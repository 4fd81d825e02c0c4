"""Which failure explains which others: one broken part is one finding, and what follows from it stands under it.

Only a failure explains, never a warning or a gap; what is explained keeps its own status, so no verdict gets better.
A check declares its causes, and effects elsewhere (``Cause``, ``Effect``). Conditions here are for all stages, those of
one stage stand in its ``causes``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from appliance.models.result import CheckResult, Status

NAMED_CHECK = "*"
"""In place of an id: the checks that the effect names."""


class Reach(StrEnum):
    """How far a cause is felt."""

    PART = "the same part of the same host"
    HOST = "the same host"
    NAMED = "any host, and the cluster, where it names the host that failed"
    SITE = "any host, and the cluster"


Condition = Callable[[CheckResult, CheckResult], bool]
"""Whether this cause explains that effect, beyond where they are."""


def always(cause: CheckResult, effect: CheckResult) -> bool:
    """Where they are says enough."""
    del cause, effect
    return True


@dataclass(frozen=True)
class Cause:
    """A failure of ``check`` explains results that are not good of the check that declares it, ``because`` in a clause."""

    check: str
    because: str
    reach: Reach = Reach.HOST
    when: Condition = always

    def covers(self, cause: CheckResult, effect: CheckResult) -> bool:
        """Whether ``cause`` explains ``effect``, which is of the check that declares this."""
        of_it = effect.names if self.check == NAMED_CHECK else (self.check,)
        return cause.id in of_it and self.leads_to(cause, effect)

    def leads_to(self, cause: CheckResult, effect: CheckResult) -> bool:
        """The same of results that are known to be of its checks."""
        return (
            (cause.id, cause.target) != (effect.id, effect.target)
            and _within(self.reach, cause, effect)
            and self.when(cause, effect)
        )


@dataclass(frozen=True)
class Effect:
    """The same from the other end, for an earlier stage's ``check``, or all of an area: ``gpu.*``."""

    check: str
    because: str
    reach: Reach = Reach.HOST
    when: Condition = always

    def concerns(self, check: str) -> bool:
        """Whether it is of this check."""
        return fnmatchcase(check, self.check)


Causes = Mapping[str, Sequence[Cause]]
"""Of each check, in order: the first that fits names the cause."""


def explain(results: Sequence[CheckResult], causes: Causes) -> list[CheckResult]:
    """The same results; those that follow from another failure say from which."""
    # Members of an enumeration are looked up each time, and most results are passes.
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
    """Failures by where they are felt, each time in the order they were given."""

    def __init__(self, failures: Iterable[CheckResult]) -> None:
        self._of_check: dict[str, list[CheckResult]] = {}
        self._on_host: dict[tuple[str, str | None], list[CheckResult]] = {}
        self._order: dict[int, int] = {}
        for place, failure in enumerate(failures):
            self._order[id(failure)] = place
            self._of_check.setdefault(failure.id, []).append(failure)
            self._on_host.setdefault((failure.id, failure.host), []).append(failure)

    def within(self, row: Cause, effect: CheckResult) -> Sequence[CheckResult]:
        """All that ``row`` may take for the cause of ``effect``, and perhaps more."""
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
    """The effect could not be had."""
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
    """All of them hold."""
    return lambda cause, effect: all(condition(cause, effect) for condition in conditions)


def no_value(cause: CheckResult, effect: CheckResult) -> bool:
    """The cause has no value: what it is about is not there."""
    del effect
    return cause.value is None


SILENT = Cause("host.reachable", "its daemons and ports are silent too")
UNASKED = Cause(
    "host.reachable",
    "what is asked from there, or compared with it, cannot be had",
    Reach.NAMED,
    is_unknown,
)
