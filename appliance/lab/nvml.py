"""The simulated NVML: a C library of our own with its nvidia-smi, built once, and the state file both read."""

import fcntl
import io
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from appliance.adapters.process import run
from appliance.lab.hardware import DRIVERS, Hardware, serial, uuid
from appliance.lab.parts import GpuModel
from appliance.lab.recipe import LIB_FOLDER
from appliance.provision.sources import digest
from appliance.stages.mig.table import Geometry, MigProfile, mig_table

SOURCES = Path(__file__).with_name("nvml_source")
STATE_FILE = Path("var/lib/appliance-lab/gpu.state")
TOOL = Path("usr/local/bin/nvidia-smi")
PACKAGE = Path(__file__).parent.parent
TOOL_SOURCES = (
    "lab/nvidia_smi/*.py",
    "probe/files.py",
    "probe/lines.py",
    "probe/mig.py",
    "probe/mounts.py",
    "probe/nvml.py",
    "probe/places.py",
    "probe/problems.py",
)
SONAME = "libnvidia-ml.so.1"
BUILDING = "building-nvml-"
"""Prefix of a layer that is being built; its lock is not that of an image."""

Value = str | int
State = dict[str, dict[str, Value]]

NVIDIA = 0x10DE
OF_THE_MACHINE = frozenset({"count"})
"""The section "system" without a driver."""
IDLE = 0x1
NVLINK_REMOTE = {"nvlink-bridge": 0, "nvswitch": 2}
"""NVML's numbers for the other end of a link: a GPU, a switch."""
NVLINK_REMOTE_UNKNOWN = 255

BY_SLICES = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 6: 6}
WITH_ENGINES, WITH_MEMORY = {1: 7, 2: 8}, {1: 9}
"""NVML_GPU_INSTANCE_PROFILE_n_SLICE, _REV1 and _REV2 (nvml.h) by their compute slices."""

QUIET = (
    "pcie_replays",
    "nvlink_errors",
    "ecc_corrected_volatile",
    "ecc_uncorrected_volatile",
    "ecc_corrected_aggregate",
    "ecc_uncorrected_aggregate",
    "remapped_correctable",
    "remapped_uncorrectable",
    "remap_pending",
    "remap_failed",
    "sram_exceeded",
    "pstate",
    "utilization",
    "lost",
    "off_bus",
)
"""Faults that a healthy idle GPU does not have."""


def build(cache: Path) -> Path:
    """The layer with the library and nvidia-smi, created if the cache lacks it."""
    sources = sorted(SOURCES.glob("*.[ch]"))
    program = nvidia_smi()
    key = digest("".join(file.read_text(encoding="utf-8") for file in sources) + program.hex())
    target = cache / f"nvml-{key}"
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    # Racks of all images need it, and their builds do not wait for each other.
    with (cache / "nvml.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for rest in cache.glob(f"{BUILDING}*"):
            shutil.rmtree(rest)
        if not target.exists():
            _make(cache / f"{BUILDING}{key}", sources, program).rename(target)
    return target


def _make(fresh: Path, sources: Sequence[Path], program: bytes) -> Path:
    (fresh / LIB_FOLDER).mkdir(parents=True)
    library = fresh / LIB_FOLDER / SONAME
    run(compile_command(library, [file for file in sources if file.suffix == ".c"]))
    tool = fresh / TOOL
    tool.parent.mkdir(parents=True)
    tool.write_bytes(program)
    tool.chmod(0o755)
    return fresh


def nvidia_smi() -> bytes:
    """The program of that name: a Python zip archive that runs by itself, the same bytes for the same sources."""
    packed = io.BytesIO()
    packed.write(b"#!/usr/bin/python3 -ISB\n")
    with zipfile.ZipFile(packed, "a") as archive:
        main = "import sys\nfrom appliance.lab.nvidia_smi.command import main\nsys.exit(main())\n"
        archive.writestr(zipfile.ZipInfo("__main__.py"), main)
        for room in ("", "lab/", "probe/"):
            archive.writestr(zipfile.ZipInfo(f"appliance/{room}__init__.py"), "")
        for pattern in TOOL_SOURCES:
            for file in sorted(PACKAGE.glob(pattern)):
                entry = zipfile.ZipInfo(f"appliance/{file.relative_to(PACKAGE)}")
                archive.writestr(entry, file.read_bytes())
    return packed.getvalue()


def compile_command(library: Path, sources: Sequence[Path]) -> tuple[str, ...]:
    """gcc's options for the library. C11 prevents references to symbols of a newer C library."""
    flags = ("-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O2", "-Wall", "-Wextra", "-Werror")
    link = ("-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{SONAME}")
    return ("gcc", *flags, *link, "-o", str(library), *(str(file) for file in sources))


def healthy_state(host: str, hardware: Hardware | None = None) -> State:
    """The state of a host whose GPUs are as they should be; section "system", then one per GPU."""
    found = hardware or Hardware()
    driver, cuda = DRIVERS.get(found.driver_branch, DRIVERS["580"])
    state: State = {"system": system(driver, cuda) | {"count": found.gpus}}
    for index in range(found.gpus):
        of_all = _product(found) | _cuts(found.model)
        state[f"gpu{index}"] = of_all | _identity(host, found, index) | _condition(index)
    return state


def without_driver(state: State) -> State:
    """The same GPUs without a driver: the state of a machine before one is loaded."""
    bare = {key: value for key, value in state["system"].items() if key in OF_THE_MACHINE}
    return {**state, "system": bare}


def system(driver: str, cuda: int) -> dict[str, Value]:
    """The library's values for a driver."""
    return {
        "driver_version": driver,
        "nvml_version": f"{cuda // 1000}.{driver}",
        "cuda_version": cuda,
    }


def _product(hardware: Hardware) -> dict[str, Value]:
    """Properties common to all GPUs of a kind; power in mW, memory in bytes, clocks in MHz."""
    model = hardware.model
    return {
        "name": model.name,
        "vbios": model.vbios,
        "board_part": model.board,
        "pci_device_id": model.pci_device << 16 | NVIDIA,
        "pci_subsystem_id": model.pci_subsystem << 16 | NVIDIA,
        "architecture": model.architecture,
        "compute_major": model.compute[0],
        "compute_minor": model.compute[1],
        "cores": model.cores,
        "memory_total": model.memory << 20,
        "memory_reserved": model.reserved << 20,
        "power_limit_mw": model.power * 1000,
        "power_default_mw": model.power * 1000,
        "power_least_mw": model.power_least * 1000,
        "temperature_shutdown": model.shutdown,
        "temperature_slowdown": model.slowdown,
        "temperature_most": model.too_hot,
        "pcie_generation": model.pcie_generation,
        "pcie_generation_max": model.pcie_generation,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "nvlinks": model.nvlinks,
        "nvlink_version": model.nvlink_version,
        "nvlink_speed": model.nvlink_speed,
        "nvlink_remote": NVLINK_REMOTE.get(hardware.interconnect, NVLINK_REMOTE_UNKNOWN),
        "nvlinks_down": model.nvlinks if hardware.interconnect == "pcie" else 0,
        "memory_clock": model.memory_clock,
        "sm_clock_max": model.sm_clock,
    }


def _cuts(model: GpuModel) -> dict[str, Value]:
    """Its MIG geometry: slices, and a line for each profile, as state.c reads them; empty if it cannot be divided."""
    geometry = mig_table().of(model.name)
    if geometry is None:
        return {}
    slices: dict[str, Value] = {"mig_compute": geometry.compute, "mig_memory": geometry.memory}
    return slices | {
        f"mig_profile{number}": " ".join(
            map(
                str,
                (
                    _nvml_index(profile, geometry),
                    *(profile.id, profile.compute, profile.memory, profile.maximum),
                    sum(1 << start for start in profile.starts),
                    model.multiprocessors * profile.compute // geometry.compute,
                    profile.name,
                ),
            )
        )
        for number, profile in enumerate(geometry.profiles)
    }


def _nvml_index(profile: MigProfile, geometry: Geometry) -> int:
    """NVML's NVML_GPU_INSTANCE_PROFILE_* of a profile: by its slices, whether it has more memory or the media engines."""
    if profile.name.endswith("+me"):
        return WITH_ENGINES[profile.compute]
    least = min(one.memory for one in geometry.profiles if one.compute == profile.compute)
    return (BY_SLICES if profile.memory == least else WITH_MEMORY)[profile.compute]


def _identity(host: str, hardware: Hardware, index: int) -> dict[str, Value]:
    """Values that differ between GPUs."""
    return {
        "uuid": uuid(host, index),
        "serial": serial(host, index),
        "pci": hardware.gpu_place(index).address,
        "minor": index,
    }


def _condition(index: int) -> dict[str, Value]:
    """The state of a healthy idle GPU."""
    quiet: dict[str, Value] = dict.fromkeys(QUIET, 0)
    return quiet | {
        "memory_used": 4 << 20,
        "temperature": 31 + index % 4,
        "memory_temperature": 38 + index % 3,
        "power_mw": 61_000 + 700 * index,
        "ecc": 1,
        "persistence": 1,
        "throttle_reasons": IDLE,
        "sm_clock": 210,
    }


def render(state: Mapping[str, Mapping[str, Value]]) -> str:
    """The state as the library reads it: one ``section.key=value`` a line."""
    return "".join(
        f"{section}.{key}={value}\n"
        for section, values in state.items()
        for key, value in values.items()
    )


def parse(text: str) -> dict[str, dict[str, str]]:
    """The inverse of ``render``, every value as text."""
    state: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.partition(".")
        state.setdefault(section, {})[key] = value
    return state


def write(root: Path, state: Mapping[str, Mapping[str, Value]]) -> None:
    """Put the state into a host's tree at once, so that a reader never sees half of it."""
    target = root / STATE_FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(".new")
    fresh.write_text(render(state), encoding="utf-8")
    fresh.rename(target)
