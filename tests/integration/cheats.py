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
RANGE = "LimitRange"
"""The judge of containers' sizes in pods, which goes before policies."""
MERGE = "application/merge-patch+json"
MINE = "mine"
"""An honest pod of Alice's that runs before the cheats that change one."""
BOUND = "bound"
"""Another, which has its host: one that waits for it goes at once, whatever grace is asked for."""


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


def binding(name: str) -> Body:
    """What gives a pod its host."""
    target = {"apiVersion": "v1", "kind": "Node", "name": "gpu-1"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


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


def replicas(template: Body) -> Body:
    return {**deployment(template), "kind": "ReplicaSet"}


def daemons(template: Body) -> Body:
    return {**deployment(template), "kind": "DaemonSet"}


def podtemplate(template: Body) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "try"},
        "template": template,
    }


def controller(template: Body) -> Body:
    made = deployment(template)
    spec = {"selector": {"app": "try"}, "template": made["spec"]["template"]}
    return owner("v1", "ReplicationController", spec)


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
    "ReplicaSet": ("/apis/apps/v1", "replicasets", replicas),
    "DaemonSet": ("/apis/apps/v1", "daemonsets", daemons),
    "PodTemplate": ("/api/v1", "podtemplates", podtemplate),
    "ReplicationController": ("/api/v1", "replicationcontrollers", controller),
    "JobSet": ("/apis/jobset.x-k8s.io/v1alpha2", "jobsets", jobset),
    "MPIJob": ("/apis/kubeflow.org/v2beta1", "mpijobs", mpijob),
    "RayJob": ("/apis/ray.io/v1", "rayjobs", rayjob),
    "LeaderWorkerSet": ("/apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets", workers),
    "TrainingRuntime": ("/apis/trainer.kubeflow.org/v1alpha1", "trainingruntimes", runtime),
    "TrainJob": ("/apis/trainer.kubeflow.org/v1alpha1", "trainjobs", trainjob),
}
"""Where each kind is sent, and what makes one of a pod's template."""
OPERATORS = frozenset(
    (
        *("JobSet", "MPIJob", "RayJob", "LeaderWorkerSet", "TrainingRuntime", "TrainJob"),
        *("DaemonSet", "PodTemplate", "ReplicationController"),
    )
)
"""Members have a right to them where the site installs their operator, and none to the last three; the site of this test installs none."""


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


def _placed(name: str, **spec: Any) -> Cheat:
    return Cheat(name, "appliance-frozen", f"{pods(ALPHA)}/{MINE}", {"spec": spec}, "PATCH")


def _claim_spec(**spec: Any) -> Body:
    whole = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
        **spec,
    }
    return {k: v for k, v in whole.items() if v is not None}


def _claim(name: str, **spec: Any) -> Cheat:
    path = f"/api/v1/namespaces/{ALPHA}/persistentvolumeclaims"
    body = {"metadata": {"name": "try"}, "spec": _claim_spec(**spec)}
    return Cheat(name, "appliance-claims", path, body)


def own_claim() -> Body:
    """An honest claim of Alice's that waits for its volume."""
    meta = {"name": MINE, "namespace": ALPHA}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {**kind, "metadata": meta, "spec": _claim_spec()}


def own_secret() -> Body:
    """An honest secret of Alice's, for cheats that would read it."""
    meta = {"name": MINE, "namespace": ALPHA}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"token": "x"}}


def _ephemeral(**spec: Any) -> Body:
    return {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": _claim_spec(**spec)}}}


def _key_in_env() -> Body:
    key = {"secretKeyRef": {"name": "ngc", "key": ".dockerconfigjson"}}
    return {"env": [{"name": "KEY", "valueFrom": key}]}


def _env(**entry: Any) -> Body:
    return {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", **entry}]}


def _box(name: str, **more: Any) -> Body:
    return {"name": name, "image": "none", **more}


VOID: Body = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}
"""What a container without GPUs writes, so that its image shows it none."""
QUEUES = "/appliance-queues"
OFF: Body = {"app.kubernetes.io/managed-by": None, "appliance/site": None}
BETA_CLASS = {"volume.beta.kubernetes.io/storage-class": ""}


def _gpus(amount: str) -> Body:
    return {"resources": {"limits": {"nvidia.com/gpu": amount}}}


def _noted_claim(name: str, notes: Body) -> Cheat:
    path = f"/api/v1/namespaces/{ALPHA}/persistentvolumeclaims"
    body = {"metadata": {"name": "try", "annotations": notes}, "spec": _claim_spec()}
    return Cheat(name, "appliance-claims", path, body)


def _noted_ephemeral(notes: Body) -> Body:
    made = _ephemeral()
    made["ephemeral"]["volumeClaimTemplate"]["metadata"] = {"annotations": notes}
    return made


def _kept(notes: Body | None = None, **spec: Any) -> Body:
    """A StatefulSet with a claim for each of its pods."""
    made = stateful(pod())
    meta = {"name": "data", "annotations": notes or {}}
    made["spec"]["volumeClaimTemplates"] = [{"metadata": meta, "spec": _claim_spec(**spec)}]
    return made


def _probe(host: str, kind: str = "httpGet") -> Body:
    return {kind: {"port": 80, "host": host}}


def _delete(name: str, judge: str, path: str, **options: Any) -> Cheat:
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"], **options}
    return Cheat(name, judge, path, body, "DELETE")


def _noted(made: Body, notes: Body, kind: str = "annotations") -> Body:
    """The same with marks on the object itself."""
    changed = copy.deepcopy(made)
    changed["metadata"].setdefault(kind, {}).update(notes)
    return changed


def _cron_of(notes: Body) -> Body:
    made = cron(pod())
    made["spec"]["jobTemplate"]["metadata"] = {"annotations": notes}
    return made


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

SLURM = {"key": "appliance/owner", "operator": "Exists", "effect": "NoSchedule"}
EVICTABLE = {"unhealthyPodEvictionPolicy": "AlwaysAllow"}
GREEDY = {"resources": {"requests": {"memory": "1Mi"}, "limits": {"memory": "400Gi"}}}
NFS = {"name": "v", "nfs": {"server": "10.0.0.1", "path": "/home"}}
FOREIGN_VOLUMES: dict[str, Body] = {
    "nfs": {"server": "10.0.0.1", "path": "/home"},
    "csi": {"driver": "nfs.csi.k8s.io", "volumeAttributes": {"server": "a", "share": "/home"}},
    "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:a", "lun": 0},
    "cephfs": {"monitors": ["10.0.0.1:6789"]},
    "rbd": {"monitors": ["10.0.0.1:6789"], "image": "a"},
    "fc": {"wwids": ["3600508b400105e210000900000490000"]},
    "glusterfs": {"endpoints": "a", "path": "a"},
    "flexVolume": {"driver": "example.com/a"},
    "gitRepo": {"repository": "https://example.com/a"},
    "azureFile": {"secretName": "ngc", "shareName": "a"},
    "portworxVolume": {"volumeID": "a"},
    "quobyte": {"registry": "a:1", "volume": "a"},
    "image": {"reference": "none"},
}

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
        binding(MINE),
    ),
    # A quota: GPUs that nobody counts.
    *(
        _pod(f"the GPU runtime with {name}", "appliance-gpus", pod(**spec))
        for name, spec in (
            ("an amount of 0", {"runtimeClassName": "nvidia", "container": _gpus("0")}),
            (
                "a second container that asks for none",
                {
                    "runtimeClassName": "nvidia",
                    "containers": [_box("a", **_gpus("1")), _box("b")],
                },
            ),
            (
                "an init container that asks for none",
                {"runtimeClassName": "nvidia", "initContainers": [_box("i")]},
            ),
            (
                "a sidecar that asks for none",
                {
                    "runtimeClassName": "nvidia",
                    "initContainers": [_box("i", restartPolicy="Always")],
                },
            ),
            (
                "a second container, by the class that KAI's admission writes",
                {"containers": [_box("a", **_gpus("1")), _box("b")]},
            ),
            (
                "a second container that asks for 0",
                {"containers": [_box("a", **_gpus("1")), _box("b", **_gpus("0"))]},
            ),
        )
    ),
    *(
        _pod(
            f"GPUs by a mount at {at}",
            "appliance-gpus",
            pod(
                volumes=[{"name": "v", "emptyDir": {}}],
                container={"volumeMounts": [{"name": "v", "mountPath": at}]},
            ),
        )
        for at in (
            "/var/run/nvidia-container-devices/all",
            "/run/nvidia-container-devices/0",
            "/var/run//nvidia-container-devices",
        )
    ),
    # What KAI and NVIDIA's programs read, at all places a member may write it.
    *(
        _pod(f"the annotation {key}", "appliance-marks", pod(notes={key: value}))
        for key, value in (
            ("nvidia.com/mig-1g.10gb", "7"),
            ("nvidia.com/container.work.gpu-memory.limit", "1Gi"),
            ("kai.scheduler/last-start-timestamp", "2099-01-01T00:00:00Z"),
            ("kai.scheduler/top-owner-metadata", "x"),
            ("kai.scheduler/what-comes-later", "x"),
            ("scheduling.kai.scheduler/x", "x"),
            ("runai/job-id", "x"),
            ("runai-job-id", "x"),
            ("run.ai/fake.gpu", "x"),
            ("mps", "true"),
            ("received-resource-type", "Fraction"),
            ("gpu-group", "x"),
            ("cdi.k8s.io/all", "nvidia.com/gpu=all"),
        )
    ),
    *(
        _pod(f"the label {key}", "appliance-marks", pod(labels={key: "x"}))
        for key in (
            *("runai-gpu-group", "runai-gpu-group/a", "kai.scheduler/subgroup-name"),
            *("kai.scheduler/preemptibility", "kai.scheduler/task-priority", "runai-job-id"),
            "nvidia.com/mig.config",
        )
    ),
    *(
        _in(
            kind,
            "another count of GPUs",
            "appliance-marks",
            pod(notes={"nvidia.com/mig-1g.10gb": "7"}),
        )
        for kind in MAKERS
        if kind != "TrainJob"
    ),
    _in(
        "Job", "the group of another's pods", "appliance-marks", pod(notes={"pod-group-name": "x"})
    ),
    _in(
        "Job", "another pod's part of a GPU", "appliance-marks", pod(notes={SHARED: "x-shared-gpu"})
    ),
    *(
        Cheat(f"{name}, on a {kind}", "appliance-marks", place(kind), body, member=kind == "Job")
        for name, kind, body in (
            ("not to be evicted", "Job", job(pod(), {"kai.scheduler/preemptibility": "x"})),
            ("a MIG count", "Job", _noted(job(pod()), {"nvidia.com/mig-1g.10gb": "7"})),
            ("a MIG count", "TrainJob", _noted(trainjob({}), {"nvidia.com/mig-1g.10gb": "7"})),
            ("not to be evicted", "JobSet", _noted(jobset(pod()), {"runai/x": "y"})),
        )
    ),
    Cheat(
        "the group of another's pods, on a Job itself",
        "appliance-marks",
        place("Job"),
        _noted(job(pod()), {"pod-group-name": "x"}),
    ),
    Cheat(
        "a start in the future, of the Jobs of a CronJob",
        "appliance-marks",
        place("CronJob"),
        _cron_of({"kai.scheduler/last-start-timestamp": "2099-01-01T00:00:00Z"}),
    ),
    *(
        _change(f"the annotation {key}, once the pod runs", {"annotations": {key: "7"}})
        for key in (
            *("nvidia.com/mig-1g.10gb", "received-resource-type", "mps", "runai-job-id"),
            *("kai.scheduler/last-start-timestamp", "kai.scheduler/what-comes-later"),
            *("kai.scheduler/topology", "cdi.k8s.io/all"),
        )
    ),
    *(
        _change(f"the label {key}, once the pod runs", {"labels": {key: "7"}})
        for key in ("runai-gpu-group/a", "kai.scheduler/preemptibility", "runai-job-id")
    ),
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
    *(
        Cheat(
            f"a pod owned by a pod{name}",
            "appliance-marks",
            pods(ALPHA),
            {
                **named(pod("alpha-build")),
                "metadata": {
                    **named(pod("alpha-build"))["metadata"],
                    "ownerReferences": [{**DECOY[0], "kind": "Pod", "controller": controls}],
                },
            },
        )
        for name, controls in ((", which controls it", True), ("", False))
    ),
    _delete(
        "a pod deleted with a grace of a year",
        "appliance-leaving",
        f"{pods(ALPHA)}/{BOUND}",
        gracePeriodSeconds=31_536_000,
    ),
    _delete(
        "a pod deleted with a grace of eleven minutes",
        "appliance-leaving",
        f"{pods(ALPHA)}/{BOUND}",
        gracePeriodSeconds=660,
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
    *(
        Cheat(
            f"a port of every host, by a {kind}",
            "appliance-services",
            f"/api/v1/namespaces/{ALPHA}/services",
            {"metadata": {"name": "try"}, "spec": {"ports": [{"port": 80}], "type": kind}},
        )
        for kind in ("NodePort", "LoadBalancer")
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
            (
                "a port of the host",
                {"container": {"ports": [{"containerPort": 80, "hostPort": 80}]}},
            ),
            (
                "a port of the host for an init container",
                {
                    "gpus": 0,
                    "initContainers": [
                        _box("i", ports=[{"containerPort": 80, "hostPort": 8080}]),
                    ],
                },
            ),
            ("all of /proc", {"hostUsers": False, "container": _secure(procMount="Unmasked")}),
            ("NET_RAW", {"container": _secure(capabilities={"add": ["NET_RAW"]})}),
            ("every capability", {"container": _secure(capabilities={"add": ["ALL"]})}),
            ("a type of SELinux", {"container": _secure(seLinuxOptions={"type": "spc_t"})}),
            ("a user of SELinux", {"securityContext": {"seLinuxOptions": {"user": "root"}}}),
            ("no seccomp", {"container": _secure(seccompProfile={"type": "Unconfined"})}),
            (
                "no seccomp of the pod",
                {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
            ),
            ("no AppArmor", {"container": _secure(appArmorProfile={"type": "Unconfined"})}),
            (
                "no AppArmor of the pod",
                {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
            ),
            (
                "a sysctl of the host",
                {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
            ),
            ("a probe of another host", {"container": {"livenessProbe": _probe("10.0.0.1")}}),
            (
                "a probe by TCP of another host",
                {"container": {"readinessProbe": _probe("10.0.0.1", "tcpSocket")}},
            ),
            (
                "a hook to another host",
                {"container": {"lifecycle": {"preStop": _probe("10.0.0.1")}}},
            ),
        )
    ),
    Cheat(
        "no AppArmor by its older annotation, where RDMA is allowed",
        "appliance-host",
        place("Job", FABRIC),
        {
            **job(
                pod(
                    "fabric-train",
                    notes={"container.apparmor.security.beta.kubernetes.io/work": "unconfined"},
                )
            ),
            "metadata": {"name": "try"},
        },
    ),
    Cheat(
        "IPC_LOCK by a Job, where RDMA is not",
        "appliance-host",
        place("Job"),
        job(pod(container=_secure(capabilities={"add": ["IPC_LOCK"]}))),
    ),
    *(
        _pod(
            f"{name}, where RDMA is allowed",
            "appliance-volumes",
            pod("fabric-train", volumes=volumes),
            FABRIC,
        )
        for name, volumes in (("the host's files", HOST), ("a GPU's device of the host", DEVICE))
    ),
    # Files of others.
    *(
        _pod(f"a volume of {kind}", "appliance-volumes", pod(volumes=[{"name": "v", kind: source}]))
        for kind, source in FOREIGN_VOLUMES.items()
    ),
    *(
        _pod(
            f"an emptyDir {name}",
            "appliance-volumes",
            pod(volumes=[{"name": "v", "emptyDir": given}]),
        )
        for name, given in (
            ("of memory without a size", {"medium": "Memory"}),
            ("of memory of size 0, which is without bound", {"medium": "Memory", "sizeLimit": "0"}),
            ("of memory larger than a host", {"medium": "Memory", "sizeLimit": "2Ti"}),
            ("of huge pages", {"medium": "HugePages"}),
            ("of disk larger than a host's", {"sizeLimit": "10Ti"}),
        )
    ),
    _pod(
        "an ephemeral claim of a volume that is there",
        "appliance-volumes",
        pod(volumes=[_ephemeral(volumeName="homes")]),
    ),
    _pod(
        "an ephemeral claim without a class",
        "appliance-volumes",
        pod(volumes=[_ephemeral(storageClassName="")]),
    ),
    _claim("a claim of a volume that is there", volumeName="homes"),
    _noted_claim("a claim without a class, by the annotation that goes before it", BETA_CLASS),
    *(
        _noted_claim(f"a claim that says {key}", {key: "x"})
        for key in (
            "pv.kubernetes.io/bind-completed",
            "pv.kubernetes.io/bound-by-controller",
            "volume.kubernetes.io/selected-node",
            "volume.kubernetes.io/storage-provisioner",
            "volume.beta.kubernetes.io/mount-options",
            "volume.alpha.kubernetes.io/storage-class",
        )
    ),
    *(
        Cheat(
            f"{key} written on a claim that waits",
            "appliance-claims",
            f"/api/v1/namespaces/{ALPHA}/persistentvolumeclaims/{MINE}",
            {"metadata": {"annotations": {key: ""}}},
            "PATCH",
        )
        for key in (*BETA_CLASS, "volume.kubernetes.io/selected-node")
    ),
    _pod(
        "an ephemeral claim without a class, by the annotation that goes before it",
        "appliance-volumes",
        pod(volumes=[_noted_ephemeral(BETA_CLASS)]),
    ),
    *(
        Cheat(
            f"a StatefulSet's claims {name}",
            "appliance-claim-templates",
            place("StatefulSet"),
            made,
        )
        for name, made in (
            ("of a volume that is there", _kept(volumeName="homes")),
            ("without a class", _kept(storageClassName="")),
            ("that select a volume", _kept(selector={"matchLabels": {"a": "b"}})),
            ("without a class, by the annotation that goes before it", _kept(BETA_CLASS)),
            ("that say they are bound", _kept({"pv.kubernetes.io/bind-completed": "yes"})),
        )
    ),
    _claim("a claim of volumes without a class", storageClassName=""),
    _claim("a claim where no class is the default", storageClassName=None),
    _claim("a claim that selects a volume", selector={"matchLabels": {"a": "b"}}),
    Cheat(
        "a volume that is there, named by a claim that waits",
        "appliance-claims",
        f"/api/v1/namespaces/{ALPHA}/persistentvolumeclaims/{MINE}",
        {"spec": {"volumeName": "homes"}},
        "PATCH",
    ),
    Cheat(
        "a volume of one's own on the site's export",
        RBAC,
        "/api/v1/persistentvolumes",
        {
            "metadata": {"name": "homes"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany"],
                "nfs": {"server": "10.0.0.1", "path": "/home"},
            },
        },
    ),
    # The registry's key.
    *(
        _pod(f"the registry's key {name}", "appliance-pull-secret", pod(**spec))
        for name, spec in (
            ("as a volume", {"volumes": [{"name": "k", "secret": {"secretName": "ngc"}}]}),
            (
                "as a projected volume",
                {
                    "volumes": [
                        {"name": "k", "projected": {"sources": [{"secret": {"name": "ngc"}}]}}
                    ]
                },
            ),
            ("in env", {"container": _key_in_env()}),
            ("in envFrom", {"container": {"envFrom": [{"secretRef": {"name": "ngc"}}]}}),
            (
                "in an init container",
                {"gpus": 0, "initContainers": [{"name": "i", "image": "none", **_key_in_env()}]},
            ),
        )
    ),
    Cheat(
        "the registry's key in a container added later",
        "appliance-pull-secret",
        f"{pods(ALPHA)}/{MINE}/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [{"name": "late", "image": "none", **_key_in_env()}]}},
        "PATCH",
        member=False,
    ),
    Cheat("secrets listed", RBAC, f"/api/v1/namespaces/{ALPHA}/secrets", method="GET"),
    Cheat("the registry's key read", RBAC, f"/api/v1/namespaces/{ALPHA}/secrets/ngc", method="GET"),
    Cheat(
        "the registry's key replaced",
        "appliance-secrets",
        f"/api/v1/namespaces/{ALPHA}/secrets/ngc",
        {
            "metadata": {"name": "ngc"},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": "e30="},
        },
        "PUT",
    ),
    Cheat(
        "the registry's key read from the answer to a patch, as one copied into a label",
        RBAC,
        f"/api/v1/namespaces/{ALPHA}/secrets/ngc",
        {"metadata": {}},
        "PATCH",
    ),
    Cheat(
        "the registry's key deleted",
        "appliance-secrets",
        f"/api/v1/namespaces/{ALPHA}/secrets/ngc",
        method="DELETE",
    ),
    *(
        _delete(
            f"a secret read from the answer to its deletion, {name}",
            "appliance-secrets",
            f"/api/v1/namespaces/{ALPHA}/secrets/{MINE}",
            **options,
        )
        for name, options in (
            ("tried only", {}),
            ("in the foreground", {"propagationPolicy": "Foreground"}),
            ("which leaves orphans", {"propagationPolicy": "Orphan"}),
        )
    ),
    Cheat(
        "a token that never expires",
        "appliance-secrets",
        f"/api/v1/namespaces/{ALPHA}/secrets",
        {
            "metadata": {
                "name": "try",
                "annotations": {"kubernetes.io/service-account.name": "default"},
            },
            "type": "kubernetes.io/service-account-token",
        },
    ),
    # A host's memory and disk.
    *(
        _pod(name, RANGE, pod(container={"resources": given}))
        for name, given in (
            (
                "a request of 1 MiB, a limit of 400 GiB",
                {"requests": {"memory": "1Mi"}, "limits": {"memory": "400Gi"}},
            ),
            (
                "a disk of a host by a request of 1 GiB",
                {
                    "requests": {"ephemeral-storage": "1Gi"},
                    "limits": {"ephemeral-storage": "300Gi"},
                },
            ),
        )
    ),
    _pod(
        "resources of the pod as a whole",
        "appliance-sizes",
        pod(resources={"limits": {"memory": "400Gi"}}),
    ),
    # Devices nobody gave.
    *(
        _pod(
            f"the device {name}",
            "appliance-devices",
            pod(container={"resources": {"limits": {name: "1"}}}),
        )
        for name in (
            "rdma/fabric",
            "rdma/hca_shared_devices_a",
            "amd.com/gpu",
            "habana.ai/gaudi",
            "smarter-devices/fuse",
            "deviceclass.resource.kubernetes.io/gpu",
        )
    ),
    _pod(
        "huge pages",
        "appliance-devices",
        pod(
            container={
                "resources": {
                    "limits": {"hugepages-2Mi": "1Gi", "memory": "1Gi", "cpu": "1"},
                }
            }
        ),
    ),
    _pod(
        "an adapter nobody counts, where RDMA is allowed",
        "appliance-devices",
        pod("fabric-train", container={"resources": {"limits": {"rdma/other": "1"}}}),
        FABRIC,
    ),
    # Room in etcd.
    Cheat(
        "a ConfigMap of 770 KB",
        "appliance-weight",
        f"/api/v1/namespaces/{ALPHA}/configmaps",
        {"metadata": {"name": "try"}, "data": {"a": "x" * 770_000}},
    ),
    Cheat(
        "a ConfigMap of many small keys",
        "appliance-weight",
        f"/api/v1/namespaces/{ALPHA}/configmaps",
        {"metadata": {"name": "try"}, "data": {f"{n:0200}": "" for n in range(1400)}},
    ),
    Cheat(
        "a Secret of 500 KB",
        "appliance-weight",
        f"/api/v1/namespaces/{ALPHA}/secrets",
        {"metadata": {"name": "try"}, "data": {"a": "QUFB" * 125_000}},
    ),
    Cheat(
        "a ConfigMap with annotations of 250 KB",
        "appliance-weight",
        f"/api/v1/namespaces/{ALPHA}/services",
        {
            "metadata": {"name": "try", "annotations": {"a": "x" * 250_000}},
            "spec": {"ports": [{"port": 80}]},
        },
    ),
    _pod("a pod of 900 KB", "appliance-weight", pod(container={"args": ["x" * 900_000]})),
    _pod(
        "a pod of many variables",
        "appliance-weight",
        pod(container={"env": [{"name": f"A{n}", "value": "x" * 100} for n in range(2000)]}),
    ),
    Cheat(
        "a Job of 900 KB",
        "appliance-weight",
        place("Job"),
        job(pod(container={"args": ["x" * 900_000]})),
    ),
    # What the appliance wrote.
    *(
        Cheat(name, "appliance-own", f"/api/v1/namespaces/{ALPHA}/configmaps{at}", body, method)
        for name, method, at, body in (
            ("the queues' defaults changed", "PATCH", QUEUES, {"data": {"train": "x"}}),
            ("the queues' defaults made immutable", "PATCH", QUEUES, {"immutable": True}),
            (
                "a finalizer on the queues' defaults",
                "PATCH",
                QUEUES,
                {"metadata": {"finalizers": ["a.example/b"]}},
            ),
            (
                "the appliance's label taken off the queues' defaults",
                "PATCH",
                QUEUES,
                {"metadata": {"labels": OFF}},
            ),
            ("the queues' defaults deleted", "DELETE", QUEUES, {}),
            ("a name of the appliance's taken", "POST", "", {"metadata": {"name": "appliance-x"}}),
            (
                "an object that seems the appliance's",
                "POST",
                "",
                {"metadata": {"name": "try", "labels": dict.fromkeys(OFF, "appliance")}},
            ),
        )
    ),
    # A host that cannot be drained.
    *(
        Cheat(
            f"a budget {name}",
            "appliance-budgets",
            f"/apis/policy/v1/namespaces/{ALPHA}/poddisruptionbudgets",
            {"metadata": {"name": "try"}, "spec": {"selector": {}, **spec}},
        )
        for name, spec in (
            ("that lets none go", {"maxUnavailable": 0, **EVICTABLE}),
            ("that lets 0 % go", {"maxUnavailable": "00%", **EVICTABLE}),
            ("with minAvailable", {"minAvailable": 1, **EVICTABLE}),
            ("that keeps pods which are not ready", {"maxUnavailable": 1}),
        )
    ),
    Cheat(
        "a host name taken from others",
        RBAC,
        f"/apis/networking.k8s.io/v1/namespaces/{ALPHA}/ingresses",
        {
            "metadata": {"name": "try"},
            "spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}},
        },
    ),
    Cheat(
        "the turn of one's requests changed",
        RBAC,
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/appliance-members",
        method="DELETE",
    ),
    Cheat(
        "the project's sizes taken away",
        RBAC,
        f"/api/v1/namespaces/{ALPHA}/limitranges/appliance",
        method="DELETE",
    ),
    _placed("hosts of Slurm tolerated by a pod that waits", tolerations=[SLURM]),
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
            ("files of others", "appliance-volumes", pod(volumes=[NFS])),
            ("the registry's key", "appliance-pull-secret", pod(container=_key_in_env())),
            (
                "an adapter",
                "appliance-devices",
                pod(container={"resources": {"limits": {"rdma/fabric": "1"}}}),
            ),
            ("a request of 1 MiB", "appliance-sizes", pod(container=GREEDY)),
            (
                "a request without a limit",
                "appliance-sizes",
                pod(container={"resources": {"requests": {"memory": "1Gi"}}}),
            ),
        )
    ),
)


OWN_VOLUMES: list[Body] = [
    {"name": "a", "configMap": {"name": "a"}},
    {"name": "b", "secret": {"secretName": "a"}},
    {"name": "c", "emptyDir": {}},
    {"name": "d", "emptyDir": {"sizeLimit": "50Gi"}},
    {"name": "e", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
    {"name": "f", "persistentVolumeClaim": {"claimName": "a"}},
    {
        "name": "g",
        "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]},
    },
    _ephemeral(),
    {
        "name": "h",
        "projected": {
            "sources": [
                {"configMap": {"name": "a"}},
                {"secret": {"name": "a"}},
                {"serviceAccountToken": {"path": "token"}},
            ]
        },
    },
]


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
        "containers without a GPU beside one with": (
            ALPHA,
            pod(
                runtimeClassName="nvidia",
                containers=[_box("a", **_gpus("1")), _box("b", **VOID)],
                initContainers=[_box("i", **VOID), _box("s", restartPolicy="Always", **VOID)],
            ),
        ),
        "hosts near each other": (
            ALPHA,
            pod(
                notes={
                    "kai.scheduler/topology": "fabric",
                    "kai.scheduler/topology-required-placement": "fabric.topograph.run/tier-1",
                    "kai.scheduler/batch-min-member": "2",
                    "example.com/nvidia.com": "x",
                },
                labels={"app.kubernetes.io/name": "a", "project": "a"},
            ),
        ),
        "probes, hooks, ports and what confines a container": (
            FABRIC,
            pod(
                "fabric-train",
                securityContext={
                    "seccompProfile": {"type": "RuntimeDefault"},
                    "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
                    "seLinuxOptions": {"level": "s0:c1,c2"},
                },
                container={
                    **_secure(
                        capabilities={"drop": ["ALL"], "add": ["IPC_LOCK", "NET_BIND_SERVICE"]},
                        appArmorProfile={"type": "RuntimeDefault"},
                    ),
                    "ports": [{"containerPort": 8080}],
                    "livenessProbe": {"httpGet": {"port": 8080}},
                    "readinessProbe": {"tcpSocket": {"port": 8080}},
                    "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
                },
            ),
        ),
        "a host asked of KAI": (ALPHA, pod(nodeSelector={"kubernetes.io/hostname": "gpu-1"})),
        "interactive work": (ALPHA, pod("alpha-build", priorityClassName="build")),
        "volumes of all kinds a project has": (
            ALPHA,
            pod(volumes=OWN_VOLUMES, serviceAccountName="default"),
        ),
        "a secret of one's own in env": (
            ALPHA,
            pod(container={"envFrom": [{"secretRef": {"name": "hub"}}]}),
        ),
        "the registry's key to pull images": (ALPHA, pod(imagePullSecrets=[{"name": "ngc"}])),
        "an adapter of the fabric": (
            FABRIC,
            pod("fabric-train", container={"resources": {"limits": {"rdma/fabric": "1"}}}),
        ),
        "a whole host": (
            ALPHA,
            pod(
                container={
                    "resources": {
                        "limits": {"nvidia.com/gpu": "8", "memory": "900Gi", "cpu": "90"},
                    }
                }
            ),
        ),
        "a limit of four times the request": (
            ALPHA,
            pod(
                container={
                    "resources": {
                        "requests": {"memory": "2Gi", "ephemeral-storage": "5Gi"},
                        "limits": {"memory": "8Gi", "ephemeral-storage": "20Gi"},
                    }
                }
            ),
        ),
        "a script of 30 KB": (ALPHA, pod(container={"args": ["x" * 30_000]})),
    }
    pods_ = tuple((n, pods(space), named(t, space)) for n, (space, t) in plain.items())
    core = f"/api/v1/namespaces/{ALPHA}"
    meta = {"metadata": {"name": "try"}}
    others: tuple[tuple[str, str, Body], ...] = (
        ("a claim", f"{core}/persistentvolumeclaims", {**meta, "spec": _claim_spec()}),
        ("a StatefulSet with claims", place("StatefulSet"), _kept()),
        (
            "a claim with annotations of one's own",
            f"{core}/persistentvolumeclaims",
            {
                "metadata": {"name": "try", "annotations": {"example.com/a": "b"}},
                "spec": _claim_spec(),
            },
        ),
        ("a token of a model hub", f"{core}/secrets", {**meta, "stringData": {"token": "x"}}),
        ("a ConfigMap of 100 KB", f"{core}/configmaps", {**meta, "data": {"a": "x" * 100_000}}),
        (
            "a budget that lets one go",
            f"/apis/policy/v1/namespaces/{ALPHA}/poddisruptionbudgets",
            {**meta, "spec": {"selector": {}, "maxUnavailable": 1, **EVICTABLE}},
        ),
        (
            "an autoscaler",
            f"/apis/autoscaling/v2/namespaces/{ALPHA}/horizontalpodautoscalers",
            {
                **meta,
                "spec": {
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
                    "maxReplicas": 3,
                },
            },
        ),
    )
    return (*pods_, *others, *((f"a {k}", place(k), MAKERS[k][2](pod())) for k in MAKERS))


HONEST = _honest()
