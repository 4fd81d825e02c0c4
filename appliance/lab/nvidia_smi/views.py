"""The ways nvidia-smi shows GPUs: its table, its list, its long form, and chosen fields as CSV."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from appliance.lab.nvidia_smi import mig
from appliance.lab.nvidia_smi.fields import BY_NAME, NOT_KNOWN, links, value
from appliance.probe.nvml import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from appliance.probe.nvml import Library

    View = Callable[["Library", Any], "list[str]"]

SIMULATED = "simulated by appliance lab: nothing computes here"
WIDTHS = (41, 24, 22)
LINE = "+" + "+".join("-" * width for width in WIDTHS) + "+"
WHOLE = "+" + "-" * 89 + "+"

SECTIONS = (
    ("", (("Product Name", "name"), ("Persistence Mode", "persistence_mode"))),
    ("MIG Mode", (("Current", "mig.mode.current"), ("Pending", "mig.mode.pending"))),
    (
        "",
        (
            ("Serial Number", "serial"),
            ("GPU UUID", "uuid"),
            ("VBIOS Version", "vbios_version"),
        ),
    ),
    ("PCI", (("Bus Id", "pci.bus_id"), ("Device Id", "pci.device_id"))),
    (
        "GPU Link Info",
        (
            ("PCIe Generation Current", "pcie.link.gen.current"),
            ("PCIe Generation Max", "pcie.link.gen.max"),
            ("Link Width Current", "pcie.link.width.current"),
            ("Link Width Max", "pcie.link.width.max"),
        ),
    ),
    ("", (("Performance State", "pstate"),)),
    (
        "Clocks Event Reasons",
        (
            ("Idle", "clocks_event_reasons.gpu_idle"),
            ("SW Power Cap", "clocks_event_reasons.sw_power_cap"),
            ("HW Slowdown", "clocks_event_reasons.hw_slowdown"),
            ("HW Thermal Slowdown", "clocks_event_reasons.hw_thermal_slowdown"),
            ("HW Power Brake Slowdown", "clocks_event_reasons.hw_power_brake_slowdown"),
        ),
    ),
    ("FB Memory Usage", (("Total", "memory.total"), ("Used", "memory.used"))),
    ("Utilization", (("GPU", "utilization.gpu"),)),
    (
        "ECC Errors",
        (
            ("Mode", "ecc.mode.current"),
            ("Uncorrectable Volatile", "ecc.errors.uncorrected.volatile.total"),
            ("Uncorrectable Aggregate", "ecc.errors.uncorrected.aggregate.total"),
        ),
    ),
    (
        "Remapped Rows",
        (
            ("Correctable Error", "remapped_rows.correctable"),
            ("Uncorrectable Error", "remapped_rows.uncorrectable"),
            ("Pending", "remapped_rows.pending"),
            ("Remapping Failure Occurred", "remapped_rows.failure"),
        ),
    ),
    ("Temperature", (("GPU Current Temp", "temperature.gpu"),)),
    ("GPU Power Readings", (("Power Draw", "power.draw"), ("Current Power Limit", "power.limit"))),
    ("Clocks", (("SM", "clocks.sm"), ("Memory", "clocks.mem"))),
)


def driver(library: Library) -> tuple[str, str]:
    """The driver's version and its CUDA's."""
    cuda = library.number("nvmlSystemGetCudaDriverVersion_v2") or 0
    return library.text("nvmlSystemGetDriverVersion"), f"{cuda // 1000}.{cuda % 1000 // 10}"


def table_head(library: Library) -> Iterator[str]:
    """Time, versions and the names of the columns."""
    version, cuda = driver(library)
    yield time.strftime("%a %b %e %H:%M:%S %Y")
    yield WHOLE
    versions = f"NVIDIA-SMI {version:<20} Driver Version: {version:<15} CUDA Version: {cuda}"
    yield f"| {versions:<87} |"
    yield f"| {SIMULATED:<87} |"
    yield LINE
    yield _row("GPU  Name", "Persistence-M", "Bus-Id", "Disp.A", "Volatile Uncorr. ECC")
    yield _row("Fan  Temp   Perf", "Pwr:Usage/Cap", "", "Memory-Usage", "GPU-Util  Compute M.")
    yield _row("", "", "", "", "MIG M.")
    yield LINE.replace("-", "=").replace("+=", "|=", 1)[:-1] + "|"


def table_rows(library: Library, gpu: Any) -> list[str]:
    """A GPU's three lines and the one below them."""

    def of(name: str) -> str:
        said = value(library, gpu, name, unit=False)
        return "N/A" if said == NOT_KNOWN else said

    watts = f"{float(of('power.draw')):.0f}W / {float(of('power.limit')):4.0f}W"
    memory = f"{of('memory.used')}MiB / {of('memory.total'):>6}MiB"
    persistence = "On " if of("persistence_mode") == "Enabled" else "Off"
    ecc = of("ecc.errors.uncorrected.volatile.total")
    heat = f"N/A {of('temperature.gpu'):>4}C    {of('pstate')}"
    return [
        _row(f"{of('index'):>3}  {of('name')}", persistence, "", f"{of('pci.bus_id')} Off", ecc),
        _row(heat, watts, "", memory, f"{of('utilization.gpu')}%      {of('compute_mode')}"),
        _row("", "", "", "", of("mig.mode.current")),
        LINE,
    ]


def table_foot() -> Iterator[str]:
    """Processes on the GPUs: there are never any."""
    yield ""
    yield WHOLE
    yield f"| {'Processes:':<87} |"
    yield f"|  {'No running processes found':<86} |"
    yield WHOLE


def _row(first: str, right: str, second: str, second_right: str, third: str) -> str:
    left = f"{first}{right:>{WIDTHS[0] - 2 - len(first)}}"
    middle = f"{second}{second_right:>{WIDTHS[1] - 2 - len(second)}}"
    return f"| {left} | {middle} | {third:>{WIDTHS[2] - 2}} |"


def line(library: Library, gpu: Any) -> list[str]:
    """A GPU's line in the list, and its MIG devices."""
    index, name, uuid = (value(library, gpu, field) for field in ("index", "name", "uuid"))
    return [f"GPU {index}: {name} (UUID: {uuid})", *mig.devices(library, gpu)]


def long_head(library: Library, attached: int) -> Iterator[str]:
    """The text of the long form before the first GPU."""
    version, cuda = driver(library)
    yield "\n==============NVSMI LOG==============\n"
    for name, said in (
        ("Timestamp", time.strftime("%a %b %e %H:%M:%S %Y")),
        ("Simulated", f"Yes ({SIMULATED})"),
        ("Driver Version", version),
        ("CUDA Version", cuda),
    ):
        yield f"{name:<50}: {said}"
    yield f"\n{'Attached GPUs':<50}: {attached}"


def long(library: Library, gpu: Any) -> list[str]:
    """All sections of a GPU."""
    lines = [f"GPU {value(library, gpu, 'pci.bus_id')}"]
    for title, rows in SECTIONS:
        if title:
            lines.append(f"    {title}")
        indent = "        " if title else "    "
        for name, field in rows:
            said = value(library, gpu, field).replace(NOT_KNOWN, "N/A")
            lines.append(f"{indent + name:<50}: {said}")
    up, all_links = links(library, gpu)
    return [*lines, f"    {'NVLinks Active':<46}: {up} of {all_links}", ""]


def csv_head(names: Sequence[str], units: bool) -> str:
    """The line of names."""
    fields = ((name, BY_NAME[name].unit if units else "") for name in names)
    return ", ".join(f"{name} [{unit}]" if unit else name for name, unit in fields)


def csv(names: Sequence[str], units: bool) -> View:
    """The view of chosen fields, a line per GPU."""

    def show(library: Library, gpu: Any) -> list[str]:
        return [", ".join(value(library, gpu, name, unit=units) for name in names)]

    return show


def lost(index: int, failure: Failure) -> str:
    """The text for a GPU that does not answer."""
    said = str(failure).rpartition(": ")[2]
    return (
        f"Unable to determine the device handle for GPU{index}: {said}.  "
        "Reboot the system to recover this GPU"
    )
