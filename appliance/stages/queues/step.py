"""One change of a plan, with a name for people."""

from appliance.adapters.kubernetes import Resource
from appliance.models.queue_plan import Change, Step
from appliance.stages.scheduler.queues.kai import TITLE


def step(what: Step, resource: Resource, details: tuple[str, ...] = (), remedy: str = "") -> Change:
    """The change of this resource."""
    meta = resource["metadata"]
    space = meta.get("namespace", "")
    title = str((meta.get("annotations") or {}).get(TITLE) or meta["name"])
    return Change(
        step=what,
        kind=resource["kind"],
        name=meta["name"],
        namespace=space,
        title=f"{space}/{title}" if space else title,
        details=details,
        remedy=remedy,
    )
