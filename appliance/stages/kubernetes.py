"""Stage ``kubernetes``: containerd and a cluster over control and GPU hosts, where the site wants one."""

from appliance.config.roles import containerd, kubernetes
from appliance.config.roles.context import RoleContext, Variables
from appliance.models.site import Role, Site
from appliance.stages.stage import Stage


def wanted(site: Site) -> bool:
    """Whether the site asks for a cluster of its own making."""
    return site.kubernetes is not None and site.kubernetes.external is None


def variables(context: RoleContext) -> Variables:
    """Of both roles."""
    return {**containerd.variables(context), **kubernetes.variables(context)}


STAGE = Stage(
    name="kubernetes",
    title="Kubernetes: containerd, control plane, GPU hosts",
    roles=frozenset({Role.CONTROL, Role.GPU}),
    after=("base", "gpu", "storage"),
    learns_from=("fabric",),
    ansible_roles=("containerd", "kubernetes"),
    variables=variables,
    checks=(
        "kubernetes.kubelet",
        "kubernetes.api",
        "kubernetes.nodes",
        "kubernetes.topology",
        "kubernetes.versions",
        "kubernetes.dns",
        "kubernetes.certificates",
        "kubernetes.backup",
        "kubernetes.brought",
    ),
    minutes=4.0,
    wanted=wanted,
)
