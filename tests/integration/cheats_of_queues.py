"""Cheats of a quota, a pool, a limit or a neighbour."""

from tests.integration.cheat_parts import (
    ALPHA,
    BETA,
    BOUND,
    CRON,
    DECOY,
    MINE,
    OWNER,
    POOL,
    QUEUE,
    RBAC,
    STOCK,
    THEIRS,
    Cheat,
    binding,
    by_hand,
    changed,
    deleted,
    deployment,
    far,
    job,
    named,
    owned_by,
    place,
    pod,
    pods,
    rather,
    refused_pod,
    trainjob,
)

CHEATS: tuple[Cheat, ...] = (
    # A quota: the queue.
    refused_pod("a pod in a neighbour's queue", "appliance-queue", THEIRS),
    refused_pod("a pod in no queue", "appliance-queue", pod(labels={QUEUE: None})),
    refused_pod("a pod in the project's own upper queue", "appliance-queue", pod("alpha")),
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
    changed("the queue changed while the pod runs", {"labels": {QUEUE: "alpha-build"}}),
    changed("the queue taken away while the pod runs", {"labels": {QUEUE: None}}),
    changed(
        "the project, which KAI takes for a queue, while the pod runs",
        {"labels": {"project": "beta"}},
    ),
    # A quota: another scheduler, or none.
    refused_pod("GPUs by the stock scheduler", "appliance-scheduler", STOCK),
    refused_pod(
        "GPUs by a scheduler of one's own", "appliance-scheduler", pod(schedulerName="mine")
    ),
    refused_pod(
        "processors by the stock scheduler", "appliance-scheduler", pod(gpus=0, schedulerName=None)
    ),
    refused_pod("a host named by the pod", "appliance-placement", pod(nodeName="gpu-1")),
    Cheat(
        "a pod bound by its owner",
        RBAC,
        f"{pods(ALPHA)}/{MINE}/binding",
        binding(MINE),
    ),
    # A pool.
    refused_pod("the label of another pool", "appliance-pool", pod(labels={POOL: "interactive"})),
    refused_pod("a pool left out", "appliance-pool", pod("alpha-notes")),
    refused_pod(
        "hosts of another pool selected", "appliance-pool", pod(nodeSelector={POOL: "interactive"})
    ),
    Cheat(
        "a Job whose own label is another pool",
        "appliance-pool",
        place("Job"),
        job(pod(), {POOL: "interactive"}),
    ),
    changed("the pool changed while the pod runs", {"labels": {POOL: "interactive"}}),
    refused_pod(
        "hosts of Slurm tolerated",
        "appliance-placement",
        pod(tolerations=[{"key": "appliance/owner", "operator": "Exists"}]),
    ),
    refused_pod(
        "control planes tolerated",
        "appliance-placement",
        pod(tolerations=[{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]),
    ),
    refused_pod(
        "everything tolerated", "appliance-placement", pod(tolerations=[{"operator": "Exists"}])
    ),
    *(
        refused_pod(
            f"hosts with the taint {key} tolerated",
            "appliance-placement",
            pod(tolerations=[{"key": f"node.kubernetes.io/{key}", "operator": "Exists"}]),
        )
        for key in ("out-of-service", "disk-pressure", "unschedulable")
    ),
    refused_pod(
        "neighbours pushed off a host by what is only preferred",
        "appliance-placement",
        pod(affinity=rather("podAntiAffinity", {"namespaceSelector": {}})),
    ),
    # A limit.
    refused_pod(
        "a grace of a year",
        "appliance-end",
        pod(terminationGracePeriodSeconds=31_536_000),
    ),
    *(
        refused_pod(
            f"a grace of a year for who fails the {probe}",
            "appliance-end",
            pod(
                container={
                    probe: {
                        "exec": {"command": ["false"]},
                        "terminationGracePeriodSeconds": 31_536_000,
                    }
                }
            ),
        )
        for probe in ("livenessProbe", "startupProbe")
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
    deleted(
        "a pod deleted with a grace of a year",
        "appliance-leaving",
        f"{pods(ALPHA)}/{BOUND}",
        gracePeriodSeconds=31_536_000,
    ),
    deleted(
        "a pod deleted with a grace of eleven minutes",
        "appliance-leaving",
        f"{pods(ALPHA)}/{BOUND}",
        gracePeriodSeconds=660,
    ),
    Cheat(
        "a CronJob for the owner of a Job that waits in another queue",
        "appliance-manual",
        place("Job"),
        by_hand("alpha-build"),
    ),
    *(
        Cheat(f"a Job by hand of {name}", "appliance-marks", place("Job"), made)
        for name, made in (
            ("a CronJob of another group", by_hand("alpha-train", apiVersion="a.example/v1")),
            ("a ReplicaSet", by_hand("alpha-train", kind="ReplicaSet", apiVersion="apps/v1")),
            ("a CronJob and a pod", owned_by(by_hand("alpha-train"), CRON, *OWNER)),
        )
    ),
    Cheat(
        "a Deployment of a CronJob",
        "appliance-marks",
        place("Deployment"),
        owned_by(deployment(pod(gpus=0)), CRON),
    ),
    changed("an owner given to a pod that runs", {"ownerReferences": DECOY}, "appliance-marks"),
    refused_pod(
        "the group of another's pods joined", "appliance-marks", pod(notes={"pod-group-name": "x"})
    ),
    changed("another group, once the pod runs", {"annotations": {"pod-group-name": "x"}}),
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
    refused_pod(
        "a system's priority",
        "appliance-priority",
        pod(priorityClassName="system-cluster-critical"),
    ),
    refused_pod(
        "a neighbour's priority class", "appliance-priority", pod(priorityClassName="urgent")
    ),
    refused_pod(
        "a priority by label",
        "appliance-priority",
        pod(labels={"priorityClassName": "system-node-critical"}),
    ),
    refused_pod(
        "neighbours kept off a host",
        "appliance-placement",
        pod(affinity=far("podAntiAffinity", {"namespaceSelector": {}})),
    ),
    refused_pod(
        "a neighbour followed by name",
        "appliance-placement",
        pod(affinity=far("podAffinity", {"namespaces": [BETA]})),
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
)
