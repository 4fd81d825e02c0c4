"""MIG on demand: creates instances for pending pods that need one which no host offers, on the host where it costs least."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from appliance.limits.cluster import HOME
from appliance.limits.owners import FEW
from appliance.limits.pods import QUEUE, amount, containers
from appliance.limits.tell import shown
from appliance.limits.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any

    from appliance.limits.api import Api, Resource
    from appliance.limits.lease import Lease
    from appliance.limits.tell import Journal

POLICY = f"/api/v1/namespaces/{HOME}/configmaps/appliance-mig"
WISH, STATE = "appliance/mig-wish", "appliance/mig-state"
LOOK = "systemctl status appliance-mig-demand there"
PART = "nvidia.com/mig-"
GATED = "SchedulingGated"
"""Reason why no scheduler has considered a pod yet: it has a scheduling gate (Kubernetes 1.26)."""
FRESH_S = 420.0
"""Maximum age of a report: a host reports every minute, except while it divides GPUs (at most six minutes)."""
PATIENCE_S = 900.0
"""Maximum time for a host to fulfil a request: it waits for ending pods and for the device plugin's restart. Also the
maximum time for a pod to get an instance that a host reports as free: one host's report must not keep pods from all others."""
REST_S = 600.0
"""Time until a host that failed is tried again."""
LONGEST = 300
"""Characters of a host's own words."""
TRIES = 3
"""Maximum instances for one pod: if these are not used, there is another reason."""


class Wants(NamedTuple):
    """A pending pod, and what it needs."""

    name: str
    uid: str
    profile: str
    number: int
    queue: str
    selector: Mapping[str, str]
    since: str
    affinity: bool


class Pool(NamedTuple):
    """Allowed layouts of a host, and the queues whose work it accepts."""

    profiles: tuple[str, ...]
    queues: frozenset[str]


class Host:
    """A host by its report and its node. ``making``: what was requested and not reported yet."""

    def __init__(self, name: str, pool: Pool, node: Resource, now: float) -> None:
        self.name, self.pool = name, pool
        meta = node["metadata"]
        self.labels: dict[str, str] = meta.get("labels") or {}
        notes = meta.get("annotations") or {}
        said, wish = _json(notes.get(STATE)), _json(notes.get(WISH))
        self.free = _counts(said.get("free"))
        self.beside = _counts(said.get("beside"))
        self.room = _counts(said.get("room"))
        self.problem = shown(str(said.get("problem") or "")[:LONGEST])
        self.age = now - float(said.get("at") or 0)
        self.new: dict[str, int] = {}
        self.making: dict[str, int] = {}
        self.wish_age = now - float(wish.get("at") or 0)
        if wish and wish.get("serial") != said.get("serial"):
            self.making = _counts(wish.get("make"))
        spec, status = node.get("spec", {}), node.get("status", {})
        ready = any(
            c.get("type") == "Ready" and c.get("status") == "True"
            for c in status.get("conditions") or ()
        )
        self.shut = not ready or bool(spec.get("unschedulable"))

    @property
    def why_not(self) -> str:
        """Why nothing can be requested of it; "" if something can."""
        if abs(self.age) > FRESH_S:
            return f"does not report: {LOOK}"
        if self.making and self.wish_age > PATIENCE_S:
            return "has not carried out its last request"
        return ""

    def suits(self, pod: Wants) -> bool:
        """Return whether the pod may run there, by its queue and its selector."""
        here = not pod.queue or pod.queue in self.pool.queues
        offered = pod.profile in self.pool.profiles
        return here and offered and pod.selector.items() <= self.labels.items()

    def gives(self, pod: Wants) -> bool:
        """Reserve what is free, or being created, for the pod."""
        if self.why_not:
            return False
        # Free instances of a host with an error may not be offered by its node.
        for store in (self.making,) if self.shut or self.problem else (self.free, self.making):
            if store.get(pod.profile, 0) >= pod.number:
                store[pod.profile] -= pod.number
                return True
        return False

    def can_make(self, pod: Wants) -> bool:
        """Return whether it has room; one kind of instance at a time, because kinds compete for the same room."""
        open_now = not self.shut and not self.making and not self.why_not and not self.problem
        return (
            open_now
            and set(self.new) <= {pod.profile}
            and self._needs(pod) <= self.room.get(pod.profile, 0)
        )

    def cost(self, pod: Wants) -> tuple[bool, int, str]:
        """Return whether a whole GPU must be divided; otherwise the fullest one is used first."""
        return (
            self._needs(pod) > self.beside.get(pod.profile, 0),
            self.room.get(pod.profile, 0),
            self.name,
        )

    def _needs(self, pod: Wants) -> int:
        return self.new.get(pod.profile, 0) + pod.number


class Demand:
    """State kept between rounds. ``total`` counts requests."""

    def __init__(
        self, lease: Lease, journal: Journal, wall: Callable[[], float] = time.time
    ) -> None:
        self._lease, self._journal, self._wall = lease, journal, wall
        self._requested: dict[str, list[str]] = {}
        self._relied: dict[tuple[str, str], float] = {}
        self._failed: dict[str, float] = {}
        self.total = 0

    def round(self, api: Api, spaces: Iterable[str]) -> dict[str, Any] | None:
        """Send the due requests; return the state for checks, None if nothing is divided on demand. Raises Trouble."""
        pools = _pools(api.get(POLICY))
        if not pools:
            return None
        now = self._wall()
        troubles: list[str] = []
        hosts = list(self._hosts(api, pools, now, troubles))
        waiting = list(_waiting(api, frozenset(spaces)))
        self._keep({pod.uid for pod in waiting})
        unmet = self._met(sorted(waiting, key=lambda pod: (pod.since, pod.name)), hosts, now)
        for host in hosts:
            if host.new:
                self._wish(api, host, now)
        self._journal.say("MIG on demand", "; ".join([*troubles, *unmet]))
        return {"waiting": len(waiting), "unmet": unmet, "troubles": troubles, "wishes": self.total}

    def _hosts(
        self, api: Api, pools: Mapping[str, Pool], now: float, troubles: list[str]
    ) -> Iterable[Host]:
        nodes = _nodes(api, pools)
        for name, pool in pools.items():
            node = nodes.get(name)
            if node is None:
                troubles.append(f"{name} has not joined the cluster")
                continue
            try:
                host = Host(name, pool, node, now)
            except (ValueError, TypeError, ArithmeticError):
                troubles.append(f"{name} has an unreadable report: {LOOK}")
                continue
            if host.why_not:
                troubles.append(f"{name} {host.why_not}")
            elif host.problem:
                troubles.append(f"{name}: {host.problem}")
            if not host.problem:
                self._failed.pop(name, None)
            elif now - self._failed.setdefault(name, now) > REST_S:
                host.problem = ""
            yield host

    def _keep(self, uids: set[str]) -> None:
        """Forget pods that no longer wait."""
        self._requested = {uid: names for uid, names in self._requested.items() if uid in uids}
        self._relied = {key: since for key, since in self._relied.items() if key[0] in uids}

    def _met(self, waiting: list[Wants], hosts: list[Host], now: float) -> list[str]:
        """Give each pod what exists, then what can be created; record why that is impossible."""
        unmet = []
        for pod in waiting:
            suited = [] if pod.affinity else [host for host in hosts if host.suits(pod)]
            if any(self._relies(host, pod, now) for host in suited):
                continue
            asked_of = self._requested.setdefault(pod.uid, [])
            # A host may report anything: another one is asked before the same one again.
            able = sorted(
                (host for host in suited if host.can_make(pod)),
                key=lambda host: (
                    asked_of.count(host.name) + self._failed_for(host, pod, now),
                    host.cost(pod),
                ),
            )
            asked = f"{pod.name} waits for {pod.number} x {pod.profile}"
            if pod.affinity:
                unmet.append(
                    f"{asked}: it selects hosts by affinity, but only nodeSelector is supported"
                )
            elif not suited:
                unmet.append(f"{asked}: no host on which it may run offers that MIG profile")
            elif not able:
                unmet.append(f"{asked}: no host has room now")
            elif len(asked_of) >= TRIES:
                unmet.append(
                    f"{asked}: created {TRIES} times but not used, so the pod waits for something else"
                )
            else:
                asked_of.append(able[0].name)
                able[0].new[pod.profile] = able[0].new.get(pod.profile, 0) + pod.number
        return unmet

    def _relies(self, host: Host, pod: Wants, now: float) -> bool:
        """Return whether the pod waits for what the host reports; not for longer than ``PATIENCE_S``."""
        if self._failed_for(host, pod, now) or not host.gives(pod):
            return False
        self._relied.setdefault((pod.uid, host.name), now)
        return True

    def _failed_for(self, host: Host, pod: Wants, now: float) -> bool:
        """Return whether the pod has waited in vain for what the host reports."""
        return now - self._relied.get((pod.uid, host.name), now) > PATIENCE_S

    def _wish(self, api: Api, host: Host, now: float) -> None:
        if not self._lease.held():
            raise Trouble("the lease was not renewed in time: this round sends no more requests")
        wish = {"serial": f"{now:.0f}", "at": round(now), "make": host.new}
        notes = {WISH: json.dumps(wish, sort_keys=True)}
        api.patch(f"/api/v1/nodes/{quote(host.name)}", {"metadata": {"annotations": notes}})
        self._failed.pop(host.name, None)
        self.total += 1
        told = ", ".join(f"{count} x {name}" for name, count in host.new.items())
        self._journal.say(f"MIG on demand, {host.name}", f"asked to make {told} ({wish['serial']})")


def _pools(found: Resource | None) -> dict[str, Pool]:
    """Return the layouts by host, as the site declares. Raises Trouble."""
    hosts: dict[str, Pool] = {}
    for name, said in ((found or {}).get("data") or {}).items():
        try:
            given = json.loads(said)
            pool = Pool(tuple(map(str, given["profiles"])), frozenset(map(str, given["queues"])))
            hosts.update(dict.fromkeys(map(str, given["hosts"]), pool))
        except (ValueError, KeyError, TypeError):
            raise Trouble(
                f"pool {name} of MIG on demand cannot be read: appliance queue apply"
            ) from None
    return hosts


def _nodes(api: Api, names: Collection[str]) -> dict[str, Resource]:
    """Return the existing ones of these names, by name."""
    if len(names) > FEW:
        found = api.items("/api/v1/nodes")
        return {node["metadata"]["name"]: node for node in found}
    asked = {name: api.get(f"/api/v1/nodes/{quote(name)}") for name in names}
    return {name: node for name, node in asked.items() if node is not None}


def _waiting(api: Api, spaces: frozenset[str]) -> Iterable[Wants]:
    """Return pods of these namespaces that a scheduler could not place."""
    for pod in api.items("/api/v1/pods", {"fieldSelector": "status.phase=Pending"}):
        meta, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
        if meta.get("namespace") not in spaces:
            continue
        asked = _requested(spec)
        placed = spec.get("nodeName") or "deletionTimestamp" in meta
        looked = any(
            c.get("type") == "PodScheduled"
            and c.get("status") == "False"
            and c.get("reason") != GATED
            for c in status.get("conditions") or ()
        )
        if placed or not looked or len(asked) != 1:
            continue
        ((profile, count),) = asked.items()
        yield Wants(
            f"{meta['namespace']}/{meta['name']}",
            str(meta.get("uid", "")),
            profile,
            count,
            str((meta.get("labels") or {}).get(QUEUE, "")),
            dict(spec.get("nodeSelector") or {}),
            str(meta.get("creationTimestamp", "")),
            "nodeAffinity" in (spec.get("affinity") or {}),
        )


def _requested(spec: Resource) -> dict[str, int]:
    found: dict[str, int] = {}
    for box in containers(spec):
        for name, count in ((box.get("resources") or {}).get("limits") or {}).items():
            if name.startswith(PART):
                profile = name[len(PART) :]
                found[profile] = found.get(profile, 0) + amount(count)
    return found


def _counts(said: object) -> dict[str, int]:
    return {str(k): int(v) for k, v in said.items()} if isinstance(said, dict) else {}


def _json(text: object) -> dict[str, Any]:
    try:
        said = json.loads(str(text or "{}"))
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
