"""Hosts that contradict what was accepted of them take no jobs; a later deployment gives them back."""

from appliance.engine.gather import Round
from appliance.engine.session import Session
from appliance.engine.survey import view_of
from appliance.engine.work_slurm import SlurmHosts
from appliance.errors import ApplianceError
from appliance.models.drain import CONTRADICTS
from appliance.models.events import Message
from appliance.models.site import Owner, Role
from appliance.models.standing import Contradiction
from appliance.stages.slurm.checks import controller_of, is_out

LONGEST = 200


def drain_contradicting(session: Session, found: Round) -> None:
    """Asks Slurm's controller nothing where its last answer shows that every host is as it should be."""
    view = view_of(session, found)
    control = controller_of(view)
    facts = view.facts.get(control.name) if control else None
    if facts is None or facts.slurm is None:
        return
    nodes = {node.name: node for node in facts.slurm.nodes or ()}
    desk = SlurmHosts(session)
    for host in session.site.with_role(Role.GPU):
        node, why = nodes.get(host.name), view.standing.contradictions.get(host.name, ())
        if node is None or session.site.owner(host) is not Owner.SLURM:
            continue
        try:
            if why and not is_out(node.state):
                desk.hold_out(host.name, reason_of(why))
            elif not why and node.reason.startswith(CONTRADICTS):
                desk.let_in(host.name)
        except ApplianceError as error:
            session.tell(Message(text=error.told_of(host.name), level="warning", host=host.name))


def reason_of(why: tuple[Contradiction, ...]) -> str:
    """As it stands in Slurm: what contradicts, in words of ours alone."""
    return (CONTRADICTS + ", ".join(dict.fromkeys(one.what for one in why)))[:LONGEST]
