"""Checks the NetworkPolicies of add-ons, and that the network enforces them."""

from collections.abc import Iterator, Sequence

from appliance.checks.causes import UNASKED, Cause, Reach
from appliance.checks.check import (
    Check,
    ClusterCheck,
    Nature,
    View,
    failed,
    not_assessed,
    passed,
    warned,
)
from appliance.models.result import Judgement, Place, place
from appliance.stages.kubernetes import ids as kubernetes_ids
from appliance.stages.kubernetes.causes import NO_API
from appliance.stages.scheduler import checks as scheduler
from appliance.stages.scheduler.facts import NetworkPolicy, PolicyEnforcer
from appliance.stages.scheduler.queues.manifest import Manifest, digest
from appliance.stages.workloads import ids
from appliance.stages.workloads.network import ENFORCING, NAME, kept, policies
from appliance.stages.workloads.releases import wanted

DEPLOY = "appliance deploy --stage workloads"
NEVER = "never"
"""The value of Cilium's enable-policy that disables enforcement."""


def _policies(view: View) -> Iterator[Judgement]:
    host, known, _ = scheduler.scheduler_facts(view)
    for addon, policy in zip(wanted(view.site), policies(view.site), strict=True):
        target = place(host, addon.name)
        if known is None or known.policies is None:
            yield not_assessed(target, scheduler.missing(view, "NetworkPolicies"))
            continue
        found = [p for p in known.policies if p.namespace == addon.namespace]
        yield _judged(target, policy, found)


def _judged(target: Place, policy: Manifest, found: Sequence[NetworkPolicy]) -> Judgement:
    space = policy["metadata"]["namespace"]
    own = next((p for p in found if p.name == NAME), None)
    others = [p.name for p in found if p.name != NAME and not p.release and p.admits]
    if own is None:
        cause = f"namespace {space} has no NetworkPolicy {NAME}: every pod of the cluster can reach its pods"
        return failed(target, cause, DEPLOY, value="none", limit=NAME)
    if own.digest != digest(policy["spec"]):
        cause = f"NetworkPolicy {NAME} of namespace {space} differs from the site: it allows other clients, or too few"
        return failed(target, cause, DEPLOY, value="changed", limit=NAME)
    if others:
        names = " ".join(others)
        cause = f"policies from outside the site and the charts allow more: {names} in namespace {space}"
        fix = f"kubectl -n {space} delete networkpolicy {names}; to allow a client permanently, add it to reached_from"
        return warned(target, cause, fix, value=names, limit=NAME)
    return passed(target, NAME, limit=NAME, evidence=f"namespace {space}")


def _network(view: View) -> Iterator[Judgement]:
    if not wanted(view.site):
        return
    _, known, _ = scheduler.scheduler_facts(view)
    if known is None or known.enforcers is None:
        why = scheduler.missing(view, "the programs of the pod network")
        yield not_assessed("cluster", why)
    elif not known.enforcers:
        name = view.site.kubernetes.network if view.site.kubernetes else ""
        cause = f"no known program enforces NetworkPolicies: {_exposed(view)}"
        yield _not_kept(view, cause, _remedy(name), "nobody")
    else:
        most = max(known.enforcers, key=lambda one: one.ready)
        yield _enforced(view, most, len(known.rdma or ()))


def _enforced(view: View, one: PolicyEnforcer, hosts: int) -> Judgement:
    most = max(one.wanted, hosts)
    where = f"{one.name} of namespace {one.namespace}"
    if one.mode == NEVER:
        cause = f"{where} is configured not to enforce NetworkPolicies (enable-policy: never): {_exposed(view)}"
        fix = f"kubectl -n {one.namespace} edit configmap cilium-config (enable-policy: default), and restart its pods"
        return _not_kept(view, cause, fix, NEVER)
    if one.ready < most or not most:
        cause = f"{where} is ready on {one.ready} of {most} hosts: NetworkPolicies may not be enforced on the others"
        fix = f"kubectl -n {one.namespace} get pods -o wide, and describe those of {one.name} that are not ready"
        return failed("cluster", cause, fix, value=one.ready, limit=most)
    evidence = f"{where}; not tested with packets"
    return passed("cluster", one.ready, limit=most, unit="hosts", evidence=evidence)


def _not_kept(view: View, cause: str, fix: str, value: str) -> Judgement:
    """Fails if an add-on without a login should be closed; otherwise warns."""
    limit = " or ".join(ENFORCING)
    judge = failed if kept(view.site) else warned
    return judge("cluster", cause, fix, value=value, limit=limit)


def _exposed(view: View) -> str:
    names = kept(view.site)
    what = ", ".join(names) if names else "what the add-ons serve, as metrics,"
    return f"every pod of the cluster can reach {what}"


def _remedy(name: str) -> str:
    if name in ENFORCING:
        return f"kubectl get daemonsets -A: {name} of kubernetes.network does not run"
    return f"kubernetes.network: {' or '.join(ENFORCING)}, which requires a new cluster"


CHECKS: tuple[Check, ...] = (
    ClusterCheck(
        ids.POLICIES,
        "Every add-on is closed except for allowed clients",
        _policies,
        "Each add-on's namespace has a NetworkPolicy that allows the API server, pods of the projects in the site, and the namespaces in "
        "reached_from. Policies add up, so an additional policy allows more. It differs after a change by hand.",
        "the NetworkPolicy of the site's section workloads",
        causes=(
            UNASKED,
            NO_API,
        ),
    ),
    ClusterCheck(
        ids.NETWORK,
        "The pod network enforces NetworkPolicies",
        _network,
        "The API accepts NetworkPolicies even if nothing enforces them. Calico and Cilium enforce them with a pod on every host. CNI's "
        "plugin bridge (kubernetes.network: bridge) does not, nor does Cilium with enable-policy: never. To test it with packets: "
        "appliance validate workloads.",
        "ready on every host; only Calico, Cilium, Canal, Antrea and kube-router are known",
        nature=Nature.SYMPTOM,
        causes=(
            UNASKED,
            NO_API,
            Cause(
                kubernetes_ids.NODES,
                "the pod network is not ready on a host that is not ready",
                Reach.SITE,
                lambda cause, effect: cause.value == "not ready" and isinstance(effect.value, int),
            ),
        ),
    ),
)
