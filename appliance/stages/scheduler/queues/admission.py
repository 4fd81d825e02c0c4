"""Builds admission policies (ValidatingAdmissionPolicy): matched objects, conditions, and shared CEL expressions.

Pods are judged independent of their creator. Pod templates are judged, too, so that users get the error when they apply, and not
by a later event.
"""

import re
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
    (
        "ray.io",
        "rayjobs",
        "(has(object.spec.rayClusterSpec) ? {ray}(object.spec.rayClusterSpec) : [])"
        " + (has(object.spec.submitterPodTemplate) ? [object.spec.submitterPodTemplate] : [])",
    ),
    ("ray.io", "rayservices", "{ray}(object.spec.rayClusterConfig)"),
    (
        "trainer.kubeflow.org",
        "trainingruntimes",
        "object.spec.template.spec.replicatedJobs.map(j, j.template.spec.template)",
    ),
)
"""Group, resource, and the path of its pod templates. Other kinds are judged when their pods are created."""


@dataclass(frozen=True)
class Rule:
    """One refusal. ``expression``: CEL, true for valid work; ``message`` ends with the remedy.

    ``told``: CEL for a message with values of the request; if it fails, ``message`` is used.
    """

    expression: str
    message: str
    told: str = ""


@dataclass(frozen=True)
class Policy:
    """``on``: matched resources. ``only``: match conditions; ``variables`` by name, in their order.

    ``params``: API version and kind of objects in the request's namespace; the rules run once for each.
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
    """A match rule of a policy, for all versions of the group."""
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


RAY = re.compile(r"[{]ray[}][(]([^)]*)[)]")
"""The paths of a Ray cluster in ``TEMPLATES``."""


def _ray(where: str) -> str:
    return (
        f"([{where}.headGroupSpec.template] + (has({where}.workerGroupSpecs)"
        f" ? {where}.workerGroupSpecs.map(g, g.template) : []))"
    )


def _lists(root: str) -> str:
    """CEL for the list of an object's templates; a pod is its own."""
    chosen = f"[{root}]"
    for group, resource, where in reversed(TEMPLATES):
        expanded = RAY.sub(lambda found: _ray(found[1]), where)
        there = expanded.replace("object.", f"{root}.")
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

BY_CONTROLLERS = (
    "(request.userInfo.username == 'system:kube-controller-manager'"
    " || request.userInfo.username.startsWith('system:serviceaccount:kube-system:'))"
)
"""Controllers of Kubernetes, which create objects from judged ones and remove their finalizers."""

OPERATOR = (
    "(!request.userInfo.username.startsWith('system:serviceaccount:') && authorizer.group('rbac.authorization.k8s.io').resource('rolebindings')"
    ".namespace(request.namespace).check('create').allowed())"
)
"""CEL: people who may give rights in the project, as the appliance itself. A name or group would be another one in each cluster;
a program with that right acts on what members wrote."""

ONLY_OTHERS = {"not-by-limits": OURS}
SPACE = "namespaceObject.metadata.labels"

OWNERS: tuple[tuple[str, str], ...] = (
    ("cronjobs", "[object.spec.jobTemplate]"),
    ("jobsets", "object.spec.replicatedJobs.map(j, j.template)"),
    (
        "trainingruntimes",
        "[object.spec.template] + object.spec.template.spec.replicatedJobs.map(j, j.template)",
    ),
)
"""Resource, and where it describes the objects that will own its pods."""


def _owners() -> str:
    """CEL for the object and its templates other than pods, whose labels and annotations a controller copies."""
    inner = "[]"
    for resource, where in reversed(OWNERS):
        inner = f"request.resource.resource == '{resource}' ? {where} : {inner}"
    return f"[object] + ({inner})"


TEMPLATED = {
    "owners": _owners(),
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
    """A policy of pods and of the pod templates of all kinds; ``more``: also of later additions to a pod."""
    judged = tuple(replace(r, expression=f"variables.same || {r.expression}") for r in rules)
    later = (objects("", ["pods/ephemeralcontainers", "pods/resize"], ["UPDATE"]),) if more else ()
    return Policy(name, judged, (*PODS, *later, *_templated()), dict(ONLY_OTHERS), dict(TEMPLATED))
