"""Changes one GPU to its wanted layout, completely or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from appliance.mig import clients, nodes
from appliance.mig.layout import Layout, Refused, differences, excess, missing, words
from appliance.mig.processes import Process, named
from appliance.probe.nvml import Failure

if TYPE_CHECKING:
    from appliance.mig.gpu import Gpu

UNCHANGED, CHANGED, REFUSED, FAILED, PENDING = (
    "unchanged",
    "changed",
    "refused",
    "failed",
    "pending",
)
BAD = frozenset({REFUSED, FAILED, PENDING})


class Outcome(NamedTuple):
    """Result for a GPU: the state, the reason, its users, and the planned steps."""

    state: str
    why: str = ""
    processes: tuple[Process, ...] = ()
    steps: tuple[str, ...] = ()


class _Waits(Exception):
    """The new mode takes effect at the next reset or reboot."""


def change(gpu: Gpu, wanted: Layout) -> Outcome:
    """Divide the GPU as wanted; do nothing if it is divided so already, or if a process uses it."""
    found = gpu.layout()
    pending = gpu.mode()[1]
    steps = tuple(differences(found, wanted))
    if not steps and pending == wanted.on:
        return Outcome(UNCHANGED)
    busy = tuple(named(pid) for pid in gpu.processes())
    if busy:
        return Outcome(REFUSED, f"in use by {', '.join(map(str, busy))}", busy, steps)
    why = _unknown_profile(gpu, wanted)
    if why:
        return Outcome(REFUSED, why, (), steps)
    try:
        _make(gpu, wanted)
    except _Waits:
        return Outcome(
            PENDING,
            f"MIG mode {_word(wanted.on)} needs an idle GPU: stop the programs that use it, or reboot the host",
            (),
            steps,
        )
    except (Failure, Refused) as error:
        return Outcome(FAILED, f"{error}; {_restored(gpu, found)}", (), steps)
    return Outcome(CHANGED, "", (), steps)


def _make(gpu: Gpu, wanted: Layout) -> None:
    if wanted.on:
        _mode(gpu, True)
        _check_places(gpu, wanted)
    gone = {spot.place for spot in excess(gpu.layout(), wanted)}
    for instance in gpu.instances():
        if (instance.profile, instance.start, instance.size) in gone:
            gpu.remove(instance)
    if not wanted.on:
        _mode(gpu, False)
        return
    for spot in missing(gpu.layout(), wanted):
        gpu.make(spot)
    nodes.settle(gpu.minor, gpu.instances())
    left = differences(gpu.layout(), wanted)
    if left:
        raise Failure(f"the driver created another layout: {', '.join(left)} still missing")


def _mode(gpu: Gpu, on: bool) -> None:
    """Set MIG mode immediately: directly, without monitoring clients, or by a reset."""
    if gpu.mode() == (on, on) or gpu.ask_mode(on):
        return
    if clients.stop() and gpu.ask_mode(on):
        return
    if clients.reset(gpu.index) and gpu.mode() == (on, on):
        return
    raise _Waits


def _unknown_profile(gpu: Gpu, wanted: Layout) -> str:
    known = gpu.profiles()
    strange = [spot for spot in wanted.spots if spot.id not in known]
    if not strange:
        return ""
    there = ", ".join(f"{name} ({number})" for number, (name, _) in known.items()) or "none"
    return f"{gpu.name} has no profile {strange[0].id} ({strange[0].name}); it has {there}"


def _check_places(gpu: Gpu, wanted: Layout) -> None:
    """Check against the driver's own table before an instance is changed."""
    for spot in wanted.spots:
        offered = gpu.places(spot.id)
        if (spot.start, spot.size) not in offered:
            starts = ", ".join(str(start) for start, _ in offered) or "nowhere"
            raise Refused(f"{spot.name} can start at {starts}, not at {spot.start}")


def _restored(gpu: Gpu, before: Layout) -> str:
    """Restore the previous layout; return the outcome."""
    try:
        _make(gpu, before)
    except (_Waits, Failure, Refused) as error:
        why = str(error) or "its MIG mode is pending until a reset"
        return f"the previous layout ({words(before)}) could not be restored: {why}"
    return f"the previous layout ({words(before)}) was restored"


def _word(on: bool) -> str:
    return "on" if on else "off"
