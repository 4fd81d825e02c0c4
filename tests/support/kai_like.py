"""A scheduler that keeps its promises, and, by name, the faults it can be given."""

from dataclasses import replace

from appliance.acceptance.capacity import GPU
from appliance.stages.scheduler.queues.kai import POOL_LABEL
from tests.support.clusters import GROUP, HOSTNAME, NEVER_EVICTED, Cluster, Pod

Plan = list[tuple[Pod, str, dict[int, float]]]


class KaiLike(Cluster):
    """Gangs, quotas with lending and reclaim, fair share, priorities, packing, moving, nearness, parts, MIG."""

    _owner_came = False
    _restarted = False

    def _restart_one(self) -> None:
        """Between two looks of the trial a pod goes and comes back."""
        if any(pod.job == "intruder" for pod in self.pods.values()):
            self._restarted = True
            gone = next(p for p in self.pods.values() if p.job == "interactive")
            self.pods[f"{gone.name}-again"] = replace(gone, name=f"{gone.name}-again")
            del self.pods[gone.name]

    def schedule(self) -> None:
        self._owner_came |= any(pod.job == "owner" for pod in self.pods.values())
        if self._has("restarts interactive") and not self._restarted:
            self._restart_one()
        for job in self._order():
            while unit := self._next(job):
                if not self._admit(unit):
                    break

    def _order(self) -> list[str]:
        shares = self._fair_shares()
        waiting: dict[str, tuple[float, int, float]] = {}
        for pod in self.pods.values():
            if not pod.node:
                share = self._held(pod.queue) / max(shares.get(pod.queue, 1.0), 0.01)
                waiting.setdefault(pod.job, (share, -pod.priority, pod.born))
        return sorted(waiting, key=lambda job: waiting[job])

    def _next(self, job: str) -> list[Pod]:
        """The pods that have to start together now: the rest of the gang, or one more."""
        own = [pod for pod in self.pods.values() if pod.job == job]
        waiting = [pod for pod in own if not pod.node]
        if not waiting:
            return []
        parted = self._has("gangs in parts") or (
            self._has("gangs without GPUs in parts") and not waiting[0].gpus
        )
        gang = 1 if parted else waiting[0].gang
        ended = sum(pod.phase in {"Succeeded", "Failed"} for pod in own)
        missing = gang - sum(pod.holds for pod in own) - ended
        return waiting[: max(1, missing)] if len(waiting) >= missing else []

    def _admit(self, unit: list[Pod]) -> bool:
        need = sum(pod.size for pod in unit)
        if not self._allowed(unit[0], need):
            return False
        plan = self._fit(unit)
        if plan is None and need:
            for victims in (self._reclaim, self._preempt, self._consolidate):
                if victims(unit, need):
                    plan = self._fit(unit)
                    break
        if plan is None:
            return False
        for pod, node, slots in plan:
            self.bind(pod, node, slots)
        return True

    def _has(self, fault: str) -> bool:
        return fault in self.faults

    def _held(self, queue: str, from_priority: int = 0) -> float:
        return sum(
            pod.size
            for pod in self.pods.values()
            if pod.holds and pod.queue == queue and pod.priority >= from_priority
        )

    def _allowed(self, pod: Pod, need: float) -> bool:
        if self._has("no work without GPUs") and not need and not pod.mig:
            return False
        given = self.queues().get(pod.queue, {"quota": 0, "limit": -1})
        held = self._held(pod.queue)
        if given["limit"] >= 0 and held + need > given["limit"] and not self._has("no limits"):
            return False
        if self._has("quota only in part") and held + need > given["quota"] / 2:
            return False
        if self._has("nothing lent") and held + need > given["quota"]:
            return False
        if self._has("no growing") and pod.job == "elastic" and self._owner_came:
            return False
        if pod.priority < NEVER_EVICTED or self._has("evicts interactive"):
            return True
        return self._held(pod.queue, NEVER_EVICTED) + need <= float(given["quota"])

    def _fair_shares(self) -> dict[str, float]:
        """GPUs each queue may expect: its quota, and its part by weight of what others leave."""
        total = sum(
            int(n["status"]["allocatable"].get(GPU, 0))
            for n in self.nodes.values()
            if POOL_LABEL not in n["metadata"]["labels"]
        )
        queues = self.queues()
        demand = {q: sum(p.size for p in self.pods.values() if p.queue == q) for q in queues}
        shares = {q: min(demand[q], max(0, queues[q]["quota"])) for q in queues}
        for _ in range(20):
            hungry = [q for q in queues if demand[q] - shares[q] > 0.01]
            left, weight = (
                total - sum(shares.values()),
                sum(queues[q]["overQuotaWeight"] for q in hungry),
            )
            if left <= 0.01 or not weight:
                break
            for q in hungry:
                part = left * queues[q]["overQuotaWeight"] / weight
                shares[q] += min(part, demand[q] - shares[q])
        return shares

    def _reclaim(self, unit: list[Pod], need: float) -> bool:
        """Takes back from queues above their fair share what this one is below its own."""
        queue, shares = unit[0].queue, self._fair_shares()
        fair = shares.get(queue, 0.0)
        if self._has("first come first served"):
            fair = min(fair, self.queues().get(queue, {"quota": 0})["quota"])
        if self._has("nothing given back") or self._held(queue) + need > fair:
            return False
        victims = self._above(shares, queue, need)
        if self._has("ends elastic work"):
            victims = [
                p for p in self.pods.values() if p.holds and p.job in {v.job for v in victims}
            ]
        if self._has("no shrinking"):
            victims = [v for v in victims if v.job != "elastic"]
        if self._has("takes too much"):
            for pod in victims:
                self.things.pop(("Job", "appliance-acceptance", pod.job), None)
        return self._out(victims, need)

    def _above(self, shares: dict[str, float], queue: str, need: float) -> list[Pod]:
        """Pods of other queues above their fair share, the youngest first."""
        victims: list[Pod] = []
        for pod in reversed(list(self.pods.values())):
            if not pod.holds or pod.queue == queue or pod.priority >= NEVER_EVICTED or not pod.gpus:
                continue
            left = self._held(pod.queue) - sum(v.size for v in victims if v.queue == pod.queue)
            enough = _size(victims) >= need or left <= shares.get(pod.queue, 0.0)
            if self._has("takes too much") or not enough:
                victims.append(pod)
        return victims

    def _preempt(self, unit: list[Pod], need: float) -> bool:
        """Displaces less urgent work of the same queue."""
        if self._has("no preemption"):
            return False
        lower = [
            pod
            for pod in reversed(list(self.pods.values()))
            if pod.holds
            and pod.queue == unit[0].queue
            and pod.gpus
            and pod.priority < unit[0].priority
            and (pod.priority < NEVER_EVICTED or self._has("evicts interactive"))
        ]
        fewest = next((n for n in range(len(lower)) if _size(lower[:n]) >= need), len(lower))
        return self._out(lower if self._has("displaces all") else lower[:fewest], need)

    def _out(self, victims: list[Pod], need: float) -> bool:
        if _size(victims) < need:
            return False
        for pod in victims:
            self.evict(pod)
        return True

    def _consolidate(self, unit: list[Pod], need: float) -> bool:
        """Moves small preemptible pods of one host to others, where that makes room."""
        if self._has("nothing moves") or len(unit) > 1:
            return False
        free = self.free()
        for name, slots in free.items():
            movable = [
                pod
                for pod in self.pods.values()
                if pod.holds and pod.node == name and pod.priority < NEVER_EVICTED
                and HOSTNAME not in pod.spec.get("nodeSelector", {})
            ]  # fmt: skip
            moved = sum(pod.gpus for pod in movable)
            elsewhere = sum(s.count(1.0) for other, s in free.items() if other != name)
            if movable and slots.count(1.0) + moved >= need and elsewhere >= moved:
                for pod in movable:
                    self.evict(pod)
                    if self._has("loses what it moves"):
                        self.things.pop(("Job", "appliance-acceptance", pod.job), None)
                return True
        return False

    def _fit(self, unit: list[Pod]) -> Plan | None:
        """Where all of the unit fit, or None."""
        near = unit[0].near
        if near and self._has("never near"):
            return None
        if not near or self._has("nearness ignored"):
            return self._place(unit, list(self.nodes))
        groups: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            if GROUP in node["metadata"]["labels"]:
                groups.setdefault(node["metadata"]["labels"][GROUP], []).append(name)
        plans = (self._place(unit, names) for names in groups.values())
        return next((plan for plan in plans if plan), None)

    def _place(self, unit: list[Pod], names: list[str]) -> Plan | None:
        free, mig, plan = self.free(), dict.fromkeys(names, 0), []
        for pod in unit:
            found = self._node_for(pod, names, free, mig)
            if found is None:
                return None
            name, slots = found
            mig[name] += bool(pod.mig)
            for slot, part in slots.items():
                free[name][slot] -= part
            plan.append((pod, name, slots))
        return plan

    def _node_for(
        self, pod: Pod, names: list[str], free: dict[str, list[float]], mig: dict[str, int]
    ) -> tuple[str, dict[int, float]] | None:
        spread = -1 if self._has("spreads") else 1
        for name in sorted(names, key=lambda n: spread * sum(free[n])):
            labels = self.nodes[name]["metadata"]["labels"]
            if POOL_LABEL in labels:
                continue
            called = labels[HOSTNAME]
            if pod.spec.get("nodeSelector", {}).get(HOSTNAME, called) != called:
                continue
            if pod.mig and self._mig_full(pod, name, mig[name]):
                continue
            slots = self._slots(pod, free[name])
            if slots is not None:
                return name, slots
        return None

    def _mig_full(self, pod: Pod, name: str, planned: int) -> bool:
        if self._has("no MIG"):
            return True
        if self._has("MIG anywhere"):
            return False
        if self._has("MIG overbooked"):
            return not self.nodes[name]["status"]["allocatable"].get(pod.mig)
        return self.mig_left(name, pod.mig) - planned < 1

    def _slots(self, pod: Pod, left: list[float]) -> dict[int, float] | None:
        if pod.part:
            size = 1.0 if self._has("parts are whole") else pod.part
            if self._has("parts without end"):
                return {0: 0.0} if left else None
            used = sorted((free, slot) for slot, free in enumerate(left) if free >= size)
            return {used[0][1]: size} if used else None
        whole = [slot for slot, free in enumerate(left) if free == 1.0]
        return dict.fromkeys(whole[: pod.gpus], 1.0) if len(whole) >= pod.gpus else None


def _size(pods: list[Pod]) -> float:
    return sum(pod.size for pod in pods)
