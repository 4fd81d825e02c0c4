"""A waiver: a finding that somebody accepts for a time. It turns no result into a pass."""

from datetime import date

from pydantic import AwareDatetime, Field

from appliance.models.base import Model
from appliance.models.line import Line

UNWAIVABLE = {
    "simulated": "simulated hardware can never be accepted",
    "host.reachable": "nothing is known of a silent host",
    "host.receipts": "then it is not known which stages are finished",
    "deployed": "a site that is not deployed has nothing to accept",
}
"""What nobody may accept, and why; a stage that failed is one more."""


class Waiver(Model):
    """Who accepts which finding, why, and until when (that day included).

    ``check``: the id of a check or a gate; ``target``: a host, or a target as results name it; "" means all of them.
    """

    check: Line
    target: Line = ""
    reason: Line
    by: Line = ""
    until: Line = Field(default="", description="Last day, as 2027-01-31")
    given: AwareDatetime | None = None

    @property
    def name(self) -> str:
        """ "gpu.ecc@gpu-3"."""
        return f"{self.check}@{self.target}" if self.target else self.check

    def is_active(self, today: date) -> bool:
        """Whether it still counts. One without a readable end does not."""
        try:
            return today <= date.fromisoformat(self.until)
        except ValueError:
            return False

    def covers(self, check: str, target: str) -> bool:
        """Whether it is about this result. "gpu-3" covers its parts, too."""
        if self.check != check:
            return False
        return self.target in {"", target, target.partition("/")[0]}


def unwaivable(check: str) -> str:
    """Why nobody may waive it; "" where somebody may."""
    if check == "stage" or check.startswith("stage."):
        return "a stage that is not proved has to be deployed"
    return UNWAIVABLE.get(check, "")
