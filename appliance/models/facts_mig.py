"""What the program that divides GPUs on demand says of its last round on this host."""

from pydantic import Field

from appliance.models.base import Model


class MigDemand(Model):
    """The last round of appliance-mig-demand on this host."""

    age_s: float = Field(description="Seconds since it ended")
    problem: str = Field(default="", description="What went wrong; empty: nothing")
    waits: str = Field(default="", description="What it needs before it can look at anything")
    free: dict[str, int] = Field(default_factory=dict, description="Instances nobody has")
    room: dict[str, int] = Field(default_factory=dict, description="How many more could be made")
    made: int = Field(default=0, description="Instances made since its start")
    taken: int = Field(default=0, description="Instances taken away since its start")
