"""The result of a host's weekly run over every file."""

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import Line, Number, Real


class FileChange(Model):
    """A difference from the host's first scan; empty: missing then or now, or normal."""

    kind: Line
    name: Line
    then: Line = ""
    now: Line = ""


class Weekly(Model):
    """The last scan of appliance-weekly on this host."""

    age_s: Real = Field(
        description="Seconds since it ended; before the first run, since its installation"
    )
    looked: bool = Field(default=True, description="It has ended once")
    seconds: Real = Field(default=0, description="What it took")
    problem: Line = Field(default="", description="Why it could not run; empty: it ran")
    changes: tuple[FileChange, ...] = ()
    more: Number = Field(default=0, description="Changes beyond those")
