"""Runs rounds: work over a limit is first warned, then ended; in doubt, it is left alone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from appliance.limits import cluster, demand, owners, rules, tell, usage
from appliance.limits.trouble import Trouble, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from appliance.limits.api import Api
    from appliance.limits.lease import Lease
    from appliance.limits.pods import Owner, Pod, Work

CLOCK_S = 60.0
"""Difference between clocks above which no time is trusted."""
SETTLING_S = 120.0
"""Maximum time for the cluster to end work."""
ANY = "any"
"""Doubts that concern no limit in particular."""
MOST_TROUBLES = 3
"""Maximum failures in a round; the rest waits for the next one, because each call to a dead server costs a minute."""
TITLES = {rules.TIME: "its time limit", rules.IDLE: "its limit for idle GPUs"}


class Clocks(NamedTuple):
    """The time of day, and a monotonic clock."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic


class Keeper:
    """State kept between rounds. ``seen`` is the result of the last one."""

    def __init__(
        self, lease: Lease, prometheus: str, *, dry_run: bool = False, clocks: Clocks | None = None
    ) -> None:
        self._lease, self._prometheus, self._dry_run = lease, prometheus, dry_run
        self._clocks = clocks or Clocks()
        self._owners = owners.Owners()
        self._journal = tell.Journal()
        self._demand = demand.Demand(lease, tell.Journal(), self._clocks.wall)
        self._warned: dict[tuple[Owner, str], float] = {}
        self._ended: dict[Owner, tuple[float, float]] = {}
        self._offset: float | None = None
        self._usage: dict[float, usage.Usage | Trouble] = {}
        self._places: dict[tuple[str, str], frozenset[str]] = {}
        self._hosts: frozenset[str] = frozenset()
        self.totals = {rules.TIME: 0, rules.IDLE: 0}
        self.seen: dict[str, Any] = {}

    def round(self, api: Api) -> dict[str, Any]:
        """Run one round; return the state for checks. Raises Trouble."""
        now = self._clocks.wall()
        self._usage = {}
        self.seen = {"leader": False, "holder": "", "pods": None, "limited": 0, "stuck": 0}
        self.seen.update(unknown={rules.TIME: 0, rules.IDLE: 0, ANY: 0}, doubts=[], metrics="")
        self._troubles: list[str] = []
        jumped = self._jumped(now)
        self.seen["leader"] = self._lease.take(api)
        self.seen["holder"] = self._lease.holder
        if not self.seen["leader"]:
            self._warned.clear()
            return self.seen
        known, names = cluster.limits(api, self._doubt)
        spaces, self._hosts = cluster.spaces(api, names, self._doubt, self._trouble)
        self._places = {(p.me.namespace, p.me.name): p.places for one in spaces for p in one.pods}
        self.seen["pods"] = sum(len(one.pods) for one in spaces)
        if jumped:
            raise Trouble("this host's clock jumped: one round is skipped")
        if api.skew is None or abs(api.skew) > CLOCK_S:
            told = "is not known" if api.skew is None else f"differs by {api.skew:.0f} s"
            raise Trouble(f"the clock of the API server {told}: no work is ended")
        self.seen["demand"] = self._wish(api, names)
        self._judge_all(api, spaces, known, now)
        if self._troubles:
            raise Trouble("; ".join(self._troubles))
        return self.seen

    def _wish(self, api: Api, names: list[str]) -> dict[str, Any] | None:
        """Request instances for pods that wait for them; an error there does not stop the limits."""
        try:
            return self._demand.round(api, names)
        except Trouble as error:
            self._journal.say("MIG on demand", str(error))
            return {"waiting": 0, "unmet": [], "troubles": [str(error)], "wishes": 0}

    def _trouble(self, error: Trouble) -> None:
        """A failure in one namespace does not stop the limits of others."""
        self._troubles.append(str(error))
        if len(self._troubles) >= MOST_TROUBLES:
            raise Trouble("; ".join(self._troubles))

    def _judge_all(
        self, api: Api, spaces: list[cluster.Space], known: dict[str, rules.Limits], now: float
    ) -> None:
        present: set[Owner] = set()
        near: set[tuple[Owner, str]] = set()
        limited = {queue: given for queue, given in known.items() if any(given)}
        windows = [given.idle for given in limited.values() if given.idle is not None]
        if windows:
            self._look(min(windows), now)
        cluster.learn(api, spaces, limited, self._owners)
        for space in spaces:
            for work in cluster.works(api, space.pods, limited, self._owners, self._doubt):
                present.add(work.root)
                if space.excuses(work):
                    continue
                self.seen["limited"] += 1
                due = self._due(work, limited[work.queue], now)
                near.update((work.root, one.limit) for one in due)
                for one in due:
                    try:
                        self._act(api, work, one)
                    except Trouble as error:
                        self._trouble(error)
        self._forget(present, near, {p.owner.uid for s in spaces for p in s.pods if p.owner})

    def _due(self, work: Work, limits: rules.Limits, now: float) -> list[rules.Due]:
        found = []
        judges: dict[str, Callable[[float], rules.Due | None]] = {
            rules.TIME: lambda limit: rules.time_due(work, limit, now),
            rules.IDLE: lambda limit: rules.idle_due(work, limit, now, self._idle),
        }
        for name, limit in limits._asdict().items():
            if limit is None:
                continue
            try:
                due = judges[name](limit)
            except Unknown as error:
                self.seen["unknown"][name] += 1
                self._journal.say(f"{work.root}, {TITLES[name]}", f"left alone, {error}")
                continue
            if due is not None:
                found.append(due)
        return found

    def _idle(self, pod: Pod, window: float) -> float:
        told = self._look(window, self._clocks.wall())
        if isinstance(told, Trouble):
            raise Unknown(str(told))
        return told.idle_for(pod.me.namespace, pod.me.name, pod.gpus)

    def _look(self, window: float, now: float) -> usage.Usage | Trouble:
        """Return Prometheus's data for this window, queried once per round."""
        if window not in self._usage:
            try:
                self._usage[window] = usage.look(
                    self._prometheus, window, now, self._places, self._hosts
                )
            except Trouble as error:
                self._usage[window] = error
            told = self._usage[window]
            if isinstance(told, Trouble):
                self.seen["metrics"] = str(told)
            else:
                self.seen["metrics"] = self.seen["metrics"] or "ok"
        return self._usage[window]

    def _act(self, api: Api, work: Work, due: rules.Due) -> None:
        key = (work.root, due.limit)
        now = self._clocks.steady()
        title = f"{TITLES[due.limit]} of {rules.words(due.seconds)}"
        if work.root in self._ended:
            first, last = self._ended[work.root]
            if now - first > SETTLING_S:
                self.seen["stuck"] += 1
            if now - last < SETTLING_S:
                return
        if key not in self._warned:
            left = max(due.left, due.notice)
            self._warn(
                api,
                work,
                "LimitNear",
                f"{work.root} reaches {title} and ends in about {rules.words(round(left))}",
            )
            self._warned[key] = now
        elif due.left <= 0 and now - self._warned[key] >= due.notice:
            self._end(api, work, due, title)

    def _end(self, api: Api, work: Work, due: rules.Due, title: str) -> None:
        if not self._lease.held():
            raise Trouble("the lease was not renewed in time: this round ends no more work")
        if self._dry_run:
            self._journal.say(str(work.root), f"has reached {title}, but is not ended (dry run)")
            return
        again = work.root in self._ended
        how = owners.end(api, work.root, work.pods, again=again)
        if not how:
            return
        now = self._clocks.steady()
        self._ended[work.root] = (self._ended[work.root][0] if again else now, now)
        self.totals[due.limit] += 0 if again else 1
        still = ", was ended before but still exists" if again else ""
        self._warn(api, work, "LimitReached", f"{work.root} has reached {title}{still}: {how}")

    def _warn(self, api: Api, work: Work, reason: str, words: str) -> None:
        """Raises Trouble if no warning could be delivered: work that was not warned is not ended."""
        words += " (dry run: it will not be ended)" if self._dry_run else ""
        self._journal.say(str(work.root), words)
        first = min(work.pods, key=lambda pod: pod.me.name).me
        for about in dict.fromkeys((first, work.root)):
            tell.event(api, about, reason, words)

    def _doubt(self, subject: str, why: str) -> None:
        self.seen["unknown"][ANY] += 1
        self._journal.say(subject, f"left alone, {why}")
        self.seen["doubts"].append(f"{subject}: {why}")

    def _forget(self, present: set[Owner], near: set[tuple[Owner, str]], uids: set[str]) -> None:
        self._warned = {key: when for key, when in self._warned.items() if key in near}
        self._ended = {root: when for root, when in self._ended.items() if root in present}
        self._owners.keep(uids | {root.uid for root in present})
        self._journal.keep({str(root) for root in present})

    def _jumped(self, now: float) -> bool:
        """Return whether the time of day moved differently from the monotonic clock since the last round."""
        offset = now - self._clocks.steady()
        before, self._offset = self._offset, offset
        return before is not None and abs(offset - before) > CLOCK_S
