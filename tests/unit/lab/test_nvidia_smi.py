"""nvidia-smi and the library under it, as a person and a script on a rack host use them."""

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from appliance.adapters.process import Completed, run
from appliance.lab import nvml
from appliance.lab.hardware import Hardware
from appliance.lab.nvidia_smi import fields
from appliance.lab.nvml import State
from appliance.lab.parts import GpuModel, parts
from appliance.lab.recipe import LIB_FOLDER
from appliance.models.facts import HostFacts
from appliance.probe import bundle

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="needs gcc to build the rack's NVML library"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    layer = nvml.build(tmp_path_factory.mktemp("cache"))
    assert os.access(layer / nvml.TOOL, os.X_OK)
    return layer


class Host:
    """A host with this state of its GPUs."""

    def __init__(self, layer: Path, folder: Path, hardware: Hardware | None = None) -> None:
        self.layer = layer
        self.file = folder / "gpu.state"
        self.env = {
            "LD_LIBRARY_PATH": str(layer / LIB_FOLDER),
            "APPLIANCE_LAB_GPU_STATE": str(self.file),
        }
        self.state: State = nvml.healthy_state("gpu-1", hardware)

    def smi(self, *arguments: str) -> Completed:
        self.file.write_text(nvml.render(self.state))
        return self.smi_as_it_is(*arguments)

    def smi_as_it_is(self, *arguments: str) -> Completed:
        program = str(self.layer / nvml.TOOL)
        return run((sys.executable, "-ISB", program, *arguments), env=self.env, check=False)

    def query(self, names: str, *arguments: str) -> list[str]:
        asked = (f"--query-gpu={names}", "--format=csv,noheader,nounits", *arguments)
        return self.smi(*asked).stdout.splitlines()


@pytest.fixture
def host(built: Path, tmp_path: Path) -> Host:
    return Host(built, tmp_path)


@pytest.mark.parametrize("model", parts(), ids=lambda part: part.key)
def test_every_part_is_itself(built: Path, tmp_path: Path, model: GpuModel) -> None:
    host = Host(built, tmp_path, Hardware(model.key, 4))
    names = "name,memory.total,pcie.link.gen.max,compute_cap,power.default_limit,clocks.max.sm"
    assert host.query(f"{names},pci.device_id") == 4 * [
        f"{model.name}, {model.memory}, {model.pcie_generation}, "
        f"{model.compute[0]}.{model.compute[1]}, {model.power}.00, {model.sm_clock}, "
        f"0x{model.pci_device:04X}10DE"
    ]


@pytest.mark.parametrize(("interconnect", "links"), [("nvswitch", "12 of 12"), ("pcie", "0 of 12")])
def test_cards_without_bridges_have_no_active_link(
    built: Path, tmp_path: Path, interconnect: str, links: str
) -> None:
    host = Host(built, tmp_path, Hardware("a100-pcie", 4, interconnect))
    assert f": {links}\n" in host.smi("-q", "-i", "0").stdout


def test_every_field_can_be_asked_for_and_is_answered(host: Host) -> None:
    lines = host.query(",".join(fields.BY_NAME))
    assert len(lines) == 8
    assert len(lines[0].split(", ")) == len(fields.BY_NAME)
    assert lines[0].count(fields.NOT_KNOWN) == 1  # none of these GPUs has a fan


def test_table_says_that_it_is_simulated_and_is_straight(host: Host) -> None:
    said = host.smi().stdout
    assert "simulated by appliance lab" in said
    assert "Driver Version: 580." in said
    assert said.count("NVIDIA A100-SXM4-80GB") == 8
    table = said.splitlines()[1:]
    assert {len(line) for line in table if line} == {91}


def test_long_names_leave_the_table_straight(built: Path, tmp_path: Path) -> None:
    said = Host(built, tmp_path, Hardware("h100-sxm")).smi().stdout.splitlines()[1:]
    assert {len(line) for line in said if line} == {91}


def test_lists_and_csv_stay_readable_for_programs(host: Host) -> None:
    listed = host.smi("-L")
    assert len(listed.stdout.splitlines()) == 8
    assert all(line.startswith("GPU ") for line in listed.stdout.splitlines())
    assert "simulated" in listed.stderr
    asked = host.smi("--query-gpu=index,memory.total", "--format=csv", "-i", "1")
    assert asked.stdout == "index, memory.total [MiB]\n1, 81920 MiB\n"
    assert "simulated" in asked.stderr


def test_long_form_says_that_it_is_simulated(host: Host) -> None:
    said = host.smi("-q").stdout
    assert ": Yes (simulated" in said
    assert said.count("Remapping Failure Occurred") == 8


def test_a_gpu_is_found_by_each_of_its_names(host: Host) -> None:
    (uuid, address) = host.query("uuid,pci.bus_id", "-i", "3")[0].split(", ")
    for name in ("3", uuid, address, "0000:4e:00.0"):
        assert host.query("index", "-i", name) == ["3"]
    assert host.smi("-i", "9").returncode == 6


def test_a_lost_gpu_is_named_and_the_others_are_shown(host: Host) -> None:
    host.state["gpu2"]["lost"] = 1
    done = host.smi("-L")
    assert done.returncode == 15
    lines = done.stdout.splitlines()
    assert lines[2].startswith("Unable to determine the device handle for GPU2: GPU is lost.")
    assert lines[7].startswith("GPU 7: ")


def test_a_gpu_off_the_bus_is_not_counted_and_the_next_move_up(host: Host) -> None:
    before = host.query("uuid")
    host.state["gpu2"]["off_bus"] = 1
    assert host.query("uuid") == before[:2] + before[3:]
    assert host.query("index,count") == [f"{index}, 7" for index in range(7)]


def test_faults_are_read_through_the_library(host: Host) -> None:
    host.state["gpu1"] |= {
        "ecc_uncorrected_volatile": 2,
        "remap_pending": 1,
        "throttle_reasons": 0x48,
        "pcie_width": 8,
    }
    names = (
        "ecc.errors.uncorrected.volatile.total,remapped_rows.pending,"
        "clocks_event_reasons.hw_thermal_slowdown,clocks_throttle_reasons.active,"
        "pcie.link.width.current"
    )
    healthy, hurt = host.query(names)[:2]
    assert hurt == "2, Yes, Active, 0x0000000000000048, 8"
    assert healthy == "0, No, Not Active, 0x0000000000000001, 16"


@pytest.mark.parametrize(
    "arguments",
    [("--query-gpu=name,age", "--format=csv"), ("--query-gpu=name",), ("topo", "-m"), ("-L", "-q")],
)
def test_what_it_does_not_know_is_refused(host: Host, arguments: tuple[str, ...]) -> None:
    assert host.smi(*arguments).returncode == 2


def test_without_a_driver_it_says_so(host: Host) -> None:
    done = host.smi_as_it_is()
    assert done.returncode == 9
    assert "couldn't communicate with the NVIDIA driver" in done.stdout


def test_the_program_is_the_same_for_the_same_sources() -> None:
    assert nvml.nvidia_smi() == nvml.nvidia_smi()


@pytest.mark.parametrize(
    ("part", "speed", "margin"), [("a100-sxm", 25000, None), ("h100-sxm", 26562, 55)]
)
def test_probe_reads_what_newer_drivers_tell(
    built: Path, tmp_path: Path, part: str, speed: int, margin: int | None
) -> None:
    host = Host(built, tmp_path, Hardware(part))
    host.state["gpu1"]["sram_exceeded"] = 1
    host.file.write_text(nvml.render(host.state))
    done = run(bundle.command(), input=bundle.payload({"areas": ["gpus"]}), env=host.env)
    found = HostFacts.model_validate_json(done.stdout).gpus
    assert found is not None
    sound, hurt = found.devices[:2]
    assert (sound.error, sound.sram_exceeded, hurt.sram_exceeded) == ("", False, True)
    assert (hurt.nvlink_speed, hurt.temperature_margin) == (speed, margin)


def test_without_a_loaded_driver_nothing_is_told(host: Host, tmp_path: Path) -> None:
    host.state = nvml.without_driver(host.state)
    host.env["APPLIANCE_LAB_DRIVER_STATE"] = str(tmp_path / "driver.state")
    silent = host.smi("-L")
    assert silent.returncode != 0
    (tmp_path / "driver.state").write_text(nvml.render({"system": nvml.system("580.82.07", 13000)}))
    assert host.query("driver_version") == ["580.82.07"] * 8


def test_library_of_another_version_than_the_loaded_driver_says_so(
    built: Path, tmp_path: Path
) -> None:
    """As after an upgrade of the packages alone: the module that is loaded is still the old one."""
    host = Host(built, tmp_path)
    host.state = nvml.without_driver(host.state)
    host.env |= {
        "LD_LIBRARY_PATH": str(tmp_path),
        "APPLIANCE_LAB_DRIVER_STATE": str(tmp_path / "driver.state"),
    }
    shutil.copy(built / LIB_FOLDER / nvml.SONAME, tmp_path / "libnvidia-ml.so.580.95.05")
    (tmp_path / nvml.SONAME).symlink_to("libnvidia-ml.so.580.95.05")
    for loaded, fits in (("580.95.05", True), ("580.82.07", False)):
        state = nvml.render({"system": nvml.system(loaded, 13000)})
        (tmp_path / "driver.state").write_text(state)
        done = host.smi("--query-gpu=driver_version", "--format=csv,noheader")
        assert (done.returncode == 0) is fits
        assert ("mismatch" in (done.stdout + done.stderr).lower()) is not fits


def test_racks_that_need_the_library_at_once_build_it_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        layers = set(pool.map(lambda _: nvml.build(tmp_path), range(4)))
    assert len(layers) == 1
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(nvml.BUILDING)] == []
