"""Limits the pods that one object requests.

A quota counts created pods. Before, a shared controller needs memory for each requested pod:
a StatefulSet of two thousand million replicas is two thousand million pods in kube-controller-manager (seen, Kubernetes 1.35.4).
"""

from appliance.stages.scheduler.queues.admission import WRITES, Policy, Rule, objects
from appliance.stages.scheduler.site import SchedulerOptions

CRON = "request.resource.group == 'batch' && request.resource.resource == 'cronjobs'"
REPLICAS = "[{0}.spec.?replicas.orValue(1)]"


def _jobs(spec: str) -> str:
    """CEL: of each job of a JobSet, and of all of them together."""
    jobs = f"{spec}.?replicatedJobs.orValue([])"
    count = "j.?replicas.orValue(1)"
    return (
        f"{jobs}.map(j, {count})"
        f" + {jobs}.map(j, {count} * j.template.spec.?parallelism.orValue(1))"
        f" + [{jobs}.map(j, {count}).sum()]"
    )


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
    ("jobset.x-k8s.io", "jobsets", _jobs("{0}.spec")),
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
    (
        "trainer.kubeflow.org",
        "trainingruntimes",
        "[{0}.spec.?mlPolicy.?numNodes.orValue(1)] + " + _jobs("{0}.spec.template.spec"),
    ),
    ("trainer.kubeflow.org", "trainjobs", "[{0}.spec.?trainer.?numNodes.orValue(1)]"),
    (
        "sparkoperator.k8s.io",
        "scheduledsparkapplications",
        "[{0}.spec.?template.?executor.?instances.orValue(1)]",
    ),
    (
        "sparkoperator.k8s.io",
        "sparkapplications",
        "[{0}.spec.?executor.?instances.orValue(1)]",
    ),
    (
        "sparkoperator.k8s.io",
        "sparkconnects",
        "[{0}.spec.?executor.?instances.orValue(1)]",
    ),
    ("kubernetes.dask.org", "daskclusters", "[{0}.spec.?worker.?replicas.orValue(1)]"),
    ("kubernetes.dask.org", "daskworkergroups", "[{0}.spec.?worker.?replicas.orValue(1)]"),
    (
        "kubernetes.dask.org",
        "daskjobs",
        "[{0}.spec.?cluster.?spec.?worker.?replicas.orValue(1)]",
    ),
    ("kubernetes.dask.org", "daskautoscalers", "[{0}.spec.?maximum.orValue(1)]"),
)
"""Group, resource, and the number of pods that one requests. Without maxReplicas of Ray's workers, whose default is 2147483647."""
SCALED = ("replicationcontrollers", "deployments", "replicasets", "statefulsets")
"""With a subresource scale, whose object has its number in the same place."""
RAY = "{0}.orValue([]).map(g, g.?numOfHosts.orValue(1))" + "".join(
    f" + {of_each} + [{of_each}.sum()]"
    for of_each in (
        f"{{0}}.orValue([]).map(g, g.?numOfHosts.orValue(1) * g.?{number}.orValue(0))"
        for number in ("replicas", "minReplicas")
    )
)


def counts(options: SchedulerOptions) -> Policy:
    """Applies to all accounts: an autoscaler changes replicas of a member's work with its own rights."""
    most = max((project.pods for project in options.projects), default=1)
    rule = Rule(
        # A number below 0 would hide another one that it is multiplied with.
        f"variables.asked.all(n, n >= 0 && n <= {most}) || variables.asked == variables.before",
        f"the object requests more pods than a project can have: set at most {most} for replicas, parallelism, workers and maxReplicas",
    )
    often = Rule(
        f"!({CRON}) || !object.spec.schedule.startsWith('@every')"
        " || (oldObject != null && oldObject.spec.schedule == object.spec.schedule)",
        "CronJobs of all projects share one controller, and @every starts jobs up to each second: "
        "set a schedule of five fields, such as */5 * * * *, or @hourly",
    )
    variables = {
        "asked": _chosen("object"),
        "before": f"oldObject == null ? [] : {_chosen('oldObject')}",
    }
    return Policy("appliance-counts", (rule, often), _on(), {}, variables)


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
