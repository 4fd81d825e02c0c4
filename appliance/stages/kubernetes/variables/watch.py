"""The hosts' own watch for Kubernetes, and the right of kubelets to count unavailable hosts."""

from appliance.models.site import Role
from appliance.stages.context import RoleContext, Variables
from appliance.stages.fitness import expected, most_out, program
from appliance.stages.kubernetes.variables.releases import options

NAME = "appliance-watch"
RBAC = "rbac.authorization.k8s.io"


def watch(context: RoleContext) -> Variables:
    """Return program and settings for a GPU host; nothing for other hosts."""
    if Role.GPU not in context.host.roles:
        return {}
    chosen = options(context.site).watch
    return {
        "program": program(context),
        "most_out": most_out(context.site, chosen),
        "return_after_minutes": chosen.return_after_minutes or 0,
        "end_pods_after_minutes": chosen.end_pods_after_minutes or 0,
        # Pods need no munge, and the devices of Slurm's jobs are not theirs.
        "expects": {**expected(context), "munge": False},
    }


def rights() -> list[dict[str, object]]:
    """A kubelet may read its own node only: here all nodes are counted. Changes stay limited to its own node."""
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": NAME}
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
    kubelets = {"apiGroup": RBAC, "kind": "Group", "name": "system:nodes"}
    meta = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": NAME}}
    return [
        {**meta, "kind": "ClusterRole", "rules": [rule]},
        {**meta, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [kubelets]},
    ]
