"""Policy of how many pods one object asks for.

A quota counts pods once they are made. Before that a controller that all projects share holds something in memory for each of them:
a StatefulSet of two thousand million replicas is two thousand million pods in kube-controller-manager (seen, Kubernetes 1.35.4).
"""

from appliance.stages.scheduler.queues.admission import WRITES, Policy, Rule, objects
from appliance.stages.scheduler.site import SchedulerOptions

REPLICAS = "[{0}.spec.?replicas.orValue(1)]"
COUNTS: tuple[tuple[str, str, str], ...] = (
    ("", "replicationcontrollers", REPLICAS),
    ("apps", "deployments", REPLICAS),
    ("apps", "replicasets", REPLICAS),
    ("apps", "statefulsets", REPLICAS),
    (
        "autoscaling",
        "horizontalpodautoscalers",
        "[{0}.spec.?minReplicas.orValue(1), {0}.spec.maxReplicas]",
    ),
    ("batch", "jobs", "[{0}.spec.?parallelism.orValue(1)]"),
    ("batch", "cronjobs", "[{0}.spec.jobTemplate.spec.?parallelism.orValue(1)]"),
    (
        "jobset.x-k8s.io",
        "jobsets",
        "{0}.spec.?replicatedJobs.orValue([]).map(j, j.?replicas.orValue(1))"
        " + {0}.spec.?replicatedJobs.orValue([]).map(j,"
        " j.?replicas.orValue(1) * j.template.spec.?parallelism.orValue(1))",
    ),
    (
        "kubeflow.org",
        "mpijobs",
        "{0}.spec.mpiReplicaSpecs.map(r, {0}.spec.mpiReplicaSpecs[r].?replicas.orValue(1))",
    ),
    (
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        "[{0}.spec.?replicas.orValue(1),"
        " {0}.spec.?replicas.orValue(1) * {0}.spec.leaderWorkerTemplate.?size.orValue(1)]",
    ),
    ("ray.io", "rayclusters", "{ray}{0}.spec.?workerGroupSpecs"),
    ("ray.io", "rayjobs", "{ray}{0}.spec.?rayClusterSpec.?workerGroupSpecs"),
    ("ray.io", "rayservices", "{ray}{0}.spec.?rayClusterConfig.?workerGroupSpecs"),
    ("trainer.kubeflow.org", "trainjobs", "[{0}.spec.?trainer.?numNodes.orValue(1)]"),
    ("kubernetes.dask.org", "daskclusters", "[{0}.spec.?worker.?replicas.orValue(1)]"),
    ("kubernetes.dask.org", "daskworkergroups", "[{0}.spec.?worker.?replicas.orValue(1)]"),
    (
        "kubernetes.dask.org",
        "daskjobs",
        "[{0}.spec.?cluster.?spec.?worker.?replicas.orValue(1)]",
    ),
    ("kubernetes.dask.org", "daskautoscalers", "[{0}.spec.?maximum.orValue(1)]"),
)
"""Group, resource, and the pods that one asks for. Not maxReplicas of Ray's workers, which Ray's own definition sets to 2147483647."""
SCALED = ("replicationcontrollers", "deployments", "replicasets", "statefulsets")
"""With a subresource scale, whose object has its number in the same place."""
RAY = "{0}.orValue([]).map(g, g.?numOfHosts.orValue(1))" + "".join(
    f" + {{0}}.orValue([]).map(g, g.?numOfHosts.orValue(1) * g.?{number}.orValue(0))"
    for number in ("replicas", "minReplicas")
)


def counts(options: SchedulerOptions) -> Policy:
    """Judges everybody: an autoscaler changes the numbers of a member's work with rights of its own."""
    most = max((project.pods for project in options.projects), default=1)
    rule = Rule(
        # A number below 0 would hide another one that it is multiplied with.
        f"variables.asked.all(n, n >= 0 && n <= {most}) || variables.asked == variables.before",
        f"the object asks for more pods than any project may have: write {most} at most "
        "for replicas, parallelism, workers and maxReplicas",
    )
    variables = {
        "asked": _chosen("object"),
        "before": f"oldObject == null ? [] : {_chosen('oldObject')}",
    }
    return Policy("appliance-counts", (rule,), _on(), {}, variables)


def _on() -> tuple[dict[str, object], ...]:
    groups = dict.fromkeys(group for group, _, _ in COUNTS)
    return tuple(
        objects(
            group,
            [
                name
                for g, r, _ in COUNTS
                if g == group
                for name in (r, *([f"{r}/scale"] if r in SCALED else []))
            ],
            WRITES,
        )
        for group in groups
    )


def _chosen(root: str) -> str:
    chosen = "[]"
    for group, resource, where in reversed(COUNTS):
        asked = f"request.resource.group == '{group}' && request.resource.resource == '{resource}'"
        chosen = f"{asked} ? {_pods(where, root)} : {chosen}"
    return f"({chosen})"


def _pods(where: str, root: str) -> str:
    if where.startswith("{ray}"):
        return RAY.replace("{0}", where.removeprefix("{ray}").replace("{0}", root))
    return where.replace("{0}", root)
