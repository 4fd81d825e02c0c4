"""The verdict of every check and benchmark, and the sum of verdicts."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field, model_validator

from appliance.models.base import Model
from appliance.models.line import Line, line

Value = bool | int | float | Line | None


class Status(StrEnum):
    """The result of one check; its severity is given by SEVERITY."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    ERROR = "error"
    SKIP = "skip"
    NOT_ASSESSED = "not_assessed"


COMPLAINTS = frozenset({Status.FAIL, Status.ERROR, Status.WARN})
"""Statuses that report a fault, or a possible one."""
SEVERITY = (
    Status.PASS,
    Status.SKIP,
    Status.NOT_ASSESSED,
    Status.WARN,
    Status.ERROR,
    Status.FAIL,
)


class Kind(StrEnum):
    """The kind of a cause, if code depends on it."""

    OTHER = ""
    DENIED = "denied"
    TOO_FEW_GPUS = "too_few_gpus"
    UNWRITTEN = "unwritten"
    """Something of the site that the stage of the check has not created yet, or that was deleted."""
    WAITS = "waits"
    """Waits for a command of an operator: waiting does not help."""
    MAINTENANCE = "maintenance"
    """An operator keeps the host out of work for a while: it is not judged."""


CLUSTER = "cluster"


class Place(NamedTuple):
    """The subject of a result: a host, None for the cluster, and parts of it if only these are meant."""

    host: str | None = None
    parts: tuple[str, ...] = ()

    def __str__(self) -> str:
        """For people: "gpu-1/GPU 3,5"."""
        return f"{self.host or CLUSTER}{_parts_text(self.parts)[0]}"


def place(host: str, *parts: str) -> Place:
    """A host or the cluster, and parts of it."""
    return Place(None if host == CLUSTER else host, parts)


def _joined(parts: tuple[str, ...]) -> str:
    first, *others = parts
    stem = first[: first.rfind(" ") + 1]
    return ",".join((first, *(part.removeprefix(stem) for part in others)))


def _read(target: str) -> Place:
    """The inverse, for records from before results had host and parts."""
    where, _, part = target.partition("/")
    stem, _, numbers = part.rpartition(" ")
    parts = [f"{stem} {number}" for number in numbers.split(",")] if stem else [part]
    return place(where, *filter(None, parts))


class ResultKey(NamedTuple):
    """Distinguishes results; ``aspect`` as in CheckResult."""

    check: str
    target: str
    aspect: str = ""


class CheckResult(Model):
    """One judged value. ``target`` shows ``host`` and ``parts`` to people: "gpu-1/GPU 5", "cluster".

    ``aspect``: the subject within the target, if a check reports several things of one target: "Xid 79".
    ``names``: what its cause names in addition: hosts (or parts of them such as "gpu-1/GPU 5"), units, adapters, alerts.
    """

    # A host has some fifty results, most of them passes: default values need no cleaning each time.
    model_config = ConfigDict(validate_default=False)

    id: Line
    target: Line
    host: Line | None = None
    parts: tuple[Line, ...] = ()
    names: tuple[Line, ...] = ()
    aspect: Line = Field(
        default="", description="The subject within the target, if a check finds several things"
    )
    kind: Kind = Kind.OTHER
    status: Status
    value: Value = None
    unit: Line = ""
    limit: Value = None
    limit_source: Line = ""
    evidence: Line = ""
    cause: Line = ""
    fix: Line = ""
    required: bool = True
    simulated: bool = False
    explained_by: Line = Field(
        default="", description="The failure that caused this one, by its name"
    )

    def at(self, where: "Place | str") -> "CheckResult":
        """The same of another place, of which only the texts are looked at; a text: a host, or the cluster."""
        target, host, parts = _named(where) if isinstance(where, str) else _spelled(where)
        return self.model_copy(update={"target": target, "host": host, "parts": parts})

    @property
    def key(self) -> ResultKey:
        """The same check, target and aspect: the same finding, at any time."""
        return ResultKey(self.id, self.target, self.aspect)

    @property
    def name(self) -> str:
        """Its key for people: "gpu.ecc gpu-1/GPU 5", "gpu.xid gpu-1/GPU 5: Xid 79"."""
        return f"{self.id} {self.place}"

    @property
    def place(self) -> str:
        """Target and aspect: "gpu-1/GPU 5: Xid 79"."""
        return f"{self.target}: {self.aspect}" if self.aspect else self.target

    @model_validator(mode="before")
    @classmethod
    def _from_target(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "host" in given or "target" not in given:
            return given
        read = _read(str(given["target"]))
        return {"host": read.host, "parts": read.parts, **given}


SAYINGS = 4096
"""Cached results that differ in more than their place: some sixty checks, each with a few values."""


class Judgement(NamedTuple):
    """A judgement of a place: ``told`` are fields of CheckResult. The check adds its own id."""

    at: Place | str
    status: Status
    told: Mapping[str, Any]

    def of(self, check_id: str) -> CheckResult:
        """The result of that check."""
        at, status, told = self
        try:
            said = _without_place(check_id, status, **told)
        except TypeError:
            # A list has no hash; its content is used instead.
            said = _without_place.__wrapped__(check_id, status, **told)
        return said.at(at)


@lru_cache(SAYINGS, typed=True)
def _without_place(check_id: str, status: Status, **told: Any) -> CheckResult:
    """What a result says beside where. Most hosts are told the same, so that it is validated once for all of them."""
    return CheckResult(id=check_id, target="", host=None, status=status, **told)


Spelled = tuple[str, str | None, tuple[str, ...]]
"""Target, host and parts of a result."""
NAMES = 16_384
"""A plan goes through all hosts once per stage: all names of a site are cached."""


def _spelled(where: Place) -> Spelled:
    name, parts = where
    host = name if name is None else line(name)
    suffix, told = _parts_text(parts) if parts else ("", ())
    return line(f"{name or CLUSTER}{suffix}"), host, told


@lru_cache(256)
def _parts_text(parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """What follows the host in a target, and the parts, cleaned: hosts have the same ones."""
    return f"/{_joined(parts)}" if parts else "", tuple(map(line, parts))


@lru_cache(NAMES)
def _named(where: str) -> Spelled:
    return _spelled(place(where))


def apart(said: Sequence[CheckResult]) -> Sequence[CheckResult]:
    """Results of one check with unique keys: findings without distinguishing aspects are numbered, the worst first.

    A pass shares the key of the finding about the same thing.
    """
    if len(said) < 2 or len({one.key for one in said}) == len(said):
        return said
    of_key: dict[ResultKey, list[CheckResult]] = {}
    for one in said:
        if one.status is not Status.PASS:
            of_key.setdefault(one.key, []).append(one)
    numbered = {
        id(one): one.model_copy(update={"aspect": f"{one.aspect} {number}".strip()})
        for same in of_key.values()
        for number, one in enumerate(sorted(same, key=_gravity), start=1)
        if number > 1
    }
    return [numbered.get(id(one), one) for one in said]


def worst_of_each(results: Iterable[CheckResult]) -> dict[ResultKey, CheckResult]:
    """The worst result of each key, in the order of the keys."""
    found: dict[ResultKey, CheckResult] = {}
    for result in results:
        known = found.get(result.key)
        if known is None or _gravity(result) < _gravity(known):
            found[result.key] = result
    return found


def _gravity(result: CheckResult) -> int:
    return -SEVERITY.index(result.status)


class Verdict(StrEnum):
    """The sum of many results."""

    PASSED = "passed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"

    @property
    def exit_code(self) -> int:
        """0 good, 1 failed, 3 incomplete."""
        return {Verdict.PASSED: 0, Verdict.FAILED: 1, Verdict.INCOMPLETE: 3}[self]


def worse(one: Verdict, other: Verdict) -> Verdict:
    """The worse of two: failed, then incomplete, then passed."""
    order = (Verdict.PASSED, Verdict.INCOMPLETE, Verdict.FAILED)
    return max(one, other, key=order.index)


def overall(results: Iterable[CheckResult]) -> Verdict:
    """Failed if anything failed; incomplete if a required check has no verdict, or nothing was judged."""
    seen = list(results)
    if any(r.status is Status.FAIL for r in seen):
        return Verdict.FAILED
    judged = any(r.status in {Status.PASS, Status.WARN} for r in seen)
    return Verdict.PASSED if judged and not lacking(seen) else Verdict.INCOMPLETE


def lacking(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Required results that are not good, optional ones that failed or could not run."""
    bad, unknown = {Status.FAIL, Status.ERROR}, {Status.SKIP, Status.NOT_ASSESSED}
    return [r for r in results if r.status in bad or (r.required and r.status in unknown)]


class Measurement(Model):
    """One measured number of a benchmark, kept in the journal."""

    name: Line
    value: float
    unit: Line
    target: Line = "cluster"
    simulated: bool = False
    detail: dict[Line, Value] = Field(default_factory=dict)
