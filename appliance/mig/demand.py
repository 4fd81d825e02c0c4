"""MIG on demand on one host: decides where a new instance is created, and which unused ones are removed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from appliance.mig.layout import Refused, Spot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from appliance.mig.layout import Layout

    Unused = tuple[int, Spot | None]

FILE = "/etc/appliance/mig-demand.json"
VERSION = 1
MOST = 112
"""Maximum instances of one request: sixteen GPUs of seven."""
SLICES = 8
"""Memory slices of a GPU (NVIDIA MIG user guide)."""


class Size(NamedTuple):
    """An allowed profile: its id, its memory slices, and its possible placements."""

    name: str
    id: int
    size: int
    starts: tuple[int, ...]

    def at(self, start: int) -> Spot:
        """An instance of it."""
        return Spot(self.id, start, self.size, self.name)


class Policy(NamedTuple):
    """``gpus``: numbers of those that may be divided; ``whole``: how many GPUs of the host stay whole; ``present``: all GPUs."""

    node: str
    present: int
    gpus: tuple[int, ...]
    sizes: tuple[Size, ...]
    whole: int
    unused_s: float


class Wish(NamedTuple):
    """Instances that the cluster requests here, by profile; ``at``: its time of day."""

    serial: str
    at: float
    make: dict[str, int]


class Seen(NamedTuple):
    """A GPU at a moment. ``held``: its instances in use by a pod or process; ``busy``: the whole GPU is in use."""

    number: int
    layout: Layout
    held: frozenset[Spot]
    busy: bool

    @property
    def free(self) -> tuple[Spot, ...]:
        """Its unused instances."""
        return () if self.busy else tuple(s for s in self.layout.spots if s not in self.held)

    @property
    def is_empty(self) -> bool:
        """Whether it is in MIG mode without instances, so that nothing can use it."""
        return self.layout.on and not self.layout.spots and not self.busy

    @property
    def idle(self) -> bool:
        """Whether it is whole and unused."""
        return not self.layout.on and not self.busy


def parse(text: str) -> Policy:
    """Return the policy of a host. Raises Refused."""
    try:
        said = json.loads(text)
        if said["version"] != VERSION:
            raise Refused(
                f"{FILE} has version {said['version']}, but this program supports {VERSION}"
            )
        return Policy(
            str(said["node"]),
            int(said["count"]),
            tuple(int(number) for number in said["gpus"]),
            tuple(
                Size(
                    str(s["profile"]),
                    int(s["id"]),
                    int(s["size"]),
                    tuple(int(n) for n in s["starts"]),
                )
                for s in said["profiles"]
            ),
            int(said["whole"]),
            float(said["unused_s"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{FILE} cannot be read: {type(error).__name__} {error}") from None


def wish(said: Mapping[str, Any]) -> Wish | None:
    """Return None if there is no readable request."""
    try:
        make = {str(name): int(count) for name, count in said["make"].items()}
        found = Wish(str(said["serial"]), float(said["at"]), make)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    sane = bool(make) and all(0 < count <= MOST for count in make.values())
    return found if found.serial and sane else None


def arranged(
    gpus: Sequence[Seen], size: Size, count: int, policy: Policy
) -> dict[int, tuple[Spot, ...]]:
    """Return new instances by GPU, up to ``count``: first next to others on the fullest GPU, then on as few whole GPUs as possible."""
    found: dict[int, tuple[Spot, ...]] = {}
    left = count
    fullest = sorted(divided(gpus, policy), key=lambda gpu: -_slices(gpu.layout.spots))
    for gpu in [*fullest, *spare(gpus, policy)]:
        new = fitting(gpu.layout.spots, size, left, policy.sizes)
        if new:
            found[gpu.number] = new
            left -= len(new)
        if not left:
            break
    return found


def divided(gpus: Sequence[Seen], policy: Policy) -> list[Seen]:
    """Return divided GPUs with room for another instance."""
    return [g for g in gpus if g.layout.on and not g.busy and g.number in policy.gpus]


def spare(gpus: Sequence[Seen], policy: Policy) -> list[Seen]:
    """Return whole GPUs that may be divided now: unused, and beyond those that stay whole."""
    whole = sum(1 for gpu in gpus if not gpu.layout.on)
    idle = [gpu for gpu in gpus if gpu.idle and gpu.number in policy.gpus]
    return idle[: max(0, whole - policy.whole)]


def room(gpus: Sequence[Seen], size: Size, policy: Policy) -> tuple[int, int]:
    """Return how many more instances of a profile are possible, on divided GPUs and in total."""
    most = len(fitting((), size, SLICES, policy.sizes))
    beside = sum(
        len(fitting(gpu.layout.spots, size, SLICES, policy.sizes)) for gpu in divided(gpus, policy)
    )
    return beside, beside + most * len(spare(gpus, policy))


def fitting(
    there: Iterable[Spot], size: Size, count: int, sizes: Sequence[Size]
) -> tuple[Spot, ...]:
    """Return up to ``count`` instances next to existing ones, each where it leaves most room for other profiles."""
    taken = list(there)
    new: list[Spot] = []
    while len(new) < count:
        places = [size.at(start) for start in size.starts if _is_free(taken, start, size.size)]
        if not places:
            break
        best = max(places, key=lambda spot: (_left([*taken, spot], sizes), spot.start))
        taken.append(best)
        new.append(best)
    return tuple(new)


def unused(gpus: Iterable[Seen]) -> Iterator[Unused]:
    """Return unused instances with their GPU's number, and None for a GPU in MIG mode without instances."""
    for gpu in gpus:
        yield from ((gpu.number, spot) for spot in gpu.free)
        if gpu.is_empty:
            yield gpu.number, None


def outdated(
    gpus: Iterable[Seen], since: Mapping[Unused, float], now: float, policy: Policy
) -> dict[int, tuple[Spot, ...]]:
    """Return instances by GPU that were unused for the policy's time; ``since``: when each was first seen unused."""
    found: dict[int, tuple[Spot, ...]] = {}
    for number, spot in unused(gpus):
        is_old = now - since.get((number, spot), now) >= policy.unused_s
        if is_old and number in policy.gpus:
            found[number] = (*found.get(number, ()), *([spot] if spot else ()))
    return found


def _is_free(taken: Iterable[Spot], start: int, size: int) -> bool:
    return all(start + size <= spot.start or spot.start + spot.size <= start for spot in taken)


def _left(taken: Sequence[Spot], sizes: Sequence[Size]) -> int:
    """Return the memory slices of all placements that are still possible, each profile counted by itself."""
    return sum(
        size.size for size in sizes for start in size.starts if _is_free(taken, start, size.size)
    )


def _slices(spots: Iterable[Spot]) -> int:
    return sum(spot.size for spot in spots)
