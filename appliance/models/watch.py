"""The hosts' own watch: its options in a site, and what it found."""

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import Count, Line, Real


class WatchOptions(Model):
    """When GPU hosts that are unfit for work drain themselves."""

    most_out: int | None = Field(
        default=None,
        ge=0,
        le=10_000,
        description="Maximum number of hosts that drain themselves at the same time, 0 for none; "
        "default: a tenth of the GPU hosts, at least one",
    )
    return_after_minutes: int | None = Field(
        default=10,
        ge=1,
        le=10_080,
        description="Minutes that a host which drained itself must be fit before it resumes; after GPU faults "
        "it never resumes by itself; default: never",
    )


class UnfitBy(Model):
    """One cause: the check with the same finding, the part, one line."""

    check: Line
    part: Line = ""
    cause: Line

    def __str__(self) -> str:
        """Its form in the reason of a drain."""
        return " ".join(filter(None, [self.check, self.part + ":" * bool(self.part), self.cause]))


class Watch(Model):
    """The last result of the host's own watch."""

    age_s: Real = Field(description="Seconds since it looked")
    causes: tuple[UnfitBy, ...] = Field(default=(), description="Why the host is unfit for work")
    gaps: tuple[Line, ...] = Field(default=(), description="Checks without a verdict")
    state: Line = Field(
        default="",
        description="out: drained; over: not drained, because the limit is reached; silent: the scheduler does not answer; empty: no change",
    )
    returns: bool | None = Field(
        default=None,
        description="The watch drained it for a fault that can clear without repair; None: an older watch without this field",
    )
    held_by: Count | None = Field(
        default=None, description="Process ID of a hung check that blocks the next one"
    )
    fit: bool | None = Field(
        default=None,
        description="Current verdict of a drained host that may return; None: not requested, or no answer",
    )
