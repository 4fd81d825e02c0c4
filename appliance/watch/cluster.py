"""Access to Kubernetes as this host's node, with kubelet's identity.

It may change this node and end its pods only (NodeRestriction), and list the nodes (ClusterRole ``appliance-watch``, which stage
kubernetes creates).
So a host whose root lies can take out itself, and no other.
"""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress

from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.base import ids as base_ids
from appliance.stages.kubernetes.collect.api import MERGE, METADATA, STRATEGIC, Api
from appliance.watch import pods, verdict
from appliance.watch.conditions import MOST, conditions, reason
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
ENDS = "appliance/pods-end"
"""Annotation: when pods with GPUs on the cordoned host are ended, in UTC. An operator may change or delete it."""
OWNER = "appliance/owner"
"""Taint of a host that another scheduler gives work to."""
CONDITION = "ApplianceFit"
"""The verdict, True if the host is fit. The conditions of its kinds of faults are in conditions.py."""
HEARTBEAT_S = 300.0
"""The condition is written again after this time, as kubelet writes an unchanged status of its node every 5 min."""
WRITTEN = re.compile(PREFIX + r"([a-z_]+\.[a-z_]+) ")


class Cluster:
    """The API for the node called ``name``. Every method raises Silent if it does not answer, or refuses."""

    place = KUBERNETES

    def __init__(self, name: str, kubeconfig: str = KUBECONFIG, end_minutes: float = 0) -> None:
        self.name = name
        self._end_s = 60 * end_minutes
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
            gone[REASON] = gone[ENDS] = None
        if gone:
            self._annotate(gone)

    def drain(self, cause: str) -> None:
        """See Door: cordons the node, unless it changed since it was read."""
        told = {REASON: PREFIX + cause}
        if self._end_s:
            told[ENDS] = pods.moment(time.time() + self._end_s)
        self._change({"metadata": self._as_read(told), "spec": {"unschedulable": True}})

    def resume(self) -> None:
        """See Door: uncordons the node, unless it changed since it was read."""
        gone = self._as_read({REASON: None, ENDS: None})
        self._change({"metadata": gone, "spec": {"unschedulable": None}})

    def announce_end(self, mine: Node) -> float:
        """See Door: an event at each pod with GPUs."""
        if not mine.ends:
            return 0.0
        text = f"host {self.name} is unfit ({mine.reason[len(PREFIX) :]}) and cordoned; this pod is ended at {mine.ends}"
        with suppress(Unreadable):
            api = Api(Ask({}), self._kubeconfig)
            pods.warn(api, pods.with_gpus(api, self.name), self.name, text)
        return time.monotonic() + self._end_s

    def end_work(self, mine: Node, seen: Verdict) -> None:
        """See Door. A host whose clock is wrong ends nothing."""
        wrong = any(cause.check == base_ids.CLOCK for cause in seen.causes)
        if not mine.ends or wrong or not pods.passed(mine.ends):
            return
        try:
            api = Api(Ask({}), self._kubeconfig)
            seen.gaps += pods.end(api, pods.with_gpus(api, self.name))
        except Unreadable as error:
            raise Silent(str(error)) from None

    def cause_of(self, mine: Node) -> str:
        """See Door. Only this node's kubelet and administrators can write its annotations."""
        said = WRITTEN.match(mine.reason)
        return said.group(1) if said else ""

    def report(self, seen: Verdict, since: float, before: Mapping[str, Any]) -> Any:
        """See Door: writes the conditions if one changed, and as a sign of life every 5 minutes."""
        now = time.time()
        told = [{"type": CONDITION, **_verdict(seen)}, *conditions(seen.causes, seen.blind)]
        if before.get("conditions") == told and abs(now - float(before["at"])) < HEARTBEAT_S:
            return dict(before)
        known = {one["type"]: one["status"] for one in before.get("conditions", ())}
        began = {CONDITION: since}
        for one in told:
            if known.get(one["type"]) == one["status"]:
                began[one["type"]] = float(before["since"][one["type"]])
        written = [
            {
                **one,
                "lastHeartbeatTime": pods.moment(now),
                "lastTransitionTime": pods.moment(began.setdefault(one["type"], now)),
            }
            for one in told
        ]
        self._send(self._path + "/status", {"status": {"conditions": written}}, STRATEGIC)
        return {"conditions": told, "at": round(now, 1), "since": began}

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
    ends = str((node["metadata"].get("annotations") or {}).get(ENDS, ""))
    return Node(DRAINED if spec.get("unschedulable") else FREE, *_annotations(node), ends)


def _annotations(node: Resource) -> tuple[str, str]:
    known = node["metadata"].get("annotations") or {}
    return str(known.get(REASON, "")), str(known.get(ANNOUNCED, ""))


def _verdict(seen: Verdict) -> dict[str, str]:
    """Status, reason and message: unfit, fit, or unknown where something could not be judged."""
    if seen.causes:
        text = "; ".join(map(str, seen.causes))
        first = reason(seen.causes[0].check)
        return {"status": "False", "reason": first, "message": text[:MOST] + _what_next(seen)}
    if seen.gaps:
        text = "not judged: " + "; ".join(seen.gaps)
        return {"status": "Unknown", "reason": "NotJudged", "message": text[:MOST]}
    text = "no fault that prevents work" + _what_next(seen)
    return {"status": "True", "reason": "Fit", "message": text}


def _what_next(seen: Verdict) -> str:
    """What becomes of the host, for readers of its node."""
    if seen.state == verdict.OVER:
        return " (not cordoned: as many hosts as the site allows are cordoned by their own verdict)"
    if not seen.ours:
        return ""
    by_itself = "by itself once it has been fit for a while"
    way = by_itself if seen.returns else "by appliance-node-watch resume"
    return f" (cordoned; returns {way})"
