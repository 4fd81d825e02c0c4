"""What GPUs can be divided into, for tests."""

from collections import Counter
from collections.abc import Iterator, Sequence

from appliance.stages.mig.table import Geometry, MigProfile


def layouts(geometry: Geometry) -> Iterator[dict[str, int]]:
    """Every layout one GPU can hold, part-filled ones too, each once, the biggest instances first."""
    order = sorted(geometry.profiles, key=lambda p: (-p.memory, -p.compute, p.name))
    yield from _grown(geometry, {}, order)


def _grown(
    geometry: Geometry, layout: dict[str, int], left: Sequence[MigProfile]
) -> Iterator[dict[str, int]]:
    """More of each profile; one that does not fit will not fit with more beside it."""
    for index, profile in enumerate(left):
        more = dict(Counter(layout) + Counter({profile.name: 1}))
        if not geometry.refusal(more):
            yield more
            yield from _grown(geometry, more, left[index:])
