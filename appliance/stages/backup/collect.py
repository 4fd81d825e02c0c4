"""The result of the last backup, as written by appliance-backup; none if the program is not installed."""

from __future__ import annotations

import json
import time

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

PROGRAM = "/usr/local/sbin/appliance-backup"
STATE = "/var/lib/appliance/backup/state.json"
PLAIN = ("name", "bytes", "problem", "kind")
TIMES = {"age_s": "written", "tried_s": "tried"}


def collect(ask: Ask) -> Facts:
    """The area ``backup``."""
    if not files.exists(ask.path(PROGRAM)):
        return {"backup": None}
    said = files.text(ask.path(STATE))
    if not said:
        return {"backup": {}}
    try:
        seen = json.loads(said)
        if not isinstance(seen, dict):
            raise ValueError
        found: Facts = {key: seen[key] for key in PLAIN if key in seen}
        for name, key in TIMES.items():
            if key in seen:
                found[name] = round(time.time() - seen[key], 1)
    except (ValueError, KeyError, TypeError):
        raise Unreadable(STATE + " cannot be read") from None
    return {"backup": found}
