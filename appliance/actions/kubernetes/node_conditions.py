"""Node conditions: reports the health of GPU hosts to Kubernetes, and cordons unfit hosts.

Uses the API only, so it also works on external clusters. Running work is not touched.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from appliance.actions.monitoring import health
from appliance.actions.sites.opening import Target, locate
from appliance.adapters.kubernetes import KubernetesApi, Ref
from appliance.config.load import LoadedSite
from appliance.engine.look.judge import REACHABLE
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Observer
from appliance.models.result import CheckResult, Status, lacking
from appliance.models.site import Owner, Role
from appliance.stages.base import ids as base_ids
from appliance.stages.fabric import ids as fabric_ids
from appliance.stages.gpu import ids as gpu_ids
from appliance.stages.storage import ids as storage_ids
from appliance.watch.hardware import BY_OPERATORS

CONDITION = "ApplianceFit"
UNFIT = "appliance/unfit"
"""Annotation with the causes that a host was cordoned for: other causes are new."""
LONGEST = 400
CHECKS = (
    *(
        gpu_ids.COUNT,
        gpu_ids.DRIVER,
        gpu_ids.ERROR,
        gpu_ids.ECC,
        gpu_ids.REMAP,
        gpu_ids.PCIE,
        gpu_ids.NVLINK,
    ),
    *(gpu_ids.XID, gpu_ids.FABRIC_MANAGER),
    *(fabric_ids.PORTS, fabric_ids.STATE, fabric_ids.ACTIVE, fabric_ids.RATE),
    *(base_ids.MEMORY_ERRORS, base_ids.PCIE_ERRORS, base_ids.NVME),
    *(storage_ids.MOUNT, storage_ids.SCRATCH, base_ids.DISK, base_ids.CLOCK),
)
"""The faults for which Slurm's own watch drains a host (appliance/watch/rules.py), except Slurm's own."""
READY = "Ready"


class Fit(StrEnum):
    """Values of a node condition."""

    YES = "True"
    NO = "False"
    UNKNOWN = "Unknown"


class Act(StrEnum):
    """What was done with the node."""

    NONE = ""
    CORDONED = "cordoned"
    GIVEN_BACK = "uncordoned"
    STAYS_OUT = "stays cordoned"
    OVER = "not cordoned: the limit of cordoned hosts is reached"
    WAIVED = "was uncordoned by an operator despite this"


@dataclass(frozen=True)
class Judged:
    """The verdict of health on a host. ``causes``: by a key that stays the same while the cause lasts."""

    host: str
    fit: Fit
    causes: Mapping[str, str]

    @property
    def reason(self) -> str:
        """One word for the condition."""
        if self.fit is Fit.UNKNOWN:
            return "NotMeasured"
        first = next(iter(self.causes), "")
        words = first.partition(" ")[0].replace(".", "_").split("_")
        return "".join(word.capitalize() for word in words) if first else "Fit"

    @property
    def message(self) -> str:
        """One line for the condition."""
        if not self.causes:
            return "health found no fault that prevents work"
        return "; ".join(self.causes.values())[:LONGEST]


@dataclass(frozen=True)
class NodeConditionResult:
    """What a node was set to. ``error``: why that failed."""

    judged: Judged
    act: Act = Act.NONE
    error: str = ""


class NodeClient(Protocol):
    """Requests to the cluster; all raise ApplianceError with a remedy."""

    def node(self, name: str) -> dict[str, Any] | None:
        """A node, None if it is not in the cluster."""
        ...

    def say(self, name: str, condition: Mapping[str, str]) -> None:
        """Sets one condition; others are kept."""
        ...

    def change(self, name: str, version: str, patch: Mapping[str, Any]) -> None:
        """Changes the node unless it has changed since it was read."""
        ...


class ApiNodes:
    """The cluster through its API."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def node(self, name: str) -> dict[str, Any] | None:
        return self._api.get(Ref("v1", "Node", name))

    def say(self, name: str, condition: Mapping[str, str]) -> None:
        path = f"/api/v1/nodes/{quote(name)}/status"
        body = {"status": {"conditions": [dict(condition)]}}
        kind = "application/strategic-merge-patch+json"
        self._api.send("PATCH", path, f"write a condition of node {name}", body, kind)

    def change(self, name: str, version: str, patch: Mapping[str, Any]) -> None:
        meta = {**patch.get("metadata", {}), "resourceVersion": version}
        body = {**patch, "metadata": meta}
        kind = "application/merge-patch+json"
        self._api.send("PATCH", f"/api/v1/nodes/{quote(name)}", f"change node {name}", body, kind)


def update_conditions(
    target: Target, kubeconfig: Path, observer: Observer, most_out: int | None, *, cordon: bool
) -> tuple[NodeConditionResult, ...]:
    """Judges the GPU hosts of Kubernetes and sets their conditions. Raises ConfigError if the site has no Kubernetes."""
    loaded = locate(target, raise_rack=False, observer=observer)
    hosts = hosts_of(loaded)
    found = health.look(target, observer, CHECKS, hosts)
    judged = [judge(host, found.results) for host in hosts]
    most = max(1, len(hosts) // 10) if most_out is None else most_out
    with KubernetesApi(kubeconfig) as api:
        return apply_conditions(ApiNodes(api), judged, most if cordon else None, datetime.now(UTC))


def hosts_of(loaded: LoadedSite) -> tuple[str, ...]:
    """GPU hosts owned by Kubernetes. Raises ConfigError if there are none."""
    site = loaded.site
    gpus = site.with_role(Role.GPU) if site.kubernetes is not None else ()
    hosts = tuple(host.name for host in gpus if site.owner(host) is Owner.KUBERNETES)
    if not hosts:
        raise ConfigError(
            f"site {site.name} has no GPU host that Kubernetes owns",
            "show the owners: appliance node show; hosts of Slurm drain themselves",
        )
    return hosts


def judge(host: str, results: Iterable[CheckResult]) -> Judged:
    """The verdict of the checks on a host: unfit if one fails, unknown if the host did not answer or a required value is missing."""
    mine = [result for result in results if result.host == host]
    if any(r.id == REACHABLE and r.status is not Status.PASS for r in mine):
        return Judged(host, Fit.UNKNOWN, {REACHABLE: "the host does not answer"})
    judged = [r for r in mine if r.id in CHECKS]
    bad = [r for r in judged if r.status is Status.FAIL]
    causes = {_key(r): f"{_key(r)}: {r.cause}" for r in sorted(bad, key=_gravity)}
    if causes:
        return Judged(host, Fit.NO, causes)
    # An unfinished stage has no results of its checks, but one under an id of its own.
    blind = [r for r in lacking(mine) if r.status is not Status.FAIL]
    open_ones = {_key(r): f"{_key(r)} is unknown: {r.cause}" for r in blind}
    if open_ones or not any(r.status is Status.PASS for r in judged):
        return Judged(host, Fit.UNKNOWN, open_ones or {"none": "nothing could be judged"})
    return Judged(host, Fit.YES, {})


def apply_conditions(
    door: NodeClient, judged: Sequence[Judged], most_out: int | None, now: datetime
) -> tuple[NodeConditionResult, ...]:
    """Sets the condition of each host. ``most_out`` limits how many are cordoned at once; None: nothing is cordoned or uncordoned."""
    nodes = {one.host: door.node(one.host) for one in judged}
    out = sum(not _works(node) for node in nodes.values() if node is not None)
    done: list[NodeConditionResult] = []
    for one in judged:
        node = nodes[one.host]
        if node is None:
            done.append(NodeConditionResult(one, error="the cluster has no such node"))
            continue
        act, patch = Act.NONE, dict[str, Any]()
        if most_out is not None:
            act, patch = decided(one, node, room=out < most_out)
        try:
            if patch:
                # Before the condition, which changes the resourceVersion of the node.
                door.change(one.host, node["metadata"]["resourceVersion"], patch)
            out += act is Act.CORDONED
            door.say(one.host, _condition(one, node, now))
            done.append(NodeConditionResult(one, act))
        except ApplianceError as error:
            done.append(NodeConditionResult(one, error=error.message))
    return tuple(done)


def decided(one: Judged, node: Mapping[str, Any], *, room: bool) -> tuple[Act, dict[str, Any]]:
    """The action for the node, and its patch. Cordons of others are not touched."""
    shut = bool(node.get("spec", {}).get("unschedulable"))
    ours = (node["metadata"].get("annotations") or {}).get(UNFIT)
    if one.fit is Fit.UNKNOWN:
        return (Act.STAYS_OUT if shut and ours is not None else Act.NONE), {}
    if one.fit is Fit.YES:
        if ours is None:
            return Act.NONE, {}
        if shut and any(key.partition(" ")[0] in BY_OPERATORS for key in ours.split(", ")):
            return Act.STAYS_OUT, {}
        patch: dict[str, Any] = {"metadata": {"annotations": {UNFIT: None}}}
        if shut:
            patch["spec"] = {"unschedulable": None}
        return (Act.GIVEN_BACK if shut else Act.NONE), patch
    known = ours.split(", ") if ours else []
    keys = ", ".join([*one.causes, *(k for k in known if shut and k not in one.causes)])
    if shut and ours is None:
        return Act.NONE, {}
    if shut:
        # A GPU fault stays recorded even if it disappears: an operator uncordons that host.
        return Act.STAYS_OUT, {"metadata": {"annotations": {UNFIT: keys}}} if ours != keys else {}
    if set(one.causes) <= set(known):
        return Act.WAIVED, {}
    if not room:
        return Act.OVER, {}
    marked: dict[str, Any] = {"annotations": {UNFIT: keys}}
    return Act.CORDONED, {"metadata": marked, "spec": {"unschedulable": True}}


def _condition(one: Judged, node: Mapping[str, Any], now: datetime) -> dict[str, str]:
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    known = node.get("status", {}).get("conditions", [])
    before: Mapping[str, str] = next((c for c in known if c["type"] == CONDITION), {})
    same = before.get("status") == one.fit.value
    return {
        "type": CONDITION,
        "status": one.fit.value,
        "reason": one.reason,
        "message": one.message,
        "lastHeartbeatTime": moment,
        "lastTransitionTime": before.get("lastTransitionTime", moment) if same else moment,
    }


def _works(node: Mapping[str, Any]) -> bool:
    """Whether the scheduler may place pods there."""
    known = node.get("status", {}).get("conditions", [])
    ready = any(c["type"] == READY and c["status"] == "True" for c in known)
    return ready and not node.get("spec", {}).get("unschedulable")


def _key(result: CheckResult) -> str:
    return " ".join((result.id, *("+".join(result.parts).replace(" ", "-"),) * bool(result.parts)))


def _gravity(result: CheckResult) -> int:
    return CHECKS.index(result.id)
