"""Requirements of a cluster: swap, kernel modules, used ports and routes, existing clusters."""

from __future__ import annotations

import socket

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.lines import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

OURS = "/etc/kubernetes/appliance"
"""Files that stage kubernetes creates before the cluster."""
MODULES = ("br_netfilter", "overlay")
PORTS = (2379, 2380, 6443, 10250, 10256, 10257, 10259)
"""Ports of etcd, API server, kubelet, kube-proxy, controller manager and scheduler in kubeadm's configuration."""
LISTENS = "0A"
CLUSTERS = (
    "/etc/kubernetes/admin.conf",
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/etcd/member",
    "/etc/rancher/k3s/k3s.yaml",
    "/etc/rancher/rke2/rke2.yaml",
    "/var/lib/rancher/k3s/agent",
    "/var/lib/rancher/rke2/agent",
    "/var/snap/microk8s/current",
    "/var/lib/k0s/pki",
)
"""Files of kubeadm, k3s, RKE2, MicroK8s and k0s on a host of a cluster."""
UP = 1
"""The flag of a route that is in use (linux/route.h)."""


def collect(ask: Ask) -> Facts:
    """The area ``ground``."""
    ours = files.exists(ask.path(OURS))
    return {
        "ground": {
            "ours": ours,
            "swaps": swaps(files.read(ask.path("/proc/swaps"))),
            "modules": {name: module(ask, name) for name in MODULES},
            # The cluster's own are no obstacle to it, and whose a port is takes a look at every process.
            "listeners": {} if ours else listeners(ask),
            "routes": [] if ours else routes(files.read(ask.path("/proc/self/net/route"))),
            "clusters": [] if ours else [at for at in CLUSTERS if files.exists(ask.path(at))],
        }
    }


def swaps(text: str) -> dict[str, int]:
    """Return bytes in use of each swap area."""
    rows = [line.split() for line in lines_of(text)[1:]]
    return {row[0].replace("\\040", " "): int(row[3]) * 1024 for row in rows if len(row) > 3}


def module(ask: Ask, name: str) -> str:
    """Return "loaded" (or built in), "there" if it can be loaded, else ""."""
    if files.exists(f"{ask.path('/sys/module/')}{name}"):
        return "loaded"
    folder = ask.path("/lib/modules/" + files.text(ask.path("/proc/sys/kernel/osrelease")))
    file = f"/{name}.ko"
    if file in files.text(folder + "/modules.builtin"):
        return "loaded"
    closed = files.text(ask.path("/proc/sys/kernel/modules_disabled")) == "1"
    return "there" if file in files.text(folder + "/modules.dep") and not closed else ""


def listeners(ask: Ask) -> dict[str, str]:
    """Return the program on each port that a cluster needs; "" if it is unknown."""
    taken: dict[str, str] = {}
    tables = [ask.path("/proc/self/net/" + name) for name in ("tcp", "tcp6")]
    # A kernel without IPv6 has no second one.
    for table in [tables[0], *filter(files.exists, tables[1:])]:
        for line in lines_of(files.read(table))[1:]:
            words = line.split()
            if len(words) > 9 and words[3] == LISTENS:
                port = int(words[1].rpartition(":")[2], 16)
                if port in PORTS:
                    taken[words[9]] = str(port)
    found = dict.fromkeys(taken.values(), "")
    for inode, program in _holders(ask, set(taken)).items():
        found[taken[inode]] = program
    return found


def _holders(ask: Ask, inodes: set[str]) -> dict[str, str]:
    """Return programs by the inode of their sockets."""
    found: dict[str, str] = {}
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    for pid in files.names(ask.path("/proc")) if wanted else []:
        if not pid.isdigit():
            continue
        folder = ask.path(f"/proc/{pid}/fd")
        for number in files.names(folder):
            inode = wanted.get(files.link(f"{folder}/{number}") or "")
            if inode:
                found[inode] = files.text(ask.path(f"/proc/{pid}/comm"))
    return found


def routes(text: str) -> list[str]:
    """Return routes except the default one, such as "10.0.0.0/24 eno1"."""
    found = []
    for line in lines_of(text)[1:]:
        words = line.split()
        if len(words) < 8 or words[7] == "00000000" or not int(words[3], 16) & UP:
            continue
        network, mask = (bytes.fromhex(words[n])[::-1] for n in (1, 7))
        prefix = bin(int.from_bytes(mask, "big")).count("1")
        found.append(f"{socket.inet_ntoa(network)}/{prefix} {words[0]}")
    return found
