"""Checks whether GPUs can run at full speed: clocks, temperature, and power limit."""

from collections.abc import Iterable

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.gpu import ids
from appliance.stages.gpu.checks.each import (
    GpuResult,
    bad,
    devices,
    doubtful,
    each,
    good,
    part_of,
    unknown,
)
from appliance.stages.gpu.facts import Gpu

HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
HARD = {
    HW_THERMAL: (
        "heat: the hardware halves its clocks",
        "check fans, air flow and inlet temperature",
    ),
    POWER_BRAKE: (
        "the host's power supply slows it down (power brake)",
        "check the power supplies and the BMC's event log",
    ),
    HW_SLOWDOWN: (
        "the hardware slows it down",
        "check its power cables, the power supplies and its temperature (nvidia-smi -q -d PERFORMANCE)",
    ),
}
CLOCK_SOURCE = "NVML clock event reasons"
NEAR = 5
"""Degrees below the slowdown threshold from which on a warning is given."""
NEAR_SOURCE = "the GPU's own threshold (NVML)"
APART = 25
"""Maximum degrees of an idle GPU above the median of its idle neighbours."""
APART_SOURCE = "own choice: the median of the host's idle GPUs, and 25 °C"
IDLE_PERCENT = 5
FEW = 3
"""Minimum number of idle GPUs for a median."""
COOL = "check fans, air flow and inlet temperature; compare with its neighbours (nvidia-smi -q -d TEMPERATURE)"


def judge_clocks(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Fail if the hardware slows a GPU down; idleness, a power cap or chosen clocks are not faults."""
    del view
    return each(host, facts, _clocks)


def _clocks(gpu: Gpu) -> GpuResult:
    reasons = gpu.clock_event_reasons
    if reasons is None:
        return unknown("the driver does not report why its clocks are reduced")
    limit = f"none of {HW_SLOWDOWN | HW_THERMAL | POWER_BRAKE:#x}"
    for bit, (cause, fix) in HARD.items():
        if reasons & bit:
            return bad(f"{reasons:#x}", cause, fix, limit, CLOCK_SOURCE)
    if reasons & SW_THERMAL:
        cause = "the driver lowers its clocks because of heat"
        return doubtful(f"{reasons:#x}", cause, COOL, limit, CLOCK_SOURCE)
    return good(f"{reasons:#x}", limit, CLOCK_SOURCE)


def judge_temperature(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Fail at the temperature at which the GPU slows down; warn close to it."""
    own = view.number(ids.TEMPERATURE)
    usual = _usual(devices(facts))
    return each(host, facts, lambda gpu: _temperature(gpu, own, usual), "°C")


def _usual(gpus: tuple[Gpu, ...]) -> float | None:
    """Return the median temperature of the host's idle GPUs; None if there are too few."""
    idle = sorted(gpu.temperature for gpu in gpus if gpu.temperature is not None and _rests(gpu))
    return idle[len(idle) // 2] if len(idle) >= FEW else None


def _rests(gpu: Gpu) -> bool:
    return gpu.utilization is not None and gpu.utilization <= IDLE_PERCENT


def _temperature(gpu: Gpu, own: tuple[float, str] | None, usual: float | None) -> GpuResult:
    now = gpu.temperature
    if now is None:
        return unknown("its temperature was not read")
    threshold = own[0] if own else gpu.temperature_slowdown
    if threshold is None and gpu.temperature_margin is not None:
        threshold = now + gpu.temperature_margin
    if threshold is None:
        return unknown("the driver reports no slowdown temperature: set the limit gpu.temperature")
    source = own[1] if own else NEAR_SOURCE
    if now >= threshold:
        return bad(now, f"{now} °C: it slows down from {threshold:g} °C", COOL, threshold, source)
    if usual is not None and _rests(gpu) and now >= usual + APART:
        cause = (
            f"{now} °C when idle, but its idle neighbours have {usual:g} °C: its cooling is worse"
        )
        return bad(now, cause, COOL, usual + APART, APART_SOURCE)
    if now > threshold - NEAR:
        cause = f"{now} °C, {threshold - now:g} below its slowdown temperature"
        return doubtful(now, cause, COOL, threshold, source)
    return good(now, threshold, source)


def judge_power(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Fail if a GPU's power limit is below its data sheet."""
    own = view.number(ids.POWER)
    return each(host, facts, lambda gpu: _power(gpu, own), "W")


def _power(gpu: Gpu, own: tuple[float, str] | None) -> GpuResult:
    part = part_of(gpu)
    if gpu.power_limit is None:
        return unknown("its power limit was not read")
    if own:
        least, source = own
    elif part:
        least, source = float(part.tdp), part.cite
    elif gpu.power_default is not None:
        least, source = gpu.power_default, "the GPU's own default limit (NVML)"
    else:
        return unknown(f"the power of {gpu.name} is not known: set the limit gpu.power")
    if gpu.power_limit >= least:
        return good(gpu.power_limit, least, source)
    cause = (
        f"its power is cut to {gpu.power_limit:g} of {least:g} W: it is slower than its neighbours"
    )
    fix = f"nvidia-smi -i {gpu.index} -pl {least:g}"
    if gpu.power_most is not None and gpu.power_most < least:
        fix = f"its board allows {gpu.power_most:g} W at most: compare its part number (nvidia-smi -q) with the order"
    fix += "; if the lower limit is intended, set the limit gpu.power"
    return bad(gpu.power_limit, cause, fix, least, source)
