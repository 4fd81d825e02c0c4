"""Ways to cheat a quota, a pool, a limit or a neighbour, as what is sent to the API server; and honest work beside them.

Written down before the policies were. Each cheat names who has to refuse it: a policy by its name, or the rights of members.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]

ALPHA, BETA, FABRIC = "kai-alpha", "kai-beta", "kai-fabric"
QUEUE, POOL = "kai.scheduler/queue", "kai.scheduler/node-pool"
SHARED = "runai/shared-gpu-configmap"
RBAC = "rights"
"""The judge of Kubernetes' own; all others are policies of ours."""
MERGE = "application/merge-patch+json"
MINE = "mine"
"""An honest pod of Alice's that runs before the cheats that change one."""


@dataclass(frozen=True)
class Cheat:
    """``judge``: who refuses. ``member``: sent by Alice; else by somebody with every right, where members have no right to the kind."""

    name: str
    judge: str
    path: str
    body: Body = field(default_factory=dict)
    method: str = "POST"
    member: bool = True


def pod(
    queue: str = "alpha-train",
    *,
    gpus: int = 1,
    labels: Body | None = None,
    notes: Body | None = None,
    container: Body | None = None,
    **spec: Any,
) -> Body:
    """A pod's template as an honest member writes it, changed by what is given; None takes a field out."""
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    meta = {"labels": {QUEUE: queue, **(labels or {})}, "annotations": notes or {}}
    box = {"name": "work", "image": "none", "resources": limits, **(container or {})}
    whole = {
        "schedulerName": "kai-scheduler",
        "restartPolicy": "Never",
        "containers": [box],
        **spec,
    }
    meta["labels"] = {k: v for k, v in meta["labels"].items() if v is not None}
    return {"metadata": meta, "spec": {k: v for k, v in whole.items() if v is not None}}


def named(template: Body, space: str = ALPHA, name: str = "try") -> Body:
    """The template as a pod."""
    made = copy.deepcopy(template)
    made["metadata"] |= {"name": name, "namespace": space}
    return {"apiVersion": "v1", "kind": "Pod", **made}


def pods(space: str) -> str:
    return f"/api/v1/namespaces/{space}/pods"


def owner(api: str, kind: str, spec: Body, labels: Body | None = None) -> Body:
    """What makes pods."""
    meta = {"name": "try", "namespace": ALPHA, "labels": labels or {}}
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}


def job(template: Body, labels: Body | None = None) -> Body:
    return owner("batch/v1", "Job", {"template": template}, labels)


def deployment(template: Body) -> Body:
    always = copy.deepcopy(template)
    always["spec"]["restartPolicy"] = "Always"
    always["metadata"]["labels"]["app"] = "try"
    spec = {"selector": {"matchLabels": {"app": "try"}}, "template": always}
    return owner("apps/v1", "Deployment", spec)


def stateful(template: Body) -> Body:
    return {**deployment(template), "kind": "StatefulSet"}


def cron(template: Body) -> Body:
    spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": template}}}
    return owner("batch/v1", "CronJob", spec)


def jobset(template: Body) -> Body:
    jobs = [{"name": "a", "template": {"spec": {"template": template}}}]
    return owner("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})


def mpijob(template: Body) -> Body:
    spec = {"mpiReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}}
    return owner("kubeflow.org/v2beta1", "MPIJob", spec)


def rayjob(template: Body) -> Body:
    group = {"groupName": "w", "rayStartParams": {}, "template": template}
    head = {"rayStartParams": {}, "template": pod(gpus=0)}
    cluster = {"headGroupSpec": head, "workerGroupSpecs": [group]}
    return owner("ray.io/v1", "RayJob", {"entrypoint": "x", "rayClusterSpec": cluster})


def workers(template: Body) -> Body:
    spec = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    return owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)


def runtime(template: Body) -> Body:
    jobs = [{"name": "node", "template": {"spec": {"template": template}}}]
    spec = {"template": {"spec": {"replicatedJobs": jobs}}}
    return owner("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", spec)


def trainjob(_: Body, labels: Body | None = None) -> Body:
    named = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "try"}
    return owner("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": named}, labels)


MAKERS: dict[str, tuple[str, str, Callable[[Body], Body]]] = {
    "Job": ("/apis/batch/v1", "jobs", job),
    "CronJob": ("/apis/batch/v1", "cronjobs", cron),
    "Deployment": ("/apis/apps/v1", "deployments", deployment),
    "StatefulSet": ("/apis/apps/v1", "statefulsets", stateful),
    "JobSet": ("/apis/jobset.x-k8s.io/v1alpha2", "jobsets", jobset),
    "MPIJob": ("/apis/kubeflow.org/v2beta1", "mpijobs", mpijob),
    "RayJob": ("/apis/ray.io/v1", "rayjobs", rayjob),
    "LeaderWorkerSet": ("/apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets", workers),
    "TrainingRuntime": ("/apis/trainer.kubeflow.org/v1alpha1", "trainingruntimes", runtime),
    "TrainJob": ("/apis/trainer.kubeflow.org/v1alpha1", "trainjobs", trainjob),
}
"""Where each kind is sent, and what makes one of a pod's template."""
OPERATORS = frozenset(
    ("JobSet", "MPIJob", "RayJob", "LeaderWorkerSet", "TrainingRuntime", "TrainJob")
)
"""Members have a right to them where the site installs their operator; the site of this test installs none."""


def place(kind: str, space: str = ALPHA) -> str:
    base, plural, _ = MAKERS[kind]
    return f"{base}/namespaces/{space}/{plural}"


def _pod(name: str, judge: str, template: Body, space: str = ALPHA) -> Cheat:
    return Cheat(name, judge, pods(space), named(template, space))


def _change(name: str, meta: Body, judge: str = "appliance-frozen") -> Cheat:
    path = f"{pods(ALPHA)}/{MINE}"
    return Cheat(name, judge, path, {"metadata": meta}, "PATCH")


def _in(kind: str, name: str, judge: str, template: Body) -> Cheat:
    return Cheat(
        f"{name}, by a {kind}",
        judge,
        place(kind),
        MAKERS[kind][2](template),
        member=kind not in OPERATORS,
    )


def _env(**entry: Any) -> Body:
    return {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", **entry}]}


def _secure(**context: Any) -> Body:
    return {"securityContext": context}


def _far(kind: str, term: Body) -> Body:
    near = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, **term}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}


THEIRS = pod("beta-train")
STOCK = pod(schedulerName=None)
DECOY = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "decoy", "uid": "1", "controller": True}]
HOST = [{"name": "h", "hostPath": {"path": "/"}}]
DEVICE = [{"name": "h", "hostPath": {"path": "/dev/nvidia0", "type": "CharDevice"}}]

CHEATS: tuple[Cheat, ...] = (
    # A quota: the queue.
    _pod("a pod in a neighbour's queue", "appliance-queue", THEIRS),
    _pod("a pod in no queue", "appliance-queue", pod(labels={QUEUE: None})),
    _pod("a pod in the project's own upper queue", "appliance-queue", pod("alpha")),
    Cheat(
        "a Job whose own label is a neighbour's queue",
        "appliance-queue",
        place("Job"),
        job(pod(), {QUEUE: "beta-train"}),
    ),
    Cheat(
        "a Job in a queue without limits, its pods in one with them",
        "appliance-queue",
        place("Job"),
        job(pod("alpha-train"), {QUEUE: "alpha-build"}),
    ),
    Cheat(
        "a TrainJob whose own label is a neighbour's queue",
        "appliance-queue-label",
        place("TrainJob"),
        trainjob({}, {QUEUE: "beta-train"}),
        member=False,
    ),
    _change("the queue changed while the pod runs", {"labels": {QUEUE: "alpha-build"}}),
    _change("the queue taken away while the pod runs", {"labels": {QUEUE: None}}),
    # A quota: another scheduler, or none.
    _pod("GPUs by the stock scheduler", "appliance-scheduler", STOCK),
    _pod("GPUs by a scheduler of one's own", "appliance-scheduler", pod(schedulerName="mine")),
    _pod(
        "processors by the stock scheduler", "appliance-scheduler", pod(gpus=0, schedulerName=None)
    ),
    _pod("a host named by the pod", "appliance-placement", pod(nodeName="gpu-1")),
    Cheat(
        "a pod bound by its owner",
        RBAC,
        f"{pods(ALPHA)}/{MINE}/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": MINE},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "gpu-1"},
        },
    ),
    # A quota: GPUs that nobody counts.
    _pod("all GPUs by NVIDIA_VISIBLE_DEVICES", "appliance-gpus", pod(container=_env(value="all"))),
    _pod(
        "GPUs by NVIDIA_VISIBLE_DEVICES of a ConfigMap",
        "appliance-gpus",
        pod(
            container=_env(
                valueFrom={
                    "configMapKeyRef": {"name": "x-shared-gpu-0", "key": "NVIDIA_VISIBLE_DEVICES"}
                }
            )
        ),
    ),
    _pod(
        "GPUs by a prefix of envFrom",
        "appliance-gpus",
        pod(container={"envFrom": [{"prefix": "NVIDIA_", "configMapRef": {"name": "a"}}]}),
    ),
    Cheat(
        "GPUs by a ConfigMap for envFrom",
        "appliance-gpu-words",
        f"/api/v1/namespaces/{ALPHA}/configmaps",
        {"metadata": {"name": "try"}, "data": {"NVIDIA_VISIBLE_DEVICES": "all"}},
    ),
    _pod("the GPU runtime without a GPU", "appliance-gpus", pod(gpus=0, runtimeClassName="nvidia")),
    _pod(
        "GPUs of a sidecar, which are not counted",
        "appliance-gpus",
        pod(
            initContainers=[
                {
                    "name": "side",
                    "image": "none",
                    "restartPolicy": "Always",
                    "resources": {"limits": {"nvidia.com/gpu": "8"}},
                }
            ]
        ),
    ),
    _pod(
        "a resource of GPUs that the queues do not know",
        "appliance-gpus",
        pod(gpus=0, container={"resources": {"limits": {"nvidia.com/gpu.shared": "8"}}}),
    ),
    _pod(
        "GPUs by a resource claim",
        "appliance-gpus",
        pod(gpus=0, resourceClaims=[{"name": "a", "resourceClaimTemplateName": "gpu"}]),
    ),
    _pod(
        "a part of a GPU where none are shared",
        "appliance-gpus",
        pod(gpus=0, notes={"gpu-fraction": "0.1"}),
    ),
    _pod(
        "a part of a GPU where none are shared, as KAI's admission completes it",
        "appliance-gpus",
        pod(gpus=0, notes={"gpu-fraction": "0.1", SHARED: "try-abcdefg-shared-gpu"}),
    ),
    _pod("another pod's part of a GPU", "appliance-marks", pod(notes={SHARED: "x-shared-gpu"})),
    _change("a part of a GPU, once the pod runs", {"annotations": {"gpu-fraction": "0.1"}}),
    _pod("what the binder writes, forged", "appliance-marks", pod(notes={"runai-gpu-group": "x"})),
    Cheat(
        "all GPUs in a container added later",
        "appliance-gpus",
        f"{pods(ALPHA)}/{MINE}/ephemeralcontainers",
        {
            "spec": {
                "ephemeralContainers": [
                    {"name": "late", "image": "none", **_env(value="all")},
                ]
            }
        },
        "PATCH",
        member=False,
    ),
    Cheat(
        "a container added later, without a right to it",
        RBAC,
        f"{pods(ALPHA)}/{MINE}/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [{"name": "late", "image": "none"}]}},
        "PATCH",
    ),
    # A pool.
    _pod("the label of another pool", "appliance-pool", pod(labels={POOL: "interactive"})),
    _pod("a pool left out", "appliance-pool", pod("alpha-notes")),
    _pod(
        "hosts of another pool selected", "appliance-pool", pod(nodeSelector={POOL: "interactive"})
    ),
    Cheat(
        "a Job whose own label is another pool",
        "appliance-pool",
        place("Job"),
        job(pod(), {POOL: "interactive"}),
    ),
    _change("the pool changed while the pod runs", {"labels": {POOL: "interactive"}}),
    _pod(
        "hosts of Slurm tolerated",
        "appliance-placement",
        pod(tolerations=[{"key": "appliance/owner", "operator": "Exists"}]),
    ),
    _pod(
        "control planes tolerated",
        "appliance-placement",
        pod(tolerations=[{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]),
    ),
    _pod("everything tolerated", "appliance-placement", pod(tolerations=[{"operator": "Exists"}])),
    # A limit.
    _pod(
        "a grace of a year",
        "appliance-end",
        pod(terminationGracePeriodSeconds=31_536_000),
    ),
    Cheat(
        "a pod that somebody else seems to own, which no limit ends",
        "appliance-marks",
        pods(ALPHA),
        {
            **named(pod("alpha-build")),
            "metadata": {**named(pod("alpha-build"))["metadata"], "ownerReferences": DECOY},
        },
    ),
    _change("an owner given to a pod that runs", {"ownerReferences": DECOY}, "appliance-marks"),
    _pod(
        "the group of another's pods joined", "appliance-marks", pod(notes={"pod-group-name": "x"})
    ),
    _change("another group, once the pod runs", {"annotations": {"pod-group-name": "x"}}),
    Cheat(
        "a start in the future, so that nobody reclaims the GPUs",
        "appliance-marks",
        place("Job"),
        {
            **job(pod()),
            "metadata": {
                "name": "try",
                "annotations": {"kai.scheduler/last-start-timestamp": "2099-01-01T00:00:00Z"},
            },
        },
    ),
    Cheat(
        "a namespace exempted from limits",
        RBAC,
        f"/api/v1/namespaces/{ALPHA}",
        {"metadata": {"annotations": {"appliance/limits-exempt": "*"}}},
        "PATCH",
    ),
    Cheat(
        "limits of the project changed",
        RBAC,
        f"/api/v1/namespaces/appliance-limits/configmaps/{ALPHA}",
        {"data": None},
        "PATCH",
    ),
    # A neighbour: evicted, kept away, listened to.
    _pod(
        "a system's priority",
        "appliance-priority",
        pod(priorityClassName="system-cluster-critical"),
    ),
    _pod("a neighbour's priority class", "appliance-priority", pod(priorityClassName="urgent")),
    _pod(
        "a priority by label",
        "appliance-priority",
        pod(labels={"priorityClassName": "system-node-critical"}),
    ),
    _pod(
        "neighbours kept off a host",
        "appliance-placement",
        pod(affinity=_far("podAntiAffinity", {"namespaceSelector": {}})),
    ),
    _pod(
        "a neighbour followed by name",
        "appliance-placement",
        pod(affinity=_far("podAffinity", {"namespaces": [BETA]})),
    ),
    Cheat(
        "a neighbour's traffic drawn by externalIPs",
        "appliance-services",
        f"/api/v1/namespaces/{ALPHA}/services",
        {
            "metadata": {"name": "try"},
            "spec": {"ports": [{"port": 80}], "externalIPs": ["10.0.0.10"]},
        },
    ),
    Cheat(
        "a neighbour's pod evicted",
        RBAC,
        f"{pods(BETA)}/theirs/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "theirs"}},
    ),
    Cheat("a neighbour's pod deleted", RBAC, f"{pods(BETA)}/theirs", method="DELETE"),
    Cheat("work in a neighbour's namespace", RBAC, pods(BETA), named(pod("beta-train"), BETA)),
    Cheat("a neighbour's secrets", RBAC, f"/api/v1/namespaces/{BETA}/secrets", method="GET"),
    Cheat(
        "a neighbour's notebook entered",
        RBAC,
        f"{pods(BETA)}/theirs/exec?command=sh",
        method="POST",
    ),
    # The host.
    *(
        _pod(
            f"{name}, where RDMA is allowed", "appliance-host", pod("fabric-train", **spec), FABRIC
        )
        for name, spec in (
            ("a privileged container", {"container": _secure(privileged=True)}),
            ("SYS_ADMIN", {"container": _secure(capabilities={"add": ["SYS_ADMIN"]})}),
            ("the host's processes", {"hostPID": True}),
            ("the host's memory", {"hostIPC": True}),
            ("the host's network", {"hostNetwork": True}),
            ("the host's files", {"volumes": HOST}),
            ("a GPU's device of the host", {"volumes": DEVICE}),
        )
    ),
    # Rights.
    Cheat(
        "a role with more rights",
        RBAC,
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ALPHA}/roles",
        {
            "metadata": {"name": "try"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
        },
    ),
    Cheat(
        "a binding to cluster-admin",
        RBAC,
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ALPHA}/rolebindings",
        {
            "metadata": {"name": "try"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}
            ],
        },
    ),
    Cheat(
        "a token of another account",
        RBAC,
        "/api/v1/namespaces/kai-scheduler/serviceaccounts/scheduler/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": []},
        },
    ),
    Cheat("a host's kubelet by proxy", RBAC, "/api/v1/nodes/gpu-1/proxy/pods", method="GET"),
    Cheat(
        "a host's label of its pool",
        RBAC,
        "/api/v1/nodes/gpu-1",
        {"metadata": {"labels": {POOL: None}}},
        "PATCH",
    ),
    Cheat(
        "a queue added to the namespace's labels",
        RBAC,
        f"/api/v1/namespaces/{ALPHA}",
        {"metadata": {"labels": {"queue.appliance/beta-train": "default"}}},
        "PATCH",
    ),
    Cheat(
        "the quota of objects taken away",
        RBAC,
        f"/api/v1/namespaces/{ALPHA}/resourcequotas/appliance",
        method="DELETE",
    ),
    Cheat(
        "a queue's limit raised",
        RBAC,
        "/apis/scheduling.run.ai/v2/queues/alpha-train",
        {"spec": {"resources": {"gpu": {"limit": 100}}}},
        "PATCH",
    ),
    Cheat(
        "a group of pods of one's own making",
        RBAC,
        f"/apis/scheduling.run.ai/v2alpha2/namespaces/{ALPHA}/podgroups",
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "try"},
            "spec": {"queue": "beta-train", "minMember": 1},
        },
    ),
    Cheat(
        "a policy taken away",
        RBAC,
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/appliance-queue-label",
        method="DELETE",
    ),
    Cheat(
        "a priority class of one's own",
        RBAC,
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": "mine"}, "value": 1_000_000},
    ),
    # Through what makes pods.
    *(
        _in(kind, name, judge, template)
        for kind in MAKERS
        if kind not in ("TrainJob",)
        for name, judge, template in (
            ("a neighbour's queue", "appliance-queue", THEIRS),
            ("the stock scheduler", "appliance-scheduler", STOCK),
            ("all GPUs", "appliance-gpus", pod(container=_env(value="all"))),
        )
    ),
)


def _honest() -> tuple[tuple[str, str, Body], ...]:
    """Name, path and object of work that must pass."""
    notes = pod("alpha-notes", labels={POOL: "interactive"}, priorityClassName="build")
    rdma = pod("fabric-train", container=_secure(capabilities={"add": ["IPC_LOCK"]}))
    own = pod(affinity=_far("podAntiAffinity", {}), terminationGracePeriodSeconds=600)
    gpu_taint = pod(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
    mig = pod(gpus=0, container={"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}})
    plain = {
        "a pod with a GPU": (ALPHA, pod()),
        "a pod without GPUs": (ALPHA, pod(gpus=0)),
        "a pod of a pool": (ALPHA, notes),
        "a pod with RDMA": (FABRIC, rdma),
        "pods kept apart": (ALPHA, own),
        "GPU hosts tolerated": (ALPHA, gpu_taint),
        "an instance of MIG": (ALPHA, mig),
        "the GPU runtime with a GPU": (ALPHA, pod(runtimeClassName="nvidia")),
        "a host asked of KAI": (ALPHA, pod(nodeSelector={"kubernetes.io/hostname": "gpu-1"})),
        "interactive work": (ALPHA, pod("alpha-build", priorityClassName="build")),
    }
    pods_ = tuple((n, pods(space), named(t, space)) for n, (space, t) in plain.items())
    return (*pods_, *((f"a {k}", place(k), MAKERS[k][2](pod())) for k in MAKERS))


HONEST = _honest()
