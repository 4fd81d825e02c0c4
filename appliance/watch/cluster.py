"""Access to Kubernetes as this host's node, with kubelet's identity.

It may change this node only (NodeRestriction), and list the nodes (ClusterRole ``appliance-watch``, which stage kubernetes creates).
So a host whose root lies can take out itself, and no other.
"""

from __future__ import annotations

import json
import re
import time

from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.kubernetes.collect.api import MERGE, METADATA, STRATEGIC, Api
from appliance.watch.node import DRAINED, FREE, MARK, PREFIX, Node, Silent
from appliance.watch.place import KUBERNETES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from appliance.watch.verdict import Verdict

    Resource = dict[str, Any]

KUBECONFIG = "/etc/kubernetes/kubelet.conf"
REASON, ANNOUNCED = "appliance/drained", "appliance/drain-announced"
"""Annotations: the reason of a cordon by the appliance, and the announcement of one."""
OWNER = "appliance/owner"
"""Taint of a host that another scheduler gives work to."""
CONDITION = "ApplianceFit"
HEARTBEAT_S = 300.0
"""The condition is written again after this time, as kubelet writes an unchanged status of its node every 5 min."""
LONGEST = 400
WRITTEN = re.compile(PREFIX + r"([a-z_]+\.[a-z_]+) ")


class Cluster:
    """The API for the node called ``name``. Every method raises Silent if it does not answer, or refuses."""

    place = KUBERNETES

    def __init__(self, name: str, kubeconfig: str = KUBECONFIG) -> None:
        self.name = name
        self._kubeconfig = kubeconfig
        self._path = f"/api/v1/nodes/{name}"
        self._version = ""

    def nodes(self) -> Mapping[str, Node]:
        """Return all nodes; of the others, only what this program wrote on them."""
        try:
            api = Api(Ask({}), self._kubeconfig)
            mine = api.object(self._path)
            others = api.items("/api/v1/nodes", "Node", METADATA)
        except Unreadable as error:
            raise Silent(str(error)) from None
        found = {one["metadata"]["name"]: _other(one) for one in others}
        self._version = str(mine.get("metadata", {}).get("resourceVersion", ""))
        return {**found, self.name: _mine(mine)}

    def announce(self, mine: Node) -> None:
        """See Door."""
        self._annotate({ANNOUNCED: f"{MARK}[{time.time():.0f}]{mine.kept}"})

    def withdraw(self, mine: Node) -> None:
        """See Door. The reason of a cordon that an operator ended goes, too: a later cordon is not this program's."""
        gone: Resource = {ANNOUNCED: mine.kept or None} if mine.is_announced else {}
        if mine.reason.startswith(PREFIX) and not mine.is_out:
            gone[REASON] = None
        if gone:
            self._annotate(gone)

    def drain(self, cause: str) -> None:
        """See Door: cordons the node, unless it changed since it was read."""
        told = {REASON: PREFIX + cause}
        self._change({"metadata": self._as_read(told), "spec": {"unschedulable": True}})

    def resume(self) -> None:
        """See Door: uncordons the node, unless it changed since it was read."""
        self._change({"metadata": self._as_read({REASON: None}), "spec": {"unschedulable": None}})

    def cause_of(self, mine: Node) -> str:
        """See Door. Only this node's kubelet and administrators can write its annotations."""
        said = WRITTEN.match(mine.reason)
        return said.group(1) if said else ""

    def report(self, seen: Verdict, since: float, before: Mapping[str, Any]) -> Any:
        """See Door: writes the condition ``ApplianceFit`` if it changed, and as a sign of life every 5 minutes."""
        told = {"type": CONDITION, **_condition(seen)}
        now = time.time()
        if before.get("told") == told and now - float(before.get("at", 0)) < HEARTBEAT_S:
            return dict(before)
        same = before.get("told", {}).get("status") == told["status"]
        began = float(before.get("since", since)) if same else since
        times = {"lastHeartbeatTime": _moment(now), "lastTransitionTime": _moment(began)}
        body = {"status": {"conditions": [{**told, **times}]}}
        self._send(self._path + "/status", body, STRATEGIC)
        return {"told": told, "at": round(now, 1), "since": round(began, 1)}

    def _as_read(self, annotations: Mapping[str, str | None]) -> Resource:
        return {"annotations": dict(annotations), "resourceVersion": self._version}

    def _annotate(self, annotations: Mapping[str, str | None]) -> None:
        self._change({"metadata": {"annotations": dict(annotations)}})

    def _change(self, patch: Resource) -> None:
        self._send(self._path, patch, MERGE)

    def _send(self, path: str, body: Resource, kind: str) -> None:
        try:
            Api(Ask({}), self._kubeconfig).change(path, json.dumps(body), kind)
        except Unreadable as error:
            raise Silent(str(error)) from None


def _other(node: Resource) -> Node:
    """Another host, as far as it was drained by this program: an operator who ends that drain leaves the reason for a minute."""
    reason, announced = _annotations(node)
    return Node(DRAINED if reason.startswith(PREFIX) else FREE, reason, announced)


def _mine(node: Resource) -> Node:
    """This host. One that another scheduler gives work to counts as drained by an operator."""
    spec = node.get("spec", {})
    if any(taint.get("key") == OWNER for taint in spec.get("taints") or ()):
        return Node(DRAINED)
    return Node(DRAINED if spec.get("unschedulable") else FREE, *_annotations(node))


def _annotations(node: Resource) -> tuple[str, str]:
    known = node["metadata"].get("annotations") or {}
    return str(known.get(REASON, "")), str(known.get(ANNOUNCED, ""))


def _condition(seen: Verdict) -> dict[str, str]:
    """Status, reason and message: unfit, fit, or unknown where something could not be judged."""
    if seen.causes:
        words = re.split("[._]", seen.causes[0].check)
        reason = "".join(word.capitalize() for word in words)
        text = "; ".join(map(str, seen.causes))
        return {"status": "False", "reason": reason, "message": text[:LONGEST]}
    if seen.gaps:
        text = "not judged: " + "; ".join(seen.gaps)
        return {"status": "Unknown", "reason": "NotJudged", "message": text[:LONGEST]}
    return {"status": "True", "reason": "Fit", "message": "no fault that prevents work"}


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
