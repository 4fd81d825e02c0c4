"""The rack's device plugin: which devices kubelet is told of, from the simulated NVML itself, and which of them are ill."""

import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.lab import nvml
from appliance.lab.device_plugin import bundle
from appliance.lab.device_plugin.gpus import WHOLE, Device, Reading
from appliance.lab.device_plugin.inventory import Inventory
from appliance.lab.hardware import uuid
from appliance.lab.recipe import LIB_FOLDER

READ = "import json, dataclasses\nfrom appliance.lab.device_plugin.gpus import read\nr = read()\nprint(json.dumps([[dataclasses.asdict(d) for d in r.devices], sorted(r.answered)]))"
NAMES = [uuid("gpu-1", index) for index in range(8)]


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc to build the rack's NVML library")
    return nvml.build(tmp_path_factory.mktemp("cache"))


def seen(layer: Path, folder: Path, state: nvml.State) -> Reading:
    """What the packed program sees on a host in this state; nothing but the program is there to import."""
    program, file = folder / "program", folder / "gpu.state"
    program.write_bytes(bundle.executable())
    file.write_text(nvml.render(state))
    env = {
        "LD_LIBRARY_PATH": str(layer / LIB_FOLDER),
        "APPLIANCE_LAB_GPU_STATE": str(file),
        "APPLIANCE_LAB_DRIVER_STATE": str(folder / "driver.state"),
    }
    script = f"import sys\nsys.path = [{str(program)!r}, *sys.path]\n{READ}"
    done = run((sys.executable, "-IBc", script), env=env)
    devices, answered = json.loads(done.stdout)
    made = (Device(**{**device, "nodes": tuple(device["nodes"])}) for device in devices)
    return Reading(tuple(made), frozenset(answered))


def test_every_gpu_is_a_device_with_its_node(layer: Path, tmp_path: Path) -> None:
    found = seen(layer, tmp_path, nvml.healthy_state("gpu-1"))
    assert [d.id for d in found.devices] == NAMES
    assert found.answered == set(NAMES)
    assert asdict(found.devices[3]) == {
        "id": NAMES[3],
        "resource": WHOLE,
        "gpu": NAMES[3],
        "nodes": ("/dev/nvidia3", "/dev/nvidiactl"),
    }


@pytest.mark.parametrize("fault", ["lost", "off_bus"])
def test_a_gpu_that_is_lost_is_ill_and_well_again_when_it_is_back(
    layer: Path, tmp_path: Path, fault: str
) -> None:
    state = nvml.healthy_state("gpu-1")
    inventory = Inventory()
    inventory.see(seen(layer, tmp_path, state))
    assert dict(inventory.told(WHOLE)) == dict.fromkeys(NAMES, True)
    state["gpu3"][fault] = 1
    inventory.see(seen(layer, tmp_path, state))
    assert [name for name, well in inventory.told(WHOLE) if not well] == [NAMES[3]]
    assert len(inventory.told(WHOLE)) == 8
    state["gpu3"][fault] = 0
    inventory.see(seen(layer, tmp_path, state))
    assert dict(inventory.told(WHOLE)) == dict.fromkeys(NAMES, True)


def test_without_a_driver_there_is_nothing_and_all_are_ill_once_it_goes(
    layer: Path, tmp_path: Path
) -> None:
    state = nvml.healthy_state("gpu-1")
    bare = seen(layer, tmp_path, nvml.without_driver(state))
    inventory = Inventory()
    inventory.see(bare)
    assert (bare, inventory.resources) == (Reading(), frozenset())
    inventory.see(seen(layer, tmp_path, state))
    inventory.see(bare)
    assert dict(inventory.told(WHOLE)) == dict.fromkeys(NAMES, False)


def test_a_gpu_that_was_divided_is_no_whole_one_any_more() -> None:
    whole = Reading((Device("GPU-a", WHOLE, "GPU-a"), Device("GPU-b", WHOLE, "GPU-b")), BOTH)
    small = "nvidia.com/mig-1g.10gb"
    part = Device("MIG-1", small, "GPU-a")
    inventory = Inventory()
    inventory.see(whole)
    inventory.see(Reading((part, whole.devices[1]), BOTH))
    assert inventory.told(WHOLE) == [("GPU-b", True)]
    assert inventory.told(small) == [("MIG-1", True)]
    assert inventory.resources == {WHOLE, small}
    inventory.see(whole)
    assert inventory.told(small) == []


BOTH = frozenset({"GPU-a", "GPU-b"})


def test_only_a_change_is_told() -> None:
    reading = Reading((Device("GPU-a", WHOLE, "GPU-a"),), frozenset({"GPU-a"}))
    inventory = Inventory()
    inventory.see(reading)
    edition = inventory.edition
    inventory.see(reading)
    assert inventory.edition == edition
    inventory.see(Reading())
    assert inventory.edition == edition + 1


def test_a_container_gets_the_devices_it_was_promised_and_no_others() -> None:
    device = Device("GPU-a", WHOLE, "GPU-a", ("/dev/nvidia0",))
    inventory = Inventory()
    inventory.see(Reading((device,), frozenset({"GPU-a"})))
    assert inventory.given(["GPU-a"]) == [device]
    with pytest.raises(KeyError):
        inventory.given(["GPU-b"])


def test_the_program_is_the_same_for_the_same_sources_and_says_what_it_stands_for() -> None:
    assert bundle.executable() == bundle.executable()
    assert "simulated" in bundle.unit()
    assert os.fspath(bundle.PROGRAM) in bundle.unit()
