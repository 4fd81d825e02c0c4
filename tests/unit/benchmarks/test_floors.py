"""What a port and the fabric must reach, where neither site nor profile says so."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from appliance.benchmarks import BENCHMARKS, floors
from appliance.checks.check import View
from appliance.models.profile import Limit
from appliance.stages.gpu.part import gpu_parts
from tests.support.facts import facts_of, gpus_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of

A100 = "NVIDIA A100-SXM4-80GB"


def view(gpu: str = A100, **fabric: Any) -> View:
    profile = profile_of(fabric=fabric) if fabric else profile_of()
    return View(profile, site_of("gpu-1"), {"gpu-1": facts_of("gpu-1", gpus=gpus_of(gpu, 8))})


@pytest.mark.parametrize(
    ("rate", "floor", "source"),
    [
        (200, 180.0, "Azure NHC, ib_write_bw over a port of 200 Gb/s"),
        (400, 380.0, "Azure NHC, ib_write_bw over a port of 400 Gb/s"),
        (100, 90.0, "0.9 of 100 Gb/s"),
    ],
)
def test_a_port_must_reach_what_is_published_else_a_share_of_its_rate(
    rate: int, floor: float, source: str
) -> None:
    found = floors.of_port(
        view(link_layer="InfiniBand", ports=8, rate_gbps=rate), "perftest.write_bw"
    )
    assert found is not None
    assert (found.value, found.unit, found.source) == (floor, "Gb/s", source)


@pytest.mark.parametrize(
    ("ports", "rate", "floor"), [(8, 200, 180.0), (1, 25, 2.8), (1, 100, 11.2)]
)
def test_between_hosts_all_ports_of_one_count(ports: int, rate: int, floor: float) -> None:
    found = floors.of_fabric(
        view(link_layer="InfiniBand", ports=ports, rate_gbps=rate), "nccl.cluster"
    )
    assert found is not None
    assert (found.value, found.unit) == (floor, "GB/s")


def test_without_a_fabric_nothing_is_asked_of_it() -> None:
    assert floors.of_fabric(view(), "nccl.cluster") is None
    assert floors.of_port(view(), "perftest.write_bw") is None


def test_a_floor_of_a_product_names_it() -> None:
    found = floors.floor(view(), "nccl.host")
    assert found is not None
    assert found.source == f"Azure NHC, all_reduce of 16 GB over 8 GPUs ({A100})"


def test_a_check_without_a_product_has_its_own() -> None:
    found = floors.floor(view("NVIDIA A99"), "perftest.write_lat")
    assert found is not None
    assert (found.value, found.unit) == (5, "us")


def test_hosts_of_several_products_have_no_floor_of_one() -> None:
    both = {"gpu-1": facts_of("gpu-1", gpus=gpus_of(A100, 8))}
    both["gpu-2"] = facts_of("gpu-2", gpus=gpus_of("NVIDIA H200", 8))
    assert floors.floor(replace(view(), facts=both), "nccl.host") is None


def test_every_floor_is_of_a_figure_that_is_measured() -> None:
    measured = {check for benchmark in BENCHMARKS for check in benchmark.checks}
    assert {row.check for part in gpu_parts().parts for row in part.floors} <= measured
    assert set(floors.OF_NO_PRODUCT) <= measured


@pytest.mark.parametrize(
    ("check", "of"),
    [
        ("nccl.host", floors.floor),
        ("perftest.write_lat", floors.floor),
        ("nccl.cluster", floors.of_fabric),
        ("perftest.write_bw", floors.of_port),
    ],
)
def test_what_a_site_asks_for_comes_first(check: str, of: Callable[..., Limit | None]) -> None:
    own = Limit(value=7, unit="x", source="contract")
    seen = view(link_layer="InfiniBand", ports=8, rate_gbps=200)
    asked = seen.site.model_copy(update={"limits": {check: own}})
    assert of(replace(seen, site=asked), check) == own
    assert of(seen, check) != own


@pytest.mark.parametrize(("ports", "rate"), [(0, 200), (8, 0)])
def test_a_fabric_needs_ports_and_a_rate(ports: int, rate: int) -> None:
    seen = view()
    none = seen.profile.hardware.fabric.model_copy(update={"ports": ports, "rate_gbps": rate})
    hardware = seen.profile.hardware.model_copy(update={"fabric": none})
    bare = replace(seen, profile=seen.profile.model_copy(update={"hardware": hardware}))
    assert floors.of_fabric(bare, "nccl.cluster") is None
