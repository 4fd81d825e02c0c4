"""MIG layouts: what fits on one GPU is accepted, everything else refused, and the list of all is complete."""

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from appliance.config.load import load_profile
from appliance.errors import ConfigError
from appliance.mig import demand
from appliance.models.site import Site
from appliance.stages.gpu.part import gpu_parts
from appliance.stages.mig.layouts import demands, geometry_of, on_demand, parse
from appliance.stages.mig.table import Geometry, mig_table
from tests.support.layouts import layouts

GPU = geometry_of("NVIDIA A100-SXM4-80GB")
NAMES = [profile.name for profile in GPU.profiles]
Bag = tuple[int, ...]


def by_hand() -> set[Bag]:
    """Every layout, found without the code under test: all sets of placements that do not overlap."""
    found: set[Bag] = set()
    masks = [
        (index, ((1 << profile.memory) - 1) << start)
        for index, profile in enumerate(GPU.profiles)
        for start in profile.starts
    ]

    def walk(place: int, taken: int, counts: Bag) -> None:
        found.add(counts)
        for later in range(place, len(masks)):
            index, mask = masks[later]
            if not taken & mask:
                more = tuple(n + (k == index) for k, n in enumerate(counts))
                walk(later + 1, taken | mask, more)

    walk(0, 0, (0,) * len(NAMES))
    return {bag for bag in found if any(bag) and _counted(bag)}


def _counted(bag: Bag) -> bool:
    pairs = list(zip(bag, GPU.profiles, strict=True))
    return all(n <= p.maximum for n, p in pairs) and sum(n * p.compute for n, p in pairs) <= 7


LEGAL = by_hand()


def layout(bag: Bag) -> dict[str, int]:
    """Numbers per profile as a layout."""
    return {name: count for name, count in zip(NAMES, bag, strict=True) if count}


@settings(max_examples=200)
@given(st.tuples(*(st.integers(0, profile.maximum + 1) for profile in GPU.profiles)))
def test_legal_layouts_are_accepted_and_illegal_ones_refused(bag: Bag) -> None:
    assert (GPU.refusal(layout(bag)) == "") is (bag in LEGAL)


@settings(max_examples=200)
@given(st.sampled_from(sorted(LEGAL)))
def test_placements_of_a_legal_layout_are_allowed_and_do_not_overlap(bag: Bag) -> None:
    placed = GPU.place(layout(bag))
    assert placed is not None
    slices = [s for p in placed for s in range(p.start, p.start + p.size)]
    assert len(slices) == len(set(slices))
    assert max(slices) < GPU.memory
    for spot in placed:
        profile = GPU.profile(spot.profile)
        assert profile is not None
        assert spot.start in profile.starts
    assert [p.size for p in placed] == sorted((p.size for p in placed), reverse=True)


def test_the_list_of_all_layouts_is_complete_and_names_each_once() -> None:
    every = [tuple(bag.get(name, 0) for name in NAMES) for bag in layouts(GPU)]
    assert len(every) == len(set(every))
    assert set(every) == LEGAL


def test_every_small_layout_agrees() -> None:
    for bag in product(range(3), repeat=len(NAMES)):
        assert (GPU.place(layout(bag)) is not None) is (bag in LEGAL), bag


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all-balanced", {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}),
        ("3g.40gb,3g.40gb", {"3g.40gb": 2}),
        ("3g.40gb, 2 x 1g.10gb", {"3g.40gb": 1, "1g.10gb": 2}),
        ("1g.10gb+me,6*1g.10gb", {"1g.10gb+me": 1, "1g.10gb": 6}),
    ],
)
def test_layouts_are_read_by_name_or_written_out(text: str, expected: dict[str, int]) -> None:
    assert parse(text, GPU) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("8 x 1g.10gb", "8 x 1g.10gb, a GPU holds 7"),
        ("4g.40gb,4g.40gb", "a GPU holds 1"),
        ("7g.80gb,1g.10gb", "it needs 8 compute slices, a GPU has 7"),
        ("3g.40gb,3g.40gb,1g.10gb", "it needs 9 memory slices, a GPU has 8"),
        ("1g.5gb", "there is no profile 1g.5gb"),
        ("3 x 2g.20gb,1g.10gb,1g.10gb", "it needs 8 compute slices"),
        ("halves", "is no MIG layout"),
        ("", "is no MIG layout"),
        ("0 x 1g.10gb", "is no MIG layout"),
    ],
)
def test_what_cannot_be_made_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match="MIG layout") as refused:
        parse(text, GPU)
    assert why in refused.value.message


def test_what_counts_up_but_does_not_lie_beside_each_other_is_refused() -> None:
    awkward = Geometry.model_validate(
        {
            **GPU.model_dump(exclude={"profiles", "layouts"}),
            "layouts": {"one": {"1g.10gb": 1}},
            "profiles": [
                {
                    "name": "2g.20gb",
                    "id": 1,
                    "maximum": 2,
                    "compute": 2,
                    "memory": 2,
                    "starts": [0],
                },
                {
                    "name": "1g.10gb",
                    "id": 2,
                    "maximum": 7,
                    "compute": 1,
                    "memory": 1,
                    "starts": [1],
                },
            ],
        }
    )
    why = awkward.refusal({"2g.20gb": 1, "1g.10gb": 1})
    assert why == "the instances do not fit on one GPU"
    assert list(layouts(awkward)) == [{"2g.20gb": 1}, {"1g.10gb": 1}]


def test_a_product_without_published_placements_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="NVIDIA B200"):
        geometry_of("NVIDIA B200")


def test_named_layouts_of_the_table_are_legal() -> None:
    for geometry in mig_table().geometries:
        assert all(not geometry.refusal(bag) for bag in geometry.layouts.values())


def test_every_product_is_cut_by_a_geometry_of_the_table_or_none() -> None:
    known = {geometry.name for geometry in mig_table().geometries}
    cut = {part.mig for part in gpu_parts().parts}
    assert cut - {""} == known


def test_a_table_with_an_impossible_layout_is_damaged() -> None:
    data = GPU.model_dump()
    with pytest.raises(ValidationError, match="layout greedy"):
        Geometry.model_validate({**data, "layouts": {"greedy": {"4g.40gb": 2}}})


SITE: dict[str, Any] = {
    "version": 1,
    "name": "acme",
    "networks": {"management": {"cidr": "10.0.0.0/24"}},
    "hosts": [
        {"name": "gpu-1", "roles": ["gpu"], "address": "10.0.0.11"},
        {"name": "gpu-2", "roles": ["gpu"], "address": "10.0.0.12"},
    ],
    "mig": {"hosts": {"gpu-1": {"gpus": {"0-5": "disabled"}}}},
    "kubernetes": {},
    "scheduler": {
        "node_pools": [
            {
                "name": "slices",
                "hosts": ["gpu-1"],
                "mig": "mixed",
                "mig_on_demand": ["3g.40gb"],
                "mig_whole": 1,
                "mig_unused": "2h",
            }
        ]
    },
}


def test_gpus_nobody_speaks_of_are_divided_on_demand_where_the_pool_says_so() -> None:
    site, profile = Site.model_validate(SITE), load_profile("hpc")
    told = on_demand(profile, site, site.host("gpu-1"))
    policy = demand.parse(json.dumps(told))
    assert (policy.gpus, policy.present, policy.node) == ((6, 7), 8, "gpu-1")
    assert policy.sizes == (demand.Size("3g.40gb", 9, 4, (0, 4)),)
    assert (policy.whole, policy.unused_s) == (1, 7200)
    assert on_demand(profile, site, site.host("gpu-2")) == {}
    assert demands(site)


@pytest.mark.parametrize("kubernetes", [None, {"external": "kubeconfig"}])
def test_hosts_of_no_cluster_of_ours_are_left_alone(kubernetes: dict[str, str] | None) -> None:
    site = Site.model_validate({**SITE, "kubernetes": kubernetes})
    assert not demands(site)
    assert on_demand(load_profile("hpc"), site, site.host("gpu-1")) == {}
