"""The verdict every check and benchmark gives, and how verdicts add up."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field, model_validator

from appliance.models.base import Model, Numerous, slim
from appliance.models.line import Line, line

Value = bool | int | float | Line | None


class Status(StrEnum):
    """What became of one check; the order of severity is SEVERITY's."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    ERROR = "error"
    SKIP = "skip"
    NOT_ASSESSED = "not_assessed"


COMPLAINTS = frozenset({Status.FAIL, Status.ERROR, Status.WARN})
"""What says that something is wrong, or may be."""
SEVERITY = (
    Status.PASS,
    Status.SKIP,
    Status.NOT_ASSESSED,
    Status.WARN,
    Status.ERROR,
    Status.FAIL,
)


class Kind(StrEnum):
    """What a cause is, where something hangs on it."""

    OTHER = ""
    DENIED = "denied"
    TOO_FEW_GPUS = "too_few_gpus"
    WAITS = "waits"
    """For a command that somebody has to give: time alone changes nothing."""


CLUSTER = "cluster"


class Place(NamedTuple):
    """What a result speaks of: a host, None for the cluster, and where it is about these alone, parts of it."""

    host: str | None = None
    parts: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As people read it: "gpu-1/GPU 3,5"."""
        return f"{self.host or CLUSTER}{_told_of(self.parts)[0]}"


def place(host: str, *parts: str) -> Place:
    """A host or the cluster, and parts of it."""
    return Place(None if host == CLUSTER else host, parts)


def _joined(parts: tuple[str, ...]) -> str:
    first, *others = parts
    stem = first[: first.rfind(" ") + 1]
    return ",".join((first, *(part.removeprefix(stem) for part in others)))


def _read(target: str) -> Place:
    """The inverse, for records of before results had their host and parts."""
    where, _, part = target.partition("/")
    stem, _, numbers = part.rpartition(" ")
    parts = [f"{stem} {number}" for number in numbers.split(",")] if stem else [part]
    return place(where, *filter(None, parts))


class CheckResult(Numerous):
    """One judged value. ``target`` is what people read of ``host`` and ``parts``: "gpu-1/GPU 5", "cluster".

    ``names``: what its cause names beside them: hosts (or parts of theirs as "gpu-1/GPU 5"), units, adapters, alerts.
    """

    # A host has some fifty results, most of them passes: what a default says needs no cleaning each time.
    model_config = ConfigDict(validate_default=False)

    id: Line
    target: Line
    host: Line | None = None
    parts: tuple[Line, ...] = ()
    names: tuple[Line, ...] = ()
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
        default="", description="The failure this one follows from, by its name"
    )

    def at(self, where: "Place | str") -> "CheckResult":
        """The same of another place, of which only the texts are looked at; a text: a host, or the cluster."""
        values = self.__dict__.copy()
        values["target"], values["host"], values["parts"] = (
            _named(where) if isinstance(where, str) else _spelled(where)
        )
        return self._of_values(values)

    @property
    def name(self) -> str:
        """What tells one result from another: "gpu.ecc gpu-1/GPU 5"."""
        return f"{self.id} {self.target}"

    @model_validator(mode="before")
    @classmethod
    def _from_target(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "host" in given or "target" not in given:
            return given
        read = _read(str(given["target"]))
        return {"host": read.host, "parts": read.parts, **given}


SAYINGS = 4096
"""Results that differ in more than their place, and are kept: some sixty checks, each with a few values."""


class Judgement(NamedTuple):
    """What a judge says of a place: ``told`` are fields of CheckResult. Which check says it, the check itself adds."""

    at: Place | str
    status: Status
    told: Mapping[str, Any]

    def of(self, check_id: str) -> CheckResult:
        """The result of that check."""
        at, status, told = self
        try:
            said = _said(check_id, status, **told)
        except TypeError:
            # A list has no hash, and is read as what it holds.
            said = _said.__wrapped__(check_id, status, **told)
        return said.at(at)


@lru_cache(SAYINGS, typed=True)
def _said(check_id: str, status: Status, **told: Any) -> CheckResult:
    """What a result says beside where. Most hosts are told the same, so that it is validated once for all of them."""
    return slim(CheckResult(id=check_id, target="", host=None, status=status, **told))


Spelled = tuple[str, str | None, tuple[str, ...]]
"""Target, host and parts of a result."""
NAMES = 16_384
"""A plan goes through all hosts once for each stage: a site's names are all kept."""


def _spelled(where: Place) -> Spelled:
    name, parts = where
    host = name if name is None else line(name)
    suffix, told = _told_of(parts) if parts else ("", ())
    return line(f"{name or CLUSTER}{suffix}"), host, told


@lru_cache(256)
def _told_of(parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """What follows the host in a target, and the parts, cleaned: hosts have the same ones."""
    return f"/{_joined(parts)}" if parts else "", tuple(map(line, parts))


@lru_cache(NAMES)
def _named(where: str) -> Spelled:
    return _spelled(place(where))


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
    """The graver of two: failed, then incomplete, then passed."""
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
