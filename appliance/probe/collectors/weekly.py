"""The result of the host's weekly scan of every file; none if the program is not installed."""

from __future__ import annotations

import json
import time

from appliance.probe import files, places
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

PROGRAM = "/usr/local/sbin/appliance-weekly"
LAST = "/var/lib/appliance/weekly/last.json"


def collect(ask: Ask) -> Facts:
    """The area ``weekly``."""
    try:
        there = places.status(ask.path(PROGRAM), follow=True).st_mtime
    except FileNotFoundError:
        return {"weekly": None}
    try:
        last = json.loads(files.read(ask.path(LAST)))
        age = round(time.time() - last.pop("time"), 1)
    except FileNotFoundError:
        return {"weekly": {"age_s": round(time.time() - there, 1), "looked": False}}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unreadable(LAST + " cannot be read") from None
    return {"weekly": {"age_s": age, **last}}
