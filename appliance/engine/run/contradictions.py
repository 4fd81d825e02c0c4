"""Drains hosts that contradict their accepted facts; a later deployment returns them."""

from appliance.engine.look.gather import Round
from appliance.engine.look.survey import view_of
from appliance.engine.run.slurm_hosts import SlurmHosts
from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.models.drain import CONTRADICTS
from appliance.models.events import Message
from appliance.models.shared_facts import Contradiction
from appliance.models.site import Owner, Role
from appliance.stages.slurm.checks import controller_of, is_out

LONGEST = 200


def drain_contradicting(session: Session, found: Round) -> None:
    """Drain hosts that contradict their accepted facts, and return those that no longer do.

    Contacts the controller only if its last answer shows a node in the wrong state.
    """
    view = view_of(session, found)
    control = controller_of(view)
    facts = view.facts.get(control.name) if control else None
    if facts is None or facts.slurm is None:
        return
    nodes = {node.name: node for node in facts.slurm.nodes or ()}
    desk = SlurmHosts(session)
    for host in session.site.with_role(Role.GPU):
        node, told = nodes.get(host.name), view.standing.contradictions.get(host.name, ())
        # Else a host could drain others by reporting what they have.
        why = tuple(one for one in told if not one.disputed)
        if node is None or session.site.owner(host) is not Owner.SLURM:
            continue
        try:
            if why and not is_out(node.state):
                desk.take_out(host.name, reason_of(why), lambda _: False)
            elif not why and node.reason.startswith(CONTRADICTS):
                desk.give_back(host.name, lambda reason: reason.startswith(CONTRADICTS))
        except ApplianceError as error:
            session.tell(Message(text=error.told_of(host.name), level="warning", host=host.name))


def reason_of(why: tuple[Contradiction, ...]) -> str:
    """Write the drain reason: what contradicts, in our own words only."""
    return (CONTRADICTS + ", ".join(dict.fromkeys(one.what for one in why)))[:LONGEST]
