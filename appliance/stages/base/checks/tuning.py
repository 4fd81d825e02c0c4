"""Compares settings of processors, memory and PCIe with the profile; what it does not set is not judged."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.models.facts import HostFacts
from appliance.models.facts_host import PcieSettings, Tuning
from appliance.models.profile import Tuning as Wanted
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.text import plural

Told = Mapping[str, Any]
KERNEL = "kernel.org, admin-guide"
ADAPTER = "NVIDIA, Understanding PCIe Configuration for Maximum Performance"
NCCL = "NVIDIA, NCCL user guide, troubleshooting"
BORROWED = "the settings belong to the container's machine"
BLOCKING = {0x01: "SrcValid", 0x04: "ReqRedir", 0x08: "CmpltRedir", 0x20: "EgressCtrl"}
"""Bits of ACS Control that block or redirect traffic between devices (linux/pci_regs.h), as named by lspci."""
FREQUENCY = "let the operating system control the frequency in the firmware's setup (OSPM or OS control; on Intel HWP native)"
PASSTHROUGH = (
    "add iommu=pt to GRUB_CMDLINE_LINUX in /etc/default/grub on {host}; run update-grub (RHEL: grubby --update-kernel=ALL "
    "--args=iommu=pt); reboot"
)
ORDERING = (
    "enable PCIe relaxed ordering in the firmware's setup (servers[].bios of the profile; appliance bios apply) and reboot; "
    "journalctl -k -g 'Relaxed Ordering' on {host} shows whether the kernel disabled it for this chipset"
)
"""Why relaxed ordering matters: without it, an adapter loses bandwidth on some processors."""


def judge_tuning(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge governor, transparent huge pages and idle states, as far as the profile sets them."""
    wanted, found = view.profile.stages.tuning, facts.tuning
    if not (wanted.governor or wanted.transparent_huge_pages or wanted.idle_latency_us):
        return []
    if found is None or facts.os.container:
        return [_unread(host, facts)]
    return [
        *_governor(host, wanted, found),
        *_huge_pages(host, wanted, found),
        *_idle(host, wanted, found),
    ]


def _unread(host: Host, facts: HostFacts) -> Judgement:
    is_lent = bool(facts.os.container) and "tuning" not in facts.errors
    return not_assessed(
        host.name, BORROWED if is_lent else facts.gap("tuning"), required=not is_lent
    )


def _again(host: Host) -> str:
    return f"appliance deploy --stage base --hosts {host.name} sets it"


def _governor(host: Host, wanted: Wanted, found: Tuning) -> Iterator[Judgement]:
    if wanted.governor is None:
        return
    at, common = place(host.name, "governor"), {"limit": wanted.governor, "limit_source": KERNEL}
    others = {name: count for name, count in found.governors.items() if name != wanted.governor}
    if not found.governors:
        why = "the kernel has no frequency driver for these processors"
        yield not_assessed(at, why, fix=FREQUENCY, required=False, **common)
    elif others:
        name = max(others, key=lambda one: others[one])
        count = sum(others.values())
        cause = f"governor {name}, not {wanted.governor}, on {count} of {plural(sum(found.governors.values()), 'frequency policy', 'frequency policies')}"
        yield failed(at, cause, _again(host), value=name, **common)
    else:
        yield passed(at, wanted.governor, **common)


def _huge_pages(host: Host, wanted: Wanted, found: Tuning) -> Iterator[Judgement]:
    if wanted.transparent_huge_pages is None:
        return
    at = place(host.name, "transparent huge pages")
    common = {"limit": wanted.transparent_huge_pages, "limit_source": KERNEL}
    if not found.huge_pages:
        why = "the kernel has no transparent huge pages"
        yield not_assessed(at, why, required=False, **common)
    elif found.huge_pages != wanted.transparent_huge_pages:
        cause = (
            f"transparent huge pages are {found.huge_pages}, not {wanted.transparent_huge_pages}"
        )
        yield failed(at, cause, _again(host), value=found.huge_pages, **common)
    else:
        yield passed(at, found.huge_pages, **common)


def _idle(host: Host, wanted: Wanted, found: Tuning) -> Iterator[Judgement]:
    most = wanted.idle_latency_us
    if most is None:
        return
    at = place(host.name, "idle states")
    common: Told = {"unit": "us", "limit": most, "limit_source": KERNEL}
    latency = found.idle_latency_us
    if latency is None:
        yield not_assessed(
            at, "the kernel has no idle states of these processors", required=False, **common
        )
    elif latency > most:
        cause = (
            f"processors enter idle states that they need {latency} us to leave, more than {most}"
        )
        yield failed(at, cause, _again(host), value=latency, **common)
    else:
        yield passed(at, latency, **common)


def judge_pcie_tuning(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge ACS of the bridges above GPUs and adapters, and the adapters' read requests."""
    wanted, found = view.profile.stages.tuning, facts.tuning
    if not (wanted.acs_disabled or wanted.read_request):
        return []
    if found is None or facts.os.container:
        return [_unread(host, facts)]
    told = {"simulated": bool(facts.simulated)}
    return [*_acs(host, wanted, found, told), *_requests(host, wanted, found, told)]


def _acs(host: Host, wanted: Wanted, found: Tuning, told: Told) -> Iterator[Judgement]:
    if not wanted.acs_disabled or not found.devices:
        return
    at = place(host.name, "ACS")
    common: Told = {"unit": "bridges", "limit": 0, "limit_source": NCCL, **told}
    blocking = {one: bits for one, bits in found.access_control.items() if _named(bits)}
    if blocking:
        first, bits = next(iter(blocking.items()))
        cause = f"{plural(len(blocking), 'PCIe bridge')} above GPUs and adapters with ACS: {first} has {', '.join(_named(bits))}"
        fix = f"{_again(host)}; or disable ACS in the firmware's setup. On the host: setpci -s {first} ECAP_ACS+6.w"
        evidence = ", ".join(blocking)
        yield failed(at, cause, fix, value=len(blocking), evidence=evidence, **common)
    elif found.bridges_unread:
        why = f"{plural(found.bridges_unread, 'PCIe bridge')} could not be read"
        yield not_assessed(at, why, required=False, **common)
    elif not found.bridges:
        yield not_assessed(
            at, "no PCIe bridge is above the GPUs and adapters", required=False, **common
        )
    else:
        yield passed(at, 0, evidence=plural(found.bridges, "bridge"), **common)


def _named(bits: int) -> list[str]:
    return [name for bit, name in BLOCKING.items() if bits & bit]


def _requests(host: Host, wanted: Wanted, found: Tuning, told: Told) -> Iterator[Judgement]:
    adapters = [one for one in found.devices if one.kind == "adapter"]
    size = wanted.read_request
    if size is None or not adapters:
        return
    common: Told = {"unit": "bytes", "limit": size, "limit_source": ADAPTER, **told}
    good = 0
    for one in adapters:
        at = place(host.name, "read requests", *one.at)
        if one.read_request is None:
            yield not_assessed(at, _unreadable(one.at), required=False, **common)
        elif one.read_request != size:
            cause = f"adapter {one.at[0]} reads in requests of {one.read_request} bytes, not {size}"
            yield failed(at, cause, _again(host), value=one.read_request, **common)
        else:
            good += len(one.at)
    if good == sum(len(one.at) for one in adapters):
        at = place(host.name, "read requests")
        yield passed(at, size, evidence=plural(good, "adapter"), **common)


def _unreadable(at: Sequence[str]) -> str:
    return f"the PCIe settings of {', '.join(at)} could not be read"


def judge_pcie_firmware(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge IOMMU and relaxed ordering of GPUs and adapters, which only a boot changes."""
    wanted, found = view.profile.stages.tuning, facts.tuning
    if not (wanted.iommu_passthrough or wanted.relaxed_ordering):
        return []
    if found is None or facts.os.container:
        return [_unread(host, facts)]
    results: list[Judgement] = []
    told = {"simulated": bool(facts.simulated)}
    if wanted.iommu_passthrough and found.devices:
        results += _iommu(host, found, told)
    if wanted.relaxed_ordering and found.devices:
        results += _ordering(host, found, told)
    return results


def _iommu(host: Host, found: Tuning, told: Told) -> Iterator[Judgement]:
    """Judge the IOMMU: none is as good as passthrough mode."""
    common: Told = {"limit": "identity", "limit_source": f"{KERNEL}; {NCCL}", **told}
    other = [one for one in found.devices if one.iommu not in {"", "identity"}]
    for one in other:
        at = place(host.name, "IOMMU", *one.at)
        if one.iommu == "unknown":
            why = f"the mode of the IOMMU of {', '.join(one.at)} could not be read"
            yield not_assessed(at, why, required=False, **common)
            continue
        cause = f"the IOMMU translates addresses of {one.kind} {one.at[0]} (mode {one.iommu})"
        fix = PASSTHROUGH.format(host=host.name)
        evidence = " ".join(found.command_line)
        yield failed(at, cause, fix, value=one.iommu, evidence=evidence, **common)
    if not other:
        mode = "identity" if any(one.iommu for one in found.devices) else "no IOMMU"
        yield passed(place(host.name, "IOMMU"), mode, **common)


def _ordering(host: Host, found: Tuning, told: Told) -> Iterator[Judgement]:
    common: Told = {"limit": "on", "limit_source": ADAPTER, **told}
    complaints: list[Judgement] = []
    for one in found.devices:
        at = place(host.name, "relaxed ordering", *one.at)
        if one.relaxed is None:
            complaints.append(not_assessed(at, _unreadable(one.at), required=False, **common))
        elif not one.relaxed:
            cause = f"{one.kind} {one.at[0]} may not relax the order of its writes: {_count(one)}"
            fix = ORDERING.format(host=host.name)
            complain = failed if one.kind == "adapter" else warned
            complaints.append(complain(at, cause, fix, value="off", **common))
    yield from complaints or [passed(place(host.name, "relaxed ordering"), "on", **common)]


def _count(one: PcieSettings) -> str:
    return f"{plural(len(one.at), one.kind)} with RlxdOrd-"
