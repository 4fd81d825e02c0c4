"""Stage ``kubernetes``: containerd and a cluster over control and GPU hosts, where the site wants one."""

from appliance.models.drain import Why
from appliance.models.facts import HostFacts
from appliance.models.site import Host, Role, Site
from appliance.stages.context import RoleContext, Variables
from appliance.stages.kubernetes import checks
from appliance.stages.kubernetes import variables as kubernetes
from appliance.stages.kubernetes.checks import (
    etcd,
    gpus,
    ground,
    images,
    pods,
    services,
    watch,
)
from appliance.stages.kubernetes.restarts import restarts
from appliance.stages.kubernetes.upgrade import READINESS
from appliance.stages.kubernetes.variables import containerd
from appliance.stages.kubernetes.variables.releases import is_older, parse
from appliance.stages.stage import Stage


def wanted(site: Site) -> bool:
    """Whether the site has its own cluster."""
    return site.kubernetes is not None and site.kubernetes.external is None


def variables(context: RoleContext) -> Variables:
    """Of both roles."""
    if not wanted(context.site):
        return kubernetes.leaving(context)
    return {**containerd.variables(context), **kubernetes.variables(context)}


def upgrades(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Whether the host's kubelet has an earlier release than the site."""
    is_wanted = variables["kubernetes_state"] == "present"
    return is_wanted and is_older(_present(facts), parse(str(variables["kubernetes_version"])))


def upgrade(site: Site, host: Host, facts: HostFacts | None, variables: Variables) -> str:
    """From which release to which, and in what order."""
    if variables["kubernetes_first"]:
        order = "etcd saved, then drained; first, alone"
    elif variables["kubernetes_control"]:
        order = "drained; alone, after the first control plane"
    else:
        order = f"drained; {site.gpu.at_once} at a time, after the control planes"
    present = _present(facts).removeprefix("v")
    return f"upgrade {present} → {variables['kubernetes_version']}: {order}"


def _present(facts: HostFacts | None) -> str:
    return facts.kubernetes.version if facts and facts.kubernetes else ""


SETTLES = 300.0
"""The operator's pods pull their images in that time and start the device plugin. When the shared address moves, watches through it hang until Kubernetes's client misses its pings (45 s: 30 s of
silence, 15 s without an answer), and kube-proxy writes no rules meanwhile; hosts that join can move it more than once."""

STAGE = Stage(
    name="kubernetes",
    title="Kubernetes: containerd, control plane, GPU hosts",
    roles=frozenset({Role.CONTROL, Role.GPU}),
    after=("base", "gpu", "storage"),
    facts_from=("fabric",),
    ansible_roles=("containerd", "kubernetes"),
    variables=variables,
    judges=(
        *checks.CHECKS,
        *ground.CHECKS,
        *images.CHECKS,
        *pods.CHECKS,
        *services.CHECKS,
        *etcd.CHECKS,
        *gpus.CHECKS,
        *watch.CHECKS,
    ),
    units=checks.UNITS,
    minutes=4.0,
    wanted=wanted,
    removable=True,
    checks_removal=False,
    drains=upgrades,
    drain_reason=Why.UPGRADE,
    settle_seconds=SETTLES,
    rolls_first=frozenset({Role.CONTROL}),
    plan_note=upgrade,
    restarts=restarts(upgrades),
    readiness=READINESS,
)
