"""Checks whether a node's topology labels match the discovered fabric."""

from collections.abc import Iterable, Mapping
from typing import Any

from appliance.checks.check import View, failed, not_assessed, passed
from appliance.models.gap import Gap
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.fabric.checks.subnet import (
    cables_of,
    discovered,
    gpu_hosts,
    infiniband,
    is_simulated,
    outside,
    why,
)
from appliance.stages.fabric.switch_tree import kubernetes, switch_tree
from appliance.stages.kubernetes.facts import KubernetesNode


def judge_tiers(
    view: View, host: Host, nodes: Iterable[KubernetesNode] | None, unknown: Gap
) -> Judgement:
    """Judge labels. ``nodes``: from the API; None if unknown, with the reason in ``unknown``."""
    node = next((n for n in nodes or () if n.name == host.name), None)
    labels = view.once(_labels)
    simulated = is_simulated(view)
    if isinstance(labels, Gap):
        return not_assessed(host.name, labels, simulated=simulated)
    tiers = labels.get(host.name, {})
    if node is None:
        none = Gap(f"the cluster has no node {host.name}")
        gap = unknown if nodes is None else none
        return not_assessed(host.name, gap, simulated=simulated)
    told: dict[str, Any] = {
        "value": _listed(node.tiers),
        "limit": _listed(tiers),
        "simulated": simulated,
    }
    if node.tiers == tiers:
        return passed(host.name, **told)
    cause = f"its labels are {_listed(node.tiers)}, discovery found {_listed(tiers)}"
    return failed(host.name, cause, "appliance deploy", **told)


def _labels(view: View) -> Mapping[str, dict[str, str]] | Gap:
    """Return the labels by host that follow from the current fabric, or why it is unknown."""
    if not infiniband(view):
        return {}
    seen = discovered(view)
    if seen is None:
        return why(view, ("topology", "fabric"), "no control host could discover the fabric")
    known, topology = gpu_hosts(view), seen[1]
    met = {plug.host for plug in cables_of(view, topology)}
    if lost := [name for name in known if name not in met]:
        text = f"discovery does not find {', '.join(lost)}, so the tree is incomplete"
        return Gap(text, tuple(lost))
    return kubernetes(switch_tree(known, topology, tuple(outside(view))))


def _listed(tiers: dict[str, str]) -> str:
    """``tier-1 leaves-1, tier-2 spines-1``."""
    names = (f"{key.partition('/')[2]} {tiers[key]}" for key in sorted(tiers))
    return ", ".join(names) or "none"
