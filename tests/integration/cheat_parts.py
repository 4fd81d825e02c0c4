"""What cheats of members and honest work are made of: objects as they are sent to the API server."""

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
OPERATOR = "system:serviceaccount:spark-operator:spark-operator-controller"
CRON = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "name": MINE,
    "uid": "1",
    "controller": True,
}
"""Alice's, as owner of a Job."""
BOUND = "bound"
"""Another, which has its host: one that waits for it goes at once, whatever grace is asked for."""


@dataclass(frozen=True)
class Cheat:
    """``judge``: who refuses. ``member``: sent by Alice; else by somebody with every right, where members have no right to the kind.

    ``operator``: sent by the account of an operator of an add-on.
    """

    name: str
    judge: str
    path: str
    body: Body = field(default_factory=dict)
    method: str = "POST"
    member: bool = True
    operator: bool = False


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


def sparkapp(template: Body, **spec: Any) -> Body:
    part = {"cores": 1, "memory": "1g", "serviceAccount": "spark", "template": template}
    whole = {
        "type": "Python",
        "mode": "cluster",
        "image": "none",
        "mainApplicationFile": "local:///opt/app/main.py",
        "sparkVersion": "4.0.4",
        "driver": part,
        "executor": {**part, "instances": 1},
        **spec,
    }
    return owner("sparkoperator.k8s.io/v1beta2", "SparkApplication", whole)


def daskjob(template: Body, workers: int = 1) -> Body:
    part = {"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    cluster = {"scheduler": {**part, "service": {}}, "worker": {**part, "replicas": workers}}
    spec = {"job": part, "cluster": {"spec": cluster}}
    return owner("kubernetes.dask.org/v1", "DaskJob", spec)


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
    "SparkApplication": ("/apis/sparkoperator.k8s.io/v1beta2", "sparkapplications", sparkapp),
    "DaskJob": ("/apis/kubernetes.dask.org/v1", "daskjobs", daskjob),
}
"""Where each kind is sent, and what makes one of a pod's template."""
UNJUDGED = frozenset(("TrainJob", "SparkApplication", "DaskJob"))
"""Their pods are judged when they are made, and their templates nowhere else."""
OPERATORS = frozenset(
    (
        *("JobSet", "MPIJob", "RayJob", "LeaderWorkerSet", "TrainingRuntime", "TrainJob"),
        *("SparkApplication", "DaskJob", "DaemonSet", "PodTemplate", "ReplicationController"),
    )
)
"""Members have a right to them where the site installs their operator, and none to the last three; the site of this test installs none."""


def place(kind: str, space: str = ALPHA) -> str:
    base, plural, _ = MAKERS[kind]
    return f"{base}/namespaces/{space}/{plural}"


def refused_pod(name: str, judge: str, template: Body, space: str = ALPHA) -> Cheat:
    return Cheat(name, judge, pods(space), named(template, space))


def changed(name: str, meta: Body, judge: str = "appliance-frozen") -> Cheat:
    path = f"{pods(ALPHA)}/{MINE}"
    return Cheat(name, judge, path, {"metadata": meta}, "PATCH")


def made_by(kind: str, name: str, judge: str, template: Body) -> Cheat:
    return Cheat(
        f"{name}, by a {kind}",
        judge,
        place(kind),
        MAKERS[kind][2](template),
        member=kind not in OPERATORS,
    )


def placed(name: str, **spec: Any) -> Cheat:
    return Cheat(name, "appliance-frozen", f"{pods(ALPHA)}/{MINE}", {"spec": spec}, "PATCH")


def claim_spec(**spec: Any) -> Body:
    whole = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
        **spec,
    }
    return {k: v for k, v in whole.items() if v is not None}


def claim(name: str, **spec: Any) -> Cheat:
    path = f"/api/v1/namespaces/{ALPHA}/persistentvolumeclaims"
    body = {"metadata": {"name": "try"}, "spec": claim_spec(**spec)}
    return Cheat(name, "appliance-claims", path, body)


def own_set() -> Body:
    """An honest StatefulSet of Alice's, without pods for now."""
    made = stateful(pod(gpus=0))
    made["metadata"]["name"] = MINE
    made["spec"]["replicas"] = 0
    return made


def own_cron() -> Body:
    """An honest CronJob of Alice's."""
    made = cron(pod(gpus=0))
    made["metadata"]["name"] = MINE
    return made


def own_jobset() -> Body:
    """A JobSet as an operator makes it of what Alice wrote."""
    made = jobset(pod(gpus=0))
    made["metadata"]["name"] = MINE
    return made


def by_hand(queue: str, **owner: Any) -> Body:
    """What kubectl create job --from=cronjob/mine sends, for this queue; kubectl writes the CronJob as the owner."""
    made = job(pod(queue, gpus=0))
    made["metadata"]["annotations"] = {"cronjob.kubernetes.io/instantiate": "manual"}
    return owned_by(made, {**CRON, **owner})


def own_service() -> Body:
    """An honest service of Alice's."""
    meta = {"name": MINE, "namespace": ALPHA}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {"ports": [{"port": 80}]},
    }


def owned_by(made: Body, *owners: Body) -> Body:
    """The same as somebody's."""
    changed_ = copy.deepcopy(made)
    changed_["metadata"]["ownerReferences"] = list(owners)
    return changed_


def own_claim() -> Body:
    """An honest claim of Alice's that waits for its volume."""
    meta = {"name": MINE, "namespace": ALPHA}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {**kind, "metadata": meta, "spec": claim_spec()}


def own_secret() -> Body:
    """An honest secret of Alice's, for cheats that would read it."""
    meta = {"name": MINE, "namespace": ALPHA}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"token": "x"}}


def ephemeral(**spec: Any) -> Body:
    return {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(**spec)}}}


def key_in_env() -> Body:
    key = {"secretKeyRef": {"name": "ngc", "key": ".dockerconfigjson"}}
    return {"env": [{"name": "KEY", "valueFrom": key}]}


def env(**entry: Any) -> Body:
    return {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", **entry}]}


def container_of(name: str, **more: Any) -> Body:
    return {"name": name, "image": "none", **more}


def sized(name: str, cpu: str, **more: Any) -> Body:
    """A container with this request of cpu, and the default of all else."""
    return container_of(name, resources={"requests": {"cpu": cpu}}, **more)


VOID: Body = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}
"""What a container without GPUs writes, so that its image shows it none."""
QUEUES = "/appliance-queues"
OFF: Body = {"app.kubernetes.io/managed-by": None, "appliance/site": None}
BETA_CLASS = {"volume.beta.kubernetes.io/storage-class": ""}


def gpus_of(amount: str) -> Body:
    return {"resources": {"limits": {"nvidia.com/gpu": amount}}}


def noted_claim(name: str, notes: Body) -> Cheat:
    path = f"/api/v1/namespaces/{ALPHA}/persistentvolumeclaims"
    body = {"metadata": {"name": "try", "annotations": notes}, "spec": claim_spec()}
    return Cheat(name, "appliance-claims", path, body)


def noted_ephemeral(notes: Body) -> Body:
    made = ephemeral()
    made["ephemeral"]["volumeClaimTemplate"]["metadata"] = {"annotations": notes}
    return made


def token_of(seconds: int) -> Body:
    """A volume with a token for somebody outside the cluster."""
    token = {"path": "token", "audience": "vault", "expirationSeconds": seconds}
    return {"name": "t", "projected": {"sources": [{"serviceAccountToken": token}]}}


def kept(notes: Body | None = None, **spec: Any) -> Body:
    """A StatefulSet with a claim for each of its pods."""
    made = stateful(pod())
    held: Body = {k: spec.pop(k) for k in ("finalizers", "labels", "ownerReferences") if k in spec}
    meta = {"name": "data", "annotations": notes or {}, **held}
    made["spec"]["volumeClaimTemplates"] = [{"metadata": meta, "spec": claim_spec(**spec)}]
    return made


def probe(host: str, kind: str = "httpGet") -> Body:
    return {kind: {"port": 80, "host": host}}


def deleted(name: str, judge: str, path: str, **options: Any) -> Cheat:
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"], **options}
    return Cheat(name, judge, path, body, "DELETE")


def noted(made: Body, notes: Body, kind: str = "annotations") -> Body:
    """The same with marks on the object itself."""
    changed = copy.deepcopy(made)
    changed["metadata"].setdefault(kind, {}).update(notes)
    return changed


def cron_of(notes: Body, kind: str = "annotations") -> Body:
    """With marks on the Jobs it makes."""
    made = cron(pod())
    made["spec"]["jobTemplate"]["metadata"] = {kind: notes}
    return made


def secure(**context: Any) -> Body:
    return {"securityContext": context}


def far(kind: str, term: Body) -> Body:
    near = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, **term}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}


def rather(kind: str, term: Body) -> Body:
    """Terms of affinity that are preferred."""
    near = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, **term}
    when = "preferredDuringSchedulingIgnoredDuringExecution"
    return {kind: {when: [{"weight": 100, "podAffinityTerm": near}]}}


THEIRS = pod("beta-train")
STOCK = pod(schedulerName=None)
DECOY = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "decoy", "uid": "1", "controller": True}]
OWNER = [{**DECOY[0], "controller": False}]
HOST = [{"name": "h", "hostPath": {"path": "/"}}]
DEVICE = [{"name": "h", "hostPath": {"path": "/dev/nvidia0", "type": "CharDevice"}}]

SLURM = {"key": "appliance/owner", "operator": "Exists", "effect": "NoSchedule"}
EVICTABLE = {"unhealthyPodEvictionPolicy": "AlwaysAllow"}
SLIGHT = {"resources": {"requests": {"cpu": "50m"}}}
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
