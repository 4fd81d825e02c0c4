"""Each GPU of each host by itself: what its matrix products and its memory reach against limit, equals and data sheet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.adapters.remote import Remote
from appliance.benchmarks import ceilings
from appliance.benchmarks.batch import Book, Memory
from appliance.benchmarks.benchmark import Outcome, Raw
from appliance.benchmarks.blame.outliers import compare
from appliance.benchmarks.ceilings import Bounded, Most
from appliance.benchmarks.equals import Figure, in_container, judge_places
from appliance.benchmarks.gemm.figures import Device, Sweep, read
from appliance.benchmarks.gemm.gates import CHECKS, MEMORY, RATE
from appliance.benchmarks.jobs import HostAccess, HostOutput, Task, on_each
from appliance.benchmarks.reading import Unread
from appliance.checks.check import View, failed, judged, not_assessed
from appliance.models.gpu_counts import gpu_count
from appliance.models.result import CLUSTER, CheckResult, Measurement, Place, Status, place
from appliance.models.run import Table
from appliance.models.site import Role
from appliance.text import plural

PROGRAM = Path(__file__).with_name("multiply.py").read_text(encoding="utf-8")
SCRIPT = f"""
cat >multiply.py <<'APPLIANCE_END'
{PROGRAM}
APPLIANCE_END
exec python3 multiply.py host "$1"
"""
GET_TORCH = "install PyTorch with CUDA there (pip install torch), or set a container that has it: slurm.containers.benchmark"
TOOLS = {"python3": GET_TORCH}
START, EACH = 120.0, 160.0
"""s for PyTorch to load, and for each device; its own bound, within, is shorter."""
SERVICE = "drain the host: appliance validate dcgm --level 3, then run a field diagnostic"
FIXES = {
    RATE: "check there for a low power limit, locked clocks, heat or other work: nvidia-smi -q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE",
    MEMORY: "check there for a low memory clock, remapped rows or other work: nvidia-smi -q -d ECC,ROW_REMAPPER,CLOCK",
}
LEAST = {RATE: 10.0, MEMORY: 5.0}
"""Percent behind equals: own choice; in what power lets them multiply GPUs of one product differ by more than in their memory."""
COLUMNS = ("fp64", "tf32", "fp32", "fp16", "bf16")


@dataclass(frozen=True)
class Found:
    """Values by GPU, and devices without a value to judge."""

    devices: dict[Place, Device] = field(default_factory=dict)
    torch: dict[str, str] = field(default_factory=dict)
    results: list[CheckResult] = field(default_factory=list)


def run(view: View, remote: Remote, book: Book | None = None) -> Outcome:
    """All hosts side by side, each one's GPUs one after the other; hosts that share one machine one after the other."""
    hosts = [host.name for host in view.site.with_role(Role.GPU)]
    if not hosts:
        return Outcome((not_assessed(CLUSTER, "the site has no GPU host").of(RATE),))
    reach = HostAccess(remote, book or Memory())
    said: dict[str, HostOutput] = {}
    for group in _groups(view, hosts):
        said |= on_each(
            view, reach, task(view, group[0]), group, in_turn=in_container(view, group[0])
        )
    found = Found()
    for host in hosts:
        _read(view, host, said[host], found)
    results = [*found.results, *_compared(view, found)]
    measured = tuple(
        Measurement(name=r.id, value=r.value, unit=r.unit, target=r.target, simulated=r.simulated)
        for r in results
        if isinstance(r.value, float)
    )
    raw = tuple(Raw(f"{host}.json", one.output or one.cause) for host, one in said.items())
    return Outcome(tuple(results), measured, tuple(_tables(found)), raw)


def task(view: View, host: str) -> Task:
    """GPUs alone count; a host that shares its machine, as in a virtual rack, may show its processors."""
    shared, gpus = in_container(view, host), _gpus(view, host)
    seconds = START + EACH * (1 if shared else gpus)
    allowed = "processors" if shared else "gpus"
    return Task("gemm", SCRIPT, seconds, TOOLS, "", (allowed,), gpus=gpus, contained=True)


def _gpus(view: View, host: str) -> int:
    return gpu_count(view.profile, view.site.host(host))


def _groups(view: View, hosts: Sequence[str]) -> Iterator[list[str]]:
    """Hosts that get the same task."""
    groups: dict[object, list[str]] = {}
    for host in hosts:
        groups.setdefault((_gpus(view, host), in_container(view, host)), []).append(host)
    yield from groups.values()


def _read(view: View, host: str, one: HostOutput, found: Found) -> None:
    """Sorts the output of a host into values and results without values."""
    simulated = in_container(view, host)
    if one.trouble:
        found.results.extend(one.verdict(check, host, simulated=simulated) for check in CHECKS)
        return
    try:
        if one.code:
            raise Unread(f"it ended with {one.code}: {one.last or 'no reason given'}")
        sweep = read(one.output)
        if len(sweep.devices) > max(1, _gpus(view, host)):
            raise Unread(
                f"it lists {plural(len(sweep.devices), 'device')}, the host has {_gpus(view, host)}"
            )
    except Unread as error:
        fix = "check the raw output next to the report, and run it again"
        bad = judged(host, Status.ERROR, cause=str(error), fix=fix, simulated=simulated)
        found.results.extend(bad.of(check) for check in CHECKS)
        return
    if unfit := _unfit(view, host, sweep):
        why, fix = unfit
        unknown = not_assessed(host, why, fix=fix, simulated=simulated)
        found.results.extend(unknown.of(check) for check in CHECKS)
        return
    found.torch[host] = sweep.torch
    for device in sweep.devices:
        _sort(host, device, simulated, found)
    seen = {device.index for device in sweep.devices if device.kind == "gpu"}
    for index in sorted(set(range(_gpus(view, host))) - seen) if seen else ():
        cause = "PyTorch does not see it"
        fix = "check that it is on the PCI bus: appliance health; then check CUDA_VISIBLE_DEVICES and the driver's release"
        at = place(host, f"GPU {index}")
        bad = judged(at, Status.ERROR, cause=cause, fix=fix, simulated=simulated)
        found.results.extend(bad.of(check) for check in CHECKS)


def _unfit(view: View, host: str, sweep: Sweep) -> tuple[str, str] | None:
    """The reason why the measurement differs from the request, with the remedy."""
    if not sweep.torch:
        return f"PyTorch does not load on the host: {sweep.why or 'no reason given'}", GET_TORCH
    if not sweep.devices:
        return f"PyTorch {sweep.torch} sees no GPU there", GET_TORCH
    if any(device.kind != "gpu" for device in sweep.devices) and not in_container(view, host):
        return "only its CPUs were measured, no GPU", GET_TORCH
    if any("MIG" in device.name or device.uuid.startswith("MIG") for device in sweep.devices):
        return (
            "its GPUs are in MIG mode",
            "disable MIG during the measurement: appliance mig",
        )
    return None


def _sort(host: str, device: Device, simulated: bool, found: Found) -> None:
    at = place(host, device.part)
    shown: dict[str, Any] = {"evidence": _who(device), "simulated": simulated}
    if device.error:
        fix = "run appliance health; check dmesg there for Xids and out of memory; stop other work on it"
        cause = f"it was not measured: {device.error}"
        bad = judged(at, Status.ERROR, cause=cause, fix=fix, **shown)
        found.results.extend(bad.of(check) for check in CHECKS)
        return
    wrong = {p.dtype for p in device.products if p.wrong}
    spoiled = {s.what for s in device.streams if s.wrong}
    if not wrong and not spoiled:
        found.devices[at] = device
        return
    if wrong:
        cause = f"it computes wrong results: products in {', '.join(sorted(wrong))} are wrong"
        found.results.append(failed(at, cause, SERVICE, **shown).of(RATE))
    if spoiled:
        cause = f"its memory returns other values than were written: {', '.join(sorted(spoiled))}"
        found.results.append(failed(at, cause, SERVICE, **shown).of(MEMORY))
    # An earlier run's word on it is overtaken.
    why = "it computes wrong values, so none of its figures count"
    for check, false in ((RATE, wrong), (MEMORY, spoiled)):
        if not false:
            found.results.append(not_assessed(at, why, **shown).of(check))


def _who(device: Device) -> str:
    return " ".join(filter(None, (device.name, device.uuid)))


def _compared(view: View, found: Found) -> Iterator[CheckResult]:
    """Compares devices of one product on all hosts. For secondary types, only outliers are reported."""
    products: dict[tuple[str, str], dict[Place, Device]] = {}
    for at, device in found.devices.items():
        products.setdefault((device.name, device.leading), {})[at] = device
    for (_, leading), devices in products.items():
        others = {dtype for device in devices.values() for dtype in device.best} - {leading}
        good = dict(devices)
        for at, result in _impossible(view, devices):
            del good[at]
            yield result
        yield from _led(view, good, found, leading)
        for dtype in sorted(others):
            yield from _behind(view, good, dtype)
        yield from _streamed(view, devices)


def _figure(check: str, what: str, device: Device) -> Figure:
    unit = "TFLOPS" if check == RATE else "GB/s"
    equals = "GPUs" if device.kind == "gpu" else "hosts"
    return Figure(check, what, unit, FIXES[check], LEAST[check], equals=equals)


def _bound(device: Device, dtype: str) -> Bounded:
    if device.kind != "gpu":
        return "processors"
    return ceilings.of_product(device.name, dtype)


def _impossible(view: View, devices: Mapping[Place, Device]) -> Iterator[tuple[Place, CheckResult]]:
    """Those whose products, of any type, are faster than such a GPU can be."""
    for at, device in devices.items():
        for dtype, best in device.best.items():
            bound = _bound(device, dtype)
            if isinstance(bound, Most) and bound.passed_by(best.tflops):
                yield at, _above_ceiling(view, RATE, at, best.tflops, f"products in {dtype}", bound)
                break


def _above_ceiling(
    view: View, check: str, at: Place, value: float, what: str, bound: Most
) -> CheckResult:
    unit = "TFLOPS" if check == RATE else "GB/s"
    cause = f"{what} cannot reach {value:.4g} {unit}: {ceilings.bound_text(bound, unit)}"
    fix = "run multiply.py by hand on the host and check its clock and the GPU's product"
    return judged(
        at,
        Status.ERROR,
        value=float(f"{value:.4g}"),
        unit=unit,
        cause=cause,
        fix=fix,
        simulated=in_container(view, at.host or ""),
    ).of(check)


def _led(
    view: View, devices: Mapping[Place, Device], found: Found, leading: str
) -> Iterator[CheckResult]:
    """Each device's verdict on its products, by the type that it is judged by."""
    if not devices:
        return
    values = {at: device.best[leading].tflops for at, device in devices.items()}
    evidence = {}
    for at, device in devices.items():
        each = [f"{p.dtype} {p.tflops:.4g} ({p.size})" for p in device.best.values()]
        told = ceilings.bound_text(_bound(device, leading), "TFLOPS")
        torch = f"PyTorch {found.torch[at.host or '']}"
        evidence[at] = f"{leading}, best of {', '.join(each)}; {_who(device)}; {torch}; {told}"
    figure = _figure(RATE, f"its rate of {leading} products", next(iter(devices.values())))
    yield from judge_places(view, figure, values, evidence)


def _behind(view: View, devices: Mapping[Place, Device], dtype: str) -> Iterator[CheckResult]:
    """Devices that are slow in a type that they are not judged by."""
    named = {str(at): at for at, device in devices.items() if dtype in device.best}
    values = {name: devices[at].best[dtype].tflops for name, at in named.items()}
    for one in compare(values, least=LEAST[RATE]).outliers:
        at = named[one.name]
        host = at.host or ""
        cause = f"its rate of {dtype} products is {one.percent:.0f} % worse than the median of {len(values)} equal GPUs"
        yield failed(
            place(host, *at.parts, dtype),
            cause,
            FIXES[RATE],
            value=float(f"{one.value:.4g}"),
            unit="TFLOPS",
            limit=float(f"{one.median:.4g}"),
            limit_source=f"median of {len(values)}, less {LEAST[RATE]:g} %",
            names=(host,),
            evidence=_who(devices[at]),
            simulated=in_container(view, host),
        ).of(RATE)


def _streamed(view: View, devices: Mapping[Place, Device]) -> Iterator[CheckResult]:
    values, evidence = {}, {}
    for at, device in devices.items():
        rate = device.way.gbps
        bound: Bounded = "processors"
        if device.kind == "gpu":
            bound = ceilings.of_gpu_memory(device.name)
        if isinstance(bound, Most) and bound.passed_by(rate):
            yield _above_ceiling(view, MEMORY, at, rate, "its memory", bound)
            continue
        values[at] = rate
        each = [f"{s.what} {s.gbps:.4g}" for s in device.streams]
        size = f"buffers of {device.way.octets >> 20} MiB"
        told = ceilings.bound_text(bound, "GB/s")
        evidence[at] = f"best of {', '.join(each)}, {size}; {_who(device)}; {told}"
    if values:
        figure = _figure(MEMORY, "its memory bandwidth", next(iter(devices.values())))
        yield from judge_places(view, figure, values, evidence)


def _tables(found: Found) -> Iterator[Table]:
    """Every device's best of each type, and both ways through its memory."""
    if not found.devices:
        return
    types = [t for t in COLUMNS if any(t in d.best for d in found.devices.values())]
    rows = tuple(
        (
            str(at),
            device.uuid,
            *(round(device.best[t].tflops, 3) if t in device.best else None for t in types),
            *(round(s.gbps, 1) for s in sorted(device.streams, key=lambda s: s.what)),
        )
        for at, device in found.devices.items()
    )
    columns = ("device", "UUID", *(f"{t} TFLOPS" for t in types), "copy GB/s", "triad GB/s")
    yield Table(title="Matrix products and memory of each GPU", columns=columns, rows=rows)
