"""Reads all areas concurrently, each with its own deadline, into one document."""

from __future__ import annotations

import json
import os
import threading
import time
from importlib import import_module

from appliance.probe.ask import Ask, Once, Refused
from appliance.probe.problems import DENIED, Unreadable, surprise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from appliance.probe.ask import Facts

VERSION = 1
AREAS = {
    "slurm": ("appliance.stages.slurm.collect.slurm", 15.0),
    "os": ("appliance.probe.collectors.system", 25.0),
    "cpu": ("appliance.probe.collectors.cpu", 5.0),
    "disks": ("appliance.probe.collectors.disks", 5.0),
    "filesystems": ("appliance.probe.collectors.filesystems", 5.0),
    "network": ("appliance.probe.collectors.network", 5.0),
    "clock": ("appliance.probe.collectors.clock", 5.0),
    "neighbours": ("appliance.probe.collectors.neighbours", 5.0),
    "access": ("appliance.probe.collectors.access", 8.0),
    "edac": ("appliance.probe.collectors.edac", 5.0),
    "aer": ("appliance.probe.collectors.aer", 5.0),
    "nvme": ("appliance.probe.collectors.nvme", 10.0),
    "tuning": ("appliance.probe.collectors.tuning", 5.0),
    "sysctl": ("appliance.probe.collectors.sysctl", 5.0),
    "gpus": ("appliance.stages.gpu.collect.gpus", 20.0),
    "xids": ("appliance.stages.gpu.collect.xids", 5.0),
    "fabric": ("appliance.stages.fabric.collect.adapters", 10.0),
    "topology": ("appliance.stages.fabric.collect.topology", 30.0),
    "units": ("appliance.probe.collectors.units", 20.0),
    "packages": ("appliance.probe.collectors.packages", 15.0),
    "nfs": ("appliance.stages.storage.collect", 5.0),
    "containers": ("appliance.stages.slurm.collect.containers", 15.0),
    "kubernetes": ("appliance.stages.kubernetes.collect.cluster", 15.0),
    "offer": ("appliance.stages.kubernetes.collect.offer", 40.0),
    "ground": ("appliance.stages.kubernetes.collect.ground", 5.0),
    "scheduler": ("appliance.stages.scheduler.collect.scheduler", 15.0),
    "observe": ("appliance.stages.observe.collect", 5.0),
    "limits": ("appliance.stages.limits.collect", 5.0),
    "backup": ("appliance.stages.backup.collect", 5.0),
    "watch": ("appliance.stages.slurm.collect.watch", 30.0),
    "node_watch": ("appliance.stages.kubernetes.collect.watch", 30.0),
    "mig_demand": ("appliance.stages.mig.collect", 5.0),
    "receipts": ("appliance.probe.collectors.receipts", 25.0),
    "resources": ("appliance.probe.collectors.resources", 25.0),
    "weekly": ("appliance.probe.collectors.weekly", 5.0),
    "foreign": ("appliance.stages.base.collect", 15.0),
    "posture": ("appliance.probe.posture", 40.0),
}
"""Area -> its collector and its seconds, of the 45 for the whole. sacctmgr takes longest, so Slurm is first; there is time for two calls of systemctl. A slow host gets more: on emulated or busy processors, reading a few files takes seconds."""
DEEP = 550.0
"""Seconds for a posture that reads every file."""
USUAL_S = 0.5
"""Seconds within which a fast host has imported the collectors; a host that takes longer is slow in everything."""
WHOLE_S = 35.0
"""Seconds from the first request on, after which a slow host gets no additional time."""
LONGEST, LONGEST_BESIDE = 7 << 19, 15 << 20
"""Characters of all areas together, without and with the posture: the engine refuses an answer of 4 or 16 MiB."""
ALWAYS = ("os", "cpu", "clock")
"""Areas without which facts are invalid."""
NAMED_ONLY = frozenset({"topology", "posture", "offer"})
"""Areas that "all" does not include: discovery sends a packet to every port; comparisons and repositories are slow."""


class Shared:
    """Values that several areas need, computed once."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.receipts = Once(self._receipts)
        self.observer = Once(self._observer)

    def _receipts(self) -> Any:
        from appliance.probe.collectors import receipts

        areas = self._ask.areas
        wanted = areas is None or not {"receipts", "foreign", "posture"}.isdisjoint(areas)
        return receipts.load(self._ask) if wanted else {}

    def _observer(self) -> Any:
        from appliance.probe.collectors import receipts
        from appliance.probe.state import Observer

        try:
            left = receipts.resources(self.receipts.get())
        except OSError:  # the area receipts says so itself
            left = []
        return Observer(self._ask, [*self._ask.resources, *left])


def chosen(ask: Ask) -> list[str]:
    """Return the areas to collect. Raises Refused for one that does not exist."""
    if ask.areas is None:
        return [area for area in AREAS if area not in NAMED_ONLY]
    unknown = sorted(set(ask.areas) - set(AREAS))
    if unknown:
        raise Refused(f"unknown area {unknown[0]}; known: {', '.join(AREAS)}")
    return [area for area in AREAS if area in ask.areas or area in ALWAYS]


def document(ask: Ask) -> Facts:
    """Facts of the host, version 1 of HostFacts; areas that failed are named in ``errors``."""
    shared = Shared(ask)
    began = time.monotonic()
    first, *others = chosen(ask)
    _load(first)
    ask.slowness = _slowness(began)
    running = [_start(ask, shared, first)]
    # Its programs work meanwhile: to read all collectors takes as long as most of them do.
    _load(*others)
    ask.slowness = _slowness(began)
    running += [_start(ask, shared, area) for area in others]
    for one in running:
        one.wait(ask, began)
    facts: Facts = {}
    ended = []
    for one in running:
        # What came while others were waited for is no later than they are.
        if one.thread.is_alive():
            ask.problem(one.area, f"no answer within {one.patience:.3g} s")
        else:
            ended.append(one)
    for one in within(ask, ended):
        facts.update(one.answer)
    return {**_fallback(), **facts, **_frame(ask)}


def _load(*areas: str) -> None:
    """Import before the threads start: Python 3.8 and 3.9 show a thread a module that another one still imports."""
    import_module("appliance.probe.command")
    for area in areas:
        import_module(AREAS[area][0])


def within(ask: Ask, ended: list[Running]) -> list[Running]:
    """Return the areas that fit into the size limit of one host; the largest one is dropped, not the host."""
    most = LONGEST_BESIDE if any(one.area == "posture" for one in ended) else LONGEST
    sizes = {one.area: len(json.dumps(one.answer, ensure_ascii=False)) for one in ended}
    while sum(sizes.values()) > most:
        largest = max(sizes, key=lambda area: sizes[area])
        ask.problem(largest, f"{sizes.pop(largest) >> 10} KiB exceed the size limit of the area")
    return [one for one in ended if one.area in sizes]


class Running:
    """A running area. Its time starts here, because a busy host may take seconds to import the collectors."""

    def __init__(self, area: str, thread: threading.Thread, answer: Facts) -> None:
        self.area, self.thread, self.answer = area, thread, answer
        self.patience = 0.0
        self._began = time.monotonic()

    def wait(self, ask: Ask, began: float) -> None:
        """Wait for its result; a slower host gets more time. ``began``: start of the whole."""
        due = DEEP if ask.deep and self.area == "posture" else AREAS[self.area][1]
        left = began + WHOLE_S - self._began
        self.patience = max(due, min(due * ask.slowness, left))
        self.thread.join(max(0.0, self._began + self.patience - time.monotonic()))


def _slowness(began: float) -> float:
    """Return the factor by which this host is slower than a fast one, measured since the start; at least 1."""
    return max(1.0, (time.monotonic() - began) / USUAL_S)


def _start(ask: Ask, shared: Shared, area: str) -> Running:
    answer: Facts = {}
    worker = threading.Thread(target=_guarded, args=(ask, shared, area, answer), daemon=True)
    worker.start()
    return Running(area, worker, answer)


def _guarded(ask: Ask, shared: Shared, area: str, answer: Facts) -> None:
    """Run one collector; an exception becomes the area's error and does not end the others."""
    try:
        answer.update(_collector(area)(*_arguments(ask, shared, area)))
    except PermissionError as error:
        ask.problem(area, f"needs root to read {error.filename}", DENIED)
    except Unreadable as error:
        ask.problem(area, error)
    except OSError as error:
        ask.problem(area, str(error))
    except Exception as error:  # noqa: BLE001 - a surprise in one area must not cost the others
        ask.problem(area, surprise(f"area {area} of the probe", error))


def _collector(area: str) -> Callable[..., Facts]:
    collect: Callable[..., Facts] = import_module(AREAS[area][0]).collect
    return collect


def _arguments(ask: Ask, shared: Shared, area: str) -> tuple[Any, ...]:
    if area == "receipts":
        return ask, shared.receipts.get(), shared.observer.get()
    if area == "resources":
        return ask, shared.observer.get()
    if area in {"foreign", "posture"}:
        return ask, shared.receipts.get()
    if area in {"units", "packages"}:
        return ask, getattr(shared.observer.get(), area).get()
    return (ask,)


def _fallback() -> Facts:
    """Return the required parts of an area that failed."""
    from appliance.probe.collectors import cpu, system

    return {
        "os": system.UNKNOWN,
        "cpu": cpu.UNKNOWN_CPU,
        "memory": cpu.UNKNOWN_MEMORY,
        "clock": {"time": time.time()},
    }


def _frame(ask: Ask) -> Facts:
    used = os.times()
    return {
        "version": VERSION,
        "host": os.uname().nodename.partition(".")[0],
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu_seconds": round(sum(used[:4]), 3),
        "user": _user(),
        "simulated": ask.simulated,
        "errors": dict(ask.errors),
        "problems": list(ask.problems),
    }


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
