"""State of the resources that the request names."""

from __future__ import annotations

from appliance.probe.ask import Ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts
    from appliance.probe.state import Observer


def collect(ask: Ask, observer: Observer) -> Facts:
    """The area ``resources``."""
    return {"resources": [observer.look(kind, name) for kind, name in ask.resources]}
