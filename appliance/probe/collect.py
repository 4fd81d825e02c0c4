"""Asks every area at once, each under its own deadline, and puts their facts into one document."""

from __future__ import annotations

import os
import threading
import time
from importlib import import_module

from appliance.probe.ask import Ask, Once, Refused
from appliance.probe.problems import DENIED, Unreadable

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
    "ground": ("appliance.stages.kubernetes.collect.ground", 5.0),
    "scheduler": ("appliance.stages.scheduler.collect.scheduler", 15.0),
    "observe": ("appliance.stages.observe.collect", 5.0),
    "limits": ("appliance.stages.limits.collect", 5.0),
    "watch": ("appliance.stages.slurm.collect.watch", 30.0),
    "mig_demand": ("appliance.stages.mig.collect", 5.0),
    "receipts": ("appliance.probe.collectors.receipts", 25.0),
    "resources": ("appliance.probe.collectors.resources", 25.0),
    "weekly": ("appliance.probe.collectors.weekly", 5.0),
    "foreign": ("appliance.stages.base.collect", 15.0),
    "posture": ("appliance.probe.posture", 40.0),
}
"""Area -> its collector and the seconds it may take, of the 45 that the engine gives the whole. sacctmgr takes longest of all, so Slurm is
asked first; where systemctl is asked twice there is time for it."""
DEEP = 550.0
"""Seconds the posture may take that reads every file."""
ALWAYS = ("os", "cpu", "clock")
"""Facts without these are none."""
NAMED_ONLY = frozenset({"topology", "posture"})
"""Discovery sends a packet to every port of the fabric, and comparing with another day is asked for: not part of "all"."""


class Shared:
    """What several areas need, made once."""

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
    """The areas to look at. Raises Refused for one that does not exist."""
    if ask.areas is None:
        return [area for area in AREAS if area not in NAMED_ONLY]
    unknown = sorted(set(ask.areas) - set(AREAS))
    if unknown:
        raise Refused(f"unknown area {unknown[0]}; known: {', '.join(AREAS)}")
    return [area for area in AREAS if area in ask.areas or area in ALWAYS]


def document(ask: Ask) -> Facts:
    """Facts of the host, version 1 of HostFacts; areas that failed are named in ``errors``."""
    shared = Shared(ask)
    first, *others = chosen(ask)
    _load(first)
    running = [(first, *_start(ask, shared, first))]
    # Its programs work meanwhile: to read all collectors takes as long as most of them do.
    _load(*others)
    running += [(area, *_start(ask, shared, area)) for area in others]
    facts: Facts = {}
    for area, began, thread, answer in running:
        patience = DEEP if ask.deep and area == "posture" else AREAS[area][1]
        thread.join(max(0.0, began + patience - time.monotonic()))
        if thread.is_alive():
            ask.problem(area, f"no answer within {patience:g} s")
        else:
            facts.update(answer)
    return {**_fallback(), **facts, **_frame(ask)}


def _load(*areas: str) -> None:
    """Import what threads share beforehand: Python 3.8 and 3.9 show one a module another still imports."""
    import_module("appliance.probe.command")
    for area in areas:
        import_module(AREAS[area][0])


def _start(ask: Ask, shared: Shared, area: str) -> tuple[float, threading.Thread, Facts]:
    """Its time counts from here: a busy host may take seconds to read the collectors."""
    answer: Facts = {}
    worker = threading.Thread(target=_guarded, args=(ask, shared, area, answer), daemon=True)
    worker.start()
    return time.monotonic(), worker, answer


def _guarded(ask: Ask, shared: Shared, area: str, answer: Facts) -> None:
    """Run one collector; whatever it meets becomes the area's error, never the end of the others."""
    try:
        answer.update(_collector(area)(*_arguments(ask, shared, area)))
    except PermissionError as error:
        ask.problem(area, f"needs root to read {error.filename}", DENIED)
    except Unreadable as error:
        ask.problem(area, error)
    except OSError as error:
        ask.problem(area, str(error))
    except Exception as error:  # noqa: BLE001 - a surprise in one area must not cost the others
        ask.problem(area, f"{type(error).__name__}: {error}")


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
    """The obligatory parts, for when their area failed."""
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
