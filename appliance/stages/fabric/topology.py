"""The fabric's tree for role variables: Slurm's switches and Kubernetes's labels from one discovery."""

from appliance.models.site import Role
from appliance.stages.context import RoleContext, Variables
from appliance.stages.fabric.cabling import INFINIBAND
from appliance.stages.fabric.facts import Topology
from appliance.stages.fabric.switch_tree import FAMILY, SwitchTree, kubernetes, slurm, switch_tree

NONE = SwitchTree(())


def tree_of(context: RoleContext) -> SwitchTree:
    """Return the tree of all GPU hosts from the first control host that discovered them; empty if none did."""
    topology = context.once(_discovered)
    if topology is None:
        return NONE
    hosts = (h.name for h in context.site.with_role(Role.GPU) if h.name not in context.left_out)
    known = {name: context.facts.get(name) for name in hosts}
    beside = tuple(name for name in known if not _has_infiniband(context, name))
    return switch_tree({n: f for n, f in known.items() if n not in beside}, topology, beside)


def slurm_switches(context: RoleContext) -> list[Variables]:
    """Return the lines of topology.conf; none without a discovered fabric."""
    return [dict(line) for line in slurm(context.once(tree_of))]


def node_labels(context: RoleContext) -> dict[str, str]:
    """Return the labels of this host; none if its place is unknown."""
    return context.once(_labels).get(context.host.name, {})


def label_families(context: RoleContext) -> list[str]:
    """Return the prefixes of labels that are removed unless in ``node_labels``; none while an existing fabric was never discovered."""
    is_fabric = any(p.hardware.fabric.link_layer == INFINIBAND for p in context.profiles)
    return [] if is_fabric and context.once(_discovered) is None else [FAMILY]


def _has_infiniband(context: RoleContext, host: str) -> bool:
    """Return whether the host's class has InfiniBand."""
    own = context.profile_of(host).hardware.fabric.link_layer
    return not context.site.has_classes or own == INFINIBAND


def _labels(context: RoleContext) -> dict[str, dict[str, str]]:
    return kubernetes(context.once(tree_of))


def _discovered(context: RoleContext) -> Topology | None:
    seen = (context.facts.get(host.name) for host in context.site.with_role(Role.CONTROL))
    return next((facts.topology for facts in seen if facts and facts.topology), None)
