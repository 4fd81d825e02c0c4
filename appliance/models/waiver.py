"""A waiver: a finding that a person accepts until a date. It turns no result into a pass."""

import re
from datetime import date

from pydantic import AwareDatetime, Field

from appliance.models.base import Model
from appliance.models.line import Line
from appliance.models.result import ResultKey

UNWAIVABLE = {
    "simulated": "simulated hardware can never be accepted",
    "host.reachable": "nothing is known about a host that does not answer",
    "host.receipts": "without it, finished stages are unknown",
    "deployed": "a site that is not deployed has nothing to accept",
}
"""What cannot be waived, and why; in addition, a stage that failed."""


class Covered(Model):
    """What was found on one target when a waiver was given. Earlier versions recorded no aspect: their text replaces it.

    ``check``: the id of the check that finds it now, if an earlier version's check of another id found it.
    """

    check: Line = ""
    target: Line
    aspect: Line = ""
    words: Line = ""

    def is_of(self, result: ResultKey) -> bool:
        """Whether a result is that finding."""
        said = _names(self.words, result.aspect) if self.words else self.aspect == result.aspect
        return self.target == result.target and said


class Waiver(Model):
    """Who waives which finding, why, and until when (inclusive).

    ``check``: the id of a check or a gate; ``target``: a host, or a target as in results; "" means all of them.
    """

    check: Line
    target: Line = ""
    reason: Line
    by: Line = ""
    until: Line = Field(default="", description="Last day, such as 2027-01-31")
    given: AwareDatetime | None = None
    found: tuple[Covered, ...] = Field(
        default=(),
        description="What the last run before it had found; other aspects are not covered",
    )

    @property
    def name(self) -> str:
        """ "gpu.ecc@gpu-3"."""
        return f"{self.check}@{self.target}" if self.target else self.check

    def is_active(self, today: date) -> bool:
        """Whether it is active. A waiver without a readable end is not."""
        try:
            return today <= date.fromisoformat(self.until)
        except ValueError:
            return False

    def concerns(self, check: str, target: str) -> bool:
        """Whether it names this target of this check. "gpu-3" includes its parts."""
        return self.check == check and self.target in {"", target, target.partition("/")[0]}

    def covers(self, result: ResultKey) -> bool:
        """Whether it covers this result. If a check finds several things on a target: only those found before it was given."""
        if any(one.check == result.check and one.is_of(result) for one in self.found):
            return True
        if not self.concerns(result.check, result.target):
            return False
        return not result.aspect or any(one.is_of(result) for one in self.found)


def _names(words: str, aspect: str) -> bool:
    """Whether the text of an earlier version names an aspect: "Xid 63" is not in "Xid 631"."""
    return re.search(rf"\b{re.escape(aspect)}\b", words) is not None


def unwaivable(check: str) -> str:
    """Why it cannot be waived; "" if it can."""
    if check == "stage" or check.startswith("stage."):
        return "a stage that is not verified must be deployed"
    return UNWAIVABLE.get(check, "")
