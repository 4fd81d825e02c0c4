"""kubelet's configuration for one host: authorized clients, and resources for pods."""

from appliance.models.site import Role
from appliance.stages.context import RoleContext
from appliance.stages.kubernetes.site import KUBELETS_OWN
from appliance.stages.kubernetes.variables.releases import CIPHERS, SOCKET, Release, options
from appliance.stages.units import RUNS

KUBE_MEMORY_MIB = 1024
EVICTION_MIB = 512
CONTAINER_RESERVE_MIB = 256
POD_PROCESSES = 65_536
"""Maximum processes and threads of one pod: far above data loaders for eight GPUs, low enough to stop a fork bomb."""


def kubelet(context: RoleContext, chosen: Release, dns: str, container: bool) -> dict[str, object]:
    """Return the KubeletConfiguration. A container cannot assign its machine's processors and memory."""
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
    """Return the reserved memory by NUMA node; kubelet requires exactly this sum."""
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
    """Return the file with the host's name servers; systemd-resolved's stub does not work in a pod. kubeadm checks the unit, too."""
    facts = context.own
    unit = facts.units.get("systemd-resolved.service") if facts else None
    stub = unit is not None and unit.active in RUNS
    return "/run/systemd/resolve/resolv.conf" if stub else "/etc/resolv.conf"
