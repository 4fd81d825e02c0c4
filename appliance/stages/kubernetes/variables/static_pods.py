"""Policies for kubelets of hosts other than control hosts: no static pods, and only small events and certificate requests."""

from appliance.models.site import Role, Site

NAME, EVENTS, REQUESTS = "appliance-static-pods", "appliance-node-events", "appliance-node-requests"
API = "admissionregistration.k8s.io/v1"
FIRST = 30
"""The first minor release with ValidatingAdmissionPolicy (KEP 3488)."""
REFUSAL = "only control hosts may have static pods in the cluster: create a pod by its API"
LONGEST = 8192
"""Maximum characters. kubelet's messages have at most 1024, and a certificate request less than 1000."""
TOO_LARGE = f"of hosts that are no control hosts, it has at most {LONGEST} characters"
REFERENCE = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
OF_EVENT = (
    *("message", "reason", "action", "type", "reportingComponent", "reportingInstance"),
    *("source.?component", "source.?host"),
    *(f"{about}.?{part}" for about in ("involvedObject", "related") for part in REFERENCE),
)
"""Text fields of an event. Events of events.k8s.io are judged in this form, too (matchPolicy Equivalent)."""
OF_REQUEST = "object.spec.request"
FEW = 16
"""Maximum entries of each list and map in metadata."""


def policies(site: Site, minor: int) -> list[dict[str, object]]:
    """Return admission policies with their bindings; none before Kubernetes 1.30.

    A kubelet may create pods of its own node in each namespace, with the labels that a Service selects. So root on a GPU host
    would receive what others send to that Service. It may also create any number of events of a megabyte, until etcd is full
    for all.
    """
    if minor < FIRST:
        return []
    users = ", ".join(f"'system:node:{host.name}'" for host in site.with_role(Role.CONTROL))
    control = f"request.userInfo.username in [{users}]"
    texts = ", ".join(f'object.?{text}.orValue("")' for text in OF_EVENT)
    sizes = {EVENTS: f"[{texts}].map(text, size(text)).sum()", REQUESTS: f"size({OF_REQUEST})"}
    small = {
        name: [
            {"expression": f"{control} || {one}", "message": TOO_LARGE}
            for one in (f"{size} <= {LONGEST}", *_small_metadata())
        ]
        for name, size in sizes.items()
    }
    pods = [{"expression": control, "message": REFUSAL}]
    requests = _rule("certificates.k8s.io", "certificatesigningrequests", "CREATE", "UPDATE")
    return [
        *_policy(NAME, _rule("", "pods", "CREATE"), pods),
        *_policy(EVENTS, _rule("", "events", "CREATE", "UPDATE"), small[EVENTS]),
        *_policy(REQUESTS, requests, small[REQUESTS]),
    ]


def _small_metadata() -> list[str]:
    """Return conditions on the metadata of an object."""
    notes = "object.metadata.?annotations.orValue({})"
    entries = (
        ("annotations", "{}"),
        ("labels", "{}"),
        ("ownerReferences", "[]"),
        ("finalizers", "[]"),
    )
    return [
        f"{notes}.map(key, size(key) + size({notes}[key])).sum() <= {LONGEST}",
        *(f"size(object.metadata.?{name}.orValue({none})) <= {FEW}" for name, none in entries),
    ]


def _rule(group: str, resource: str, *operations: str) -> dict[str, object]:
    return {
        **{"apiGroups": [group], "apiVersions": ["v1"]},
        **{"operations": list(operations), "resources": [resource]},
    }


def _policy(
    name: str, rule: dict[str, object], validations: list[dict[str, str]]
) -> list[dict[str, object]]:
    """Return a policy on requests of kubelets, and its binding."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {"name": "kubelets", "expression": "'system:nodes' in request.userInfo.groups"}
        ],
        "validations": validations,
    }
    meta = {"apiVersion": API, "metadata": {"name": name}}
    bound = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {**meta, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {**meta, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound},
    ]
