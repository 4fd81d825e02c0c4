"""The last result of the host's own watch for Kubernetes."""

from __future__ import annotations

from appliance.probe.ask import Ask
from appliance.probe.collectors import watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

PROGRAM = "/usr/local/sbin/appliance-node-watch"
STATE = "/run/appliance/node-watch.json"


def collect(ask: Ask) -> Facts:
    """The area ``node_watch``."""
    return {"node_watch": watch.last(ask, "node_watch", PROGRAM, STATE)}
