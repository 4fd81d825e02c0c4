"""The simulated NVML: a C library of our own, built once, and the state file it reads on a host."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from appliance.adapters.process import run
from appliance.lab.hardware import GPU_MODEL, GPUS_PER_HOST, gpu_pci, serial, uuid
from appliance.lab.recipe import LIB_FOLDER, digest

SOURCES = Path(__file__).with_name("nvml_source")
STATE_FILE = Path("var/lib/appliance-lab/gpu.state")
SONAME = "libnvidia-ml.so.1"

Value = str | int


def build(cache: Path) -> Path:
    """The layer holding the library, compiled where the cache lacks it."""
    sources = sorted(SOURCES.glob("*.[ch]"))
    key = digest("".join(file.read_text() for file in sources))
    target = cache / f"nvml-{key}"
    if not target.exists():
        fresh = cache / f"building-{target.name}"
        shutil.rmtree(fresh, ignore_errors=True)
        (fresh / LIB_FOLDER).mkdir(parents=True)
        library = fresh / LIB_FOLDER / SONAME
        run(compile_command(library, [file for file in sources if file.suffix == ".c"]))
        fresh.rename(target)
    return target


def compile_command(library: Path, sources: Sequence[Path]) -> tuple[str, ...]:
    """How gcc makes the library. C11 keeps it from binding to symbols of a newer C library."""
    flags = ("-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O2", "-Wall", "-Wextra", "-Werror")
    link = ("-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{SONAME}")
    return ("gcc", *flags, *link, "-o", str(library), *(str(file) for file in sources))


def healthy_state(host: str) -> dict[str, dict[str, Value]]:
    """The state of a host whose GPUs are as they should be; section "system", then one per GPU."""
    model = GPU_MODEL
    state: dict[str, dict[str, Value]] = {
        "system": {
            "driver_version": model.driver,
            "nvml_version": f"12.{model.driver}",
            "cuda_version": model.cuda,
            "count": GPUS_PER_HOST,
        }
    }
    for index in range(GPUS_PER_HOST):
        state[f"gpu{index}"] = {
            "name": model.name,
            "uuid": uuid(host, index),
            "serial": serial(host, index),
            "vbios": model.vbios,
            "board_part": model.board_part,
            "pci": gpu_pci(index).address,
            "pci_device_id": model.pci_device_id,
            "pci_subsystem_id": model.pci_subsystem_id,
            "minor": index,
            "memory_total": model.memory_bytes,
            "memory_used": model.memory_idle,
            "memory_reserved": model.memory_reserved,
            "temperature": 31 + index % 4,
            "memory_temperature": 38 + index % 3,
            "power_mw": 61_000 + 700 * index,
            "power_limit_mw": model.power_limit_mw,
            "pcie_generation": model.pcie_generation,
            "pcie_generation_max": model.pcie_generation,
            "pcie_width": 16,
            "pcie_width_max": 16,
            "pcie_replays": 0,
            "nvlinks": model.nvlinks,
            "nvlink_version": model.nvlink_version,
            "nvlinks_down": 0,
            "nvlink_errors": 0,
            "ecc": 1,
            "ecc_corrected_volatile": 0,
            "ecc_uncorrected_volatile": 0,
            "ecc_corrected_aggregate": 0,
            "ecc_uncorrected_aggregate": 0,
            "remapped_correctable": 0,
            "remapped_uncorrectable": 0,
            "remap_pending": 0,
            "remap_failed": 0,
            "mig": 0,
            "mig_pending": 0,
            "persistence": 1,
            "throttle_reasons": 1,
            "sm_clock": 210,
            "memory_clock": model.memory_clock,
            "sm_clock_max": model.sm_clock_max,
            "utilization": 0,
            "lost": 0,
        }
    return state


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
    fresh.write_text(render(state))
    fresh.rename(target)
