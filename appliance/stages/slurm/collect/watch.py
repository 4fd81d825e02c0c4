"""What the host's own watch found last, as it left it; nothing where the program is not installed."""

from __future__ import annotations

import json
import time

from appliance.probe import files
from appliance.probe.ask import Ask, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

PROGRAM = "/usr/local/sbin/appliance-watch"
STATE = "/run/appliance/watch.json"


def collect(ask: Ask) -> Facts:
    """The area ``watch``."""
    if not files.exists(ask.path(PROGRAM)):
        return {"watch": None}
    said = files.text(ask.path(STATE))
    if not said:
        raise Unreadable("the host's watch has not looked since the host started")
    try:
        seen = json.loads(said)
        causes = [{key: c[key] for key in ("check", "part", "cause")} for c in seen["causes"]]
        found = {"age_s": round(time.time() - seen["time"], 1), "causes": causes}
        return {"watch": {**found, "slurm": seen["slurm"], "gaps": seen["gaps"]}}
    except (ValueError, KeyError, TypeError):
        raise Unreadable(STATE + " cannot be read") from None
