"""Machines that may not be powered off: those with roles or work, by the site and its schedulers."""

from collections.abc import Mapping

from appliance.adapters.redfish import Controller
from appliance.bmc.power import state
from appliance.engine.look.gather import each
from appliance.engine.run.drain import schedulers
from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.models.site import Host, Role

CARRIES = {
    Role.CONTROL: "it is a control host: the site's schedulers run there",
    Role.STORAGE: "it is a storage host: other hosts may use its files",
    Role.LOGIN: "it is a login host: users may be working there",
}
REMEDY = "free it first (appliance node show, appliance node drain), or use --force"


def machines_in_use(session: Session, known: Mapping[str, Controller]) -> dict[str, str]:
    """Return by host why its machine may not be powered off; an unknown state is a reason. Machines that are off carry no work."""
    running = [name for name, power in each(known, lambda n: _power(known[n])) if power != "Off"]
    found = {name: _carried(session, session.site.host(name)) for name in running}
    return {name: why for name, why in found.items() if why}


def _power(known: Controller) -> str:
    try:
        return state(known)
    except ApplianceError:
        return ""


def _carried(session: Session, host: Host) -> str:
    for role, why in CARRIES.items():
        if role in host.roles:
            return why
    try:
        held = [h for s in schedulers(session) if (h := s.look(host.name))]
    except ApplianceError as error:
        return f"cannot determine whether it runs jobs: {error.told_of(host.name)}"
    work = [one for h in held for one in h.work]
    return f"it carries work: {', '.join(work[:3])}" if work else ""
