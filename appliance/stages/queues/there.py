"""What a cluster has of a site's resources: asked for by one list of a kind, and not one by one."""

from functools import cache

from appliance.adapters.kubernetes import Cluster, Ref, Resource
from appliance.stages.scheduler.queues.manifest import MANAGED_BY, OURS, SITE

Kind = tuple[str, str]

NAMESPACE: Kind = ("v1", "Namespace")
PRUNED: tuple[Kind, ...] = (
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    ("kai.resources/v1alpha1", "Project"),
    ("kai.resources/v1alpha1", "Department"),
    ("scheduling.run.ai/v2", "Queue"),
    ("kai.resources/v1alpha1", "NodePool"),
    ("kai.scheduler/v1", "SchedulingShard"),
    ("kai.scheduler/v1alpha1", "Topology"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "PersistentVolume"),
    ("v1", "ConfigMap"),
    ("v1", "LimitRange"),
    ("v1", "Secret"),
)
"""What is deleted when the site no longer has it, in this order. A namespace is never: people's data goes with it."""
LISTED = frozenset((*PRUNED, ("v1", "ResourceQuota"), ("v1", "ServiceAccount")))
"""What every project has one of."""


class There:
    """The site's own by its labels; what has none of them, or is of another kind, is asked for by its name."""

    def __init__(self, cluster: Cluster, site: str) -> None:
        self._cluster = cluster
        self._selector = f"{MANAGED_BY}={OURS},{SITE}={site}"
        self.ours = cache(self._ours)
        self._named = cache(self._by_name)
        self._space = cache(self._namespace)

    def get(self, ref: Ref) -> Resource | None:
        """One resource, or None where it is not there. Of a namespace that is not there nothing is asked."""
        kind = (ref.api_version, ref.kind)
        if kind == NAMESPACE:
            return self._space(ref.name)
        if kind in LISTED and (found := self._named(*kind).get(ref)):
            return found
        if ref.namespace and self._space(ref.namespace) is None:
            return None
        return self._cluster.get(ref)

    def _ours(self, api_version: str, kind: str) -> list[Resource]:
        return self._cluster.find(api_version, kind, self._selector)

    def _by_name(self, api_version: str, kind: str) -> dict[Ref, Resource]:
        return {Ref.of(resource): resource for resource in self.ours(api_version, kind)}

    def _namespace(self, name: str) -> Resource | None:
        ref = Ref(*NAMESPACE, name)
        return self._named(*NAMESPACE).get(ref) or self._cluster.get(ref)
