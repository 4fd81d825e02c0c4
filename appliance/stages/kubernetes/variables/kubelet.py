"""kubelet's configuration for one host: who may talk to it, and what of the host pods may have."""

from appliance.models.site import Role
from appliance.stages.context import RoleContext
from appliance.stages.kubernetes.site import KUBELETS_OWN
from appliance.stages.kubernetes.variables.releases import CIPHERS, SOCKET, Release, options
from appliance.stages.units import RUNS

KUBE_MEMORY_MIB = 1024
EVICTION_MIB = 512
CONTAINER_RESERVE_MIB = 256
POD_PROCESSES = 65_536
"""Processes and threads of one pod: what loads data for eight GPUs stays far below it, what only makes more of itself ends there."""


def kubelet(context: RoleContext, chosen: Release, dns: str, container: bool) -> dict[str, object]:
    """The KubeletConfiguration. In a container the machine's processors and memory are not its own to hand out."""
    found: dict[str, object] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True, "cacheTTL": "2m0s"},
            "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs" if container else "systemd",
        "clusterDNS": [dns],
        "clusterDomain": "cluster.local",
        "staticPodPath": "/etc/kubernetes/manifests",
        "rotateCertificates": True,
        "failSwapOn": not container,
        "containerLogMaxSize": "50Mi",
        "resolvConf": _resolver(context),
        "seccompDefault": True,
        "podPidsLimit": POD_PROCESSES,
        "tlsCipherSuites": list(CIPHERS),
        "containerRuntimeEndpoint": SOCKET,
        **_reserved(context, container),
    }
    if not container:
        found |= {"shutdownGracePeriod": "60s", "shutdownGracePeriodCriticalPods": "20s"}
    if chosen.minor >= 31 and container:
        # From 1.35 on kubelet refuses to run on cgroup v1 by default, and a container has what its machine has.
        found["failCgroupV1"] = False
    places = options(context.site).kubelet.max_pods
    if Role.GPU in context.host.roles and places != KUBELETS_OWN:
        found["maxPods"] = places
    if Role.GPU in context.host.roles and not container:
        found |= _policies(context)
    return found


def _policies(context: RoleContext) -> dict[str, object]:
    wanted = options(context.site).kubelet
    found: dict[str, object] = {
        "cpuManagerPolicy": wanted.cpu_manager,
        "topologyManagerPolicy": wanted.topology,
        "topologyManagerScope": "pod",
    }
    if wanted.memory_manager == "static":
        found |= {"memoryManagerPolicy": "Static", "reservedMemory": _per_node(context)}
    return found


def _reserved(context: RoleContext, container: bool) -> dict[str, object]:
    wanted = options(context.site).kubelet
    memory = CONTAINER_RESERVE_MIB if container else wanted.system_memory_mib
    found: dict[str, object] = {
        "systemReserved": {"memory": f"{memory}Mi"},
        "evictionHard": {
            "memory.available": f"{EVICTION_MIB if not container else 100}Mi",
            "nodefs.available": "5%",
            "imagefs.available": "5%",
            # A threshold that is left away beside others is none. A container has the inodes of its machine.
            **({} if container else {"nodefs.inodesFree": "5%", "imagefs.inodesFree": "5%"}),
        },
    }
    if not container:
        found["systemReserved"] = {"cpu": str(wanted.system_cpus), "memory": f"{memory}Mi"}
        found["kubeReserved"] = {"cpu": "500m", "memory": f"{KUBE_MEMORY_MIB}Mi"}
    return found


def _per_node(context: RoleContext) -> list[dict[str, object]]:
    """Everything kept from pods, spread over the NUMA nodes: kubelet refuses any other sum."""
    total = options(context.site).kubelet.system_memory_mib + KUBE_MEMORY_MIB + EVICTION_MIB
    facts = context.own
    known = [node.node for node in facts.numa] if facts else []
    nodes = known or list(range(context.profile.hardware.host.numa_nodes))
    share, rest = divmod(total, len(nodes))
    return [
        {"numaNode": node, "limits": {"memory": f"{share + (rest if not index else 0)}Mi"}}
        for index, node in enumerate(nodes)
    ]


def _resolver(context: RoleContext) -> str:
    """The file with the host's name servers; systemd-resolved's stub does not work in a pod. kubeadm checks the unit, too."""
    facts = context.own
    unit = facts.units.get("systemd-resolved.service") if facts else None
    stub = unit is not None and unit.active in RUNS
    return "/run/systemd/resolve/resolv.conf" if stub else "/etc/resolv.conf"
