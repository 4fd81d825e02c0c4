"""Creates requested instances on unused GPUs, and removes unused instances, round after round."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, NamedTuple

from appliance.mig import demand, host, nodes
from appliance.mig import layout as layouts
from appliance.mig.change import BAD, PENDING, change
from appliance.mig.gpu import Gpu
from appliance.mig.layout import Layout, Refused, as_found, words
from appliance.mig.node import STATE, WHOLE, WISH, Node
from appliance.probe.mig import NO_INSTANCE
from appliance.probe.nvml import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from appliance.mig.layout import Spot
    from appliance.probe.nvml import Library

    Changes = dict[int, tuple[Spot, ...]]

TELL_S = 60.0
"""An unchanged report is written again after this time, so that the cluster sees that the program runs."""
QUIET_S = 10.0
"""Own choice: by then, a scheduler that selected this host before the cordon has bound its pod."""
SETTLE_S, OFFER_S = 60.0, 240.0
"""Maximum time for pods on their way, and for a device plugin that must restart."""
LOCK_S = 30.0
"""Maximum time that another program may divide GPUs of this host."""
PAUSE_S = 2.0
WISH_S = 900.0
"""An older request was meant for an earlier state of the cluster."""
TROUBLE_S = 1800.0
"""Time for which an error is reported if nothing follows it."""
FAILURES = 2
"""Maximum failed GPUs of one request: after two failures, the others would fail, too."""


class Clock(NamedTuple):
    """The time of day, a monotonic clock, a pause, and whether this program was told to stop."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    ended: Callable[[], bool] = bool


class BrokenOff(Exception):
    """A change that ends early: the host is drained or uncordoned by another program, or this program stops."""


class Server:
    """State kept between rounds."""

    def __init__(self, policy: demand.Policy, node: Node, clock: Clock | None = None) -> None:
        self._policy, self._node, self._clock = policy, node, clock or Clock()
        self._since: dict[demand.Unused, float] = {}
        self._told: tuple[dict[str, Any], float] = ({}, 0.0)
        self._done = ""
        self._trouble: tuple[str, float] = ("", 0.0)
        self.totals = {"made": 0, "taken": 0}

    def round(self) -> dict[str, Any]:
        """Run one round; return the report. Raises Refused if something is unknown; then nothing was changed."""
        try:
            return self._round()
        except BaseException:
            # An unobserved instance may have been used: its time starts again with the next round.
            self._since.clear()
            raise

    def _round(self) -> dict[str, Any]:
        self._node.look()
        self._go_on()
        wish = demand.wish(self._node.document(WISH))
        due = wish if wish and wish.serial != self._done else None
        # Also if it fails: then the cluster asks another host.
        self._done = due.serial if due else self._done
        if self._node.closed:
            self._since.clear()
            return self._report(
                [], waits=f"this host cannot change its GPUs now: {self._node.closed}"
            )
        try:
            return self._report(self._done_and_seen(due))
        except (Refused, Failure) as error:
            self._report([], problem=str(error))
            raise

    def _done_and_seen(self, due: demand.Wish | None) -> list[demand.Seen]:
        """Do what is due, then read the GPUs."""
        gpus = self._look()
        unused = demand.outdated(gpus, self._since, self._clock.steady(), self._policy)
        if not due and not unused:
            return gpus
        self._note(self._carried_out(due) if due else self._changed(lambda: self._take(unused)))
        return self._look()

    def _go_on(self) -> None:
        """Finish the work of a stopped program: its request counts as carried out, as far as it got."""
        left = self._node.left
        self._done = self._done or left or str(self._node.document(STATE).get("serial", ""))
        if left is not None:
            self._node.restart_plugin()
            self._node.give_back()

    def _note(self, trouble: str) -> None:
        self._trouble = (trouble, self._clock.steady())

    def _look(self) -> list[demand.Seen]:
        with host.driver() as library:
            seen = list(self._read(library))
        now = self._clock.steady()
        self._since = {one: self._since.get(one, now) for one in demand.unused(seen)}
        return seen

    def _read(self, library: Library) -> Iterator[demand.Seen]:
        """Raises Refused if a GPU does not answer, because numbers shift, or if its users are unknown."""
        count = host.answering(library)
        if count != self._policy.present:
            raise Refused(
                f"{count} of {self._policy.present} GPUs answer, and GPU numbers shift if one is missing"
            )
        given = self._node.given()
        for index in range(count):
            try:
                gpu = Gpu(library, index)
                used = gpu.used()
                instances = gpu.instances()
                layout = as_found(gpu.mode()[0], instances)
            except Failure as error:
                raise Refused(f"GPU {index}: {error}") from None
            # A device without a UUID cannot be found among those of pods.
            had = (
                one
                for one in instances
                if one.id in used or any(not p.uuid or p.uuid in given for p in one.parts)
            )
            held = frozenset(as_found(True, had).spots)
            busy = gpu.uuid in given or NO_INSTANCE in used or bool(used and not layout.on)
            yield demand.Seen(index, layout, held, busy)

    def _carried_out(self, wish: demand.Wish) -> str:
        """Return the error, "" if there is none."""
        if abs(self._clock.wall() - wish.at) > WISH_S:
            return "a request of the cluster came too late, or clocks differ: nothing was created"
        known = {size.name: size for size in self._policy.sizes}
        strange = sorted(wish.make.keys() - known.keys())
        if strange:
            return f"{strange[0]} is not created on demand on this host"
        wanted = [(known[name], count) for name, count in sorted(wish.make.items())]
        return self._changed(lambda: self._make(wanted))

    def _changed(self, act: Callable[[], str]) -> str:
        """Make a change while no pod can arrive; return the error, "" if there is none or another program wants the host."""
        self._node.hold(self._done)
        try:
            self._settle()
            return act()
        except BrokenOff:
            return ""
        except (Refused, Failure) as error:
            return str(error)
        finally:
            self._node.look()
            self._node.give_back()

    def _pause(self) -> None:
        """Read the GPUs after a while. Raises BrokenOff."""
        self._clock.sleep(PAUSE_S)
        self._node.look()
        if self._clock.ended() or not self._node.is_held:
            raise BrokenOff

    def _settle(self) -> None:
        """Wait until every pod bound here before has its devices. Raises Refused and BrokenOff."""
        began = self._clock.steady()
        while True:
            self._pause()
            coming, waited = self._node.arriving(), self._clock.steady() - began
            if not coming and waited >= QUIET_S:
                return
            if coming and waited > SETTLE_S:
                raise Refused(
                    f"{', '.join(coming)} has no devices yet: GPUs are partitioned when it has them"
                )

    def _make(self, wanted: list[tuple[demand.Size, int]]) -> str:
        before, expected = self._node.offers(), {}
        troubles: list[str] = []
        with host.alone(LOCK_S):
            for size, count in wanted:
                made, told = self._create(size, count)
                self.totals["made"] += made
                expected[size.name] = before.get(size.name, 0) + made
                troubles += told
            whole = sum(1 for gpu in self._look() if not gpu.layout.on)
        return "; ".join([*troubles, *self._offered(least=expected, most={WHOLE: whole})])

    def _create(self, size: demand.Size, count: int) -> tuple[int, list[str]]:
        """Create up to this number of instances, on other GPUs if one fails; return how many, and the error."""
        made = 0
        failed: dict[int, str] = {}
        while made < count and len(failed) < FAILURES:
            able = tuple(index for index in self._policy.gpus if index not in failed)
            policy = self._policy._replace(gpus=able)
            changes = demand.arranged(self._look(), size, count - made, policy)
            if not changes:
                break
            new, troubles = self._apply(changes)
            made += new
            failed.update(troubles)
        told = [f"GPU {index}: {why}" for index, why in failed.items()]
        if made < count:
            why = "" if failed else ": there is no room for more"
            told.append(f"{made} of {count} x {size.name} made{why}")
        return made, told

    def _apply(self, changes: Changes) -> tuple[int, dict[int, str]]:
        """Create new instances by GPU; return how many exist now, and the error."""
        made, failed = 0, {}
        with host.driver() as library:
            for index, spots in changes.items():
                try:
                    gpu = Gpu(library, index)
                    if not gpu.mode()[0]:
                        _become(gpu, Layout(True, spots))
                        made += len(spots)
                        continue
                    for spot in spots:
                        gpu.make(spot)
                        nodes.settle(gpu.minor, gpu.instances())
                        made += 1
                except (Failure, Refused) as error:
                    failed[index] = str(error)
        return made, failed

    def _offered(self, least: dict[str, int], most: dict[str, int]) -> list[str]:
        """Wait until kubelet offers the new devices; return the obstacle. Raises BrokenOff."""
        self._node.restart_plugin()
        until = self._clock.steady() + OFFER_S
        while self._clock.steady() < until:
            self._pause()
            now = self._node.offers()
            if all(now.get(name, 0) >= count for name, count in least.items()) and all(
                now.get(name, 0) <= count for name, count in most.items()
            ):
                return []
        offers = ", ".join(f"{count} x {name}" for name, count in self._node.offers().items())
        return [
            f"the node still offers {offers}: kubectl logs of NVIDIA's device plugin on this host"
        ]

    def _take(self, unused: Changes) -> str:
        """Remove what is still unused; a GPU without instances becomes whole again."""
        before = self._node.offers()
        gone: list[str] = []
        troubles = []
        with host.alone(LOCK_S):
            seen = {gpu.number: gpu for gpu in self._look()}
            with host.driver() as library:
                for index, spots in unused.items():
                    try:
                        gone += _removed(Gpu(library, index), seen[index], spots)
                    except (Failure, Refused) as error:
                        troubles.append(f"GPU {index}: {error}")
        self.totals["taken"] += len(gone)
        if troubles:
            # Not again at once: each attempt cordons the host.
            self._since.clear()
        most = {name: max(0, before.get(name, 0) - gone.count(name)) for name in gone}
        return "; ".join([*troubles, *self._offered(least={}, most=most)])

    def _report(
        self, gpus: list[demand.Seen], waits: str = "", problem: str = ""
    ) -> dict[str, Any]:
        """Write the report; on the node, too, if it changed."""
        rooms = {s.name: demand.room(gpus, s, self._policy) for s in self._policy.sizes}
        mine = [gpu for gpu in gpus if gpu.number in self._policy.gpus]
        free = [spot.name for gpu in mine for spot in gpu.free if spot.parts is None]
        now = self._clock.steady()
        trouble = self._trouble[0] if now - self._trouble[1] < TROUBLE_S else ""
        report = {
            "serial": self._done,
            "free": {s.name: free.count(s.name) for s in self._policy.sizes},
            "beside": {name: beside for name, (beside, _) in rooms.items()},
            "room": {name: most for name, (_, most) in rooms.items()},
            "problem": problem or trouble,
        }
        if report != self._told[0] or now - self._told[1] >= TELL_S:
            said = {**report, "at": round(self._clock.wall())}
            self._node.tell(json.dumps(said, sort_keys=True))
            self._told = (report, now)
        told = {gpu.number: words(gpu.layout) for gpu in mine}
        return {**report, "waits": waits, "layouts": told, **self.totals}


def _become(gpu: Gpu, wanted: Layout) -> None:
    """Set the layout of a GPU. Raises Refused; a mode that would wait for a reset is no longer requested."""
    outcome = change(gpu, wanted)
    if outcome.state == PENDING:
        gpu.ask_mode(not wanted.on)
    if outcome.state in BAD:
        raise Refused(f"{outcome.state}: {outcome.why}")


def _removed(gpu: Gpu, seen: demand.Seen, spots: tuple[Spot, ...]) -> list[str]:
    """Return the names of the unused instances that were removed."""
    free = set(spots) & set(seen.free)
    if seen.busy:
        return []
    if free >= set(seen.layout.spots):
        _become(gpu, layouts.WHOLE)
        return [spot.name for spot in free]
    places, gone = {spot.place for spot in free}, []
    for one in gpu.instances():
        here = (one.profile, one.start, one.size) in places
        if here and not {one.id, NO_INSTANCE} & gpu.used():
            gpu.remove(one)
            gone.append(one.name)
    return gone
