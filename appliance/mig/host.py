"""All GPUs of this host: their layouts, the declared ones, and the changes between them."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from appliance.mig import clients, demand
from appliance.mig.change import BAD, FAILED, REFUSED, UNCHANGED, Outcome, change
from appliance.mig.gpu import Gpu
from appliance.mig.layout import (
    DECLARED,
    WHOLE,
    Declared,
    Layout,
    Refused,
    differences,
    parse,
    words,
)
from appliance.mig.processes import named
from appliance.probe import files
from appliance.probe.nvml import Failure, Library
from appliance.probe.problems import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any

LOCK = clients.RUN + "/appliance-mig.private.lock"
"""Readable by root only: anyone who can open a file, even for reading, can lock it."""
PATIENCE_S, PAUSE_S = 240.0, 0.2
"""Shorter than the timeouts of the boot unit and of the control host."""
PLANNED = "differs"
PROGRAM = "/usr/local/sbin/appliance-mig"


@contextmanager
def driver() -> Iterator[Library]:
    """Open NVML. Raises Refused without a driver."""
    try:
        library = Library()
    except Unreadable as error:
        raise Refused(f"the driver does not answer: {error}") from None
    try:
        yield library
    finally:
        library.close()


@contextmanager
def alone(seconds: float = PATIENCE_S) -> Iterator[None]:
    """Allow one change at a time on this host, waiting up to this time. Raises Refused. The lock ends with its process."""
    try:
        private = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = open(os.open(LOCK, private, 0o600), "w", encoding="utf-8")  # noqa: PTH123, SIM115 - closed below
    except OSError as error:
        raise Refused(f"only root can partition GPUs: {error}") from None
    with lock:
        end = time.monotonic() + seconds
        while not _locked(lock):
            if time.monotonic() >= end:
                raise Refused(
                    f"another process has held the MIG lock of this host for {seconds:.0f} s: lsof {LOCK}"
                )
            time.sleep(PAUSE_S)
        try:
            yield
        finally:
            clients.start_again()


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def show(library: Library) -> list[dict[str, Any]]:
    """Return every GPU with its instances, their UUIDs, and its processes."""
    return [_shown(library, index) for index in range(answering(library))]


def plan(library: Library, declared: Declared) -> list[dict[str, Any]]:
    """Return every declared GPU with the planned steps and obstacles."""
    check_count(library, declared)
    return [_planned(library, index, wanted) for index, wanted in sorted(declared.gpus.items())]


def apply(library: Library, declared: Declared) -> list[dict[str, Any]]:
    """Apply the declared layout to every GPU; a failure of one does not stop the others."""
    check_count(library, declared)
    return [_applied(library, index, wanted) for index, wanted in sorted(declared.gpus.items())]


def disable(library: Library) -> list[dict[str, Any]]:
    """Undivide every GPU; if all are whole, remove the unit that divides them at boot, and this program.

    Raises Refused if some GPUs do not answer, because nothing would undivide them later.
    """
    count, present = answering(library), _present()
    if count < present:
        raise Refused(
            f"{count} of {present} GPUs answer, and a missing GPU would stay partitioned: "
            "nothing was changed; repair the missing GPUs first"
        )
    results = [_applied(library, index, WHOLE) for index in range(count)]
    if good(results):
        clients.retire()
        # MIG on demand still needs the program.
        for path in (DECLARED,) if files.exists(demand.FILE) else (DECLARED, PROGRAM):
            if files.exists(path):
                os.unlink(path)  # noqa: PTH108
    return results


def good(results: list[dict[str, Any]]) -> bool:
    """Return whether every GPU has its declared layout."""
    return not any(result["state"] in BAD for result in results)


def check_count(library: Library, declared: Declared) -> None:
    """GPU numbers shift if one is missing: then a number identifies a GPU only if all layouts are equal. Raises Refused."""
    if not declared.gpus:
        return
    count = answering(library)
    beyond = [index for index in declared.gpus if index >= declared.present]
    if beyond:
        raise Refused(
            f"GPU {beyond[0]} is declared, but the host has {declared.present}, counted from 0"
        )
    same = len(declared.gpus) == declared.present and len(set(declared.gpus.values())) == 1
    if count != declared.present and not same:
        raise Refused(
            f"{count} of {declared.present} GPUs answer, and GPU numbers shift if one is missing: "
            "nothing was changed; repair the missing GPUs first"
        )


def answering(library: Library) -> int:
    """Return the GPUs that the driver lists. Raises Refused if there is none, because an invisible GPU is not as declared."""
    count = library.number("nvmlDeviceGetCount_v2")
    if not count:
        raise Refused("the driver shows no GPU: nothing was changed")
    return count


def _present() -> int:
    """Return the number of GPUs of the complete host, as in the declared layout; 0 if no GPU is left."""
    try:
        return parse(files.read(DECLARED)).present
    except (OSError, Refused):
        return 0


def _shown(library: Library, index: int) -> dict[str, Any]:
    said: dict[str, Any] = {"gpu": index}
    try:
        gpu = Gpu(library, index)
        said.update(uuid=gpu.uuid, name=gpu.name)
        said["layout"] = words(gpu.layout())
        said["pending"] = gpu.mode()[1] != gpu.mode()[0]
        said["instances"] = [
            {
                "profile": one.name,
                "start": one.start,
                "size": one.size,
                "id": one.id,
                "devices": [part.uuid for part in one.parts],
            }
            for one in gpu.instances()
        ]
        said["processes"] = [named(pid)._asdict() for pid in gpu.processes()]
    except (Failure, Refused) as error:
        said["error"] = str(error)
    return said


def _planned(library: Library, index: int, wanted: Layout) -> dict[str, Any]:
    try:
        gpu = Gpu(library, index)
        found = gpu.layout()
        steps = differences(found, wanted)
        pending = gpu.mode()[1] != gpu.mode()[0]
        outcome = Outcome(PLANNED if steps or pending else UNCHANGED, steps=tuple(steps))
        busy = tuple(named(pid) for pid in gpu.processes()) if steps else ()
        if busy:
            why = f"in use by {', '.join(map(str, busy))}"
            outcome = Outcome(REFUSED, why, busy, tuple(steps))
        return {**_result(index, outcome, wanted), "layout": words(found)}
    except (Failure, Refused) as error:
        return _result(index, Outcome(FAILED, str(error)), wanted)


def _applied(library: Library, index: int, wanted: Layout) -> dict[str, Any]:
    try:
        gpu = Gpu(library, index)
        outcome = change(gpu, wanted)
        return {**_result(index, outcome, wanted), "layout": words(gpu.layout())}
    except (Failure, Refused) as error:
        return _result(index, Outcome(FAILED, str(error)), wanted)


def _result(index: int, outcome: Outcome, wanted: Layout) -> dict[str, Any]:
    return {
        "gpu": index,
        "wanted": words(wanted),
        "state": outcome.state,
        "why": outcome.why,
        "steps": list(outcome.steps),
        "processes": [process._asdict() for process in outcome.processes],
    }
