"""The PCIe links of adapters: against what they can, and against their equals."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.result import CheckResult, Status
from appliance.stages.fabric.collect import adapters
from appliance.stages.fabric.facts import Port
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

PROFILE = profile_of(fabric={"link_layer": "InfiniBand", "ports": 2, "rate_gbps": 200})


def port(device: str, **given: Any) -> Port:
    sound = {
        **{"device": device, "port": 1, "state": "ACTIVE", "physical": "LinkUp", "rate": 200},
        **{"link_layer": "InfiniBand", "board": "MT_1", "pcie_width": 16, "pcie_max_width": 16},
        **{"pcie_speed": 16.0, "pcie_max_speed": 16.0},
    }
    return Port(**{**sound, **given})


def judged(*mine: Port, others: tuple[Port, ...] = ()) -> list[CheckResult]:
    seen = {"gpu-1": facts_of("gpu-1", ports=mine), "gpu-2": facts_of("gpu-2", ports=others)}
    return said_by("fabric.pcie", View(PROFILE, site_of("gpu-1", "gpu-2"), seen), "gpu-1")


SOUND = (port("mlx5_0"), port("mlx5_1"))


def test_adapters_at_their_best_pass() -> None:
    (found,) = judged(*SOUND, others=SOUND)
    assert (found.status, found.value) == (Status.PASS, "x16 at 16 GT/s")


@pytest.mark.parametrize("slow", [{"pcie_width": 8}, {"pcie_speed": 8.0}])
def test_one_that_is_slower_than_its_equals_fails(slow: dict[str, Any]) -> None:
    (found,) = judged(port("mlx5_0", **slow), port("mlx5_1"), others=SOUND)
    assert (found.status, found.target) == (Status.FAIL, "gpu-1/mlx5_0")
    assert "equal adapters at x16 at 16 GT/s" in found.cause
    assert "reseat the adapter mlx5_0" in found.fix


def test_where_all_are_slow_alike_it_warns() -> None:
    slow = (port("mlx5_0", pcie_speed=8.0), port("mlx5_1", pcie_speed=8.0))
    found = judged(*slow, others=slow)
    assert {one.status for one in found} == {Status.WARN}


def test_one_host_with_many_adapters_does_not_decide_what_equals_run_at() -> None:
    slow = port("mlx5_1", pcie_width=8)
    seen = {
        "gpu-1": facts_of("gpu-1", ports=(port("mlx5_0"), slow)),
        "gpu-2": facts_of("gpu-2", ports=SOUND),
        "liar": facts_of("liar", ports=[port(f"mlx5_{n}", pcie_width=8) for n in range(99)]),
    }
    view = View(PROFILE, site_of(*seen), seen)
    (found,) = said_by("fabric.pcie", view, "gpu-1")
    assert (found.status, found.target) == (Status.FAIL, "gpu-1/mlx5_1")


def test_boards_are_compared_with_their_own_kind() -> None:
    other = port("mlx5_0", board="MT_2", pcie_width=8, pcie_max_width=8)
    assert {one.status for one in judged(other, port("mlx5_1"), others=SOUND)} == {Status.PASS}


def test_a_link_that_was_not_read_is_not_assessed() -> None:
    found = judged(port("mlx5_0", pcie_width=None), port("mlx5_1"), others=SOUND)
    assert {one.status for one in found} == {Status.NOT_ASSESSED}


def test_the_link_as_sysfs_shows_it(tmp_path: Any) -> None:
    for name, text in (
        ("current_link_width", "8"),
        ("max_link_width", "16"),
        ("current_link_speed", "16.0 GT/s PCIe"),
        ("max_link_speed", "Unknown"),
    ):
        (tmp_path / name).write_text(text + "\n")
    assert adapters._pcie(f"{tmp_path}/") == {
        **{"pcie_width": 8, "pcie_speed": 16.0},
        **{"pcie_max_width": 16, "pcie_max_speed": None},
    }
