"""The compatibility table refuses what does not go together and says what would."""

import pytest

from appliance.config.compatibility import COMPONENTS, Bound, Table, clashes, table

SMALL = Table.model_validate(
    {
        "version": 1,
        "rows": [
            {
                "component": "kai",
                "release": "0.16",
                "needs": {"kubernetes": {"min": "1.28", "max": "1.36"}},
                "source": "s",
                "date": "2026-08",
            },
            {"component": "kai", "release": "0.18", "source": "s", "date": "2026-10"},
        ],
    }
)


@pytest.mark.parametrize(
    ("release", "accepted"),
    [("1.27", False), ("1.28", True), ("1.28.0", True), ("1.36.9", True), ("1.37", False)],
)
def test_bounds_are_inclusive_and_as_deep_as_written(release: str, accepted: bool) -> None:
    assert Bound(min="1.28", max="1.36").accepts(release) is accepted


@pytest.mark.parametrize(
    ("release", "accepted"), [("580.82.07", True), ("580", True), ("58", False)]
)
def test_release_lines_are_not_text_prefixes(release: str, accepted: bool) -> None:
    assert Bound(one_of=("580",)).accepts(release) is accepted


def test_excluded_line_is_refused_within_its_bounds() -> None:
    bound = Bound.model_validate({"min": "26.1", "except": ["26.4"]})
    assert [bound.accepts(r) for r in ("26.1", "26.4.1", "26.7")] == [True, False, True]


def test_refusal_names_the_pair_the_source_and_both_ways_out() -> None:
    (clash,) = clashes({"kai": "0.16.8", "kubernetes": "1.37"}, SMALL)
    assert (
        clash.message
        == "kubernetes 1.37 is incompatible with kai 0.16.8 (1.28 to 1.36; source: s, 2026-08)"
    )
    assert clash.remedy == "choose kubernetes 1.36, or kai 0.18"


def test_the_nearer_end_is_proposed() -> None:
    (clash,) = clashes({"kai": "0.16", "kubernetes": "1.20"}, SMALL)
    assert "kubernetes 1.28" in clash.remedy


def test_the_distribution_s_own_release_is_not_judged() -> None:
    assert not list(clashes({"kai": "0.16", "kubernetes": None, "slurm": None}, SMALL))


def test_release_of_no_row_is_refused_with_the_known_ones() -> None:
    (clash,) = clashes({"kai": "1.0"}, SMALL)
    assert "0.16, 0.18" in clash.remedy


@pytest.mark.parametrize(
    ("chosen", "component"),
    [
        ({"cuda": "13.0", "driver_branch": "570"}, "cuda"),
        ({"cuda": "14.0", "driver_branch": "580"}, "cuda"),
        ({"gpu_operator": "26.3", "network_operator": "26.4"}, "gpu_operator"),
        ({"gpu_operator": "26.7", "containerd": "2.4"}, "gpu_operator"),
        ({"gpu_operator": "26.7", "driver_branch": "570"}, "gpu_operator"),
        ({"network_operator": "26.4", "kubernetes": "1.36"}, "network_operator"),
        ({"kai": "0.16", "kubernetes": "1.27"}, "kai"),
        ({"slurm": "20.11"}, "slurm"),
        ({"slurm": "24.11", "operating_systems": ("debian-12",)}, "slurm"),
        ({"driver_branch": "579"}, "driver_branch"),
        ({"containerd": "1.7", "kubernetes": "1.36"}, "containerd"),
        ({"pyxis": "0.20", "enroot": "2.2"}, "pyxis"),
    ],
)
def test_shipped_table_refuses(chosen: dict[str, object], component: str) -> None:
    assert [clash.component for clash in clashes(chosen)] == [component]


def test_shipped_table_offers_a_way_out_of_every_clash_that_is_one() -> None:
    for row in table().rows:
        for other, bound in row.needs.items():
            if fit := bound.nearest("0"):
                assert bound.accepts(fit), (row.component, other)


def test_release_that_one_system_of_the_class_carries_is_accepted() -> None:
    assert not list(clashes({"slurm": "24.11", "operating_systems": ("debian-12", "debian-13")}))


def test_release_no_system_carries_names_those_that_do_and_what_the_others_have() -> None:
    (clash,) = clashes({"slurm": "24.11", "operating_systems": ("debian-12", "ubuntu-24.04")})
    assert clash.message.startswith("slurm 24.11 has no packages for debian-12, ubuntu-24.04")
    assert clash.remedy == "choose slurm 22.05, or slurm 23.11, or operating_systems debian-13"


def test_every_row_says_who_says_so_and_when() -> None:
    assert all(row.source and row.date.startswith("202") for row in table().rows)
    kinds = {row.component for row in table().rows}
    assert kinds == set(COMPONENTS) - {"kubernetes"}
