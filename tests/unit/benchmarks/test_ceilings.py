"""Bounds that no figure can pass: what a host tells bounds it, and what it does not tell is said to bound nothing."""

import subprocess  # noqa: TID251 - the script is run by a real shell
from typing import Any

import pytest

from appliance.benchmarks.ceilings import (
    ASK,
    Most,
    bound_text,
    of_collective,
    of_memory,
    of_pair,
    of_processors,
    of_slot,
)
from appliance.checks.check import View
from appliance.models.profile import Interconnect
from tests.support.facts import facts_of, gpus_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of

A100 = "NVIDIA A100-SXM4-80GB"
SLOT: dict[str, Any] = {"pcie_max_generation": 4, "pcie_max_width": 16}
GIB = 1 << 30


def module(size: str = "64 GB", speed: str = "4800 MT/s", width: str = "64 bits") -> str:
    lines = (
        "Memory Device",
        f"\tData Width: {width}",
        f"\tSize: {size}",
        f"\tConfigured Memory Speed: {speed}",
    )
    return "".join(f"appliance-memory: {line}\n" for line in lines)


EMPTY = module("No Module Installed", "Unknown", "Unknown")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (16 * module(), 614.4),
        (16 * module() + 8 * EMPTY, 614.4),
        (16 * module(width="32 bits"), 614.4),
        (16 * module(width="128 bits"), 1228.8),
        (16 * module(width="Unknown"), 614.4),
        (16 * module().replace("Memory Speed", "Clock Speed").replace("MT/s", "MHz"), 614.4),
        (2 * module("512 GB"), 76.8),
        (16 * module("65536 MB"), 614.4),
    ],
)
def test_all_modules_together_bound_the_memory(text: str, expected: float) -> None:
    found = of_memory(text, 1000 * GIB)
    assert isinstance(found, Most)
    assert found.value == pytest.approx(expected)


@pytest.mark.parametrize("unit", ["GB", "GiB"])
def test_both_spellings_of_a_modules_size_are_read(unit: str) -> None:
    text = 16 * module().replace(" GB", f" {unit}")
    assert isinstance(of_memory(text, 1000 * GIB), Most)
    assert f" {unit}" in text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not list its memory modules"),
        (8 * EMPTY, "does not list its memory modules"),
        (15 * module() + module(speed="Unknown"), "does not report the speed"),
        (15 * module() + module(speed="0 MT/s"), "does not report the speed"),
        (14 * module(), "memory that it does not list"),
    ],
)
def test_memory_that_the_host_does_not_tell_all_of_is_not_bounded(text: str, why: str) -> None:
    found = of_memory(text, 1000 * GIB)
    assert isinstance(found, str)
    assert why in found


def processors(flags: str, driver: str = "intel_pstate", khz: str = "3500000") -> str:
    return f"appliance-flags: fpu {flags}\nappliance-clock: {driver}\nappliance-khz: {khz}\n"


@pytest.mark.parametrize(
    ("flags", "each"),
    [("sse2 avx avx2 avx512f", 32), ("sse2 avx avx2", 16), ("sse2 avx", 8), ("sse2", 4)],
)
def test_cores_clock_and_vectors_bound_the_processors(flags: str, each: int) -> None:
    for driver in ("intel_pstate", "intel_cpufreq", "amd-pstate-epp"):
        found = of_processors(processors(flags, driver), 64)
        assert found == Most(64 * 3.5 * each, f"64 cores x 3.5 GHz x {each} a cycle")


@pytest.mark.parametrize(
    ("text", "cores", "why"),
    [
        ("", 64, "only for x86"),
        (processors("asimd sve"), 64, "only for x86"),
        (processors("avx2"), 0, "only for x86"),
        (processors("avx2", "acpi-cpufreq"), 64, "highest clock"),
        (processors("avx2", khz="0"), 64, "highest clock"),
        ("appliance-flags: avx2\n", 64, "highest clock"),
        ("appliance-flags: avx2\nappliance-clock: intel_pstate\n", 64, "highest clock"),
    ],
)
def test_processors_that_tell_no_boost_are_not_bounded(text: str, cores: int, why: str) -> None:
    found = of_processors(text, cores)
    assert isinstance(found, str)
    assert why in found


def collective(interconnect: Interconnect, gpu: str = A100, **of_gpu: Any) -> Most | str:
    profile = profile_of(gpu={"interconnect": interconnect, "count": 8})
    gpus = gpus_of(gpu, 8)
    devices = tuple(one.model_copy(update=of_gpu) for one in gpus.devices)
    facts = {"gpu-1": facts_of("gpu-1", gpus=gpus.model_copy(update={"devices": devices}))}
    return of_collective(View(profile, site_of("gpu-1"), facts), "gpu-1")


@pytest.mark.parametrize(
    ("interconnect", "of_gpu", "links"),
    [
        (Interconnect.NVSWITCH, {}, 12 * 25.0),
        (Interconnect.NVSWITCH, {"nvlinks_active": 11}, 11 * 25.0),
        (Interconnect.NVSWITCH, {"nvlinks_active": 12, "nvlink_speed": 26562}, 12 * 26.562),
        (Interconnect.NVLINK_BRIDGE, {"nvlinks_active": 0}, 0.0),
        (Interconnect.PCIE, {"nvlinks_active": 12}, 0.0),
    ],
)
def test_what_a_gpu_can_take_in_bounds_its_host(
    interconnect: Interconnect, of_gpu: dict[str, Any], links: float
) -> None:
    found = collective(interconnect, **SLOT, **of_gpu)
    assert isinstance(found, Most)
    assert found.value == pytest.approx(7 / 4 * (links + 16 * 1.969))


@pytest.mark.parametrize(
    ("gpu", "of_gpu"),
    [
        (A100, {}),
        (A100, {"pcie_max_generation": 9, "pcie_max_width": 16}),
        (A100, {"pcie_max_generation": 4, "pcie_max_width": 0}),
        ("NVIDIA B900", SLOT),
        ("NVIDIA B900", SLOT | {"nvlinks_active": 18}),
    ],
)
def test_links_that_nobody_knows_bound_nothing(gpu: str, of_gpu: dict[str, Any]) -> None:
    found = collective(Interconnect.NVSWITCH, gpu, **of_gpu)
    assert found == "the link speed of each GPU is unknown"


def test_a_product_nobody_knows_whose_links_are_down_has_its_slot() -> None:
    found = collective(Interconnect.NVLINK_BRIDGE, "NVIDIA B900", **SLOT, nvlinks_active=0)
    assert isinstance(found, Most)
    assert found.value == pytest.approx(7 / 4 * 16 * 1.969)


def test_one_gpu_that_tells_nothing_leaves_its_host_without_a_bound() -> None:
    gpus = gpus_of(A100, 8)
    devices = (*(gpu.model_copy(update=SLOT) for gpu in gpus.devices[1:]), gpus.devices[0])
    facts = {"gpu-1": facts_of("gpu-1", gpus=gpus.model_copy(update={"devices": devices}))}
    assert isinstance(of_collective(View(profile_of(), site_of("gpu-1"), facts), "gpu-1"), str)


def test_a_host_that_told_no_gpus_is_not_bounded() -> None:
    seen = View(profile_of(), site_of("gpu-1"), {"gpu-1": facts_of("gpu-1")})
    assert isinstance(of_collective(seen, "gpu-1"), str)
    assert isinstance(of_collective(View(seen.profile, seen.site, {}), "gpu-1"), str)


def test_the_slowest_gpu_bounds_its_host_and_one_alone_moves_nothing() -> None:
    gpus = gpus_of(A100, 2)
    first, second = (gpu.model_copy(update=SLOT) for gpu in gpus.devices)
    slow = second.model_copy(update={"pcie_max_width": 8})
    facts = {"gpu-1": facts_of("gpu-1", gpus=gpus.model_copy(update={"devices": (first, slow)}))}
    profile = profile_of(gpu={"interconnect": Interconnect.PCIE, "count": 2})
    found = of_collective(View(profile, site_of("gpu-1"), facts), "gpu-1")
    assert isinstance(found, Most)
    assert found.value == pytest.approx(8 * 1.969)
    alone = profile_of(gpu={"interconnect": Interconnect.PCIE, "count": 1})
    none = of_collective(View(alone, site_of("gpu-1"), facts), "gpu-1")
    assert isinstance(none, Most)
    assert none.value == 0


def pair(interconnect: Interconnect, gpu: str = A100, **of_gpu: Any) -> Most | str:
    gpus = gpus_of(gpu, 2)
    first, second = (one.model_copy(update=SLOT) for one in gpus.devices)
    devices = (first, second.model_copy(update=of_gpu))
    facts = {"gpu-1": facts_of("gpu-1", gpus=gpus.model_copy(update={"devices": devices}))}
    profile = profile_of(gpu={"interconnect": interconnect, "count": 2})
    return of_pair(View(profile, site_of("gpu-1"), facts), "gpu-1", 0, 1)


@pytest.mark.parametrize(
    ("interconnect", "of_gpu", "most"),
    [
        (Interconnect.NVSWITCH, {}, Most(300.0, "the NVLinks of a GPU")),
        (Interconnect.NVSWITCH, {"nvlinks_active": 11}, Most(275.0, "the NVLinks of a GPU")),
        (Interconnect.NVLINK_BRIDGE, {"nvlinks_active": 0}, Most(31.504, "the slot of a GPU")),
        (Interconnect.PCIE, {}, Most(31.504, "the slot of a GPU")),
        (Interconnect.PCIE, {"pcie_max_width": 8}, Most(15.752, "the slot of a GPU")),
        (Interconnect.PCIE, {"nvlinks_active": 12}, Most(31.504, "the slot of a GPU")),
    ],
)
def test_a_pair_is_bounded_by_the_worse_of_both(
    interconnect: Interconnect, of_gpu: dict[str, Any], most: Most
) -> None:
    assert pair(interconnect, **of_gpu) == most


@pytest.mark.parametrize(
    ("gpu", "of_gpu"),
    [
        (A100, {"pcie_max_generation": None}),
        ("NVIDIA B900", {}),
        ("NVIDIA B900", {"nvlinks_active": 18}),
    ],
)
def test_a_pair_whose_links_nobody_knows_is_not_bounded(gpu: str, of_gpu: dict[str, Any]) -> None:
    assert isinstance(pair(Interconnect.NVSWITCH, gpu, **of_gpu), str)


def test_links_that_a_gpu_of_a_pcie_class_tells_of_count_for_its_pairs() -> None:
    gpus = gpus_of(A100, 2)
    devices = tuple(
        one.model_copy(update=SLOT | {"nvlinks_active": 4, "nvlink_speed": 25000})
        for one in gpus.devices
    )
    facts = {"gpu-1": facts_of("gpu-1", gpus=gpus.model_copy(update={"devices": devices}))}
    profile = profile_of(gpu={"interconnect": Interconnect.PCIE, "count": 2})
    seen = View(profile, site_of("gpu-1"), facts)
    assert of_pair(seen, "gpu-1", 0, 1) == Most(100.0, "the NVLinks of a GPU")
    assert isinstance(of_pair(seen, "gpu-1", 0, 2), str)
    assert isinstance(of_pair(seen, "gpu-9", 0, 1), str)


def slot(gpu: str = A100, **of_gpu: Any) -> Most | str:
    gpus = gpus_of(gpu, 1)
    devices = (gpus.devices[0].model_copy(update=SLOT | of_gpu),)
    facts = {"gpu-1": facts_of("gpu-1", gpus=gpus.model_copy(update={"devices": devices}))}
    return of_slot(View(profile_of(), site_of("gpu-1"), facts), "gpu-1", 0)


def test_a_slot_bounds_what_passes_between_a_gpu_and_its_host() -> None:
    assert slot() == Most(16 * 1.969, "PCIe 4 x16")
    assert slot(pcie_max_generation=5, pcie_max_width=8) == Most(8 * 3.938, "PCIe 5 x8")
    assert slot(pcie_max_width=None) == "the speed of its slot is unknown"
    assert slot("NVIDIA GH200 480GB") == "the CPU is not connected to it through a PCIe slot alone"
    bare = View(profile_of(), site_of("gpu-1"), {})
    assert of_slot(bare, "gpu-1", 0) == "the speed of its slot is unknown"


def test_a_figure_may_be_two_percent_above_and_no_more() -> None:
    most = Most(100.0, "x")
    assert [most.passed_by(value) for value in (100.0, 102.0, 102.1)] == [False, False, True]
    assert bound_text(most, "GB/s") == "at most 100 GB/s (x)"
    assert bound_text("nobody says", "GB/s") == "not bounded: nobody says"


def test_what_a_host_is_asked_ends_well_whatever_it_has() -> None:
    done = subprocess.run(["sh", "-c", ASK], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(line.startswith("appliance-") for line in done.stdout.splitlines())
