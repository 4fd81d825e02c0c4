"""One row of what explains what: how far a cause is felt, and the conditions beyond where it is."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from appliance.models.result import CheckResult, Kind, Status

HEAT = 0x40
"""NVML clock event reason: slowed down by the hardware because of heat."""


class Reach(StrEnum):
    """How far a cause is felt."""

    PART = "the same part of the same host"
    HOST = "the same host"
    NAMED = "any host, and the cluster, where it names the host that failed"
    SITE = "any host, and the cluster"


Condition = Callable[[CheckResult, CheckResult], bool]
"""Whether this cause explains that effect, beyond where they are."""


@dataclass(frozen=True)
class Consequence:
    """A failure of ``cause`` explains what is not good in ``effects`` (ids, ``area.*``), ``because`` in a clause."""

    cause: str
    effects: tuple[str, ...]
    because: str
    reach: Reach = Reach.HOST
    when: Condition = lambda cause, effect: True

    def covers(self, cause: CheckResult, effect: CheckResult) -> bool:
        """Whether ``cause`` explains ``effect``."""
        return cause.id == self.cause and self.concerns(effect.id) and self.leads_to(cause, effect)

    def leads_to(self, cause: CheckResult, effect: CheckResult) -> bool:
        """The same of results that are known to be of its checks."""
        return (
            (cause.id, cause.target) != (effect.id, effect.target)
            and _within(self.reach, cause, effect)
            and self.when(cause, effect)
        )

    def concerns(self, check: str) -> bool:
        """Whether results of ``check`` are among its effects."""
        return any(fnmatchcase(check, pattern) for pattern in self.effects)


class Failures:
    """Failures by where they are felt, each time in the order they were given."""

    def __init__(self, failures: Iterable[CheckResult]) -> None:
        self._of_check: dict[str, list[CheckResult]] = {}
        self._on_host: dict[tuple[str, str | None], list[CheckResult]] = {}
        self._order: dict[int, int] = {}
        for place, failure in enumerate(failures):
            self._order[id(failure)] = place
            self._of_check.setdefault(failure.id, []).append(failure)
            self._on_host.setdefault((failure.id, failure.host), []).append(failure)

    def within(self, row: Consequence, effect: CheckResult) -> Sequence[CheckResult]:
        """All that ``row`` may take for the cause of ``effect``, and perhaps more."""
        if row.reach is Reach.SITE:
            return self._of_check.get(row.cause, ())
        if row.reach is Reach.NAMED:
            found = [f for n in effect.names for f in self._on_host.get((row.cause, n), ())]
            return sorted(found, key=lambda failure: self._order[id(failure)])
        return self._on_host.get((row.cause, effect.host), ())


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


def names_part(cause: CheckResult, effect: CheckResult) -> bool:
    """The cause is of the part the effect speaks of, or names it."""
    return _share((*cause.parts, *cause.names), effect.parts)


def names_check(cause: CheckResult, effect: CheckResult) -> bool:
    """The effect names the check that the cause failed."""
    return cause.id in effect.names


def named_by(cause: CheckResult, effect: CheckResult) -> bool:
    """The effect names the part of the host that the cause is of."""
    return cause.target in effect.names


def is_xid(code: int) -> Condition:
    """The effect is this Xid."""
    return lambda cause, effect: effect.unit == "Xid" and effect.value == code


def is_of(*units: str) -> Condition:
    """The cause is one of these services."""
    return lambda cause, effect: _share(cause.parts, units)


def on(*units: str) -> Condition:
    """The effect is one of these services."""
    return lambda cause, effect: _share(effect.parts, units)


def only_of(*units: str) -> Condition:
    """Every unit the effect calls failed is one of these."""
    return _all_among({f"{unit}.service" for unit in units})


def read_by(folder: str, kind: str) -> Condition:
    """The cause lies in this folder, and all the effect names is of the kind that is read from there."""
    return lambda cause, effect: (
        any(part.startswith(folder) for part in cause.parts)
        and bool(effect.names)
        and all(name.startswith(kind) for name in effect.names)
    )


def names_only(*things: str) -> Condition:
    """The effect names these and nothing else."""
    return _all_among(set(things))


def alerts(*names: str) -> Condition:
    """Nothing fires but these."""
    return _all_among(set(names))


def _all_among(known: set[str]) -> Condition:
    return lambda cause, effect: bool(effect.names) and known.issuperset(effect.names)


def both(*conditions: Condition) -> Condition:
    """All of them hold."""
    return lambda cause, effect: all(condition(cause, effect) for condition in conditions)


def no_driver(cause: CheckResult, effect: CheckResult) -> bool:
    """No driver answers at all, so nothing could be asked."""
    return cause.value is None and effect.status is Status.NOT_ASSESSED


def slowed_by_heat(cause: CheckResult, effect: CheckResult) -> bool:
    """The effect's clock event reasons name heat."""
    del cause
    reasons = str(effect.value)
    return reasons.startswith("0x") and bool(int(reasons, 16) & HEAT)


def short_of_gpus(cause: CheckResult, effect: CheckResult) -> bool:
    """slurmctld has taken the node out because it registered with fewer GPUs than slurm.conf says."""
    del cause
    return effect.kind is Kind.TOO_FEW_GPUS


def counted_at_address(cause: CheckResult, effect: CheckResult) -> bool:
    """The count names an address: that GPU is on the bus and does not answer."""
    del cause
    return bool(effect.parts)
