"""Fabric: the fabric as discovered now, by host and by switch, and as topology for schedulers; reads hosts only."""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.actions.sites.opening import Target, open_session
from appliance.engine.look.gather import Round
from appliance.engine.look.survey import survey
from appliance.errors import ApplianceError
from appliance.models.events import Observer
from appliance.models.site import Role
from appliance.stages.fabric.cabling import Known, Plug, Socket, found_cables, natural, ports_of
from appliance.stages.fabric.facts import Port, Topology
from appliance.stages.fabric.switch_tree import SwitchTree, switch_tree


@dataclass(frozen=True)
class Rail:
    """One port of a GPU host, and the other end of its cable; no socket: discovery did not find it."""

    plug: Plug
    port: Port
    socket: Socket | None


@dataclass(frozen=True)
class Fabric:
    """The fabric as seen from one control host."""

    site: str
    seen_from: str
    simulated: bool
    topology: Topology
    rails: tuple[Rail, ...]
    silent: tuple[str, ...]
    tree: SwitchTree


def discover(target: Target, observer: Observer) -> Fabric:
    """Contacts all hosts. Raises ApplianceError if no control host could discover the fabric."""
    with open_session(target, "fabric", observer) as session:
        found = survey(session)
        control = [h.name for h in session.site.with_role(Role.CONTROL)]
        for name in control:
            facts = found.facts.get(name)
            if facts and facts.topology:
                known: Known = {
                    h.name: found.facts.get(h.name) for h in session.site.with_role(Role.GPU)
                }
                return Fabric(
                    session.site.name,
                    name,
                    "fabric" in facts.simulated,
                    facts.topology,
                    _rails(known, facts.topology),
                    tuple(host for host, own in known.items() if own is None),
                    switch_tree(known, facts.topology),
                )
        raise undiscovered(control, found)


def undiscovered(control: Sequence[str], found: Round) -> ApplianceError:
    """Why no control host could discover the fabric, and the remedy: for silent hosts, theirs."""
    silent = [found.unanswered[name] for name in control if name in found.unanswered]
    errors = {name: found.facts[name].errors for name in control if name in found.facts}
    said = [f"{missing.host}: {missing.cause}" for missing in silent]
    said += [f"{name}: {of['topology']}" for name, of in errors.items() if "topology" in of]
    fix = "ibnetdiscover on the control host is installed by stage fabric: appliance deploy --until fabric"
    return ApplianceError(
        "the fabric could not be discovered: " + ("; ".join(said) or "there is no InfiniBand"),
        silent[0].fix if silent and not errors else fix,
    )


def _rails(known: Known, topology: Topology) -> tuple[Rail, ...]:
    order = {host: n for n, host in enumerate(known)}
    cables = found_cables(known, topology)
    ports = ports_of(known)
    plugs = sorted(ports, key=lambda p: (order[p.host], natural(p.device), p.port))
    return tuple(Rail(plug, ports[plug], cables.get(plug)) for plug in plugs)
