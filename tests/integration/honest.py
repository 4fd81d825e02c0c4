"""Honest work of members, which must pass."""

from tests.integration.cheat_parts import (
    ALPHA,
    EVICTABLE,
    FABRIC,
    MAKERS,
    POOL,
    QUEUE,
    VOID,
    Body,
    by_hand,
    claim_spec,
    container_of,
    cron,
    deployment,
    ephemeral,
    far,
    gpus_of,
    job,
    jobset,
    kept,
    named,
    noted,
    place,
    pod,
    pods,
    rather,
    rayjob,
    secure,
    sized,
    sparkapp,
    token_of,
    trainjob,
)

OWN_CLAIM = {"kind": "PersistentVolumeClaim", "name": "mine"}

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
    ephemeral(),
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


def large_jobset() -> Body:
    """As a training over eight groups of hosts writes it."""
    made = jobset(pod(container={"env": [{"name": f"A{n}", "value": "x" * 20} for n in range(60)]}))
    (one,) = made["spec"]["replicatedJobs"]
    made["spec"]["replicatedJobs"] = [{**one, "name": f"part-{n}", "replicas": 4} for n in range(8)]
    return made


def _honest() -> tuple[tuple[str, str, Body], ...]:
    """Name, path and object of work that must pass."""
    notes = pod("alpha-notes", labels={POOL: "interactive"}, priorityClassName="build")
    rdma = pod("fabric-train", container=secure(capabilities={"add": ["IPC_LOCK"]}))
    own = pod(affinity=far("podAntiAffinity", {}), terminationGracePeriodSeconds=600)
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
                containers=[container_of("a", **gpus_of("1")), container_of("b", **VOID)],
                initContainers=[
                    container_of("i", **VOID),
                    container_of("s", restartPolicy="Always", **VOID),
                ],
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
                    **secure(
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
        "480m of cpu in two containers": (
            ALPHA,
            pod(gpus=0, containers=[sized("a", "240m"), sized("b", "240m")]),
        ),
        "a small container next to one that requests nothing": (
            ALPHA,
            pod(gpus=0, containers=[sized("a", "10m"), container_of("b")]),
        ),
        "a limit of cpu and no request": (
            ALPHA,
            pod(gpus=0, container={"resources": {"limits": {"cpu": "500m"}}}),
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
        "a host that goes away tolerated for a minute": (
            ALPHA,
            pod(
                tolerations=[
                    {
                        "key": f"node.kubernetes.io/{key}",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 60,
                    }
                    for key in ("not-ready", "unreachable")
                ],
                affinity=rather("podAntiAffinity", {}),
            ),
        ),
        "variables of NVIDIA's toolkit that give no devices": (
            ALPHA,
            pod(
                container={
                    "env": [
                        {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
                        {"name": "NVIDIA_GDRCOPY", "value": "enabled"},
                        {"name": "NVIDIA_MOFED", "value": "disabled"},
                    ]
                }
            ),
        ),
        "annotations of kubectl, a mesh and monitoring": (
            ALPHA,
            pod(
                notes={
                    "kubectl.kubernetes.io/default-container": "work",
                    "prometheus.io/scrape": "true",
                    "sidecar.istio.io/inject": "false",
                }
            ),
        ),
        "a token of a day for somebody outside": (
            ALPHA,
            pod(volumes=[token_of(86_400)], serviceAccountName="default"),
        ),
        "a probe with a grace of its own": (
            ALPHA,
            pod(
                container={
                    "livenessProbe": {
                        "exec": {"command": ["true"]},
                        "terminationGracePeriodSeconds": 600,
                    }
                }
            ),
        ),
        "gates, a spread by host, hooks and a probe by gRPC": (
            ALPHA,
            pod(
                schedulingGates=[{"name": "example.com/wait"}],
                hostAliases=[{"ip": "10.0.0.9", "hostnames": ["db"]}],
                topologySpreadConstraints=[
                    {
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {"matchLabels": {"a": "b"}},
                    }
                ],
                container={
                    "livenessProbe": {"grpc": {"port": 9000}},
                    "lifecycle": {"preStop": {"sleep": {"seconds": 30}}},
                },
            ),
        ),
        "user IDs of its own": (ALPHA, pod(hostUsers=False)),
        "all that Pod Security's restricted asks for": (
            ALPHA,
            pod(
                securityContext={
                    "runAsNonRoot": True,
                    "runAsUser": 1000,
                    "fsGroup": 1000,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                container=secure(allowPrivilegeEscalation=False, capabilities={"drop": ["ALL"]}),
            ),
        ),
        "processes that see each other, and options of names": (
            ALPHA,
            pod(shareProcessNamespace=True, dnsConfig={"options": [{"name": "ndots"}]}),
        ),
        "variables of its own name and memory": (
            ALPHA,
            pod(
                container={
                    "env": [
                        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                        {
                            "name": "B",
                            "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}},
                        },
                    ]
                }
            ),
        ),
        "a key of its own for images": (ALPHA, pod(imagePullSecrets=[{"name": "mine"}])),
        "a script of 30 KB": (ALPHA, pod(container={"args": ["x" * 30_000]})),
    }
    pods_ = tuple((n, pods(space), named(t, space)) for n, (space, t) in plain.items())
    core = f"/api/v1/namespaces/{ALPHA}"
    meta = {"metadata": {"name": "try"}}
    others: tuple[tuple[str, str, Body], ...] = (
        ("a claim", f"{core}/persistentvolumeclaims", {**meta, "spec": claim_spec()}),
        ("a StatefulSet with claims", place("StatefulSet"), kept()),
        (
            "a claim with annotations of one's own",
            f"{core}/persistentvolumeclaims",
            {
                "metadata": {"name": "try", "annotations": {"example.com/a": "b"}},
                "spec": claim_spec(),
            },
        ),
        (
            "a claim that copies one of one's own",
            f"{core}/persistentvolumeclaims",
            {**meta, "spec": claim_spec(dataSource=OWN_CLAIM)},
        ),
        (
            "a name of a database outside",
            f"{core}/services",
            {**meta, "spec": {"type": "ExternalName", "externalName": "db.svc-1.example.org"}},
        ),
        (
            "a RayJob that a pod of the project submits to a cluster that is there",
            place("RayJob"),
            {
                **rayjob(pod()),
                "spec": {
                    "entrypoint": "x",
                    "submissionMode": "K8sJobMode",
                    "clusterSelector": {"ray.io/cluster": "a"},
                    "submitterPodTemplate": pod(gpus=0),
                },
            },
        ),
        (
            "a TrainJob with a class, a queue and a pool of its project",
            place("TrainJob"),
            trainjob({}, {QUEUE: "alpha-notes", POOL: "interactive", "priorityClassName": "build"}),
        ),
        ("a token of a model hub", f"{core}/secrets", {**meta, "stringData": {"token": "x"}}),
        ("a ConfigMap of 100 KB", f"{core}/configmaps", {**meta, "data": {"a": "x" * 100_000}}),
        (
            "a ConfigMap of 1,500 small keys",
            f"{core}/configmaps",
            {**meta, "data": {f"key-{n}": "value" for n in range(1500)}},
        ),
        (
            "a headless service of 12 ports",
            f"{core}/services",
            {
                **meta,
                "spec": {
                    "clusterIP": "None",
                    "publishNotReadyAddresses": True,
                    "ports": [{"name": f"p{n}", "port": n} for n in range(1, 13)],
                },
            },
        ),
        (
            "an indexed Job of 5,000",
            place("Job"),
            {
                **job(pod()),
                "spec": {
                    **job(pod())["spec"],
                    "completions": 5000,
                    "parallelism": 50,
                    "completionMode": "Indexed",
                    "backoffLimitPerIndex": 1,
                },
            },
        ),
        (
            "a CronJob each minute by another time zone",
            place("CronJob"),
            {
                **cron(pod(gpus=0)),
                "spec": {
                    **cron(pod(gpus=0))["spec"],
                    "schedule": "* * * * *",
                    "timeZone": "Europe/Berlin",
                    "concurrencyPolicy": "Forbid",
                },
            },
        ),
        (
            "a Job whose indexes fail by their exit code",
            place("Job"),
            {
                **job(pod()),
                "spec": {
                    **job(pod())["spec"],
                    "completions": 8,
                    "parallelism": 4,
                    "completionMode": "Indexed",
                    "backoffLimitPerIndex": 1,
                    "ttlSecondsAfterFinished": 600,
                    "podFailurePolicy": {
                        "rules": [
                            {
                                "action": "FailIndex",
                                "onExitCodes": {"operator": "In", "values": [42]},
                            }
                        ]
                    },
                },
            },
        ),
        (
            "a Deployment of a Helm release",
            place("Deployment"),
            noted(
                noted(deployment(pod(gpus=0)), {"app.kubernetes.io/managed-by": "Helm"}, "labels"),
                {"meta.helm.sh/release-name": "a", "meta.helm.sh/release-namespace": ALPHA},
            ),
        ),
        (
            "a certificate and its key",
            f"{core}/secrets",
            {
                **meta,
                "type": "kubernetes.io/tls",
                "stringData": {"tls.crt": "x", "tls.key": "y"},
            },
        ),
        (
            "a service that keeps a client at one pod",
            f"{core}/services",
            {
                **meta,
                "spec": {
                    "ports": [{"port": 80}],
                    "selector": {"a": "b"},
                    "sessionAffinity": "ClientIP",
                    "trafficDistribution": "PreferClose",
                },
            },
        ),
        ("a Job made by hand of a CronJob", place("Job"), by_hand("alpha-train")),
        ("a JobSet of eight parts of 60 variables", place("JobSet"), large_jobset()),
        (
            "a SparkApplication with settings and files",
            place("SparkApplication"),
            sparkapp(
                pod(gpus=0),
                mainApplicationFile="s3a://bucket/train.py",
                sparkConf={
                    "spark.sql.shuffle.partitions": "200",
                    "spark.kubernetes.executor.label.a": "b",
                    "spark.kubernetes.driver.volumes.persistentVolumeClaim.a.mount.path": "/a",
                    "spark.hadoop.fs.s3a.endpoint": "https://s3.example",
                },
                hadoopConf={"fs.s3a.path.style.access": "true"},
                deps={"jars": ["https://a.example/a.jar", "local:///opt/b.jar"]},
            ),
        ),
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
