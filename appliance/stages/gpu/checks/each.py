"""Shared by checks of single GPUs: failures for each GPU, one result for unknown values, one pass for the rest."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from appliance.checks.check import judged, not_assessed, passed
from appliance.models.facts import HostFacts
from appliance.models.gap import Gap
from appliance.models.result import Judgement, Status, Value, place
from appliance.models.site import Host
from appliance.stages.gpu.facts import Gpu
from appliance.stages.gpu.part import GpuPart, part_named
from appliance.text import plural

AREA = "gpu"
ILL = frozenset({Status.FAIL, Status.WARN})
GOOD = Status.PASS
NO_ANSWER = "the GPU does not answer (gpu.error)"


class GpuResult(NamedTuple):
    """The result of one GPU's measurement. NOT_ASSESSED: there was none."""

    status: Status
    value: Value = None
    cause: str = ""
    fix: str = ""
    limit: Value = None
    source: str = ""
    required: bool = True


@lru_cache(4096, typed=True)
def good(value: Value, limit: Value = None, source: str = "") -> GpuResult:
    """Return a pass."""
    return GpuResult(Status.PASS, value, limit=limit, source=source)


def bad(value: Value, cause: str, fix: str, limit: Value = None, source: str = "") -> GpuResult:
    """Broken."""
    return GpuResult(Status.FAIL, value, cause, fix, limit, source)


def doubtful(
    value: Value, cause: str, fix: str, limit: Value = None, source: str = ""
) -> GpuResult:
    """Return a warning."""
    return GpuResult(Status.WARN, value, cause, fix, limit, source)


def unknown(cause: str, required: bool = True) -> GpuResult:
    """Not measured."""
    return GpuResult(Status.NOT_ASSESSED, cause=cause, required=required)


def is_simulated(facts: HostFacts) -> bool:
    """Return whether NVML is simulated."""
    return AREA in facts.simulated


def devices(facts: HostFacts) -> tuple[Gpu, ...]:
    """Return all GPUs that the driver counts, including lost ones."""
    return facts.gpus.devices if facts.gpus else ()


@lru_cache(1024)
def address(bus_id: str) -> str:
    """Return a PCI address in the form of sysfs: NVML's has eight digits for the domain, a kernel message no function."""
    parts = bus_id.lower().split(":")
    if len(parts) != 3 or not all(set(p) <= set("0123456789abcdef.") and p for p in parts):
        return bus_id
    slot, _, function = parts[2].partition(".")
    return f"{int(parts[0], 16):04x}:{parts[1]}:{slot}.{function or 0}"


def part_of(gpu: Gpu) -> GpuPart | None:
    """Return the GPU's data sheet; None for an unknown product."""
    return part_named(gpu.name)


def silence(facts: HostFacts) -> Gap:
    """Return why this host's GPUs are unknown."""
    return facts.gap("gpus", "the driver shows no GPU")


def each(
    host: Host, facts: HostFacts, judge: Callable[[Gpu], GpuResult], unit: str = ""
) -> list[Judgement]:
    """Return a result for each bad GPU, one per reason for those without a measurement, or one pass for all."""
    simulated = is_simulated(facts)
    found = devices(facts)
    if not found:
        return [not_assessed(host.name, silence(facts), simulated=simulated)]
    seen = [judge(gpu) if gpu.bus_id else unknown(NO_ANSWER) for gpu in found]
    # GPUs of a host mostly say the same, and what is good is one object then: the rest need not be asked.
    if seen[0].status is GOOD and seen.count(seen[0]) == len(seen):
        return [_all_good(host, seen, seen[:1], unit, simulated)]
    pairs = list(zip(found, seen, strict=True))
    results = [_result(host, gpu, one, unit, simulated) for gpu, one in pairs if one.status in ILL]
    results += _unmeasured(host, pairs, simulated)
    return results or [_all_good(host, seen, seen, unit, simulated)]


def _result(host: Host, gpu: Gpu, seen: GpuResult, unit: str, simulated: bool) -> Judgement:
    """Return a GPU's result with address and serial number, because indices shift if another GPU is lost."""
    return judged(
        place(host.name, f"GPU {gpu.index}"),
        seen.status,
        evidence=f"{address(gpu.bus_id)}, serial {gpu.serial or 'unknown'}",
        value=seen.value,
        unit=unit,
        limit=seen.limit,
        limit_source=seen.source,
        cause=seen.cause,
        fix=seen.fix,
        simulated=simulated,
    )


def _unmeasured(
    host: Host, seen: Iterable[tuple[Gpu, GpuResult]], simulated: bool
) -> list[Judgement]:
    reasons: dict[tuple[str, bool], list[str]] = {}
    open_ = Status.NOT_ASSESSED
    for gpu, one in seen:
        if one.status is open_:
            reasons.setdefault((one.cause, one.required), []).append(f"GPU {gpu.index}")
    return [
        not_assessed(
            place(host.name, *gpus),
            cause,
            required=required,
            simulated=simulated,
        )
        for (cause, required), gpus in reasons.items()
    ]


def _all_good(
    host: Host, seen: list[GpuResult], unlike: list[GpuResult], unit: str, simulated: bool
) -> Judgement:
    """Return the common value, or the first and last of several; ``unlike``: all different ones."""
    found = {one.value for one in unlike if one.value is not None}
    values = sorted(found, key=_order) if len(found) > 1 else list(found)
    value = values[0] if len(values) == 1 else None
    spread = f", {values[0]} to {values[-1]}" if len(values) > 1 else ""
    return passed(
        host.name,
        values[-1] if len(values) > 1 else value,
        unit=unit,
        limit=seen[0].limit,
        limit_source=seen[0].source,
        evidence=f"{plural(len(seen), 'GPU')}{spread}",
        simulated=simulated,
    )


def _order(value: Value) -> tuple[float, str]:
    return (float(value), "") if isinstance(value, int | float) else (0.0, str(value))
