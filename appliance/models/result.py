"""The verdict every check and benchmark gives, and how verdicts add up."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field

from appliance.models.base import Model

Value = bool | int | float | str | None


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

    id: str
    target: str
    status: Status
    value: Value = None
    unit: str = ""
    limit: Value = None
    limit_source: str = ""
    evidence: str = ""
    cause: str = ""
    fix: str = ""
    required: bool = True
    simulated: bool = False
    explained_by: str = Field(
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


def overall(results: Iterable[CheckResult]) -> Verdict:
    """Failed if anything failed; incomplete if a required check has no verdict, or nothing was judged."""
    seen = list(results)
    if any(r.status is Status.FAIL for r in seen):
        return Verdict.FAILED
    unknown = {Status.ERROR, Status.SKIP, Status.NOT_ASSESSED}
    if not seen or any(
        r.status in unknown and (r.required or r.status is Status.ERROR) for r in seen
    ):
        return Verdict.INCOMPLETE
    return Verdict.PASSED


class Measurement(Model):
    """One measured number of a benchmark, kept in the journal."""

    name: str
    value: float
    unit: str
    target: str = "cluster"
    simulated: bool = False
    detail: dict[str, Value] = Field(default_factory=dict)
