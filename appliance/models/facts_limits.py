"""What the program that keeps limits of time says of its last round."""

from pydantic import Field

from appliance.models.base import Model


class Demand(Model):
    """Pods that wait for MIG instances, as the control host that acts sees them."""

    waiting: int = Field(default=0, description="Pods that wait for an instance")
    unmet: tuple[str, ...] = Field(default=(), description="Those nothing can be made for, and why")
    troubles: tuple[str, ...] = Field(default=(), description="Hosts that cannot, and why")
    wishes: int = Field(default=0, description="What hosts were asked for since its start")


class Limits(Model):
    """The last round of appliance-limits on this host. ``pods`` is None where it did not look."""

    age_s: float = Field(description="Seconds since it ended")
    leader: bool = Field(default=False, description="This host acts; another one where not")
    holder: str = Field(default="", description="Who acts, as far as it knows")
    problem: str = Field(default="", description="What went wrong; empty: nothing")
    waits: str = Field(default="", description="What it needs before it can look at anything")
    pods: int | None = Field(default=None, description="Pods of the projects that have not ended")
    limited: int = Field(default=0, description="Workloads with a limit")
    stuck: int = Field(default=0, description="Workloads that were ended and are still there")
    unknown: dict[str, int] = Field(
        default_factory=dict, description="Workloads left alone for want of knowledge, by limit"
    )
    metrics: str = Field(
        default="", description='"ok" or what Prometheus says; empty: no need to ask'
    )
    demand: Demand | None = Field(
        default=None, description="MIG on demand; None: no node pool asks for it"
    )
