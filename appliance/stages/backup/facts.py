"""The result of this host's last backup, as its program recorded it."""

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import Line, Number, Real


class Backup(Model):
    """Results of the last attempts. ``age_s`` is None if no backup ever succeeded."""

    age_s: Real | None = Field(default=None, description="Seconds since the last good backup")
    name: Line = Field(default="", description="Its name")
    bytes: Number | None = Field(default=None, description="Its size")
    tried_s: Real | None = Field(
        default=None, description="Seconds since the last try; None: never"
    )
    problem: Line = Field(default="", description="Why the last try failed; empty: it did not")
    kind: Line = Field(
        default="", description="What failed: target, data, tool or archive; empty: nothing"
    )
