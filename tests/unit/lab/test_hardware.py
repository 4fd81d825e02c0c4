"""A rack's hardware is what its profile asks for."""

import pytest

from appliance.config.load import load_profile
from appliance.errors import ConfigError
from appliance.lab.hardware import DRIVERS, Hardware, of_profile
from appliance.lab.parts import GpuModel, parts
from appliance.models.profile import Profile


def _with(name: str, **fabric: object) -> Profile:
    profile = load_profile(name)
    ports = profile.hardware.fabric.model_copy(update=fabric)
    hardware = profile.hardware.model_copy(update={"fabric": ports})
    return profile.model_copy(update={"hardware": hardware})


@pytest.mark.parametrize(
    ("name", "gpu", "gpus", "link_layer", "ports", "rate", "numa_nodes"),
    [
        ("cost-efficient", "a100-pcie", 4, "Ethernet", 2, 25, 1),
        ("balanced", "a100-pcie", 4, "Ethernet", 2, 100, 2),
        ("hpc", "a100-sxm", 8, "InfiniBand", 8, 200, 2),
    ],
)
def test_each_class_has_its_own(
    name: str, gpu: str, gpus: int, link_layer: str, ports: int, rate: int, numa_nodes: int
) -> None:
    found = of_profile(load_profile(name))
    assert (found.gpu, found.gpus, found.numa_nodes) == (gpu, gpus, numa_nodes)
    assert (found.link_layer, found.ports, found.rate) == (link_layer, ports, rate)
    assert found.driver_branch in DRIVERS


def test_every_model_a_profile_accepts_can_be_simulated() -> None:
    known = {model.name for model in parts()}
    for name in ("cost-efficient", "balanced", "hpc"):
        assert set(load_profile(name).hardware.gpu.models) <= known


def test_another_part_than_the_profiles_may_be_asked_for() -> None:
    assert of_profile(load_profile("hpc"), "h200-sxm").model.name == "NVIDIA H200"
    with pytest.raises(ConfigError, match="b200"):
        of_profile(load_profile("hpc"), "b200")


def test_a_model_nobody_knows_is_refused_before_anything_is_made() -> None:
    profile = load_profile("hpc")
    gpu = profile.hardware.gpu.model_copy(update={"models": ("Voodoo 2",)})
    other = profile.hardware.model_copy(update={"gpu": gpu})
    with pytest.raises(ConfigError, match="Voodoo 2"):
        of_profile(profile.model_copy(update={"hardware": other}))


def test_infiniband_the_simulator_would_slow_down_is_refused() -> None:
    with pytest.raises(ConfigError, match="400 Gb/s"):
        of_profile(_with("hpc", rate_gbps=400))


def test_ethernet_of_any_rate_is_only_files() -> None:
    found = of_profile(_with("balanced", rate_gbps=400))
    assert (found.rate, found.has_subnet) == (400, False)


def test_a_class_without_fast_ports_has_none() -> None:
    found = of_profile(_with("cost-efficient", link_layer="none"))
    assert (found.ports_of(True), found.ports_of(False), found.has_subnet) == (0, 0, False)


def test_more_ports_than_a_host_can_have_are_refused() -> None:
    with pytest.raises(ConfigError, match="at most 8"):
        of_profile(_with("balanced", ports=12))


@pytest.mark.parametrize("model", parts(), ids=lambda model: model.key)
def test_no_two_devices_share_a_place(model: GpuModel) -> None:
    for gpus, ports in ((4, 2), (8, 8)):
        found = Hardware(model.key, gpus, ports=ports)
        places = [found.gpu_place(index) for index in range(gpus)]
        places += [found.port_place(index, True) for index in range(ports)]
        addresses = {place.address for place in places} | {place.parent for place in places}
        assert len(addresses) == 2 * (gpus + ports)
        assert {place.numa_node for place in places[:gpus]} == {0, 1}
        assert {place.numa_node for place in places[gpus:]} == {0, 1}
