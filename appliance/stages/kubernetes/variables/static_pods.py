"""Which hosts may report static pods to the cluster: control hosts, whose control plane consists of them."""

from appliance.models.site import Role, Site

NAME = "appliance-static-pods"
API = "admissionregistration.k8s.io/v1"
FIRST = 30
"""The first minor release with ValidatingAdmissionPolicy (KEP 3488)."""
REFUSAL = "only control hosts may have static pods in the cluster: create a pod by its API"


def policies(site: Site, minor: int) -> list[dict[str, object]]:
    """A kubelet may create pods of its own node in each namespace, with the labels that a Service selects. So root on a GPU host
    would receive what others send to that Service. Empty before Kubernetes 1.30.
    """
    if minor < FIRST:
        return []
    users = ", ".join(f"'system:node:{host.name}'" for host in site.with_role(Role.CONTROL))
    pods = {
        **{"apiGroups": [""], "apiVersions": ["v1"]},
        **{"operations": ["CREATE"], "resources": ["pods"]},
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [pods]},
        "matchConditions": [
            {"name": "kubelets", "expression": "'system:nodes' in request.userInfo.groups"}
        ],
        "validations": [
            {"expression": f"request.userInfo.username in [{users}]", "message": REFUSAL}
        ],
    }
    meta = {"apiVersion": API, "metadata": {"name": NAME}}
    bound = {"policyName": NAME, "validationActions": ["Deny"]}
    return [
        {**meta, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {**meta, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound},
    ]
