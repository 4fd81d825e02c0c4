"""Checks pods that the cluster itself needs, and their images."""

import re
from collections.abc import Iterator

from appliance.checks.causes import UNASKED, Cause, Effect, Reach, is_of
from appliance.checks.check import (
    Check,
    ClusterCheck,
    HostCheck,
    View,
    failed,
    not_assessed,
    passed,
    warned,
)
from appliance.models.facts import HostFacts
from appliance.models.gap import Gap
from appliance.models.result import CLUSTER, CheckResult, Judgement, Place, place
from appliance.models.site import Host, Role
from appliance.stages.base.causes import FULL_DISK
from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.causes import (
    EXPIRED,
    FULL,
    NO_API,
    NO_PLACE,
    NO_SPARE,
    PRESSED,
    UNPLACED,
    WRONG_TIME,
)
from appliance.stages.kubernetes.checks import DEPLOY, KUBEADM, MEMBERS, silent_members
from appliance.stages.kubernetes.facts import Kubernetes, PlatformPod, Workload
from appliance.stages.kubernetes.variables import control_hosts, takes_pods
from appliance.stages.kubernetes.variables.releases import options
from appliance.text import first_few, plural

STARTING = 120
"""Seconds in which a waiting pod counts as starting; own choice."""
WAITS = frozenset({"", "NotReady", "ContainerCreating", "PodInitializing", UNPLACED})
NO_IMAGE = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"}
    | {"ImageInspectError", "RegistryUnavailable"}
)
NO_CONTENT = frozenset({"CreateContainerConfigError", "FailedMount", "FailedAttachVolume"})
NO_NETWORK = frozenset({"FailedCreatePodSandBox", "NetworkNotReady"})
QUOTA = re.compile(r"exceeded quota: ([a-z0-9.-]+),")
"""The API's refusal of a pod, and the ResourceQuota that it names."""
NAME_SERVER = "kube-system/coredns"
ADDONS = ("coredns", "kube-proxy")
"""Workloads of kubeadm, and the phases that create them."""
OF_CONTROL = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""Static pods that are not ready, or restart, while etcd is slow."""


def _cluster(view: View) -> tuple[Kubernetes | None, Gap]:
    """Return the first control plane with facts about workloads, or why none has them."""
    why = Gap("no host has the role control")
    for host in view.site.with_role(Role.CONTROL):
        facts = view.facts.get(host.name)
        if facts is None:
            why = Gap(f"{host.name}, a control plane, did not answer", (host.name,))
        elif facts.kubernetes is None:
            why = facts.gap("kubernetes", f"{host.name} has no kubelet")
        elif facts.kubernetes.workloads is None:
            why = facts.gap("kubernetes", f"the API of {host.name} was not queried for pods")
        else:
            return facts.kubernetes, Gap("")
    return None, why


def _pods(view: View) -> Iterator[Judgement]:
    known, why = _cluster(view)
    if known is None or known.workloads is None:
        yield not_assessed(CLUSTER, why)
        return
    if not known.workloads:
        yield not_assessed(CLUSTER, "kube-system has no pods and no controllers")
        return
    lost = {node.name for node in known.nodes or () if not node.ready}
    wrong = [said for one in known.workloads for said in _workload(view, known, one, lost)]
    yield from wrong
    if not wrong:
        spaces = sorted({one.namespace for one in known.workloads})
        count = sum(one.ready for one in known.workloads)
        evidence = f"{plural(count, 'pod')} of {', '.join(spaces)}"
        yield passed(CLUSTER, "ready", limit="ready", evidence=evidence)


def _workload(view: View, known: Kubernetes, one: Workload, lost: set[str]) -> Iterator[Judgement]:
    name = f"{one.namespace}/{one.name}"
    ill = [pod for pod in one.pods if pod.host not in lost]
    starting = [pod for pod in ill if _starts(pod)]
    seen: set[tuple[str, str]] = set()
    for pod in ill:
        if pod not in starting and (pod.host, pod.kind) not in seen:
            seen.add((pod.host, pod.kind))
            yield _ill(view, known, one, pod, place(pod.host or CLUSTER, name))
    if one.ready + len(one.pods) < one.wanted and one.why:
        yield unmade(place(CLUSTER, name), one)
    elif one.pods and not ill and not one.ready:
        hosts = tuple(sorted({pod.host for pod in one.pods}))
        cause = f"no pod of {name} is ready: their hosts are not ({', '.join(hosts)})"
        fix = f"bring {first_few(hosts)} back, or: kubectl delete node {hosts[0]}, and {DEPLOY} once it is back"
        yield failed(place(CLUSTER, name), cause, fix, value=0, limit=one.wanted, names=hosts)
    elif starting and not one.ready:
        yield not_assessed(place(CLUSTER, name), f"{starting[0].name} is starting")
    elif one.wanted == 0 and name == NAME_SERVER:
        cause = f"{name} is scaled to 0 pods, so no service name resolves"
        fix = "kubectl -n kube-system scale deployment coredns --replicas=2"
        yield failed(place(CLUSTER, name), cause, fix, value=0, limit=2)
    elif _alone(view, one, lost):
        cause = f"all {one.ready} pods of {name} run on {one.hosts[0]}, and all stop with that host"
        fix = f"kubectl -n {one.namespace} rollout restart deployment {one.name}"
        yield warned(place(CLUSTER, name), cause, fix, value=1, limit=2, unit="hosts")


def unmade(at: Place, one: Workload) -> Judgement:
    """Report a workload whose pods the API refuses. The remedy restarts it, because its controller waits longer after each refusal."""
    cause = f"{one.namespace}/{one.name} has {one.ready} of {plural(one.wanted, 'pod')}: {one.why}"
    workload, quota = f"{one.kind.lower()} {one.name}", QUOTA.search(one.why)
    fix = f"kubectl -n {one.namespace} describe {workload}"
    if quota:
        fix = (
            f"if the quota is not needed: kubectl -n {one.namespace} delete resourcequota {quota[1]}; "
            f"kubectl -n {one.namespace} rollout restart {workload}"
        )
    return failed(at, cause, fix, value=one.ready, limit=one.wanted)


def _starts(pod: PlatformPod) -> bool:
    return pod.kind in WAITS and pod.age_s is not None and pod.age_s < STARTING


def _alone(view: View, one: Workload, lost: set[str]) -> bool:
    several = one.kind == "Deployment" and one.ready > 1 and len(one.hosts) == 1
    return several and takes_pods(view.site) - len(lost) > 1


def _ill(view: View, known: Kubernetes, one: Workload, pod: PlatformPod, at: Place) -> Judgement:
    """Report a pod that does not run, with cause and remedy."""
    what = f"pod {pod.name}"
    said = f": {pod.said}" if pod.said else ""
    where = f" on {pod.host}" if pod.host else ""
    if pod.kind in NO_IMAGE:
        cause = f"{what} cannot start{where}: {pod.kind}: image {pod.image} is missing and cannot be pulled"
        return failed(at, cause, _image_fix(view, pod), value=pod.kind, evidence=pod.said)
    cause = f"{what} is not ready{where}: {pod.kind}{said}"
    look = f"kubectl -n {one.namespace} describe pod {pod.name}"
    if pod.kind == UNPLACED:
        cause = f"{what} is Pending, because no host accepts it{said}"
        fix = f"kubectl get nodes: uncordon a host, or bring one back; {look}"
        if taints := _taints(known):
            fix = f"if the taint is not needed: {taints}; {look}"
        elif takes_pods(view.site) < 2:
            fix = f"{DEPLOY} lets all pods of CoreDNS run on one host where no other can take them; {look}"
        closed = any(node.cordoned or not node.ready for node in known.nodes or ())
        judge = warned if closed and one.ready else failed
        return judge(at, cause, fix, value=pod.kind)
    if pod.kind == "OOMKilled":
        fix = f"{look}: raise its memory limit, or free memory on {pod.host}"
    elif pod.kind in NO_CONTENT:
        fix = f"{look}; {_content_fix(view, one)}"
    elif pod.kind in NO_NETWORK:
        fix = f"{DEPLOY} --hosts {pod.host} writes the network's files again; {look}"
    elif pod.kind == "CrashLoopBackOff":
        fix = f"kubectl -n {one.namespace} logs {pod.name} --previous"
    else:
        fix = f"{look}; kubectl -n {one.namespace} logs {pod.name}"
    silent = silent_members(view) if _waits_for_etcd(pod) else ()
    return failed(at, cause, fix, value=pod.kind, names=silent)


def _taints(known: Kubernetes) -> str:
    """Return the command that removes a foreign taint from all nodes; empty if no node has one."""
    nodes = known.nodes or ()
    taint = next((taint for node in nodes for taint in node.taints), "")
    names = " ".join(node.name for node in nodes if taint in node.taints)
    return f"kubectl taint nodes {names} {taint}-" if taint else ""


def _waits_for_etcd(pod: PlatformPod) -> bool:
    return pod.name in {f"{name}-{pod.host}" for name in OF_CONTROL}


def _content_fix(view: View, one: Workload) -> str:
    """Return the remedy for deleted objects of kubeadm, which no deployment recreates; its phase also resets the stage's changes of CoreDNS."""
    first = control_hosts(view.site)[0].name
    again = f"{DEPLOY} --stage kubernetes --full --hosts {first}"
    if one.name in ADDONS and one.namespace == NAME_SERVER.partition("/")[0]:
        return f"on {first}: kubeadm init phase addon {one.name} --config {KUBEADM}; then {again}"
    return f"create the Secret, ConfigMap or volume that it names, or {again}"


def _image_fix(view: View, pod: PlatformPod) -> str:
    if options(view.site).offline("images"):
        return f"{DEPLOY} --hosts {pod.host} imports it from kubernetes.source; if the image is missing in the source, add it to images/hosts"
    return f"crictl pull {pod.image} on {pod.host} shows why; check the registry, its mirror and its certificate"


def _stored(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    if not options(view.site).offline("images"):
        return
    known = facts.kubernetes
    if known is None or known.images_gone is None:
        why = facts.gap("kubernetes", "the list of imported images was not read")
        yield not_assessed(host.name, why)
    elif known.images_gone:
        cause = f"containerd lacks {first_few(known.images_gone)}, which no registry serves here"
        fix = f"{DEPLOY} --hosts {host.name}"
        yield failed(host.name, cause, fix, value=len(known.images_gone), limit=0, unit="images")
    else:
        yield passed(host.name, 0, limit=0, unit="images")


def _of_name_server(cause: CheckResult, effect: CheckResult) -> bool:
    del effect
    return NAME_SERVER in cause.parts


def _of_service(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether the cause's static pod, named after its host (kube-scheduler-head), runs the effect's service."""
    pods = [part.rpartition("/")[2] for part in cause.parts]
    return any(pod in (name, f"{name}-{cause.host}") for name in effect.parts for pod in pods)


def _of_api_server(cause: CheckResult, effect: CheckResult) -> bool:
    return f"kube-apiserver-{cause.host}" in {part.rpartition("/")[2] for part in effect.parts}


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.STORED_IMAGES,
        "No image of the offline source is missing",
        MEMBERS,
        _stored,
        "A site with kubernetes.source has no registry: pods start from the images that stage kubernetes imported on each host. Usual "
        "causes of a missing image: it was removed with crictl rmi or ctr images rm, the disk was full (kubelet removes unused images if "
        "containerd is older than 1.7), or /var/lib/containerd is new.",
        "the images of the offline source",
        causes=(
            Cause(ids.SERVICES, "containerd has the images", when=is_of("containerd")),
            FULL_DISK,
            PRESSED,
        ),
    ),
    ClusterCheck(
        ids.PODS,
        "The pods of the cluster itself are ready",
        _pods,
        "DNS, kube-proxy, the pod network and all other pods in kube-system (and in the namespaces of Calico). A pod that cannot start is "
        "reported with its host and reason: image, scheduling, crash, memory, missing Secret, or quota. If all pods of a Deployment run on "
        "one host, that is a warning, because the loss of that host stops all of them. A pod younger than two minutes may still be "
        "starting.",
        causes=(
            UNASKED,
            NO_API,
            FULL,
            Cause(
                ids.STORED_IMAGES,
                "a pod starts from the missing image",
                when=lambda cause, effect: effect.value in NO_IMAGE,
            ),
            Cause(ids.KUBELET, "kubelet starts the pods of its host"),
            Cause(ids.API, "the pod is this API server", when=_of_api_server),
            NO_SPARE,
            WRONG_TIME,
            EXPIRED,
            FULL_DISK,
            PRESSED,
            NO_PLACE,
            Cause(ids.NODES, "its pods are on that host", Reach.NAMED),
        ),
        explains=(
            Effect(ids.DNS, "the name server is this pod", Reach.SITE, _of_name_server),
            Effect(ids.SERVICES, "the service is this pod", when=_of_service),
        ),
    ),
)
