"""Medians of cold loads, compared with the storage's own rate."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from appliance.benchmarks.model_load.answer import Load, Measured
from appliance.benchmarks.model_load.host.cold import COLD
from appliance.benchmarks.model_load.request import LEAST_REPEATS

BLOCK = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"})
"""File systems for which the kernel counts the bytes that each process requests from storage."""
OWN_CACHE = {"zfs": "ARC"}
"""File systems with a cache of their own in addition to the page cache, which cannot be emptied per file."""
FETCHED = 0.9
"""Minimum share of a file's bytes that a cold load requests from storage."""


@dataclass(frozen=True)
class Figure:
    """Seconds of one loader at one concurrency over its cold loads."""

    loader: str
    concurrency: int
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Seconds."""
        return statistics.median(self.seconds)

    @property
    def name(self) -> str:
        """Formatted for people."""
        if self.loader in {"safetensors", "raw"} and self.concurrency == 1:
            return self.loader
        return f"{self.loader} {self.concurrency}"


def figures(place: Measured) -> tuple[Figure, ...]:
    """One per loader and concurrency that has enough cold loads, in the order they were tried."""
    found: dict[tuple[str, int], list[float]] = {}
    for load in place.loads:
        if load.seconds is not None and not warm(place, load):
            found.setdefault((load.loader, load.concurrency), []).append(load.seconds)
    return tuple(_figures(found))


def raw(place: Measured) -> Figure | None:
    """The storage's own best: the number of readers with the lowest median."""
    found: dict[tuple[str, int], list[float]] = {}
    for read in place.raw:
        if read.seconds is not None and (read.direct or not _stayed(place, read.stayed)):
            found.setdefault(("raw", read.readers), []).append(read.seconds)
    return best(_figures(found), "raw")


def _figures(found: dict[tuple[str, int], list[float]]) -> Iterable[Figure]:
    for (loader, concurrency), seconds in found.items():
        if len(seconds) >= LEAST_REPEATS:
            yield Figure(loader, concurrency, tuple(seconds))


def best(all_figures: Iterable[Figure], loader: str) -> Figure | None:
    """The fastest of a loader."""
    own = [figure for figure in all_figures if figure.loader == loader]
    return min(own, key=lambda figure: figure.median, default=None)


def warm(place: Measured, load: Load) -> str:
    """The reason why a load does not count as cold; "" if it does. Objects are not cached on this host."""
    if why := _stayed(place, load.stayed):
        return why
    if place.kind in BLOCK and 0 <= load.fetched < FETCHED * place.bytes:
        share = load.fetched / place.bytes if place.bytes else 0
        return f"only {share:.0%} of the file was read from storage"
    return ""


def _stayed(place: Measured, stayed: float | None) -> str:
    if place.kind in OWN_CACHE:
        return f"{place.kind} has a cache of its own ({OWN_CACHE[place.kind]})"
    if place.kind == "s3" and stayed is None:
        return ""
    if stayed is None:
        return "the kernel does not report the contents of its page cache"
    return f"{stayed:.0%} of the file stayed in the page cache" if stayed > COLD else ""
