"""What Run:ai's control plane reports of the site's cluster; this machine asks it, not the hosts."""

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import Line, Real


class RunaiAnswer(Model):
    """The answer. ``api``: "ok", or why there is none; ``fix``: the remedy then."""

    api: Line
    fix: Line = ""
    state: Line = Field(
        default="",
        description="WaitingToConnect, Connected, Disconnected, MissingPrerequisites, ServiceIssues or Unknown",
    )
    version: Line = Field(default="", description="Of the cluster engine; empty: not reported")
    cause: Line = Field(default="", description="Why it is not connected; empty: none is reported")
    silent_s: Real | None = Field(
        default=None, description="Seconds since the agent was last seen; None: not reported"
    )
    certificate_s: Real | None = Field(
        default=None, description="Seconds until the served certificate ends; None: not read"
    )
