"""Wanted and actual layouts of a GPU: instances by size and placement, in a form that both sides share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from appliance.probe.mig import Instance

VERSION = 1
DECLARED = "/etc/appliance/mig.json"


class Refused(Exception):
    """The request cannot be carried out; the text is one line for the user, and nothing was changed."""


class Spot(NamedTuple):
    """An instance: profile id of nvidia-smi, first memory slice, number of slices, name.

    ``parts``: compute slices of its compute instances; None for one that uses all.
    """

    id: int
    start: int
    size: int
    name: str = ""
    parts: tuple[int, ...] | None = None

    @property
    def place(self) -> tuple[int, int, int]:
        """The fields that distinguish two instances of one GPU."""
        return self.id, self.start, self.size

    def __str__(self) -> str:
        return f"{self.name or f'profile {self.id}'} at {self.start}"


class Layout(NamedTuple):
    """Whether a GPU is in MIG mode, and its instances. Off means whole."""

    on: bool
    spots: tuple[Spot, ...] = ()


WHOLE = Layout(False)


class Declared(NamedTuple):
    """The wanted layout by GPU; ``present``: the number of GPUs of the complete host."""

    present: int
    gpus: Mapping[int, Layout]


def as_found(on: bool, instances: Iterable[Instance]) -> Layout:
    """Return the layout of a GPU."""
    spots = [
        Spot(
            one.profile,
            one.start,
            one.size,
            one.name,
            None if [p.slices for p in one.parts] == [one.slices] else _slices(one),
        )
        for one in instances
    ]
    return Layout(on, tuple(sorted(spots, key=lambda spot: spot.start)))


def _slices(one: Instance) -> tuple[int, ...]:
    return tuple(part.slices for part in one.parts)


def parse(text: str) -> Declared:
    """Return the declared layouts of a host. Raises Refused."""
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise Refused(
                f"the declared layout has version {document['version']}, but this program supports {VERSION}"
            )
        gpus = {int(index): _layout(spots) for index, spots in document["gpus"].items()}
        return Declared(int(document["count"]), gpus)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(
            f"the declared layout cannot be read: {type(error).__name__} {error}"
        ) from None


def _layout(spots: Any) -> Layout:
    made = [
        Spot(int(s["id"]), int(s["start"]), int(s["size"]), str(s.get("profile", "")))
        for s in spots
    ]
    return Layout(bool(made), tuple(sorted(made, key=lambda spot: spot.start)))


def differences(found: Layout, wanted: Layout) -> list[str]:
    """Return the steps to the wanted layout, one short phrase each; empty if it is reached."""
    gone, new = excess(found, wanted), missing(found, wanted)
    steps = [f"remove {spot}" for spot in gone]
    if found.on and not wanted.on:
        steps.append("turn MIG mode off")
    if wanted.on and not found.on:
        steps.append("turn MIG mode on")
    return steps + [f"make {spot}" for spot in new]


def excess(found: Layout, wanted: Layout) -> tuple[Spot, ...]:
    """Return existing instances to remove."""
    keep = {(spot.place, spot.parts) for spot in wanted.spots}
    return tuple(spot for spot in found.spots if (spot.place, spot.parts) not in keep)


def missing(found: Layout, wanted: Layout) -> tuple[Spot, ...]:
    """Return instances to create, the largest first."""
    there = {(spot.place, spot.parts) for spot in found.spots}
    new = (spot for spot in wanted.spots if (spot.place, spot.parts) not in there)
    return tuple(sorted(new, key=lambda spot: (-spot.size, spot.start)))


def words(layout: Layout) -> str:
    """``2 x 1g.10gb, 3g.40gb``; ``whole``, or ``empty`` for a GPU in MIG mode without instances."""
    if not layout.on:
        return "whole"
    counts: dict[str, int] = {}
    for spot in sorted(layout.spots, key=lambda spot: (-spot.size, spot.start)):
        name = spot.name or f"profile {spot.id}"
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{n} x {name}" if n > 1 else name for name, n in counts.items()) or "empty"
