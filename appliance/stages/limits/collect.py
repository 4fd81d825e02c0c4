"""The result of the last round of appliance-limits; none if the program is not installed."""

from __future__ import annotations

import json
import time

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

PROGRAM = "/usr/local/sbin/appliance-limits"
STATE = "/run/appliance-limits/state.json"
PLAIN = (
    *("leader", "holder", "problem", "waits", "pods", "limited"),
    *("stuck", "unknown", "metrics", "demand"),
)


def collect(ask: Ask) -> Facts:
    """The area ``limits``."""
    if not files.exists(ask.path(PROGRAM)):
        return {"limits": None}
    said = files.text(ask.path(STATE))
    if not said:
        raise Unreadable("appliance-limits has not finished a round since its start")
    try:
        seen = json.loads(said)
        found: Facts = {key: seen[key] for key in PLAIN if key in seen}
        found["age_s"] = round(time.time() - seen["taken"], 1)
    except (ValueError, KeyError, TypeError):
        raise Unreadable(STATE + " cannot be read") from None
    return {"limits": found}
