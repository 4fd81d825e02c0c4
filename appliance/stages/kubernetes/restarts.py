"""What stage kubernetes restarts: units, and static pods of the control plane."""

from appliance.models.facts import HostFacts
from appliance.models.site import Host
from appliance.stages.context import Variables
from appliance.stages.restart import Judge, Restart

UNITS = "/etc/systemd/system"
STATIC_PODS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def is_control(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Return whether the host has a control plane."""
    return bool(variables["kubernetes_control"])


def joins_without_learners(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Return whether etcd may lack a quorum while the host joins; true if the host is unknown."""
    joined = facts is not None and "kubernetes" in facts.receipts
    return is_control(host, facts, variables) and not (joined or variables["kubernetes_learners"])


def runs_dns(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Return whether this host configures CoreDNS."""
    return is_control(host, facts, variables) and variables["kubernetes_dns"] == "coredns"


def watches_itself(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Return whether the host checks itself for Kubernetes."""
    return bool(variables["kubernetes_watch"])


def brings_charts(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Return whether this host installs the pod network or the device plugin by Helm."""
    return bool(variables["kubernetes_network_releases"] or variables["kubernetes_gpu_releases"])


def _timer(name: str, maybe: frozenset[str] = frozenset(), *variables: str) -> Restart:
    return Restart(
        f"{name}.timer",
        (f"{UNITS}/{name}.timer",),
        frozenset(variables),
        maybe=maybe,
        on=is_control,
    )


PLACE = frozenset({"kubernetes_address", "kubernetes_control_addresses"})
"""Day of the week for each control host."""


def restarts(upgrades: Judge) -> tuple[Restart, ...]:
    """Return all restarts; ``upgrades``: whether a host's release changes."""
    return (
        Restart(
            "containerd",
            ("/etc/containerd/config.toml",),
            frozenset(
                {
                    *("containerd_cni_folder", "containerd_container", "containerd_devices"),
                    *("containerd_gpu_runtime", "containerd_package", "containerd_release"),
                    *(
                        "containerd_sandbox_image",
                        "containerd_schema",
                        "containerd_systemd_cgroups",
                    ),
                }
            ),
        ),
        Restart(
            "kubelet",
            (
                *(
                    "/etc/kubernetes/appliance/kubelet.yml",
                    f"{UNITS}/kubelet.service.d/50-appliance.conf",
                ),
                *("/etc/default/kubelet", "/etc/sysconfig/kubelet"),
                "/etc/systemd/logind.conf.d/zz-appliance-kubernetes.conf",
            ),
            frozenset({"kubernetes_container", "kubernetes_kubelet"}),
            maybe=frozenset({"kubernetes_version"}),
            by=("kubernetes_upgrade", "kubeadm_ticket"),
            when=upgrades,
        ),
        # kubeadm writes all three anew, and kubelet restarts those whose manifest differs then.
        *(
            Restart(
                pod,
                maybe=frozenset({"kubernetes_kubeadm", "kubernetes_version"}),
                by=("kubeadm_control", "kubernetes_upgrade"),
                when=upgrades,
                on=is_control,
            )
            for pod in STATIC_PODS
        ),
        Restart(
            "etcd",
            maybe=frozenset({"kubernetes_version"}),
            by=("kubernetes_upgrade",),
            on=is_control,
        ),
        Restart(
            "kube-vip",
            ("/etc/kubernetes/manifests/kube-vip.yaml",),
            frozenset(
                {
                    *("kubernetes_virtual_address", "kubernetes_virtual_image"),
                    *("kubernetes_virtual_interface", "kubernetes_virtual_subnet"),
                }
            ),
            maybe=frozenset({"kubernetes_first", "kubernetes_version"}),
            on=lambda host, facts, variables: (
                is_control(host, facts, variables) and bool(variables["kubernetes_virtual_address"])
            ),
        ),
        Restart(
            "appliance-node-watch.timer",
            (f"{UNITS}/appliance-node-watch.timer",),
            on=watches_itself,
        ),
        Restart(
            "CoreDNS",
            variables=frozenset({"kubernetes_dns_spread"}),
            maybe=frozenset({"kubernetes_version"}),
            by=("coredns", "kubernetes_upgrade"),
            on=runs_dns,
        ),
        Restart(
            "kube-apiserver of another control host",
            by=("pkill",),
            on=joins_without_learners,
            before=True,
        ),
        Restart(
            "appliance-pod-routes",
            (f"{UNITS}/appliance-pod-routes.service",),
            frozenset({"kubernetes_pod_routes"}),
            on=lambda host, facts, variables: variables["kubernetes_network"] == "bridge",
        ),
        Restart(
            "pods of Helm releases",
            maybe=frozenset(
                {
                    *("kubernetes_gpu_releases", "kubernetes_gpu_replaced"),
                    "kubernetes_network_releases",
                }
            ),
            by=("helm_release",),
            on=brings_charts,
        ),
        _timer("appliance-etcd", frozenset(), "kubernetes_backup"),
        _timer("appliance-etcd-repair", PLACE),
        _timer("appliance-certificates", PLACE),
    )
