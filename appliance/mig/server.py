"""Makes instances the cluster wishes for on GPUs that are nobody's, and takes away those nobody uses, round after round."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, NamedTuple

from appliance.mig import demand, host, nodes
from appliance.mig import layout as layouts
from appliance.mig.change import BAD, change
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
"""A report that has not changed is told again after it, so that the cluster sees that somebody looks."""
SETTLE_S, OFFER_S = 60.0, 240.0
"""How long pods on their way are waited for, and a device plugin that must start anew."""
PAUSE_S = 2.0
WISH_S = 900.0
"""A wish that is older was meant for a cluster that has moved on."""
TROUBLE_S = 1800.0
"""How long what went wrong is told, where nothing came after it."""
MOST = 112
"""Instances of one wish at most: sixteen GPUs of seven."""


class Clock(NamedTuple):
    """The time of day, one that never jumps, and a pause."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Wish(NamedTuple):
    """What the cluster wants made here, by profile; ``at`` its time of day."""

    serial: str
    at: float
    make: dict[str, int]


class Server:
    """What must be remembered between rounds."""

    def __init__(self, policy: demand.Policy, node: Node, clock: Clock | None = None) -> None:
        self._policy, self._node, self._clock = policy, node, clock or Clock()
        self._since: dict[tuple[int, Spot], float] = {}
        self._told: tuple[dict[str, Any], float] = ({}, 0.0)
        self._done = ""
        self._trouble: tuple[str, float] = ("", 0.0)
        self.totals = {"made": 0, "taken": 0}

    def round(self) -> dict[str, Any]:
        """One look, and what is due; returns the report. Raises Refused where something is not known: nothing was touched."""
        self._node.look()
        self._node.give_back()
        gpus = self._look()
        wish = _wish(self._node.annotation(WISH))
        if wish and wish.serial != self._served():
            self._done = wish.serial
            self._note(self._carried_out(wish))
            gpus = self._look()
        gone = demand.outdated(gpus, self._since, self._clock.steady(), self._policy)
        if gone and not self._node.is_cordoned:
            self._note(self._guarded(lambda: self._take(gone)))
            gpus = self._look()
        return self._tell(gpus)

    def _note(self, trouble: str) -> None:
        self._trouble = (trouble, self._clock.steady())

    def _served(self) -> str:
        """The last wish that was carried out; the node knows where this program was started anew since."""
        if not self._done:
            said = _json(self._node.annotation(STATE))
            self._done = str(said.get("serial", ""))
        return self._done

    def _look(self) -> list[demand.Seen]:
        with host.driver() as library:
            seen = list(self._read(library))
        free = {(gpu.number, spot) for gpu in seen for spot in gpu.free}
        now = self._clock.steady()
        self._since = {key: self._since.get(key, now) for key in free}
        return seen

    def _read(self, library: Library) -> Iterator[demand.Seen]:
        """Raises Refused where a GPU does not answer, for numbers move, or who has what is not known."""
        count = host.answering(library)
        if count != self._policy.present:
            raise Refused(
                f"{count} of {self._policy.present} GPUs answer, and numbers move when one is missing"
            )
        given = self._node.given()
        for index in range(count):
            try:
                gpu = Gpu(library, index)
                used = gpu.used()
                instances = gpu.instances()
                layout = as_found(gpu.mode()[0], instances)
                taken = (
                    one
                    for one in instances
                    if one.id in used or given & {part.uuid for part in one.parts}
                )
                held = frozenset(as_found(True, taken).spots)
            except Failure as error:
                raise Refused(f"GPU {index}: {error}") from None
            busy = gpu.uuid in given or NO_INSTANCE in used or bool(used and not layout.on)
            yield demand.Seen(index, layout, held, busy)

    def _carried_out(self, wish: Wish) -> str:
        if abs(self._clock.wall() - wish.at) > WISH_S:
            return "a wish of the cluster came too late, or clocks differ: nothing was made"
        return self._guarded(lambda: self._make(wish.make))

    def _guarded(self, act: Callable[[], str]) -> str:
        """A change while no pod can come; what went wrong, "" where nothing did."""
        if self._node.is_cordoned:
            return "the host is cordoned: GPUs are divided again once it is not"
        self._node.cordon()
        try:
            self._settle()
            with host.alone():
                return act()
        except (Refused, Failure) as error:
            return str(error)
        finally:
            self._node.look()
            self._node.give_back()

    def _settle(self) -> None:
        """Waits until every pod that was sent here before has its devices. Raises Refused."""
        until = self._clock.steady() + SETTLE_S
        while True:
            self._clock.sleep(PAUSE_S)
            self._node.look()
            coming = self._node.arriving()
            if not coming:
                return
            if self._clock.steady() > until:
                raise Refused(
                    f"{', '.join(coming)} has no devices yet: GPUs are divided when it has"
                )

    def _make(self, wanted: dict[str, int]) -> str:
        troubles, before = [], self._node.offers()
        expected = {}
        for name, count in sorted(wanted.items()):
            changes = demand.arranged(self._look(), self._policy.size(name), count, self._policy)
            made, told = self._apply(changes)
            self.totals["made"] += made
            expected[name] = before.get(name, 0) + made
            short = f"{made} of {count} x {name} made: there is no room for more"
            troubles += told or ([short] if made < count else [])
        whole = sum(1 for gpu in self._look() if not gpu.layout.on)
        return "; ".join([*troubles, *self._offered(least=expected, most={WHOLE: whole})])

    def _apply(self, changes: Changes) -> tuple[int, list[str]]:
        """New instances by GPU; how many there are now, and what went wrong."""
        made, troubles = 0, []
        with host.driver() as library:
            for index, spots in changes.items():
                gpu = Gpu(library, index)
                try:
                    if not gpu.mode()[0]:
                        outcome = change(gpu, Layout(True, spots))
                        if outcome.state in BAD:
                            raise Refused(f"{outcome.state}: {outcome.why}")
                        made += len(spots)
                        continue
                    for spot in spots:
                        gpu.make(spot)
                        nodes.settle(gpu.minor, gpu.instances())
                        made += 1
                except (Failure, Refused) as error:
                    troubles.append(f"GPU {index}: {error}")
        return made, troubles

    def _offered(self, least: dict[str, int], most: dict[str, int]) -> list[str]:
        """Waits until kubelet gives out what there is now, and not what there was; what keeps it from that."""
        self._node.restart_plugin()
        until = self._clock.steady() + OFFER_S
        while self._clock.steady() < until:
            self._node.look()
            now = self._node.offers()
            if all(now.get(name, 0) >= count for name, count in least.items()) and all(
                now.get(name, 0) <= count for name, count in most.items()
            ):
                return []
            self._clock.sleep(PAUSE_S)
        offers = ", ".join(f"{count} x {name}" for name, count in self._node.offers().items())
        return [f"the node still offers {offers}: see the device plugin"]

    def _take(self, gone: Changes) -> str:
        """Takes away what is free still; a GPU that has nothing left is whole again."""
        troubles = []
        now = {gpu.number: gpu for gpu in self._look()}
        expected: dict[str, int] = {}
        offered = self._node.offers()
        with host.driver() as library:
            for index, spots in gone.items():
                free = set(now[index].free) & set(spots)
                left = set(now[index].layout.spots) - free
                gpu = Gpu(library, index)
                try:
                    if left:
                        self._remove(gpu, free)
                    else:
                        outcome = change(gpu, layouts.WHOLE)
                        if outcome.state in BAD:
                            raise Refused(f"{outcome.state}: {outcome.why}")
                    self.totals["taken"] += len(free)
                    for spot in free:
                        before = expected.get(spot.name, offered.get(spot.name, 0))
                        expected[spot.name] = max(0, before - 1)
                except (Failure, Refused) as error:
                    troubles.append(f"GPU {index}: {error}")
        return "; ".join([*troubles, *self._offered(least={}, most=expected)])

    def _remove(self, gpu: Gpu, free: set[Spot]) -> None:
        places = {spot.place for spot in free}
        for one in gpu.instances():
            if (one.profile, one.start, one.size) in places and not {
                one.id,
                NO_INSTANCE,
            } & gpu.used():
                gpu.remove(one)

    def _tell(self, gpus: list[demand.Seen]) -> dict[str, Any]:
        """The report, on the node too where it is new."""
        rooms = {s.name: demand.room(gpus, s, self._policy) for s in self._policy.sizes}
        mine = [gpu for gpu in gpus if gpu.number in self._policy.gpus]
        free = [spot.name for gpu in mine for spot in gpu.free if spot.parts is None]
        now = self._clock.steady()
        report = {
            "serial": self._done,
            "free": {s.name: free.count(s.name) for s in self._policy.sizes},
            "beside": {name: beside for name, (beside, _) in rooms.items()},
            "room": {name: most for name, (_, most) in rooms.items()},
            "problem": self._trouble[0] if now - self._trouble[1] < TROUBLE_S else "",
        }
        if report != self._told[0] or now - self._told[1] >= TELL_S:
            said = {**report, "at": round(self._clock.wall())}
            self._node.patch({STATE: json.dumps(said, sort_keys=True)})
            self._told = (report, now)
        told = {gpu.number: words(gpu.layout) for gpu in mine}
        return {**report, "layouts": told, **self.totals}


def _wish(text: str) -> Wish | None:
    """None where there is none that can be read."""
    said = _json(text)
    try:
        make = {str(name): int(count) for name, count in said["make"].items()}
        wish = Wish(str(said["serial"]), float(said["at"]), make)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return wish if wish.serial and all(0 < count <= MOST for count in make.values()) else None


def _json(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
