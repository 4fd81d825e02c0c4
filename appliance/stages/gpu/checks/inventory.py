"""Checks whether all GPUs are present, of the right product, and answer."""

from collections.abc import Iterable

from appliance.checks.check import View, failed, not_assessed, passed
from appliance.models.facts import HostFacts
from appliance.models.gpu_counts import gpu_count
from appliance.models.result import Judgement, Status, place
from appliance.models.site import Host
from appliance.stages.gpu.checks.each import (
    GpuResult,
    address,
    bad,
    devices,
    each,
    good,
    is_simulated,
    silence,
    unknown,
)
from appliance.stages.gpu.facts import Gpu
from appliance.text import plural

GB = 10**9
LOST = "drain and reboot the host; if it is lost again, check for Xid 79 (gpu.xid), then reseat or replace it"


def judge_count(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass with the class's number of GPUs, on the PCI bus and in the driver."""
    expected = gpu_count(view.profile, host)
    common: dict[str, object] = {
        "unit": "GPUs",
        "limit": expected,
        "limit_source": "hosts[].gpus" if host.gpus else f"profile {view.profile.name}",
        "simulated": is_simulated(facts),
    }
    if facts.pci_gpus is None:
        return [not_assessed(host.name, silence(facts), **common)]
    results = _on_bus(view, host, facts, common)
    if facts.gpus is None:
        why = silence(facts).after("the driver could not be queried:  ")
        return results or [not_assessed(host.name, why, **common)]
    results += _fallen_off(host, facts, common)
    answering = sum(1 for gpu in devices(facts) if gpu.bus_id)
    if not results and answering != facts.pci_gpus:
        cause = f"the driver lists {plural(answering, 'GPU')}, the PCI bus has {facts.pci_gpus}"
        results = [failed(host.name, cause, LOST, value=answering, **common)]
    return results or [passed(host.name, answering, **common)]


def _on_bus(view: View, host: Host, facts: HostFacts, common: dict[str, object]) -> list[Judgement]:
    expected = gpu_count(view.profile, host)
    if facts.pci_gpus == expected:
        return []
    missing = _missing_addresses(view, host, facts)
    whose = "site.yml lists" if host.gpus else "the class has"
    cause = (
        f"{plural(facts.pci_gpus or 0, 'GPU is', 'GPUs are')} on the PCI bus, {whose} {expected}"
    )
    cause += f"; none at {', '.join(missing)}, where the other hosts have one" if missing else ""
    fix = "power the host off and on; if it is still missing, power off again, and reseat it and its power cable (lspci -d 10de: lists the present ones); if it was never installed, set hosts[].gpus in site.yml"
    if (facts.pci_gpus or 0) > expected:
        fix = (
            "lspci -d 10de: lists them; choose the profile of this hardware, or remove excess GPUs"
        )
    return [failed(host.name, cause, fix, value=facts.pci_gpus, **common)]


def _fallen_off(host: Host, facts: HostFacts, common: dict[str, object]) -> list[Judgement]:
    answering = {address(gpu.bus_id) for gpu in devices(facts) if gpu.bus_id}
    cause = "it is on the PCI bus, but the driver has lost it"
    return [
        failed(place(host.name, at), cause, LOST, value=len(answering), **common)
        for at in facts.pci_gpu_ids
        if address(at) not in answering
    ]


def _missing_addresses(view: View, host: Host, facts: HostFacts) -> list[str]:
    """Return addresses at which complete hosts of the site have a GPU and this one has none."""
    others = (
        set(other.pci_gpu_ids)
        for name, other in view.facts.items()
        if name != host.name
        and view.profile_of(name) is view.profile
        and other.pci_gpus == gpu_count(view.profile, host)
    )
    complete = list(others)
    alike = complete and all(ids == complete[0] for ids in complete)
    return sorted(complete[0] - set(facts.pci_gpu_ids)) if alike else []


def judge_model(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if all GPUs are of one product that the class accepts."""
    accepted = view.profile.hardware.gpu.models
    limit, source = ", ".join(accepted), f"profile {view.profile.name}"

    def judge(gpu: Gpu) -> GpuResult:
        if not gpu.name:
            return unknown("the driver does not report its name")
        if gpu.name in accepted:
            return good(gpu.name, limit, source)
        cause = f"{gpu.name} is not a GPU of this class"
        fix = "choose the profile of this hardware, or add the name to hardware.gpu.models of your own profile"
        return bad(gpu.name, cause, fix, limit, source)

    results = each(host, facts, judge)
    names = sorted({gpu.name for gpu in devices(facts) if gpu.name})
    if len(names) > 1 and set(names) <= set(accepted):
        cause = f"different GPUs in one host: {' and '.join(names)}"
        fix = (
            "a job over all of them runs at the pace of the slower: install equal GPUs in the host"
        )
        mixed = {"value": len(names), "limit": 1, "simulated": is_simulated(facts)}
        results = [r for r in results if r.status is not Status.PASS] + [
            failed(host.name, cause, fix, **mixed)
        ]
    return results


def judge_memory(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass with at least the memory of the class; a label of 80 GB means at least 80 billion bytes."""
    least, source = view.profile.hardware.gpu.memory_gib, f"profile {view.profile.name}"

    def judge(gpu: Gpu) -> GpuResult:
        if not gpu.memory:
            return unknown("its memory was not read")
        found = round(gpu.memory / GB, 1)
        if gpu.memory >= least * GB:
            return good(found, least, source)
        cause = f"{found} GB of memory, the class has {least} GB"
        fix = "compare its part number (nvidia-smi -q) with the order; if the part is correct, replace it"
        return bad(found, cause, fix, least, source)

    return each(host, facts, judge, "GB")


def judge_error(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if NVML answers every query about every GPU."""
    del view
    found, simulated = devices(facts), is_simulated(facts)
    if not found:
        return [not_assessed(host.name, silence(facts), simulated=simulated)]
    ill = [gpu for gpu in found if gpu.error or not gpu.bus_id]
    if not ill:
        evidence = plural(len(found), "GPU")
        return [passed(host.name, 0, limit=0, evidence=evidence, simulated=simulated)]
    return [
        failed(
            place(host.name, f"GPU {gpu.index}"),
            f"the driver cannot reach it: {gpu.error or 'no address'}",
            f"drain the host, nvidia-smi --gpu-reset -i {gpu.index}; if it stays lost, reboot; if it is lost again, reseat or replace it",
            simulated=simulated,
        )
        for gpu in ill
    ]
