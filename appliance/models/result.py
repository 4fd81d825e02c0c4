"""The verdict every check and benchmark gives, and how verdicts add up."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field

from appliance.models.base import Model
from appliance.models.line import Line

Value = bool | int | float | Line | None


class Status(StrEnum):
    """What became of one check; the order of severity is SEVERITY's."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    ERROR = "error"
    SKIP = "skip"
    NOT_ASSESSED = "not_assessed"


SEVERITY = (
    Status.PASS,
    Status.SKIP,
    Status.NOT_ASSESSED,
    Status.WARN,
    Status.ERROR,
    Status.FAIL,
)


class CheckResult(Model):
    """One judged value. ``target`` is a host, ``host/part`` ("gpu-1/GPU 5") or "cluster"."""

    id: Line
    target: Line
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

    @property
    def name(self) -> str:
        """What tells one result from another: "gpu.ecc gpu-1/GPU 5"."""
        return f"{self.id} {self.target}"

    @property
    def host(self) -> str | None:
        """The host this result speaks of, None for the cluster."""
        return None if self.target == "cluster" else self.target.split("/", 1)[0]


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
