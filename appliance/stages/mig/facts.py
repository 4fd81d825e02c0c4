"""The last round of the program that divides GPUs on demand."""

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import Count, Line, Number, Real


class MigDemand(Model):
    """The last round of appliance-mig-demand on this host."""

    age_s: Real = Field(description="Seconds since it ended")
    problem: Line = Field(default="", description="What went wrong; empty: nothing")
    waits: Line = Field(default="", description="What it needs before its first check")
    free: dict[Line, Count] = Field(default_factory=dict, description="Free instances")
    room: dict[Line, Number] = Field(
        default_factory=dict, description="How many more could be created"
    )
    made: Number = Field(default=0, description="Instances created since its start")
    taken: Number = Field(default=0, description="Instances removed since its start")
