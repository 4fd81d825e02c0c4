"""Every part the rack knows: its table agrees with its driver, and every layout that can be is made there."""

import random
from itertools import product
from pathlib import Path

import pytest

from appliance.errors import ConfigError
from appliance.lab.hardware import Hardware
from appliance.lab.parts import GpuModel, parts
from appliance.mig.change import CHANGED, UNCHANGED, change
from appliance.mig.gpu import Gpu
from appliance.mig.layout import WHOLE, Layout, Refused, Spot, words
from appliance.stages.mig.layouts import geometry_of, parse
from appliance.stages.mig.table import Geometry, mig_table
from tests.support.layouts import layouts
from tests.support.mig_host import MigHost, opened

DIVIDED = [part for part in parts() if mig_table().of(part.name)]
each_part = pytest.mark.parametrize("part", DIVIDED, ids=lambda part: part.key)
Counts = tuple[int, ...]
GENERATED = 200
THOROUGH = "a100-sxm"
"""The part whose every layout is made; of the others some, for they differ in names only."""


TOLD = {
    "1g.10gb": (19, 7, 1, [0, 1, 2, 3, 4, 5, 6]),
    "1g.10gb+me": (20, 1, 1, [0, 1, 2, 3, 4, 5, 6]),
    "1g.20gb": (15, 4, 2, [0, 2, 4, 6]),
    "2g.20gb": (14, 3, 2, [0, 2, 4]),
    "3g.40gb": (9, 2, 4, [0, 4]),
    "4g.40gb": (5, 1, 4, [0]),
    "7g.80gb": (0, 1, 8, [0]),
}
"""By profile: id, instances at most, memory slices and where they begin, as NVML of a real H100 80GB HBM3 gave them (driver 580.159.04)."""


def test_the_table_says_what_a_real_h100_says() -> None:
    geometry = mig_table().of("NVIDIA H100 80GB HBM3")
    assert geometry is not None
    own = {p.name: (p.id, p.maximum, p.memory, list(p.starts)) for p in geometry.profiles}
    assert own == TOLD


def legal(geometry: Geometry) -> set[Counts]:
    """All sets of places that do not overlap, as numbers per profile; found without the code under test."""
    found: set[Counts] = set()
    places = [
        (number, ((1 << profile.memory) - 1) << start)
        for number, profile in enumerate(geometry.profiles)
        for start in profile.starts
    ]

    def walk(first: int, taken: int, counts: Counts) -> None:
        compute = sum(n * p.compute for n, p in zip(counts, geometry.profiles, strict=True))
        most = all(n <= p.maximum for n, p in zip(counts, geometry.profiles, strict=True))
        if any(counts) and most and compute <= geometry.compute:
            found.add(counts)
        for later in range(first, len(places)):
            number, mask = places[later]
            if not taken & mask:
                walk(
                    later + 1, taken | mask, tuple(n + (i == number) for i, n in enumerate(counts))
                )

    walk(0, 0, (0,) * len(geometry.profiles))
    return found


def written(geometry: Geometry, counts: Counts) -> str:
    """The layout as a site writes it."""
    pairs = zip(counts, geometry.profiles, strict=True)
    return ", ".join(f"{n} x {profile.name}" for n, profile in pairs if n)


def wanted(geometry: Geometry, counts: Counts) -> Layout:
    """The layout as a host is told it."""
    placed = geometry.place(parse(written(geometry, counts), geometry))
    assert placed is not None
    ids = {profile.name: profile.id for profile in geometry.profiles}
    spots = [Spot(ids[p.profile], p.start, p.size, p.profile) for p in placed]
    return Layout(True, tuple(sorted(spots, key=lambda spot: spot.start)))


@each_part
def test_every_legal_layout_is_accepted_and_every_illegal_one_of_those_generated_is_refused(
    part: GpuModel,
) -> None:
    geometry = geometry_of(part.name)
    good = legal(geometry)
    assert good == {
        tuple(layout.get(profile.name, 0) for profile in geometry.profiles)
        for layout in layouts(geometry)
    }
    for counts in good:
        assert parse(written(geometry, counts), geometry)
    chance = random.Random(part.key)
    ranges = [range(profile.maximum + 2) for profile in geometry.profiles]
    every = [counts for counts in product(*ranges) if any(counts) and counts not in good]
    illegal = chance.sample(every, GENERATED)
    for counts in illegal:
        with pytest.raises(ConfigError, match="cannot be made"):
            parse(written(geometry, counts), geometry)


@each_part
def test_legal_layouts_can_be_made_one_after_the_other(
    part: GpuModel, layer: Path, tmp_path: Path
) -> None:
    geometry = geometry_of(part.name)
    with opened(MigHost(layer, tmp_path, Hardware(part.key, 1))) as library:
        gpu = Gpu(library, 0)
        every = sorted(legal(geometry))
        for counts in every if part.key == THOROUGH else every[:: len(every) // 8]:
            layout = wanted(geometry, counts)
            assert change(gpu, layout).state == CHANGED, counts
            assert change(gpu, layout).state == UNCHANGED, counts
            assert words(gpu.layout()) == words(layout)
            assert all(one.parts[0].uuid for one in gpu.instances())
        assert change(gpu, WHOLE).state == CHANGED
        assert gpu.layout() == WHOLE


@each_part
def test_table_and_driver_agree_on_profiles_and_places(
    part: GpuModel, layer: Path, tmp_path: Path
) -> None:
    geometry = geometry_of(part.name)
    with opened(MigHost(layer, tmp_path, Hardware(part.key, 1))) as library:
        gpu = Gpu(library, 0)
        assert gpu.ask_mode(True)
        told = {number: name for number, (name, _) in gpu.profiles().items()}
        assert told == {profile.id: profile.name for profile in geometry.profiles}
        for profile in geometry.profiles:
            assert gpu.places(profile.id) == [(start, profile.memory) for start in profile.starts]


def test_a_part_that_cannot_be_divided_says_so(layer: Path, tmp_path: Path) -> None:
    host = MigHost(layer, tmp_path, Hardware("a100-sxm", 1))
    host.state["gpu0"] = {k: v for k, v in host.state["gpu0"].items() if not k.startswith("mig_")}
    host.write()
    with opened(host) as library, pytest.raises(Refused, match="cannot be divided"):
        Gpu(library, 0).mode()
