"""Cheats by what operators and controllers, which work for all projects, do for a member."""

from typing import Any

from tests.integration.cheat_parts import (
    ALPHA,
    MINE,
    OPERATORS,
    OWNER,
    POOL,
    QUEUE,
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
    own_service,
    owned_by,
    place,
    pod,
    pods,
    rayjob,
    replicas,
    runtime,
    sparkapp,
    stateful,
    trainjob,
    workers,
)

MANY = 2_000_000_000
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
KEEP = ["a.example/keep"]
OF_CLAIMS = ["kubernetes.io/pvc-protection"]
"""Its controller takes it off claims and nothing else."""
PASSWORDS = "hadoop.security.credential.provider.path"
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


def _starts(schedule: str) -> Body:
    made = cron(pod(gpus=0))
    made["spec"]["schedule"] = schedule
    return made


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


def _by_http() -> Body:
    made = rayjob(pod())
    made["spec"]["submissionMode"] = "HTTPMode"
    return made


def _submitted_by(template: Body) -> Body:
    made = rayjob(pod())
    made["spec"]["submitterPodTemplate"] = template
    return made


def _alias(name: str) -> Body:
    return {"metadata": {"name": "try"}, "spec": {"type": "ExternalName", "externalName": name}}


def _renamed(name: str) -> Body:
    address = {"clusterIP": None, "clusterIPs": None, "selector": None}
    return {"spec": {"type": "ExternalName", "externalName": name, **address}}


def _kept_pod(finalizers: list[str]) -> Body:
    made = owned_by(named(pod(gpus=0)), SPARK)
    made["metadata"]["finalizers"] = finalizers
    return made


def _many_parts() -> Body:
    """Each part alone is small enough."""
    made = jobset(pod())
    (one,) = made["spec"]["replicatedJobs"]
    made["spec"]["replicatedJobs"] = [{**one, "name": f"p{n}", "replicas": 400} for n in range(50)]
    return made


def _many_groups() -> Body:
    """The same of Ray's workers."""
    made = rayjob(pod())
    cluster = made["spec"]["rayClusterSpec"]
    (one,) = cluster["workerGroupSpecs"]
    cluster["workerGroupSpecs"] = [
        {**one, "groupName": f"w{n}", "replicas": 400} for n in range(20)
    ]
    return made


def _of_nodes() -> Body:
    made = runtime(pod())
    made["spec"]["mlPolicy"] = {"numNodes": MANY}
    return made


def _networked() -> Body:
    made = rayjob(pod())
    made["spec"]["rayClusterSpec"]["networkPolicy"] = {"head": {"egressRules": [{}]}}
    return made


def _opened(ports: list[Body]) -> Body:
    """As Ray's operator makes one for a cluster; what one NetworkPolicy opens no other one closes."""
    spec = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": ports}]}
    return owned_by({"metadata": {"name": "try-head"}, "spec": spec}, RAY)


def _headed(meta: Body) -> Body:
    """The service of a Ray cluster's head, whose metadata its operator copies from the cluster (KubeRay 1.7, BuildServiceForHeadPod)."""
    made = owned_by(own_service(), RAY)
    made["metadata"] |= {"name": "try-head", **meta}
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
            ("SparkApplication", sparkapp(pod(gpus=0)), ("executor", "instances")),
            (
                "TrainingRuntime",
                runtime(pod()),
                ("template", "spec", "replicatedJobs", 0, "replicas"),
            ),
        )
    ),
    Cheat(
        f"a TrainingRuntime of {MANY} nodes",
        "appliance-counts",
        place("TrainingRuntime"),
        _of_nodes(),
        member=False,
    ),
    *(
        Cheat(f"a CronJob {often}", "appliance-counts", place("CronJob"), _starts(often))
        for often in ("@every 1s", "@every 0h0m1s")
    ),
    Cheat(
        "a CronJob that is there made to start each second",
        "appliance-counts",
        f"{place('CronJob')}/{MINE}",
        {"spec": {"schedule": "@every 1s"}},
        "PATCH",
    ),
    Cheat(
        "a RayJob of many groups",
        "appliance-counts",
        place("RayJob"),
        _many_groups(),
        member=False,
    ),
    Cheat(
        "a JobSet that takes as many off again",
        "appliance-counts",
        place("JobSet"),
        _taken_off(),
        member=False,
    ),
    Cheat(
        "a JobSet of many parts",
        "appliance-counts",
        place("JobSet"),
        _many_parts(),
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
    _spark("another user for spark-submit", proxyUser="hdfs"),
    _spark("a file of passwords for spark-submit", hadoopConf={PASSWORDS: f"jceks://file{TOKEN}"}),
    _spark("the same as Spark's own setting", sparkConf={f"spark.hadoop.{PASSWORDS}": "x"}),
    # What Ray's operator sends, which every project lets in.
    Cheat(
        "a job that Ray's operator sends to whom the head names",
        "appliance-submissions",
        place("RayJob"),
        _by_http(),
        member=False,
    ),
    *(
        Cheat(f"a service {name}", "appliance-services", f"{CORE}/services{at}", body, method)
        for name, at, method, body in (
            ("by the name of a neighbour's", "", "POST", _alias("ray.kai-beta.svc.cluster.local")),
            (
                "by that name with its last dot",
                "",
                "POST",
                _alias("ray.kai-beta.svc.cluster.local."),
            ),
            (
                "by the address of a neighbour's pod",
                "",
                "POST",
                _alias("1.kai-beta.pod.cluster.local"),
            ),
            ("by a name without its domain", "", "POST", _alias("ray.kai-beta.svc")),
            ("by an address in the place of a name", "", "POST", _alias("10.96.0.1")),
            (
                "that gets such a name later",
                f"/{MINE}",
                "PATCH",
                _renamed("ray.kai-beta.svc.site.example"),
            ),
        )
    ),
    Cheat(
        "a neighbour's queue for the pod that submits a Ray job",
        "appliance-queue",
        place("RayJob"),
        _submitted_by(pod("beta-train", gpus=0)),
        member=False,
    ),
    # Labels of an owner without a template that is judged: KAI takes them for its pods.
    *(
        Cheat(
            f"a {kind} with the label {key}: {value}",
            "appliance-queue-label",
            place(kind),
            noted(made, {key: value}, "labels"),
            member=False,
        )
        for kind, made in (
            ("TrainJob", trainjob({})),
            ("SparkApplication", sparkapp(pod(gpus=0))),
            ("DaskJob", daskjob(pod())),
        )
        for key, value in (
            ("priorityClassName", "system-node-critical"),
            ("ray.io/priority-class-name", "urgent"),
            (POOL, "interactive"),
        )
    ),
    Cheat(
        "a TrainJob in a queue, with another pool",
        "appliance-queue-label",
        place("TrainJob"),
        trainjob({}, {QUEUE: "alpha-train", POOL: "interactive"}),
        member=False,
    ),
    _by_operator(
        "a start in the future on a JobSet, by a TrainJob's annotations",
        "appliance-marks",
        place("JobSet"),
        noted(jobset(pod()), {"kai.scheduler/last-start-timestamp": "2099-01-01T00:00:00Z"}),
    ),
    _by_operator(
        "a finalizer on a pod, by a template that is judged nowhere else",
        "appliance-marks",
        pods(ALPHA),
        _kept_pod(KEEP),
    ),
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
    Cheat(
        "a NetworkPolicy that Ray's operator is to make",
        "appliance-routes",
        place("RayJob"),
        _networked(),
        member=False,
    ),
    *(
        _by_operator(
            f"a NetworkPolicy made by an operator, {name}",
            "appliance-routes",
            f"/apis/networking.k8s.io/v1/namespaces/{ALPHA}/networkpolicies",
            _opened(ports),
        )
        for name, ports in (("for storage", [{"port": 2049}]), ("for everything", []))
    ),
    *(
        _by_operator(
            f"{name} of the service of a Ray cluster's head",
            "appliance-marks",
            f"{CORE}/services",
            _headed(meta),
        )
        for name, meta in (
            ("a finalizer", {"finalizers": KEEP}),
            ("an annotation for networks", {"annotations": {"service.cilium.io/type": "NodePort"}}),
        )
    ),
    *(
        Cheat(
            f"{name} on a JobSet that is there, by a TrainJob that waits",
            "appliance-marks",
            f"{place('JobSet')}/{MINE}",
            {"metadata": meta},
            "PATCH",
            operator=True,
        )
        for name, meta in (
            (
                "a start in the future",
                {"annotations": {"kai.scheduler/last-start-timestamp": "2099-01-01T00:00:00Z"}},
            ),
            ("a group of others", {"annotations": {"pod-group-name": "x"}}),
            ("a finalizer", {"finalizers": KEEP}),
        )
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
    changed("a claim's finalizer on a pod that runs", {"finalizers": OF_CLAIMS}, "appliance-marks"),
    Cheat(
        "a ConfigMap with the finalizer of claims",
        "appliance-marks",
        f"{CORE}/configmaps",
        {"metadata": {"name": "try", "finalizers": OF_CLAIMS}},
    ),
    Cheat(
        "LoadBalancer put on a service that is there",
        "appliance-services",
        f"{CORE}/services/{MINE}",
        {"spec": {"type": "LoadBalancer"}},
        "PATCH",
    ),
    Cheat(
        "a service of 200 ports, each written again for every pod",
        "appliance-services",
        f"{CORE}/services",
        {
            "metadata": {"name": "try"},
            "spec": {"ports": [{"name": f"p{n}", "port": n} for n in range(1, 201)]},
        },
    ),
)
