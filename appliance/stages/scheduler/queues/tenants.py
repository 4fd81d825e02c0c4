"""What work of a project may ask for: policies the API server keeps itself (ValidatingAdmissionPolicy, Kubernetes 1.30 and newer)."""

from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.kubernetes.variables.releases import MUTATING, mutating, parsed_release
from appliance.stages.scheduler.queues import (
    small_pods,
    tenant_counts,
    tenant_operators,
    tenant_own,
    tenant_pods,
    tenant_queues,
    tenant_sizes,
    tenant_trees,
    tenant_volumes,
)
from appliance.stages.scheduler.queues.admission import PROJECT, Policy, written
from appliance.stages.scheduler.queues.bounds import Sizes, sizes
from appliance.stages.scheduler.queues.manifest import Manifest
from appliance.stages.scheduler.queues.tenant_queues import PRIORITY_OF, QUEUE_OF
from appliance.stages.scheduler.queues.tree import leaf_name
from appliance.stages.scheduler.queues.trees import open_to_root
from appliance.stages.scheduler.site import Project, SchedulerOptions

SINCE = 30
"""The minor release of Kubernetes that has them in version v1."""

ACTIONS = {"deny": ("Deny",), "warn": ("Warn", "Audit"), "audit": ("Audit",)}
"""The API server's actions for refused work, by ``scheduler.admission``. It does not allow Deny together with Warn."""

EVICTABLE = frozenset({"train", "build-preemptible"})
"""Classes that are everybody's: such work makes room."""


def labels_of(project: Project) -> dict[str, str]:
    """Of the project's namespace: what its work may name."""
    queues = {QUEUE_OF + leaf_name(project.name, q.name): q.pool for q in project.queues}
    named = {name for q in project.queues for name in (q.work, q.priority_class) if name}
    classes = {PRIORITY_OF + name: "" for name in sorted(EVICTABLE | named)}
    return {PROJECT: project.name, **queues, **classes}


def kept_by(site: Site, profile: Profile) -> bool:
    """Whether the site's cluster supports such policies. The release of an external cluster is unknown, and assumed to support them."""
    own = site.kubernetes
    if own is None or own.external is not None:
        return True
    chosen = parsed_release(
        own.version or site.software.get("kubernetes") or profile.software.kubernetes or ""
    )
    return chosen is None or chosen.minor >= SINCE


def tenants(site: Site, profile: Profile, options: SchedulerOptions) -> list[Manifest]:
    """All policies, each with its binding to the namespaces of projects."""
    actions = ACTIONS[options.admission]
    found = policies(options, sizes(site.profiles(profile)), open_to_root(site))
    made = [made for policy in found for made in written(site, policy, actions)]
    version = raising(site, profile)
    raised = options.small_pods == "raise" and options.admission == "deny"
    return [*made, *(small_pods.raised(site, version) if raised and version else ())]


def raising(site: Site, profile: Profile) -> str:
    """The version in which the site's cluster has policies that change pods, "" where it has none.

    A cluster of others may have them; ``queue plan`` omits them where it does not.
    """
    own = site.kubernetes
    if own is not None and own.external is not None:
        return next(iter(MUTATING))
    chosen = parsed_release(
        (own.version if own else None)
        or site.software.get("kubernetes")
        or profile.software.kubernetes
        or ""
    )
    return mutating(chosen.minor) if chosen else next(iter(MUTATING))


def _have_trees(options: SchedulerOptions) -> bool:
    return any(project.trees for project in options.projects)


def policies(
    options: SchedulerOptions, own: Sizes, unsquashed: tuple[str, ...]
) -> tuple[Policy, ...]:
    """All policies in reading order: queueing, resources, access, end."""
    managed = options.kind != "kai"
    return (
        tenant_queues.scheduler(managed),
        tenant_queues.queue(options),
        tenant_queues.queue_label(options),
        tenant_queues.manual(),
        *(() if managed else (tenant_queues.pool(),)),
        tenant_queues.priority(),
        tenant_queues.placement(),
        tenant_pods.gpus(options),
        tenant_pods.gpu_words(),
        tenant_sizes.devices(options),
        tenant_sizes.sizes(options.small_pods),
        tenant_pods.host(options),
        tenant_volumes.volumes(own),
        tenant_volumes.claims(),
        tenant_volumes.claim_templates(),
        tenant_volumes.pull_secret(),
        tenant_volumes.secrets(),
        tenant_trees.trees(options, unsquashed),
        *((tenant_trees.changed(), tenant_trees.entered()) if _have_trees(options) else ()),
        tenant_pods.end(),
        tenant_pods.leaving(),
        tenant_pods.marks(options),
        tenant_pods.frozen(),
        tenant_pods.services(),
        tenant_operators.submissions(),
        tenant_operators.routes(),
        tenant_own.own(),
        tenant_sizes.weight(),
        tenant_counts.counts(options),
        tenant_sizes.budgets(),
    )
