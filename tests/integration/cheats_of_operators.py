"""Cheats by what operators and controllers, which work for all projects, do for a member."""

from typing import Any

from tests.integration.cheat_parts import (
    ALPHA,
    DECOY,
    MINE,
    OPERATORS,
    Body,
    Cheat,
    changed,
    container_of,
    cron,
    daskjob,
    deployment,
    job,
    jobset,
    mpijob,
    named,
    noted,
    owned_by,
    place,
    pod,
    pods,
    rayjob,
    replicas,
    sparkapp,
    stateful,
    workers,
)

MANY = 2_000_000_000
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
KEEP = ["a.example/keep"]
CORE = f"/api/v1/namespaces/{ALPHA}"
SCALERS = f"namespaces/{ALPHA}/horizontalpodautoscalers"
SETTINGS = (
    *("spark.kubernetes.namespace", "spark.kubernetes.driver.podTemplateFile"),
    *("spark.kubernetes.authenticate.submission.oauthTokenFile", "spark.kubernetes.context"),
    *("spark.kubernetes.file.upload.path", "spark.kubernetes.driver.pod.featureSteps"),
    *("spark.master", "spark.master=local", "spark.submit.deployMode", "spark.kerberos.keytab"),
    *("spark.files", "spark.jars", "spark.jars.ivySettings", "spark.yarn.keytab"),
    *("spark.jars.packages", "spark.jars.repositories"),
)
FILES: tuple[tuple[str, Body], ...] = (
    ("a program of the operator's container", {"mainApplicationFile": TOKEN}),
    ("the same with its scheme", {"mainApplicationFile": f"file://{TOKEN}"}),
    ("an option in the program's place", {"mainApplicationFile": "--deploy-mode"}),
    ("a file of the operator's container", {"deps": {"files": [TOKEN]}}),
    ("such a file behind another", {"deps": {"jars": [f"local:///a.jar,{TOKEN}"]}}),
    ("such an archive", {"deps": {"archives": [f"file:{TOKEN}#a"]}}),
)
FETCHED: tuple[tuple[str, Body], ...] = (
    ("a package", {"deps": {"packages": ["org.example:a:1"]}}),
    ("a place of packages", {"deps": {"repositories": ["https://a.example"]}}),
)
OWNER = [{**DECOY[0], "controller": False}]


def _asks(kind: str, made: Body, *path: str | int) -> Cheat:
    """An object whose number of pods, at the end of ``path`` from its spec, is far too large."""
    inner: Any = made["spec"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = MANY
    name = f"a {kind} of {MANY} pods"
    return Cheat(name, "appliance-counts", place(kind), made, member=kind not in OPERATORS)


def _taken_off() -> Body:
    made = jobset(pod())
    (one,) = made["spec"]["replicatedJobs"]
    parts = [{**one, "replicas": MANY}, {**one, "name": "b", "replicas": -MANY}]
    made["spec"]["replicatedJobs"] = parts
    return made


def _scaler(version: str, least: int) -> Cheat:
    of = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": MINE}
    spec = {"scaleTargetRef": of, "minReplicas": least, "maxReplicas": MANY}
    name = f"an autoscaler of {version} from {least} to {MANY} pods"
    path = f"/apis/autoscaling/{version}/{SCALERS}"
    return Cheat(name, "appliance-counts", path, {"metadata": {"name": "try"}, "spec": spec})


def _scaled(name: str, path: str, method: str, body: Body) -> Cheat:
    return Cheat(name, "appliance-counts", f"{place('StatefulSet')}/{MINE}{path}", body, method)


def _spark(name: str, **spec: Any) -> Cheat:
    body = sparkapp(pod(gpus=0), **spec)
    path = place("SparkApplication")
    return Cheat(name, "appliance-submissions", path, body, member=False)


def _by_operator(name: str, judge: str, path: str, body: Body) -> Cheat:
    return Cheat(name, judge, path, body, operator=True)


def controlled(kind: str, api: str) -> Body:
    """Whose an object is that an operator made."""
    return {"apiVersion": api, "kind": kind, "name": "try", "uid": "1", "controller": True}


SPARK = controlled("SparkApplication", "sparkoperator.k8s.io/v1beta2")
RAY = controlled("RayCluster", "ray.io/v1")
LOOKS = pod(runtimeClassName="nvidia", initContainers=[container_of("i")])
"""An init container whose image may show it all GPUs."""


def _ingress(owner: Body) -> Body:
    port = {"service": {"name": "a", "port": {"number": 80}}}
    made = {"metadata": {"name": "try"}, "spec": {"defaultBackend": port}}
    return owned_by(made, owner)


def _with_ingress() -> Body:
    made = rayjob(pod())
    made["spec"]["rayClusterSpec"]["headGroupSpec"]["enableIngress"] = True
    return made


def _ended_by_others(template: Body) -> Body:
    template["metadata"]["finalizers"] = KEEP
    return job(template)


SPARE = {"spec": {"replicas": MANY}}
WORKER = ("mpiReplicaSpecs", "Worker", "replicas")
CHEATS: tuple[Cheat, ...] = (
    # Numbers: what a controller holds in memory for each pod that is asked for.
    *(
        _asks(kind, made, *path)
        for kind, made, path in (
            ("StatefulSet", stateful(pod()), ("replicas",)),
            ("Deployment", deployment(pod()), ("replicas",)),
            ("ReplicaSet", replicas(pod()), ("replicas",)),
            ("Job", job(pod()), ("parallelism",)),
            ("CronJob", cron(pod()), ("jobTemplate", "spec", "parallelism")),
            ("JobSet", jobset(pod()), ("replicatedJobs", 0, "replicas")),
            ("LeaderWorkerSet", workers(pod()), ("replicas",)),
            ("MPIJob", mpijob(pod()), WORKER),
            ("RayJob", rayjob(pod()), ("rayClusterSpec", "workerGroupSpecs", 0, "replicas")),
            ("DaskJob", daskjob(pod()), ("cluster", "spec", "worker", "replicas")),
        )
    ),
    Cheat(
        "a JobSet that takes as many off again",
        "appliance-counts",
        place("JobSet"),
        _taken_off(),
        member=False,
    ),
    *(_scaler(version, least) for version in ("v1", "v2") for least in (1, MANY)),
    _scaled("a StatefulSet that is there made so large", "", "PATCH", SPARE),
    _scaled("the same by its scale", "/scale", "PATCH", SPARE),
    # What spark-submit does in the operator's container, with the operator's account.
    _spark("a program in the operator's own pod", mode="client"),
    *(_spark(f"a setting {k} for spark-submit", sparkConf={k: "x"}) for k in SETTINGS),
    *(_spark(f"{name} for spark-submit", **spec) for name, spec in (*FILES, *FETCHED)),
    _spark("a key of Kerberos for spark-submit", kerberos={"keytabFile": f"../..{TOKEN}"}),
    # What an operator makes.
    Cheat(
        "a host name taken by Ray's operator",
        "appliance-routes",
        place("RayJob"),
        _with_ingress(),
        member=False,
    ),
    _by_operator(
        "an Ingress made by an operator",
        "appliance-routes",
        f"/apis/networking.k8s.io/v1/namespaces/{ALPHA}/ingresses",
        _ingress(RAY),
    ),
    *(
        _by_operator(
            f"the GPU runtime with an init container that asks for none, of a {owner['kind']}",
            "appliance-gpus",
            pods(ALPHA),
            owned_by(named(LOOKS), owner),
        )
        for owner in (SPARK, controlled("DaskCluster", "kubernetes.dask.org/v1"))
    ),
    Cheat(
        "a neighbour's priority class by Ray's own label",
        "appliance-priority",
        place("RayJob"),
        noted(rayjob(pod()), {"ray.io/priority-class-name": "urgent"}, "labels"),
        member=False,
    ),
    # Owners and finalizers: the garbage collector asks for each owner, at a pace that all share.
    *(
        Cheat(f"a {kind} that somebody else seems to own", "appliance-marks", path, made)
        for kind, path, made in (
            ("ConfigMap", f"{CORE}/configmaps", owned_by({"metadata": {"name": "try"}}, *OWNER)),
            ("CronJob", place("CronJob"), owned_by(cron(pod()), *OWNER)),
        )
    ),
    *(
        Cheat(f"a {kind} that a finalizer holds", "appliance-marks", path, made)
        for kind, path, made in (
            ("ConfigMap", f"{CORE}/configmaps", {"metadata": {"name": "try", "finalizers": KEEP}}),
            ("Job's pod", place("Job"), _ended_by_others(pod())),
        )
    ),
    changed("a finalizer put on a pod that runs", {"finalizers": KEEP}, "appliance-marks"),
    Cheat(
        "LoadBalancer put on a service that is there",
        "appliance-services",
        f"{CORE}/services/{MINE}",
        {"spec": {"type": "LoadBalancer"}},
        "PATCH",
    ),
    Cheat(
        "a service of 600 ports, each written again for every pod",
        "appliance-services",
        f"{CORE}/services",
        {
            "metadata": {"name": "try"},
            "spec": {"ports": [{"name": f"p{n}", "port": n} for n in range(1, 601)]},
        },
    ),
)
