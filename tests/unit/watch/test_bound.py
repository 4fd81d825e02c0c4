"""However many hosts find themselves unfit, and whenever: no more are out than the site allows, and a person's drain is theirs."""

import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from appliance.watch.bound import take_out
from appliance.watch.marks import Marks
from appliance.watch.node import MARK, PREFIX, Node, Silent
from appliance.watch.scontrol import Slurm

HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5")


@dataclass
class Controller:
    """slurmctld in memory: every request is answered whole, and remembers how many hosts were out at most."""

    nodes: dict[str, Node] = field(default_factory=lambda: {h: Node("IDLE") for h in HOSTS})
    before: Callable[[str], None] = lambda name: None
    highest: int = 0

    def out(self) -> set[str]:
        return {name for name, node in self.nodes.items() if node.is_ours}

    def ask(self, name: str) -> dict[str, Node]:
        self.before(name)
        return {n: Node(node.state, node.reason, node.extra) for n, node in self.nodes.items()}

    def change(self, name: str, words: dict[str, str]) -> None:
        self.before(name)
        node = self.nodes[name]
        node.extra = words.get("Extra", node.extra)
        node.reason = words.get("Reason", node.reason)
        node.state = "IDLE+DRAIN" if words.get("State") == "DRAIN" else node.state
        self.highest = max(self.highest, len(self.out()))


class Told(Slurm):
    """The program's own door, with the controller in memory behind it."""

    def __init__(self, controller: Controller, name: str) -> None:
        super().__init__(name)
        self.controller = controller

    def nodes(self) -> Mapping[str, Node]:
        return self.controller.ask(self.name)

    def _update(self, *words: str) -> None:
        self.controller.change(self.name, dict(w.split("=", 1) for w in words))


def drain(
    controller: Controller, name: str, most: int, pause: Callable[[float], None] | None = None
) -> bool:
    """Whether it is out then."""
    doors = Told(controller, name)
    return take_out(doors, "gpu.error GPU 3", most, pause or (lambda _: None)).is_out


@dataclass
class Turns:
    """Lets one of several threads go on at a time, in an order of chance that can be had again."""

    chance: random.Random
    waiting: dict[str, threading.Event] = field(default_factory=dict)
    gate: threading.Condition = field(default_factory=threading.Condition)

    def wait(self, name: str) -> None:
        turn = threading.Event()
        with self.gate:
            self.waiting[name] = turn
            self.gate.notify_all()
        assert turn.wait(20)

    def run(self, work: Mapping[str, Callable[[], object]]) -> None:
        threads = {name: threading.Thread(target=doing) for name, doing in work.items()}
        for thread in threads.values():
            thread.start()
        while any(thread.is_alive() for thread in threads.values()):
            with self.gate:
                alive = {name for name, thread in threads.items() if thread.is_alive()}
                if not alive <= set(self.waiting):
                    self.gate.wait(0.01)
                    continue
                name = self.chance.choice(sorted(self.waiting))
                self.waiting.pop(name).set()


def test_a_host_that_is_unfit_is_drained_with_the_cause() -> None:
    controller = Controller()
    assert drain(controller, "gpu-1", 1)
    node = controller.nodes["gpu-1"]
    assert (node.state, node.reason, node.extra) == ("IDLE+DRAIN", PREFIX + "gpu.error GPU 3", "")


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_one_after_the_other_as_many_go_as_the_bound_says(most: int) -> None:
    controller = Controller()
    said = [drain(controller, name, most) for name in HOSTS]
    assert said == [True] * most + [False] * (len(HOSTS) - most)
    assert all(not node.extra for node in controller.nodes.values())


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("most", [1, 2])
def test_at_the_same_moment_in_any_order_no_more_go_than_the_bound_says(
    most: int, seed: int
) -> None:
    turns = Turns(random.Random(seed))
    controller = Controller(before=turns.wait)
    turns.run(
        {
            n: lambda n=n: drain(controller, n, most, lambda _: turns.wait(n))  # type: ignore[misc]
            for n in HOSTS
        }
    )
    assert controller.highest <= most
    assert controller.out(), "all gave way to one another"
    assert not [name for name, node in controller.nodes.items() if node.is_announced]


def test_a_host_that_died_while_it_announced_itself_counts_for_a_while() -> None:
    controller = Controller()
    controller.nodes["gpu-2"].extra = f"{MARK}[{time.time() - 60:.0f}]"
    assert not drain(controller, "gpu-1", 1)
    assert drain(controller, "gpu-2", 1)


@pytest.mark.parametrize("mark", ["", "[1]", f"[{10**11}]", "[x]", "[-5]", "[" + "9" * 40 + "]"])
def test_a_mark_without_a_time_or_of_another_time_uses_up_nothing(mark: str) -> None:
    """Root of one host can write at any node whatever it likes."""
    controller = Controller()
    for name in HOSTS[1:]:
        controller.nodes[name].extra = MARK + mark + "rack=7"
    assert drain(controller, "gpu-1", 1)
    assert controller.nodes["gpu-2"].extra.endswith("rack=7")


@pytest.fixture
def hour(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of all clocks, to be set."""
    now = [1e9]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


def minutes(
    controller: Controller, hour: list[float], names: Sequence[str], most: int, many: int
) -> list[set[str]]:
    """Who is out after each of so many minutes, in which all these hosts look once, each by what it kept."""
    kept = dict.fromkeys(names, Marks().kept)
    found = []
    for _ in range(many):
        for name in names:
            marks = Marks(json.loads(json.dumps(kept[name])), lambda: hour[0])
            take_out(Told(controller, name), "gpu.error", most, lambda _: None, marks)
            kept[name] = marks.kept
        hour[0] += 60
        found.append(controller.out())
    return found


def test_a_host_that_marks_itself_again_and_again_keeps_others_at_work_for_a_minute_or_two(
    hour: list[float],
) -> None:
    controller = Controller()

    def lie(name: str) -> None:
        """Whatever is asked: it has just been announced."""
        controller.nodes["gpu-1"].extra = f"{MARK}[{hour[0]:.0f}]"

    controller.before = lie
    found = minutes(controller, hour, HOSTS[1:], 2, 4)
    assert found == [{"gpu-2"}, *[{"gpu-2", "gpu-3"}] * 3]
    assert controller.highest == 2


def test_marks_that_wander_over_all_hosts_keep_others_at_work_for_a_bounded_time(
    hour: list[float],
) -> None:
    hosts = [f"gpu-{n:03}" for n in range(200)]
    controller = Controller({name: Node("IDLE") for name in hosts})

    def lie(name: str) -> None:
        for other in hosts[:-1]:
            controller.nodes[other].extra = ""
        marked = controller.nodes[hosts[int(hour[0]) // 60 % 199]]
        marked.extra = f"{MARK}[{hour[0]:.0f}]"

    controller.before = lie
    found = minutes(controller, hour, hosts[-1:], 1, 12)
    assert (found[8], found[11]) == (set(), {hosts[-1]})


def test_who_gave_way_before_is_believed_once_those_that_went_are_given_back(
    hour: list[float],
) -> None:
    """Else forty hosts whose judge errs would all go as soon as a person gives four of them back."""
    controller = Controller()
    minutes(controller, hour, HOSTS, 2, 3)
    assert controller.out() == {"gpu-1", "gpu-2"}
    node = Node("IDLE", extra=f"{MARK}[{hour[0]:.0f}]")
    marks = Marks(clock=lambda: hour[0])
    marks.give_way({"gpu-4"}, 1)
    hour[0] += 50
    believed = Marks(marks.kept, lambda: hour[0])
    believed.judge({"gpu-1", "gpu-2"}, 2)
    assert (believed.count("gpu-4", node), believed.gaps) == (True, [])
    blamed = Marks(marks.kept, lambda: hour[0])
    blamed.judge({"gpu-1"}, 2)
    assert not blamed.count("gpu-4", node)
    assert "gpu-4" in blamed.gaps[0]


def test_what_a_person_drained_keeps_its_reason_and_does_not_count() -> None:
    controller = Controller()
    controller.nodes["gpu-1"] = Node("IDLE+DRAIN", "waits for a fan [root@2026-11-24T10:00:00]")
    assert drain(controller, "gpu-1", 1)
    assert controller.nodes["gpu-1"].reason.startswith("waits for a fan")
    assert drain(controller, "gpu-2", 1)


def test_a_person_who_drains_at_the_same_moment_is_first() -> None:
    controller = Controller()
    asked: list[str] = []

    def person(name: str) -> None:
        asked.append(name)
        if len(asked) == 3:
            controller.nodes["gpu-1"].state = "IDLE+DRAIN"
            controller.nodes["gpu-1"].reason = "mine"

    controller.before = person
    assert drain(controller, "gpu-1", 1)
    assert (controller.nodes["gpu-1"].reason, controller.nodes["gpu-1"].extra) == ("mine", "")


def test_what_somebody_keeps_in_extra_stays() -> None:
    controller = Controller()
    for node in controller.nodes.values():
        node.extra = "rack=7"
    assert drain(controller, "gpu-1", 1)
    assert not drain(controller, "gpu-2", 1)
    assert {node.extra for node in controller.nodes.values()} == {"rack=7"}


@pytest.mark.parametrize("fails", range(1, 5))
def test_a_controller_that_falls_silent_at_any_moment_lets_no_one_too_many_out(fails: int) -> None:
    controller = Controller()
    asked: list[str] = []

    def silent(name: str) -> None:
        asked.append(name)
        if len(asked) >= fails:
            raise Silent("no answer")

    controller.before = silent
    with pytest.raises(Silent):
        drain(controller, "gpu-1", 1)
    controller.before = lambda name: None
    for name in HOSTS[1:]:
        drain(controller, name, 1)
    assert controller.highest <= 1
