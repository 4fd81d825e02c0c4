"""The site's resources in a cluster, read by one list for each kind."""

from functools import cache

from appliance.adapters.kubernetes import Cluster, Ref, Resource
from appliance.stages.kubernetes.variables.releases import MUTATING as VERSIONS
from appliance.stages.scheduler.queues import small_pods
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
"""Kinds that are deleted if the site no longer has them, in this order. Namespaces are never deleted, because of users' data."""
LISTED = frozenset((*PRUNED, ("v1", "ResourceQuota"), ("v1", "ServiceAccount")))
"""Kinds of which every project has one object."""


MUTATING = (small_pods.BINDING, small_pods.POLICY)
"""Kinds whose version depends on the release of the cluster."""


def mutating(cluster: Cluster) -> str:
    """Return the version in which the cluster has policies that change objects; "" if it has none."""
    return next((v for v in VERSIONS if cluster.serves(v, small_pods.POLICY)), "")


class There:
    """Reads the site's objects by their labels, and others by name."""

    def __init__(self, cluster: Cluster, site: str) -> None:
        self._cluster = cluster
        self._selector = f"{MANAGED_BY}={OURS},{SITE}={site}"
        self.ours = cache(self._ours)
        self._named = cache(self._by_name)
        self._space = cache(self._namespace)
        self.mutating = cache(lambda: mutating(cluster))

    def get(self, ref: Ref) -> Resource | None:
        """Return one resource, or None if it is missing. A missing namespace is not queried."""
        kind = (ref.api_version, ref.kind)
        if kind == NAMESPACE:
            return self._space(ref.name)
        if kind in LISTED and (found := self._named(*kind).get(ref)):
            return found
        if ref.namespace and self._space(ref.namespace) is None:
            return None
        return self._cluster.get(ref)

    def kinds(self) -> tuple[Kind, ...]:
        """Return kinds of policies that change objects, if the cluster has them."""
        return tuple((version, kind) for kind in MUTATING if (version := self.mutating()))

    def _ours(self, api_version: str, kind: str) -> list[Resource]:
        return self._cluster.find(api_version, kind, self._selector)

    def _by_name(self, api_version: str, kind: str) -> dict[Ref, Resource]:
        return {Ref.of(resource): resource for resource in self.ours(api_version, kind)}

    def _namespace(self, name: str) -> Resource | None:
        ref = Ref(*NAMESPACE, name)
        return self._named(*NAMESPACE).get(ref) or self._cluster.get(ref)
