"""The fabric's tree for role variables: Slurm's switches and Kubernetes's labels from one discovery."""

from appliance.config.roles.context import RoleContext, Variables
from appliance.models.site import Role
from appliance.models.switch_tree import SwitchTree, kubernetes, slurm, switch_tree

NONE = SwitchTree(())


def tree_of(context: RoleContext) -> SwitchTree:
    """Over all GPU hosts, as the first control host that could discovered them; empty where none could."""
    seen = (context.facts.get(host.name) for host in context.site.with_role(Role.CONTROL))
    topology = next((facts.topology for facts in seen if facts and facts.topology), None)
    if topology is None:
        return NONE
    known = {host.name: context.facts.get(host.name) for host in context.site.with_role(Role.GPU)}
    return switch_tree(known, topology)


def slurm_switches(context: RoleContext) -> list[Variables]:
    """The lines of topology.conf; none where the fabric could not be discovered, or is none."""
    return [dict(line) for line in slurm(tree_of(context))]


def node_labels(context: RoleContext) -> dict[str, str]:
    """The labels of this host; none where its place is not known."""
    return kubernetes(tree_of(context)).get(context.host.name, {})
