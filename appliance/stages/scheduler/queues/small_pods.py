"""A policy that raises the CPU request of small pods (MutatingAdmissionPolicy), so that they are admitted and fill no host.

A host has few places for pods, and KAI has no quota of places. It divides cores, so each pod takes its part of them.
"""

from appliance.models.site import Site
from appliance.stages.scheduler.queues.admission import PROJECT, note, objects
from appliance.stages.scheduler.queues.bounds import POD_CPU
from appliance.stages.scheduler.queues.manifest import Manifest, manifest

POLICY, BINDING = "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"
NAME = "appliance-small-pods"

_REQUESTS = "c.resources.requests['cpu']"
_FIRST = "object.spec.containers[0].resources"
MISSING = (
    f"({note('namespaceObject', POD_CPU)}"
    f" ? quantity(namespaceObject.metadata.annotations['{POD_CPU}']).asApproximateFloat() : 0.0)"
    " - object.spec.containers.map(c, has(c.resources) && has(c.resources.requests)"
    f" && 'cpu' in c.resources.requests ? quantity(string({_REQUESTS})).asApproximateFloat() : 0.0).sum()"
)
"""CEL: the cores that the containers of a pod request too little. Those of sidecars do not count for KAI (0.12)."""
NOISE = 0.0005
"""Half a thousandth of a core, for sums of floating point numbers."""


def raised(site: Site, api: str) -> list[Manifest]:
    """The policy, and its binding to the namespaces of projects.

    The first container gets what is missing. The API server has added the defaults of the LimitRange before.
    """
    new = f"string(int({{0}} * 1000.0 + {NOISE} * 1000.0 + variables.missing * 1000.0)) + 'm'"
    patches = [
        _patch("requests", new),
        # A limit below the request is invalid.
        _patch("limits", new),
    ]
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": [objects("", ["pods"], ["CREATE"])]},
        "variables": [{"name": "missing", "expression": MISSING}],
        "mutations": [
            {"patchType": "JSONPatch", "jsonPatch": {"expression": " + ".join(patches)}},
        ],
    }
    bound = {
        "policyName": NAME,
        "matchResources": {
            "namespaceSelector": {"matchExpressions": [{"key": PROJECT, "operator": "Exists"}]}
        },
    }
    return [
        manifest(site.name, api, POLICY, NAME, {"spec": spec}),
        manifest(site.name, api, BINDING, NAME, {"spec": bound}),
    ]


def _patch(kind: str, new: str) -> str:
    """CEL for the patch of the first container's requests or limits, empty where they suffice."""
    held = f"(has({_FIRST}) && has({_FIRST}.{kind}) && 'cpu' in {_FIRST}.{kind})"
    request = f"quantity(string({_FIRST}.requests['cpu'])).asApproximateFloat()"
    least = new.format(request)
    short = f"variables.missing > {NOISE}"
    if kind == "limits":
        limit = f"quantity(string({_FIRST}.limits['cpu']))"
        short = f"{short} && {limit}.isLessThan(quantity({least}))"
    asked = held.replace(f".{kind}", ".requests")
    return (
        f"({asked} && {held} && {short} ? [JSONPatch{{op: 'replace',"
        f" path: '/spec/containers/0/resources/{kind}/cpu', value: {least}}}] : [])"
    )
