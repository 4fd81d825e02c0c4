"""Shared trees in the cluster: a volume and its claim are created, changed and removed together.

What a volume mounts cannot be changed, nor what a claim is bound to, and a volume that lost its claim is never bound again: then
both are made anew. Files are never touched, for the volumes are of the kind that is kept (Retain).
"""

import time
from collections.abc import Callable, Iterator

from appliance.adapters.kubernetes import Cluster, Ref, Resource
from appliance.errors import ClusterFailed
from appliance.models.queue_plan import Change, Step
from appliance.stages.queues.difference import differences
from appliance.stages.queues.step import step
from appliance.stages.queues.there import There
from appliance.stages.queues.work import mounting
from appliance.stages.scheduler.queues.rendered import Rendered
from appliance.stages.scheduler.queues.trees import CLAIM, VOLUME

PATIENCE_S = 60
"""Seconds until a claim without pods, or a volume without its claim, is deleted: controllers remove their finalizers within a second."""
WORKLOADS = (
    ("v1", "Pod"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
)
PHASES_LOST = frozenset({"Lost", "Released", "Failed"})


def tree_changes(wanted: Rendered, cluster: Cluster, there: There) -> Iterator[Change]:
    """Return the changes of each tree's volume and claim."""
    volumes = {r["metadata"]["name"]: r for r in wanted.resources if r["kind"] == VOLUME}
    for claim in wanted.resources:
        if claim["kind"] == CLAIM:
            yield from _pair(volumes[claim["spec"]["volumeName"]], claim, cluster, there)


def _pair(volume: Resource, claim: Resource, cluster: Cluster, there: There) -> Iterator[Change]:
    old, bound = there.get(Ref.of(volume)), there.get(Ref.of(claim))
    if old is not None and bound is not None and not _is_lost(old, bound):
        of_volume, of_claim = differences(volume, old), differences(claim, bound)
        if _same(volume["spec"], old, ("nfs", "claimRef")) and _same(
            claim["spec"], bound, ("volumeName", "storageClassName", "accessModes")
        ):
            if of_volume:
                yield step(Step.CHANGE, volume, of_volume)
            if of_claim:
                yield step(Step.CHANGE, claim, of_claim)
            return
        why = (*of_volume, *of_claim)
    else:
        why = ()
    yield from _anew(volume, claim, old, bound, why, cluster)


def _anew(
    volume: Resource,
    claim: Resource,
    old: Resource | None,
    bound: Resource | None,
    why: tuple[str, ...],
    cluster: Cluster,
) -> Iterator[Change]:
    if bound is not None:
        if reason := mounting(cluster, claim):
            details = (f"{'; '.join(why) or 'its volume is lost'}, but {reason}",)
            yield step(
                Step.REFUSE, claim, details, "let the work end or delete it, then run this again"
            )
            return
        yield step(Step.DELETE, claim, why or ("its volume is lost",))
    elif old is None and (reason := _waiting(cluster, claim)):
        # Written before the policies of trees were there, perhaps under another person's number.
        details = (f"{reason} names this claim, which was not there yet",)
        yield step(Step.REFUSE, claim, details, "delete it, and let its owner write it again")
        return
    if old is None:
        yield step(Step.CREATE, volume)
    elif bound is not None or old["spec"].get("claimRef", {}).get("uid") or why:
        yield step(Step.REPLACE, volume, why)
    elif said := differences(volume, old):
        yield step(Step.REPLACE, volume, said)
    yield step(Step.CREATE, claim)


def _is_lost(volume: Resource, claim: Resource) -> bool:
    phases = {r.get("status", {}).get("phase") for r in (volume, claim)}
    return not phases.isdisjoint(PHASES_LOST)


def _same(spec: Resource, found: Resource, keys: tuple[str, ...]) -> bool:
    there = found.get("spec", {})
    return all(_within(spec[key], there.get(key)) for key in keys)


def _within(given: object, found: object) -> bool:
    if isinstance(given, dict) and isinstance(found, dict):
        return all(found.get(key) == value for key, value in given.items())
    return given == found


def _waiting(cluster: Cluster, claim: Resource) -> str:
    """Return the first object that mounts a claim that does not exist yet; empty if there is none."""
    space, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
    for api_version, kind in WORKLOADS:
        for one in cluster.find(api_version, kind, ""):
            if one["metadata"].get("namespace") == space and name in _claims(one):
                return f"{kind} {space}/{one['metadata']['name']}"
    return ""


def _claims(one: Resource) -> set[str]:
    spec = one.get("spec", {})
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    spec = spec.get("template", {}).get("spec", spec)
    volumes = spec.get("volumes") or []
    named = {v.get("persistentVolumeClaim", {}).get("claimName", "") for v in volumes}
    # Pods of a StatefulSet mount claims that are called after their template, the set and a number.
    made = [c["metadata"].get("name", "") for c in one["spec"].get("volumeClaimTemplates") or []]
    first = one["metadata"]["name"]
    size = int(one["spec"].get("replicas") or 1) if made else 0
    return named | {f"{name}-{first}-{number}" for name in made for number in range(size)}


def await_gone(cluster: Cluster, ref: Ref, sleep: Callable[[float], None] = time.sleep) -> None:
    """Wait until it is deleted. Raises ClusterFailed after a minute."""
    for _ in range(PATIENCE_S):
        if cluster.get(ref) is None:
            return
        sleep(1)
    where = f" -n {ref.namespace}" if ref.namespace else ""
    raise ClusterFailed(
        f"{ref} was deleted and is still there after {PATIENCE_S} s: something uses it",
        f"kubectl{where} describe {ref.kind.lower()} {ref.name}, end what uses it, and run this again",
    )
