"""How a policy of admission is made (ValidatingAdmissionPolicy): what is looked at, the conditions, and the words of CEL they share.

Pods are judged whoever makes them; of kinds with pods' templates also the templates, so that people are told when they apply, and not
by an event later.
"""

from dataclasses import dataclass, field, replace

from appliance.models.site import Site
from appliance.stages.scheduler.queues.limits import HOME
from appliance.stages.scheduler.queues.manifest import Manifest, manifest

API = "admissionregistration.k8s.io/v1"
POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"

PROJECT = "appliance/project"
"""Label of a project's namespace: the policies hold in these."""
KAI_NAMESPACES = ("kai-resource-reservation", "kai-scheduler")
"""Of the scheduler's own programs. A project's namespace begins with kai-, too, so each is spelled out."""
KAI_ACCOUNTS = tuple(f"system:serviceaccount:{space}:" for space in KAI_NAMESPACES)

TEMPLATES: tuple[tuple[str, str, str], ...] = (
    ("", "podtemplates", "(has(object.template) ? [object.template] : [])"),
    ("", "replicationcontrollers", "(has(object.spec.template) ? [object.spec.template] : [])"),
    ("apps", "daemonsets", "[object.spec.template]"),
    ("apps", "deployments", "[object.spec.template]"),
    ("apps", "replicasets", "[object.spec.template]"),
    ("apps", "statefulsets", "[object.spec.template]"),
    ("batch", "jobs", "[object.spec.template]"),
    ("batch", "cronjobs", "[object.spec.jobTemplate.spec.template]"),
    (
        "jobset.x-k8s.io",
        "jobsets",
        "object.spec.replicatedJobs.map(j, j.template.spec.template)",
    ),
    (
        "kubeflow.org",
        "mpijobs",
        "object.spec.mpiReplicaSpecs.map(r, object.spec.mpiReplicaSpecs[r].template)",
    ),
    (
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        "[object.spec.leaderWorkerTemplate.workerTemplate]"
        " + (has(object.spec.leaderWorkerTemplate.leaderTemplate)"
        " ? [object.spec.leaderWorkerTemplate.leaderTemplate] : [])",
    ),
    ("ray.io", "rayclusters", "{ray}(object.spec)"),
    ("ray.io", "rayjobs", "{ray}(object.spec.rayClusterSpec)"),
    ("ray.io", "rayservices", "{ray}(object.spec.rayClusterConfig)"),
    (
        "trainer.kubeflow.org",
        "trainingruntimes",
        "object.spec.template.spec.replicatedJobs.map(j, j.template.spec.template)",
    ),
)
"""Group, resource, and where the pods' templates of one lie. What is not among these is judged when its pods are made."""


@dataclass(frozen=True)
class Rule:
    """One thing that is refused. ``expression`` of CEL is true of good work; ``message`` ends with what to write instead.

    ``told``: CEL for a message that names what only the request has; where it fails, the other one is given.
    """

    expression: str
    message: str
    told: str = ""


@dataclass(frozen=True)
class Policy:
    """``on``: what is looked at. ``only``: conditions under which it is; ``variables`` by name, in their order.

    ``params``: API version and kind of what lies in the request's namespace; the rules are asked once for each of these.
    """

    name: str
    rules: tuple[Rule, ...]
    on: tuple[Manifest, ...]
    only: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)


def written(site: Site, policy: Policy, actions: tuple[str, ...]) -> list[Manifest]:
    """The policy, and its binding to the namespaces of projects. ``actions``: of Kubernetes, as Deny."""
    conditions = [{"name": n, "expression": e} for n, e in policy.only.items()]
    variables = [{"name": n, "expression": e} for n, e in policy.variables.items()]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": list(policy.on)},
        **({"paramKind": policy.params} if policy.params else {}),
        **({"matchConditions": conditions} if conditions else {}),
        **({"variables": variables} if variables else {}),
        "validations": [
            {
                "expression": r.expression,
                "message": r.message,
                **({"messageExpression": r.told} if r.told else {}),
                "reason": "Forbidden",
            }
            for r in policy.rules
        ],
    }
    every = {"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}}
    bound = {
        **(every if policy.params else {}),
        "policyName": policy.name,
        "validationActions": list(actions),
        "matchResources": {
            "namespaceSelector": {"matchExpressions": [{"key": PROJECT, "operator": "Exists"}]}
        },
    }
    return [
        manifest(site.name, API, POLICY, policy.name, {"spec": spec}),
        manifest(site.name, API, BINDING, policy.name, {"spec": bound}),
    ]


def objects(group: str, resources: list[str], operations: list[str]) -> Manifest:
    """A rule of what a policy looks at, in all versions of the group."""
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": resources,
        "operations": operations,
        "scope": "Namespaced",
    }


WRITES = ["CREATE", "UPDATE"]
PODS = (objects("", ["pods"], ["CREATE"]),)
ANY = (objects("*", ["*"], WRITES),)


def _templated() -> tuple[Manifest, ...]:
    groups = dict.fromkeys(group for group, _, _ in TEMPLATES)
    return tuple(
        objects(group, [r for g, r, _ in TEMPLATES if g == group], WRITES) for group in groups
    )


def _ray(where: str) -> str:
    return (
        f"([{where}.headGroupSpec.template] + (has({where}.workerGroupSpecs)"
        f" ? {where}.workerGroupSpecs.map(g, g.template) : []))"
    )


def _lists(root: str) -> str:
    """CEL for the list of an object's templates; a pod is its own."""
    chosen = f"[{root}]"
    for group, resource, where in reversed(TEMPLATES):
        if where.startswith("{ray}"):
            where = _ray(where.removeprefix("{ray}(").removesuffix(")"))
        there = where.replace("object.", f"{root}.")
        asked = f"request.resource.group == '{group}' && request.resource.resource == '{resource}'"
        chosen = f"{asked} ? {there} : {chosen}"
    return chosen


def label(of: str, key: str) -> str:
    """CEL: it has the label."""
    return f"(has({of}.metadata) && has({of}.metadata.labels) && '{key}' in {of}.metadata.labels)"


def note(of: str, key: str) -> str:
    """CEL: it has the annotation."""
    held = f"{of}.metadata.annotations"
    return f"(has({of}.metadata) && has({held}) && '{key}' in {held})"


OURS = f"request.userInfo.username != 'system:serviceaccount:{HOME}:{HOME}'"
NOT_KAI = " && ".join(f"!request.userInfo.username.startsWith('{a}')" for a in KAI_ACCOUNTS)
MEMBERS = (
    "(!request.userInfo.username.startsWith('system:') || "
    "request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':'))"
)
"""People, and accounts of the project itself: not the cluster's controllers, nor operators of other namespaces."""

OPERATOR = (
    "(!request.userInfo.username.startsWith('system:serviceaccount:') && authorizer.group('rbac.authorization.k8s.io').resource('rolebindings')"
    ".namespace(request.namespace).check('create').allowed())"
)
"""CEL: people who may give rights in the project, as the appliance itself. A name or group would be another one in each cluster;
a program with that right acts on what members wrote."""

ONLY_OTHERS = {"not-by-limits": OURS}
SPACE = "namespaceObject.metadata.labels"

TEMPLATED = {
    "templates": f"({_lists('object')}).filter(t, has(t.spec))",
    # A change that leaves pods as they are is nobody's cheat: controllers make such changes to work that is older than the policies.
    "before": f"oldObject == null ? [] : ({_lists('oldObject')}).filter(t, has(t.spec))",
    "same": (
        "request.operation == 'UPDATE' && variables.templates == variables.before"
        " && (has(object.metadata.labels) ? object.metadata.labels : {})"
        " == (has(oldObject.metadata.labels) ? oldObject.metadata.labels : {})"
    ),
}

EVERY = (
    "(t.spec.containers + (has(t.spec.initContainers) ? t.spec.initContainers : [])"
    " + (has(t.spec.ephemeralContainers) ? t.spec.ephemeralContainers : []))"
)
"""CEL for all containers of template t."""


def of_templates(name: str, *rules: Rule, more: bool = False) -> Policy:
    """A policy of pods, and of the templates of all kinds; ``more``: of what is added to a pod later, too."""
    judged = tuple(replace(r, expression=f"variables.same || {r.expression}") for r in rules)
    later = (objects("", ["pods/ephemeralcontainers", "pods/resize"], ["UPDATE"]),) if more else ()
    return Policy(name, judged, (*PODS, *later, *_templated()), dict(ONLY_OTHERS), dict(TEMPLATED))
