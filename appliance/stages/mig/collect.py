"""The result of the last round of MIG on demand; none if this host's GPUs are not divided on demand."""

from __future__ import annotations

import json
import time

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

POLICY = "/etc/appliance/mig-demand.json"
REPORT = "/run/appliance-mig/demand.json"
PLAIN = ("problem", "waits", "free", "room", "made", "taken")


def collect(ask: Ask) -> Facts:
    """The area ``mig_demand``."""
    if not files.exists(ask.path(POLICY)):
        return {"mig_demand": None}
    said = files.text(ask.path(REPORT))
    if not said:
        raise Unreadable("appliance-mig-demand has not finished a round since its start")
    try:
        seen = json.loads(said)
        found: Facts = {key: seen[key] for key in PLAIN if key in seen}
        for key in {"problem", "waits"} & found.keys():
            # An answer of the API may have lines of its own.
            found[key] = " ".join(found[key].split())
        found["age_s"] = round(time.time() - seen["taken_at"], 1)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unreadable(REPORT + " cannot be read") from None
    return {"mig_demand": found}
