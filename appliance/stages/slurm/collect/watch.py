"""The last result of the host's own watch for Slurm."""

from __future__ import annotations

from appliance.probe.ask import Ask
from appliance.probe.collectors import watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

PROGRAM = "/usr/local/sbin/appliance-watch"
STATE = "/run/appliance/watch.json"


def collect(ask: Ask) -> Facts:
    """The area ``watch``."""
    return {"watch": watch.last(ask, "watch", PROGRAM, STATE)}
