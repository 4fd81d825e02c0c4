"""Highest possible values: by the links of a host's GPUs, the GPUs' data sheets, its memory modules and its processors. A property that the host does not report gives no bound, and the result notes that."""

import re
from dataclasses import dataclass

from appliance.checks.check import View
from appliance.models.gpu_counts import gpu_least
from appliance.models.profile import Interconnect
from appliance.stages.gpu.facts import Gpu
from appliance.stages.gpu.part import gpu_parts

ABOVE = 1.02
"""Tolerance above the highest possible value: clocks of hosts and rates of links differ by less."""
PCIE_LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s one way by generation (PCI-SIG: 2.5, 5, 8, 16, 32, 64 GT/s, less their encoding)."""
PER_CYCLE = (("avx512f", 32), ("avx2", 16), ("avx", 8), ("sse2", 4))
"""Double precision operations of a core by the widest vectors of x86: two units, each with multiplication and addition."""
TURBO_TOLD = ("intel_pstate", "intel_cpufreq", "amd-pstate", "amd_pstate")
"""Drivers of cpufreq whose highest clock is that of the boost; acpi-cpufreq's may be below it."""
BUS = 64
"""Bits of a memory module without ECC; a narrower one is half of a DDR5 module."""
SIZES = {unit: 1 << 10 * power for power, unit in enumerate("kMGT", 1)}
"""By the first letter of the unit: dmidecode prints kB, MB, GB, TB up to 3.6, and KiB, MiB, GiB, TiB since."""
LISTED = 0.9
"""Share of the host's memory that its list of modules must cover: missing modules have bandwidth, too."""
JOINED = ("GH200", "GB200", "GB300")
"""GPUs that reach their processor by more than a slot (NVLink-C2C)."""
ASK = r"""
dmidecode -t 17 2>/dev/null | grep -E 'Memory Device$|^[[:space:]]*(Size|Data Width|Configured (Memory|Clock) Speed):' |
  sed 's/^/appliance-memory: /'
sed -n 's/^flags[[:space:]]*: /appliance-flags: /p' /proc/cpuinfo | head -n 1
cd /sys/devices/system/cpu && sed -n 's/^/appliance-clock: /p' cpu0/cpufreq/scaling_driver 2>/dev/null
cat cpu[0-9]*/cpufreq/cpuinfo_max_freq 2>/dev/null | sort -n | tail -n 1 | sed 's/^/appliance-khz: /'
"""
"""Output of the script on the host, for ``of_memory`` and ``of_processors``."""


@dataclass(frozen=True)
class Most:
    """A bound and its source."""

    value: float
    why: str

    def passed_by(self, value: float) -> bool:
        """Whether no such figure is possible."""
        return value > self.value * ABOVE


Bounded = Most | str
"""The bound, or why there is none."""


def bound_text(bound: Bounded, unit: str) -> str:
    """Text that is shown next to a value."""
    if isinstance(bound, str):
        return f"not bounded: {bound}"
    return f"at most {bound.value:.4g} {unit} ({bound.why})"


def of_collective(view: View, host: str) -> Bounded:
    """Maximum bus bandwidth in GB/s of all_reduce over the GPUs of a host: each must receive the whole result over its own links, wherever it is reduced.

    Bus bandwidth counts 2 (n - 1) / n bytes for each byte of the result.
    """
    facts, count = view.facts.get(host), gpu_least(view.profile, view.site)
    gpus = facts.gpus.devices if facts and facts.gpus else ()
    ways = [_takes_in(gpu, view.profile.hardware.gpu.interconnect) for gpu in gpus]
    known = [way for way in ways if way is not None]
    if not known or len(known) < len(ways):
        return "the link speed of each GPU is unknown"
    least = min(known)
    return Most(
        2 * (count - 1) / count * least, f"the maximum of links of {least:.4g} GB/s to a GPU"
    )


def of_slot(view: View, host: str, index: int) -> Bounded:
    """GB/s one way between this GPU and the memory of its host."""
    gpu = _gpu(view, host, index)
    if gpu is not None and any(name in gpu.name for name in JOINED):
        return "the CPU is not connected to it through a PCIe slot alone"
    slot = _slot(gpu) if gpu else None
    if gpu is None or slot is None:
        return "the speed of its slot is unknown"
    return Most(slot, f"PCIe {gpu.pcie_max_generation} x{gpu.pcie_max_width}")


def of_pair(view: View, host: str, one: int, other: int) -> Bounded:
    """GB/s one way between two GPUs of a host: a copy goes by NVLink or by the slots, not by both."""
    ways = []
    for index in (one, other):
        gpu = _gpu(view, host, index)
        slot = _slot(gpu) if gpu else None
        links = _links(gpu, view.profile.hardware.gpu.interconnect, told=True) if gpu else None
        if slot is None or links is None:
            return "the link speed of both GPUs is unknown"
        ways.append((max(slot, links), "NVLinks" if links > slot else "slot"))
    least, by = min(ways)
    return Most(least, f"the {by} of a GPU")


def _gpu(view: View, host: str, index: int) -> Gpu | None:
    facts = view.facts.get(host)
    devices = facts.gpus.devices if facts and facts.gpus else ()
    return next((gpu for gpu in devices if gpu.index == index), None)


def _takes_in(gpu: Gpu, interconnect: Interconnect) -> float | None:
    """GB/s that the GPU's NVLinks and its slot can bring it, all together."""
    slot, links = _slot(gpu), _links(gpu, interconnect)
    return None if slot is None or links is None else slot + links


def _slot(gpu: Gpu) -> float | None:
    """GB/s one way."""
    lane = PCIE_LANE.get(gpu.pcie_max_generation or 0)
    return None if lane is None or not gpu.pcie_max_width else lane * gpu.pcie_max_width


def _links(gpu: Gpu, interconnect: Interconnect, *, told: bool = False) -> float | None:
    """GB/s in one direction of all NVLinks together. ``told``: also count links that the GPU reports in a class with PCIe."""
    if interconnect is Interconnect.PCIE and not (told and gpu.nvlinks_active):
        return 0.0
    part = gpu_parts().find(gpu.name)
    links = gpu.nvlinks_active
    if links is None:
        links = part.nvlinks if part else None
    speed = gpu.nvlink_speed or (part.nvlink_speed if part else None)
    if links is None or (links and not speed):
        return None
    return links * (speed or 0) / 1000


def of_product(name: str, dtype: str) -> Bounded:
    """TFLOPS of dense matrix products of one type on a GPU of this name, at its highest clock."""
    part = gpu_parts().find(name)
    rates = part.rates if part else None
    if rates is None:
        return f"the peak of a {name or 'GPU without a name'} is unknown"
    peak = rates.tf32 if dtype == "tf32" else rates.fp64 if dtype == "fp64" else rates.half
    if dtype not in {"fp64", "tf32", "fp16", "bf16"} or peak is None:
        return f"its peak in {dtype} is not published"
    if rates.clock and rates.highest:
        why = f"{rates.source}, {peak:g} at {rates.clock} MHz, up to {rates.highest}"
        return Most(peak * rates.highest / rates.clock, why)
    return Most(peak, rates.source)


def of_gpu_memory(name: str) -> Bounded:
    """GB/s of the own memory of a GPU of this name."""
    part = gpu_parts().find(name)
    if part is None or part.rates is None:
        return f"the peak of a {name or 'GPU without a name'} is unknown"
    return Most(part.rates.memory, part.rates.source)


def of_memory(text: str, total: int) -> Bounded:
    """GB/s of all memory modules together; ``total``: bytes the host has."""
    listed = "\n".join(re.findall(r"^appliance-memory: ?(.*)$", text, re.M))
    rates, size = [], 0
    for module in listed.split("Memory Device")[1:]:
        holds = re.search(r"^\s*Size: ([0-9]{1,9}) ([kKMGT])i?B$", module, re.M)
        if holds is None:
            continue
        size += int(holds[1]) * SIZES[holds[2].replace("K", "k")]
        speed = re.search(r"^\s*Configured (?:Memory|Clock) Speed: ([0-9]{1,9}) M", module, re.M)
        width = re.search(r"^\s*Data Width: ([0-9]{1,9}) bits", module, re.M)
        if speed is None or not int(speed[1]):
            return "the host does not report the speed of its memory modules"
        rates.append(int(speed[1]) * max(BUS, int(width[1]) if width else BUS) / 8 / 1000)
    if not rates:
        return "the host does not list its memory modules (dmidecode)"
    if size < LISTED * total:
        return "the host has memory that it does not list as modules"
    return Most(sum(rates), f"{len(rates)} memory modules")


def of_processors(text: str, cores: int) -> Bounded:
    """GFLOPS of double precision of all cores at their highest clock."""
    flags = _bound_reason(text, "flags").split()
    each = next((count for flag, count in PER_CYCLE if flag in flags), 0)
    driver, clock = _bound_reason(text, "clock"), _bound_reason(text, "khz")
    if not each or not cores:
        return "the operations per cycle of a core are known only for x86"
    if (
        not driver.startswith(TURBO_TOLD)
        or not re.fullmatch("[0-9]{1,12}", clock)
        or not int(clock)
    ):
        return "the host does not report the highest clock of its cores"
    ghz = int(clock) / 1e6
    return Most(cores * ghz * each, f"{cores} cores x {ghz:.3g} GHz x {each} a cycle")


def _bound_reason(text: str, what: str) -> str:
    found = re.search(rf"^appliance-{what}: (.*)$", text, re.M)
    return found[1].strip() if found else ""
