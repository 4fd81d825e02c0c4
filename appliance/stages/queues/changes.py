"""Plans and applies the changes that give a cluster the site's queues."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from appliance.adapters.kubernetes import Cluster, Ref, Resource
from appliance.config.secrets import resolve
from appliance.errors import ClusterFailed, ClusterRefused
from appliance.models.profile import Profile
from appliance.models.queue_plan import Change, QueuePlan, Step
from appliance.models.site import Site
from appliance.stages.queues.difference import differences
from appliance.stages.queues.sizes import below, beyond, nodes_have
from appliance.stages.queues.step import step
from appliance.stages.queues.there import MUTATING, NAMESPACE, PRUNED, There, mutating
from appliance.stages.queues.trees import await_gone, tree_changes
from appliance.stages.queues.work import holds_work
from appliance.stages.scheduler.queues.manifest import Manifest
from appliance.stages.scheduler.queues.namespaces import NGC_KEY, pull_secrets
from appliance.stages.scheduler.queues.rendered import Rendered, rendered
from appliance.stages.scheduler.queues.trees import CLAIM, VOLUME
from appliance.stages.workloads.releases import STAGE
from appliance.text import plural

REPLACED = frozenset({"Topology", "PriorityClass"})
"""Kinds whose content cannot be changed in place: Topology's levels and a PriorityClass's value are immutable."""

TREES = frozenset({VOLUME, CLAIM})

Progress = Callable[[str], None]


def for_cluster(site: Site, profile: Profile, folder: Path, cluster: Cluster) -> Rendered:
    """Return the site's queues for this cluster: guaranteed cores and memory by the size of its nodes, and pull secrets. Changes nothing."""
    elsewhere = site.scheduler is None or site.scheduler.kind == "runai"
    sizes = None if elsewhere else nodes_have(cluster)
    return with_secrets(site, folder, rendered(site, profile, sizes))


def with_secrets(site: Site, folder: Path, wanted: Rendered) -> Rendered:
    """Return the same with the pull secrets of the namespaces, which are never written to a file.

    ``folder``: the site's.
    """
    options = site.scheduler
    if options is None or options.kind == "runai" or NGC_KEY not in site.secrets:
        return wanted
    key = resolve(site, folder)[NGC_KEY]
    return replace(wanted, resources=(*wanted.resources, *pull_secrets(site, str(key))))


def plan(site: Site, wanted: Rendered, cluster: Cluster, server: str = "") -> QueuePlan:
    """Return the plan for a cluster that stores the queues itself."""
    changes: list[Change] = []
    unchanged = 0
    there = There(cluster, site.name)
    for resource in wanted.resources:
        if resource["kind"] in TREES or not _known(resource, there):
            continue
        change = _change(resource, there.get(Ref.of(resource)), cluster)
        if change is None:
            unchanged += 1
        else:
            changes.append(change)
    of_hosts = labels(wanted, cluster)
    changes += of_hosts
    unchanged += len(wanted.node_labels) - len(of_hosts)
    of_trees = list(tree_changes(wanted, cluster, there))
    touched = {(c.kind, c.name, c.namespace) for c in of_trees}
    shared = [r for r in wanted.resources if r["kind"] in TREES]
    unchanged += sum(1 for r in shared if _key(Ref.of(r)) not in touched)
    changes += of_trees
    changes += [*released(site, wanted, cluster), *_obsolete(wanted, cluster, there)]
    return QueuePlan(
        site=site.name,
        server=server,
        digest=wanted.digest,
        changes=tuple(changes),
        unchanged=unchanged,
    )


def labels(wanted: Rendered, cluster: Cluster) -> list[Change]:
    """Return the changes of labels of hosts in pools."""
    given = wanted.node_labels.items()
    return [change for host, own in given if (change := _label(cluster, host, own)) is not None]


def apply(made: QueuePlan, wanted: Rendered, cluster: Cluster, progress: Progress) -> int:
    """Apply the plan in order and return the number of steps. The next run continues an interrupted one.

    A failure in one project's namespace does not stop other projects. Raises ClusterFailed with the first one.
    """
    failed: list[ClusterRefused] = []
    by_ref = {_key(Ref.of(resource)): resource for resource in wanted.resources}
    for change in made.work:
        try:
            _do(change, by_ref, wanted, cluster)
        except ClusterRefused as error:
            if not change.namespace:
                raise
            failed.append(error)
            continue
        progress(f"{change.step.value:<8} {change.kind} {change.title}")
    if failed:
        more = f"; and {plural(len(failed) - 1, 'more')}" if failed[1:] else ""
        raise ClusterFailed(f"{failed[0].message}{more}", failed[0].hint)
    return len(made.work)


def _known(resource: Manifest, there: There) -> bool:
    """Return whether the cluster has this kind: older clusters have no policies that change pods."""
    served = there.mutating()
    return resource["kind"] not in MUTATING or resource["apiVersion"] == served


def _do(
    change: Change, by_ref: dict[tuple[str, str, str], Resource], wanted: Rendered, cluster: Cluster
) -> None:
    """Carry out one step of a plan."""
    key = (change.kind, change.name, change.namespace)
    if change.kind == "Node":
        relabel(change, wanted, cluster)
    elif change.step is Step.DELETE:
        _delete(_ref_of(change, cluster), cluster)
    else:
        if change.step is Step.REPLACE:
            _delete(Ref.of(by_ref[key]), cluster)
        cluster.apply(by_ref[key])


def relabel(change: Change, wanted: Rendered, cluster: Cluster) -> None:
    """Label a host with its pool, or remove the label from a host that left its pool."""
    gone: dict[str, str | None] = {wanted.pool_label: None}
    cluster.label(change.name, wanted.node_labels.get(change.name, gone))


def _delete(ref: Ref, cluster: Cluster) -> None:
    """Delete an object; wait until it is gone if another one depends on that."""
    cluster.delete(ref)
    if ref.kind in TREES:
        await_gone(cluster, ref)


def _change(wanted: Manifest, found: Resource | None, cluster: Cluster) -> Change | None:
    if found is None:
        return step(Step.CREATE, wanted)
    said = differences(wanted, found)
    if not said:
        return None
    if wanted["kind"] == "Queue":
        said = (*said, *beyond(cluster, wanted, found))
    if wanted["kind"] == "Namespace":
        said = (*said, *below(cluster, wanted, found))
    content = any(key in wanted for key in ("spec", "value"))
    replaced = wanted["kind"] in REPLACED and content
    return step(Step.REPLACE if replaced else Step.CHANGE, wanted, said)


def _label(cluster: Cluster, host: str, labels: dict[str, str]) -> Change | None:
    node = cluster.get(Ref("v1", "Node", host))
    if node is None:
        return Change(
            step=Step.REFUSE,
            kind="Node",
            name=host,
            title=host,
            details=("the cluster has no such node",),
            remedy=f"let {host} join the cluster (appliance deploy), or remove it from its node pool",
        )
    own = node["metadata"].get("labels", {})
    said = tuple(
        f"label {key} {own.get(key, '-')} → {value}"
        for key, value in labels.items()
        if own.get(key) != value
    )
    if not said:
        return None
    return Change(step=Step.CHANGE, kind="Node", name=host, title=host, details=said)


def released(site: Site, wanted: Rendered, cluster: Cluster) -> Iterator[Change]:
    """Return hosts of the site that left their pool; with its label, they would accept only that pool's work."""
    own = {host.name for host in site.hosts} - wanted.node_labels.keys()
    for node in cluster.find("v1", "Node", ""):
        name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
        if name in own and wanted.pool_label in labels:
            said = (f"label {wanted.pool_label} {labels[wanted.pool_label]} → -",)
            yield Change(step=Step.CHANGE, kind="Node", name=name, title=name, details=said)


def _obsolete(wanted: Rendered, cluster: Cluster, there: There) -> Iterator[Change]:
    """Return objects with our labels that are no longer in the site; refused while work depends on them.

    Objects with a stage's mark belong to that stage, and are ignored.
    """
    kept = {_key(Ref.of(resource)) for resource in wanted.resources}
    for api_version, kind in (*there.kinds(), *PRUNED):
        for resource in _leaves_first(there.ours(api_version, kind)):
            if STAGE in resource["metadata"]["labels"] or _key(Ref.of(resource)) in kept:
                continue
            if reason := holds_work(cluster, resource):
                remedy = "let the work end or delete it, then run this again"
                yield step(Step.REFUSE, resource, (f"no longer in the site, but {reason}",), remedy)
            else:
                yield step(Step.DELETE, resource, ("no longer in the site",))
    for resource in there.ours(*NAMESPACE):
        if STAGE not in resource["metadata"]["labels"] and _key(Ref.of(resource)) not in kept:
            name = resource["metadata"]["name"]
            details = ("no longer in the site, its content is left to you",)
            yield step(Step.LEAVE, resource, details, f"kubectl delete namespace {name}")


def _leaves_first(resources: list[Resource]) -> list[Resource]:
    parents: dict[str, str | None] = {
        r["metadata"]["name"]: r.get("spec", {}).get("parentQueue") for r in resources
    }

    def depth(name: str | None) -> int:
        seen: list[str] = []
        while name is not None and name in parents and name not in seen:
            seen.append(name)
            name = parents[name]
        return len(seen)

    return sorted(resources, key=lambda r: (-depth(r["metadata"]["name"]), r["metadata"]["name"]))


def _key(ref: Ref) -> tuple[str, str, str]:
    return (ref.kind, ref.name, ref.namespace)


def _ref_of(change: Change, cluster: Cluster) -> Ref:
    known = (*PRUNED, *((mutating(cluster), kind) for kind in MUTATING if change.kind in MUTATING))
    api_version = next(version for version, kind in known if kind == change.kind)
    return Ref(api_version, change.kind, change.name, change.namespace)
