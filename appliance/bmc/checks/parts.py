"""Checks that the hardware of the class is present: processors, memory, GPUs, HCAs, drives."""

from collections.abc import Iterable, Sequence

from appliance.checks.check import BmcCheck, View, failed, not_assessed, passed, warned
from appliance.models.bmc import BmcArea, BmcFacts, Condition, Device, DeviceKind, Part
from appliance.models.gpu_counts import gpu_count
from appliance.models.result import Judgement, place
from appliance.models.site import Host, Role
from appliance.text import counted, plural

GIB = 1 << 30
POWERED_OFF = "the machine is off, and its BMC shows some parts only while it is on"
ON = "On"


def judge_processors(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """Sockets and cores are at least the class's, and every processor is healthy."""
    yield from ill(host, facts.processors)
    if not host.has_class:
        return
    expected = view.profile.hardware.host
    sockets = len(facts.processors) or facts.machine.processors
    yield from _at_least(
        view,
        host,
        facts,
        BmcArea.PROCESSORS,
        sockets,
        expected.sockets,
        "sockets",
    )
    cores = [p.cores for p in facts.processors]
    if sockets and sockets >= expected.sockets and cores and None not in cores:
        total = sum(c or 0 for c in cores)
        if total < expected.cores:
            cause = f"found {total} cores, expected {expected.cores}"
            fix = "check in the firmware setup whether cores are disabled; otherwise the processors are of another model"
            yield failed(place(host.name, "cores"), cause, fix, value=total)


def judge_memory(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """Memory is at least the class's, and every module is healthy."""
    yield from ill(host, facts.modules)
    if not host.has_class:
        return
    sizes = [m.capacity_mib for m in facts.modules]
    found: int | None = None
    if sizes and None not in sizes:
        found = sum(s or 0 for s in sizes) >> 10
    elif facts.machine.memory_gib:
        found = int(facts.machine.memory_gib)
    wanted = view.profile.hardware.host.memory_gib
    yield from _at_least(view, host, facts, BmcArea.MEMORY, found, wanted, "GiB")


def judge_gpus(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """The host has the expected number of GPUs, and every one is healthy."""
    if Role.GPU not in host.roles:
        return
    gpus = facts.of_kind(DeviceKind.GPU)
    yield from ill(host, gpus)
    wanted = gpu_count(view.profile, host)
    if len(gpus) > wanted:
        cause = f"found {plural(len(gpus), 'GPU')}, expected {wanted}"
        fix = "correct hosts[].gpus in site.yml, or choose the profile of this hardware"
        yield failed(host.name, cause, fix, value=len(gpus), limit=wanted, unit="GPUs")
    else:
        yield from _at_least(view, host, facts, BmcArea.DEVICES, len(gpus) or None, wanted, "GPUs")
    yield from _narrow(host, view.profile.hardware.gpu.pcie_width, gpus)


def judge_hcas(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """HCAs are healthy; a BMC lists cards, the profile counts ports, of which a card has one or two."""
    if not host.has_class or not view.profile.hardware.fabric.ports:
        return
    hcas = facts.of_kind(DeviceKind.HCA)
    yield from ill(host, hcas)
    ports = view.profile.hardware.fabric.ports
    least = -(-ports // 2)
    common = {"unit": "cards", "limit": least, "limit_source": f"profile {view.profile.name}"}
    if not hcas or (len(hcas) < least and BmcArea.DEVICES in facts.unread):
        why = facts.unread.get(BmcArea.DEVICES) or "its BMC lists no HCAs"
        yield not_assessed(host.name, _off(facts) or why, **common)
    elif len(hcas) < least:
        cause = f"found {plural(len(hcas), 'HCA')}, expected at least {least} for {plural(ports, 'port')}"
        yield failed(host.name, cause, _reseat(host), value=len(hcas), **common)
    else:
        yield passed(host.name, len(hcas), **common)


def judge_drives(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """Drives are healthy, and together as large as the class's system disk and scratch."""
    yield from ill(host, facts.drives)
    for drive in facts.drives:
        if drive.failing:
            cause = f"{drive.model or 'the drive'} {drive.serial} predicts its failure"
            fix = "save its data, then replace it"
            yield failed(place(host.name, drive.name), cause, fix, aspect="failure predicted")
    if not host.has_class:
        return
    expected = view.profile.hardware.host
    wanted = expected.system_disk_gib + expected.scratch_disk_gib
    sizes = [d.capacity for d in facts.drives]
    known = sum(s or 0 for s in sizes) // GIB if sizes and None not in sizes else None
    yield from _at_least(view, host, facts, BmcArea.DRIVES, known, wanted, "GiB")


def ill(host: Host, parts: Sequence[Part]) -> Iterable[Judgement]:
    """One failure or warning for each part that the BMC does not report as OK."""
    for part in parts:
        said = f"its BMC reports {part.condition} for {part.name}"
        fix = "check its event log (bmc.events); reseat or replace the part"
        if part.condition is Condition.CRITICAL:
            yield failed(place(host.name, part.name), said, fix, value=part.condition)
        elif part.condition is Condition.WARNING:
            yield warned(place(host.name, part.name), said, fix, value=part.condition)


def _narrow(host: Host, width: int, gpus: Sequence[Device]) -> Iterable[Judgement]:
    for gpu in gpus:
        if gpu.lanes and gpu.lanes < width:
            cause = f"{gpu.name} runs on {plural(gpu.lanes, 'PCIe lane')}, expected {width}"
            fix = "reseat the card or its riser; check in the firmware setup whether the slot is bifurcated"
            yield failed(place(host.name, gpu.name), cause, fix, value=gpu.lanes)


def _at_least(
    view: View,
    host: Host,
    facts: BmcFacts,
    area: BmcArea,
    found: int | None,
    wanted: int,
    unit: str,
) -> Iterable[Judgement]:
    """Good if enough was found; too few is a fault only if everything was read."""
    common = {"unit": unit, "limit": wanted, "limit_source": f"profile {view.profile.name}"}
    if found is not None and found >= wanted:
        yield passed(host.name, found, **common)
    elif found is None or area in facts.unread or _off(facts):
        why = _off(facts) or facts.unread.get(area) or f"its BMC does not report how many {unit}"
        yield not_assessed(host.name, why, value=found, **common)
    else:
        cause = f"found {counted(found, unit)}, expected {wanted}"
        yield failed(host.name, cause, _reseat(host), value=found, **common)


def _reseat(host: Host) -> str:
    return f"power the machine off, reseat the missing parts, then: appliance discover --hosts {host.name}"


def _off(facts: BmcFacts) -> str:
    return POWERED_OFF if facts.machine.power not in {ON, ""} else ""


CHECKS = (
    BmcCheck(
        id="bmc.processors",
        title="Processors are present and healthy",
        judge=judge_processors,
        limit="hardware.host.sockets and cores of the profile",
        explain="Processors as counted by the BMC, even without an operating system. A missing one was not detected at "
        "power-on: a bent pin, or a socket disabled by the firmware.",
    ),
    BmcCheck(
        id="bmc.memory",
        title="Memory modules are present and healthy",
        judge=judge_memory,
        limit="hardware.host.memory_gib of the profile",
        explain="The size of all modules together, and the state of each. The firmware disables a module that failed its training "
        "at power-on; the operating system only sees less memory.",
    ),
    BmcCheck(
        id="bmc.gpus",
        title="GPUs are present and healthy",
        judge=judge_gpus,
        limit="hosts[].gpus of the site, else hardware.gpu.count of the profile; hardware.gpu.pcie_width",
        explain="GPUs as listed by the BMC among processors or PCIe devices, with their lanes. Some BMCs list them only "
        "while the machine is on, some never: then nothing is judged.",
    ),
    BmcCheck(
        id="bmc.hcas",
        title="HCAs are present and healthy",
        judge=judge_hcas,
        limit="half of hardware.fabric.ports of the profile, because a card has up to two ports",
        explain="HCAs as listed by the BMC among network adapters or PCIe devices. The checks of stage fabric judge their ports; "
        "this check also works without an operating system.",
    ),
    BmcCheck(
        id="bmc.drives",
        title="Drives are present and healthy",
        judge=judge_drives,
        limit="hardware.host.system_disk_gib and scratch_disk_gib of the profile, together",
        explain="Local drives, their total size, and whether one predicts its failure. Drives behind a storage controller "
        "that the firmware does not support are not listed.",
    ),
)
