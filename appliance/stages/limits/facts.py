"""The last round of the program that enforces time limits."""

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import Line, Number, Real


class Demand(Model):
    """Pods that wait for MIG instances, as the control host that acts sees them."""

    waiting: Number = Field(default=0, description="Pods that wait for an instance")
    unmet: tuple[Line, ...] = Field(
        default=(), description="Pods for which no instance can be created, and why"
    )
    troubles: tuple[Line, ...] = Field(
        default=(), description="Hosts that cannot create instances, and why"
    )
    wishes: Number = Field(default=0, description="Requests sent to hosts since its start")


class Limits(Model):
    """The last round of appliance-limits on this host. ``pods`` is None if it did not read them."""

    age_s: Real = Field(description="Seconds since it ended")
    leader: bool = Field(default=False, description="This host acts; otherwise another host does")
    holder: Line = Field(default="", description="The host that acts, if known")
    problem: Line = Field(default="", description="What went wrong; empty: nothing")
    waits: Line = Field(default="", description="What it needs before its first check")
    pods: Number | None = Field(
        default=None, description="Pods of the projects that have not ended"
    )
    limited: Number = Field(default=0, description="Workloads with a limit")
    stuck: Number = Field(default=0, description="Workloads that were ended but still exist")
    unknown: dict[Line, Number] = Field(
        default_factory=dict, description="Workloads not judged because data is missing, by limit"
    )
    metrics: Line = Field(
        default="", description='"ok" or the error from Prometheus; empty: no query was needed'
    )
    demand: Demand | None = Field(
        default=None, description="MIG on demand; None: no node pool asks for it"
    )
