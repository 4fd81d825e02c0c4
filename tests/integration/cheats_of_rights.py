"""Cheats of the cluster's database, of drains, of what the appliance wrote, and of rights."""

from tests.integration.cheat_parts import (
    ALPHA,
    EVICTABLE,
    MINE,
    OFF,
    POOL,
    QUEUE,
    QUEUES,
    RBAC,
    SLURM,
    Body,
    Cheat,
    claim_spec,
    cron_of,
    deployment,
    ephemeral,
    job,
    kept,
    named,
    place,
    placed,
    pod,
    pods,
    refused_pod,
)

THEIRS = dict.fromkeys(OFF, "appliance")
"""Labels by which an apply knows what is its own."""


def _labelled() -> Body:
    made = ephemeral()
    made["ephemeral"]["volumeClaimTemplate"]["metadata"] = {"labels": THEIRS}
    return made


def _manager(fields: int) -> Body:
    """A manager of fields as the server keeps them, of fields that are not there."""
    owned: Body = {"f:data": {f"f:{n:0186}": {} for n in range(fields)}}
    kind = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return {**kind, "time": "2026-01-01T00:00:00Z", "fieldsV1": owned}


def _spread(values: list[str]) -> Body:
    """A constraint whose selector names these values."""
    chosen = {"matchExpressions": [{"key": "a", "operator": "In", "values": values}]}
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "labelSelector": chosen}
    return {**spread, "whenUnsatisfiable": "ScheduleAnyway"}


def _of_account() -> Body:
    """A request for a token of ten years."""
    spec = {"audiences": ["https://127.0.0.1"], "expirationSeconds": 315_360_000}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


CHEATS: tuple[Cheat, ...] = (
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
        "a ConfigMap of 690 KB of binary data",
        "appliance-weight",
        f"/api/v1/namespaces/{ALPHA}/configmaps",
        {"metadata": {"name": "try"}, "binaryData": {"a": "QUFB" * 230_000}},
    ),
    Cheat(
        "a ConfigMap whose managers of fields are 850 KB",
        "appliance-weight",
        f"/api/v1/namespaces/{ALPHA}/configmaps",
        {"metadata": {"name": "try", "managedFields": [_manager(4500)]}, "data": {"a": "b"}},
    ),
    Cheat(
        "a ConfigMap of 3,000 labels",
        "appliance-weight",
        f"/api/v1/namespaces/{ALPHA}/configmaps",
        {"metadata": {"name": "try", "labels": {f"l{n:050}": "v" * 60 for n in range(3000)}}},
    ),
    refused_pod(
        "a pod with a selector of 500 KB",
        "appliance-weight",
        pod(topologySpreadConstraints=[_spread([f"{n:054}" for n in range(9000)])]),
    ),
    Cheat(
        "a name of the appliance's that the server completes",
        "appliance-own",
        f"/api/v1/namespaces/{ALPHA}/configmaps",
        {"metadata": {"generateName": "appliance-"}},
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
    refused_pod("a pod of 900 KB", "appliance-weight", pod(container={"args": ["x" * 900_000]})),
    refused_pod(
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
    # By a controller, which copies labels: an apply takes the claim for one of the site's, and stops at the pod that mounts it.
    *(
        Cheat(f"the appliance's label {name}", "appliance-own", path, made)
        for name, path, made in (
            ("on a StatefulSet's claims", place("StatefulSet"), kept(labels=THEIRS)),
            ("on a Deployment's pods", place("Deployment"), deployment(pod(labels=THEIRS))),
            ("on a CronJob's Jobs", place("CronJob"), cron_of(THEIRS, "labels")),
            ("on an ephemeral claim", pods(ALPHA), named(pod(volumes=[_labelled()]))),
        )
    ),
    *(
        Cheat(
            f"the appliance's label on a {kind} of an operator",
            "appliance-own",
            path,
            made,
            operator=True,
        )
        for kind, path, made in (
            ("Job", place("Job"), job(pod(), THEIRS)),
            (
                "claim",
                f"/api/v1/namespaces/{ALPHA}/persistentvolumeclaims",
                {"metadata": {"name": "try", "labels": THEIRS}, "spec": claim_spec()},
            ),
        )
    ),
    Cheat(
        "a neighbour's priority class on a CronJob's Jobs",
        "appliance-priority",
        place("CronJob"),
        cron_of({"priorityClassName": "urgent"}, "labels"),
    ),
    Cheat(
        "a neighbour's queue on a CronJob's Jobs",
        "appliance-queue",
        place("CronJob"),
        cron_of({QUEUE: "beta-train"}, "labels"),
    ),
    *(
        Cheat(
            name,
            "appliance-own",
            f"/api/v1/namespaces/{ALPHA}/configmaps/kube-root-ca.crt",
            body,
            how,
        )
        for name, how, body in (
            ("whom pods take for the cluster, changed", "PATCH", {"data": {"ca.crt": "x"}}),
            ("whom pods take for the cluster, deleted", "DELETE", {}),
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
    placed("hosts of Slurm tolerated by a pod that waits", tolerations=[SLURM]),
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
    Cheat(
        "a token of the project's own account for ten years",
        RBAC,
        f"/api/v1/namespaces/{ALPHA}/serviceaccounts/default/token",
        _of_account(),
    ),
    Cheat(
        "addresses of others behind a service of one's own",
        RBAC,
        f"/apis/discovery.k8s.io/v1/namespaces/{ALPHA}/endpointslices",
        {
            "metadata": {"name": "try", "labels": {"kubernetes.io/service-name": MINE}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.10"]}],
            "ports": [],
        },
    ),
    Cheat(
        "the status of a service",
        RBAC,
        f"/api/v1/namespaces/{ALPHA}/services/{MINE}/status",
        {"status": {"loadBalancer": {}}},
        "PATCH",
    ),
    Cheat(
        "resources of a pod that runs",
        RBAC,
        f"{pods(ALPHA)}/{MINE}/resize",
        {"spec": {}},
        "PATCH",
    ),
    Cheat(
        "all ConfigMaps deleted at once",
        RBAC,
        f"/api/v1/namespaces/{ALPHA}/configmaps",
        method="DELETE",
    ),
)
