"""Checks a Kubernetes cluster: kubelets, API, nodes, DNS, releases, certificates and backups."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from appliance.checks.causes import (
    SILENT,
    UNASKED,
    Cause,
    Effect,
    Reach,
    both,
    is_of,
    is_unknown,
)
from appliance.checks.check import (
    CONTROL_HOSTS,
    GPU_HOSTS,
    Check,
    ClusterCheck,
    HostCheck,
    View,
    failed,
    not_assessed,
    passed,
    warned,
)
from appliance.models.bound import Bound
from appliance.models.drain import HEALTH, Maintenance
from appliance.models.facts import HostFacts
from appliance.models.gap import Gap
from appliance.models.result import CheckResult, Judgement
from appliance.models.site import Host, Owner, Role
from appliance.stages.base import ids as base_ids
from appliance.stages.base.causes import FULL_DISK
from appliance.stages.fabric import ids as fabric_ids
from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.causes import (
    EXPIRED,
    FULL,
    NO_API,
    NO_ROUTES,
    NO_SPARE,
    PRESSURE,
    UNFIT,
    WRONG_DATE,
    WRONG_TIME,
)
from appliance.stages.kubernetes.checks.certificates import judge_certificates
from appliance.stages.kubernetes.checks.topology import judge_tiers
from appliance.stages.kubernetes.facts import Kubernetes, KubernetesNode
from appliance.stages.maintenance import in_maintenance
from appliance.text import plural
from appliance.watch.hardware import BY_OPERATORS

DEPLOY = "appliance deploy"
ADMIN, KUBEADM = "/etc/kubernetes/admin.conf", "/etc/kubernetes/appliance/kubeadm.yml"
ON_DEMAND = "appliance: MIG on demand"
"""Reason of a host that cordons itself while it divides its GPUs for a pod."""
OF_ETCD = "etcd"
"""Part of the reason of an API server that waits for etcd."""
MEMBERS = frozenset({Role.CONTROL, Role.GPU})
UNITS = (
    *("containerd.service", "kubelet.service", "appliance-etcd.timer"),
    *("appliance-etcd-repair.timer", "appliance-certificates.timer", "systemd-resolved.service"),
)
"""What the probe must read."""
"""The checks of an external cluster, which no stage creates."""
RELIEF = {
    "disk": "on {0}: du -xah /var /opt | sort -h | tail shows what can be removed, until 15 % are free; "
    f"then {DEPLOY} --hosts {{0}}, which imports removed images; pods start after 5 minutes",
    "memory": "ps aux --sort=-rss on {0} shows the largest processes; end or limit those that are not needed",
    "process IDs": "ps -eo user= | sort | uniq -c | sort -n on {0} shows whose processes these are; end those that are not needed",
}
"""Remedies by the lacking resource of a kubelet; ``{host}`` is the host."""
TAKEN = "; port "
"""Text of the probe about kubelet, before a port in use by another program."""
NO_NETWORK = "network plugin"
"""Part of kubelet's reason for a node without a pod network."""
NETWORKS = "/etc/cni/net.d/"
LATE = 2
"""A backup is late after this many times its interval."""


def members(view: View) -> tuple[Host, ...]:
    """Return hosts of the cluster; of an external one, those it gives work to."""
    if view.site.external_cluster:
        return tuple(
            h for h in view.site.with_role(Role.GPU) if view.site.owner(h) is Owner.KUBERNETES
        )
    return tuple(h for h in view.site.hosts if MEMBERS.intersection(h.roles))


def silent_members(view: View) -> tuple[str, ...]:
    """Return control hosts without facts: those that do not answer, and those that were not queried."""
    control = view.site.with_role(Role.CONTROL)
    return tuple(host.name for host in control if host.name not in view.facts)


def _known(host: Host, facts: HostFacts) -> Kubernetes | Judgement:
    if facts.kubernetes is not None:
        return facts.kubernetes
    why = facts.gap("kubernetes", f"{host.name} has no kubelet")
    return not_assessed(host.name, why)


def _kubelet(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    del view
    known = _known(host, facts)
    if isinstance(known, Judgement):
        yield known
    elif not known.kubelet:
        yield not_assessed(host.name, "kubelet was not queried")
    elif known.kubelet == "ok":
        yield passed(host.name, "ok", limit="ok", evidence="/healthz")
    else:
        fix = f"journalctl -u kubelet -u containerd on {host.name}, then {DEPLOY}"
        cause = f"kubelet {known.kubelet}"
        if TAKEN in known.kubelet:
            port = known.kubelet.rpartition(TAKEN)[2].split()[0]
            fix = f"on {host.name}: ss -ltnp 'sport = :{port}' shows that program: end it; systemctl restart kubelet"
        yield failed(host.name, cause, fix)


def _dns(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    del view
    known = _known(host, facts)
    if isinstance(known, Judgement):
        yield known
    elif not known.dns:
        yield not_assessed(host.name, "kubelet's configuration has no name server")
    elif known.dns == "ok":
        yield passed(host.name, "ok", evidence="kubernetes.default.svc.cluster.local")
    else:
        fix = (
            "kubectl -n kube-system get pods,endpoints -o wide shows the pods of DNS; "
            "kubectl -n kube-system logs -l k8s-app=kube-proxy --prefix"
        )
        yield failed(host.name, known.dns, fix)


def _api(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    known = _known(host, facts)
    if isinstance(known, Judgement):
        yield known
    elif known.api is None:
        yield not_assessed(host.name, "admin.conf is missing, so the API was not queried")
    elif known.api == "ok":
        yield passed(host.name, "ok", limit="ok", evidence="/readyz")
    else:
        fix = f"on {host.name}: crictl ps -a or ctr -n k8s.io tasks ls, and journalctl -u kubelet"
        if known.stopped:
            fix = "appliance etcd restore with the same backup continues; appliance etcd abandon reverts it"
        cause = f"the API is not ready: {known.api}"
        if known.api.startswith(ADMIN):
            cause = f"the API was not queried: {known.api}"
            fix = f"on {host.name}: rm {ADMIN}; kubeadm init phase kubeconfig admin --config {KUBEADM}"
        silent = silent_members(view) if OF_ETCD in known.api else ()
        yield failed(host.name, cause, fix, names=silent)


def _certificates(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    known = _known(host, facts)
    if isinstance(known, Judgement):
        yield known
        return
    yield judge_certificates(view, host, facts, known.certificates)


def _backup(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    known = _known(host, facts)
    if isinstance(known, Judgement):
        yield known
        return
    if known.backups is None:
        yield not_assessed(host.name, "the directory of backups is unknown on this host")
        return
    hours = view.site.kubernetes.etcd_backup.every_hours if view.site.kubernetes else 0
    most = LATE * hours
    fix = f"on {host.name}: systemctl status appliance-etcd.service, then appliance-etcd save"
    told: dict[str, Any] = {
        "value": known.backup_age_h,
        "unit": "h",
        "limit": most,
        "limit_source": "site",
    }
    if not known.backups or known.backup_age_h is None:
        yield failed(host.name, "there is no backup of etcd", fix, limit=most, unit="h")
    elif known.backup_age_h > most:
        cause = f"the newest backup of etcd is {known.backup_age_h:.0f} h old"
        yield failed(host.name, cause, fix, **told)
    else:
        yield passed(host.name, **told)


def listed_nodes(view: View) -> tuple[tuple[KubernetesNode, ...] | None, Gap]:
    """Return the nodes of the first control plane that answers, or the reason why none does."""
    if view.site.external_cluster:
        if view.external is None:
            return None, Gap("the external cluster was not queried")
        return view.external.nodes, Gap(view.external.api)
    why = Gap("no host has the role control")
    for host in view.site.with_role(Role.CONTROL):
        facts = view.facts.get(host.name)
        if facts is None:
            why = Gap(f"{host.name}, a control plane, did not answer", (host.name,))
        elif facts.kubernetes is None:
            why = facts.gap("kubernetes", f"{host.name} has no kubelet")
        elif facts.kubernetes.nodes is None:
            api, none = facts.kubernetes.api, f"the nodes were not read from the API of {host.name}"
            why = facts.gap("kubernetes", none)
            why = why if api == "ok" else why.of(api or none)
        else:
            return facts.kubernetes.nodes, Gap("")
    return None, why


def _external(view: View) -> Iterator[Judgement]:
    found = view.external
    if not view.site.external_cluster:
        return
    if found is None:
        yield not_assessed("cluster", "it was not queried")
    elif found.api != "ok":
        yield failed("cluster", found.api, found.fix, limit="answers")
    else:
        count = len(found.nodes or ())
        evidence = f"{plural(count, 'node')}, by {view.site.external_cluster}"
        yield passed("cluster", "answers", limit="answers", evidence=evidence)


def _nodes(view: View) -> Iterator[Judgement]:
    nodes, why = listed_nodes(view)
    by_name = {node.name: node for node in nodes or ()}
    for host in members(view):
        node = by_name.get(host.name)
        if nodes is None:
            yield not_assessed(host.name, why)
        elif node is None:
            cause = f"the cluster has no node {host.name}"
            fix = f"{DEPLOY} --hosts {host.name}"
            if view.site.external_cluster:
                fix = f"join {host.name} to the cluster under this name, or give it owner: slurm"
            yield failed(host.name, cause, fix, limit="ready")
        else:
            yield _node(view, host, node)


def _node(view: View, host: Host, node: KubernetesNode) -> Judgement:
    owner = view.site.owner(host).value
    if planned := Maintenance.read(node.cordoned_for):
        return in_maintenance(host.name, planned, "ready")
    if not node.ready:
        cause = f"not ready: {node.reason or 'no reason given'}"
        fix = f"journalctl -u kubelet -u containerd on {host.name}"
        if NO_NETWORK in node.reason.lower():
            fix = f"{DEPLOY} --hosts {host.name} writes the network's files again; {fix}"
        return failed(host.name, cause, fix, value="not ready", limit="ready")
    if node.owner != owner:
        cause = f"has the taint of {node.owner}, but its owner in the site is {owner}"
        return failed(host.name, cause, DEPLOY, value=node.owner, limit=owner)
    if node.pressure:
        return _pressed(host, node.pressure[0])
    if node.cordoned:
        return _cordoned(host, node)
    if node.taints:
        cause = f"has the taint {node.taints[0]}: pods without a toleration are not placed there"
        fix = f"if the taint is not needed: kubectl taint nodes {host.name} " + " ".join(
            f"{taint}-" for taint in node.taints
        )
        return warned(host.name, cause, fix)
    return passed(host.name, "ready", limit="ready", evidence=f"owner {owner}")


def _pressed(host: Host, lacks: str) -> Judgement:
    """Report nodes under pressure: kubelet's thresholds are higher than those of base.disk, and pressure lasts 5 minutes longer."""
    cause = f"kubelet reports {lacks} pressure: it evicts pods and accepts no new ones"
    return failed(host.name, cause, RELIEF[lacks].format(host.name), value=PRESSURE, limit="ready")


def _cordoned(host: Host, node: KubernetesNode) -> Judgement:
    """Return the result for a cordoned node. The appliance ends its own cordons; doing so by hand would interrupt its work."""
    cause = "cordoned: takes no new pods"
    told: dict[str, Any] = {"value": "cordoned", "limit": "ready"}
    if not node.cordoned_for:
        fix = f"when its reason no longer applies: kubectl uncordon {host.name}"
        return failed(host.name, cause, fix, **told)
    cause += f" ({node.cordoned_for})"
    if node.cordoned_for.startswith(HEALTH):
        check = node.cordoned_for[len(HEALTH) :].partition(" ")[0]
        fix = f"fix the fault, then {DEPLOY} --hosts {host.name}; or wait: a fit host returns by itself (kubernetes.watch)"
        if check in BY_OPERATORS:
            fix = f"fix the fault, which a reboot hides; then on {host.name}: appliance-node-watch resume"
        return failed(host.name, cause, fix, names=(check,), **told)
    if node.cordoned_for == ON_DEMAND:
        fix = f"wait a minute; if it stays: journalctl -u appliance-mig-demand on {host.name}"
        return warned(host.name, cause, fix, **told)
    return failed(host.name, cause, f"{DEPLOY} continues and uncordons it", **told)


def _topology(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    del facts
    nodes, why = listed_nodes(view)
    yield judge_tiers(view, host, nodes, why)


def _versions(view: View) -> Iterator[Judgement]:
    nodes, why = listed_nodes(view)
    if not nodes:
        none = Gap("the cluster has no nodes")
        yield not_assessed("cluster", why if nodes is None else none)
        return
    found = sorted({node.version for node in nodes})
    minors = {".".join(version.split(".")[:2]) for version in found}
    wanted = "one release" if view.site.external_cluster else _wanted(view)
    told: dict[str, Any] = {"value": ", ".join(found), "limit": wanted}
    if "" in found:
        yield not_assessed("cluster", "a node does not report its kubelet's release")
    elif (view.site.external_cluster and len(minors) == 1) or minors == {
        f"v{'.'.join(wanted.split('.')[:2])}"
    }:
        yield passed("cluster", **told)
    else:
        cause = f"kubelets run {' and '.join(found)}, the site requires {wanted}"
        fix = f"{DEPLOY}: it upgrades the older ones, host by host (docs/kubernetes.md)"
        if view.site.external_cluster:
            fix = "finish the upgrade of the external cluster"
        yield failed("cluster", cause, fix, **told)


def _wanted(view: View) -> str:
    given = view.site.kubernetes
    chosen = (given.version if given else None) or view.site.software.get("kubernetes")
    return chosen or view.profile.software.kubernetes or ""


def _not_ready(cause: CheckResult, effect: CheckResult) -> bool:
    del cause
    return effect.value == "not ready"


def _lacks_network(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether the node is not ready and only files of its pod network were changed."""
    files = (name.startswith(f"file {NETWORKS}") for name in effect.names)
    return cause.value == "not ready" and bool(effect.names) and all(files)


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.KUBELET,
        "kubelet runs and is healthy",
        MEMBERS,
        _kubelet,
        "kubelet starts the pods of its host and reports that the host is alive. Without it, the host is not ready after 40 s, and its pods "
        "move away after five minutes. Usual causes: containerd is down, swap is on, or its certificate has expired.",
        causes=(
            Cause(
                ids.SERVICES,
                "kubelet requires it",
                when=is_of("containerd"),
            ),
            WRONG_TIME,
            FULL_DISK,
            Cause(ids.SWAP, "kubelet does not start with swap"),
            Cause(
                ids.GROUND,
                "kubelet does not start on control groups of version 1",
                when=is_of("cgroups"),
            ),
        ),
    ),
    HostCheck(
        ids.API,
        "The API is ready",
        CONTROL_HOSTS,
        _api,
        "The endpoint /readyz of each control plane's API server, which includes etcd. If it fails, running pods continue, but nothing new "
        "starts. Usual causes: etcd's disk is full or slow, a certificate has expired, or a static pod's manifest is invalid.",
        causes=(WRONG_TIME, EXPIRED, FULL_DISK, FULL, NO_SPARE),
    ),
    ClusterCheck(
        ids.EXTERNAL,
        "The external cluster answers",
        _external,
        "A site may use an existing Kubernetes cluster (kubernetes.external). The control machine queries its API for nodes with that "
        "kubeconfig. Usual causes of a failure: the token has expired, or the network does not reach the API server.",
        of_external=True,
    ),
    ClusterCheck(
        ids.NODES,
        "Every host is a ready node of its owner",
        _nodes,
        "Each control and GPU host must be a node of the cluster, ready and not cordoned. Its taint must name the owner in the site: a host "
        "of another owner runs no pods.",
        of_external=True,
        causes=(
            SILENT,
            UNASKED,
            NO_API,
            WRONG_TIME,
            Cause(
                ids.SERVICES,
                "kubelet requires it",
                when=lambda cause, effect: (
                    is_of("containerd")(cause, effect) and effect.value != "cordoned"
                ),
            ),
            Cause(
                ids.KUBELET,
                "a node is ready while its kubelet reports so",
                when=_not_ready,
            ),
            *(replace(one, when=both(one.when, _not_ready)) for one in (EXPIRED, FULL)),
            replace(FULL_DISK, when=lambda cause, effect: effect.value != "cordoned"),
            UNFIT,
            Cause(
                ids.RETURN,
                "the fault that caused the cordon has ended, but the cordon remains",
                when=lambda cause, effect: bool(effect.names),
            ),
        ),
        explains=(
            Effect(
                base_ids.DRIFT, "the network of its pods is configured there", when=_lacks_network
            ),
        ),
    ),
    HostCheck(
        ids.TOPOLOGY,
        "Nodes are labelled with their place in the fabric",
        GPU_HOSTS,
        _topology,
        "The scheduler places the pods of a job near each other by the labels fabric.topograph.run/tier-1 and higher. They must match the "
        "current discovery. A class without InfiniBand has none. They differ after hosts were moved to other switches, or after a change by "
        "hand.",
        "the tree of appliance fabric topology --format kubernetes",
        causes=(
            UNASKED,
            NO_API,
            Cause(
                fabric_ids.SM,
                "without a subnet manager discovery finds no port",
                Reach.SITE,
                lambda cause, effect: cause.host is None and is_unknown(cause, effect),
            ),
            Cause(
                fabric_ids.TOPOLOGY,
                "the tree is incomplete without that host",
                Reach.NAMED,
                is_unknown,
            ),
        ),
    ),
    ClusterCheck(
        ids.VERSIONS,
        "All kubelets are of the site's release",
        _versions,
        "Releases of all kubelets. Several minor releases indicate an unfinished upgrade. Kubernetes supports this only for a limited time, "
        "and never a kubelet newer than the API server.",
        of_external=True,
        causes=(
            UNASKED,
            NO_API,
        ),
    ),
    HostCheck(
        ids.DNS,
        "Service names resolve",
        MEMBERS,
        _dns,
        "A DNS query for the API's service from every host, through the service network, kube-proxy and the pod network. It fails if any of "
        "these fails.",
        causes=(
            Cause(ids.SERVICES, "without it no service has an address", when=is_of("kube-proxy")),
            NO_ROUTES,
        ),
    ),
    HostCheck(
        ids.CERTIFICATES,
        "No certificate is about to expire",
        MEMBERS,
        _certificates,
        "The certificate of a host that expires first, and its date. kubeadm's certificates are valid for one year. The timer "
        "appliance-certificates renews them on each control host 60 days before, and kubelet renews its own. An expired certificate stops "
        "the control plane, or the host's kubelet.",
        "21 days (own choice)",
        Bound("days", below=365),
        causes=(WRONG_DATE,),
    ),
    HostCheck(
        ids.BACKUP,
        "etcd has a recent backup",
        CONTROL_HOSTS,
        _backup,
        "etcd stores all objects of the cluster. Every control plane takes a backup every few hours, and appliance etcd restore restores "
        "one. If it is late, the timer stopped or the disk is full.",
        "twice kubernetes.etcd_backup.every_hours of the site",
        causes=(FULL_DISK,),
    ),
)
