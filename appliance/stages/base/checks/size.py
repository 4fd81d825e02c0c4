"""Compares processors, memory and NUMA nodes of a host with its class. A host without GPUs has a class only if the site names one."""

from collections.abc import Iterable

from appliance.checks.check import View, failed, not_assessed, passed
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.text import counted, plural

GIB = 1 << 30
PROCESSORS = (
    "run lscpu on the host; a missing processor is offline, disabled in the firmware, or failed "
    "(see the BMC's event log)"
)
MODULES = "dmidecode -t memory on the host lists every slot; reseat or replace the empty or disabled module"
NODES = "run numactl --hardware on the host; disable node interleaving in the firmware (AMD: NPS1 or more)"


def judge_cpu(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass with at least the sockets and cores of the class."""
    if not host.has_class:
        return
    expected = view.profile.hardware.host
    cpu = facts.cpu
    yield from _at_least(view, host, facts, "cpu", cpu.cores, expected.cores, "cores", PROCESSORS)
    if 0 < cpu.sockets < expected.sockets and not _borrowed(facts, "cpu"):
        cause = f"{plural(cpu.sockets, 'socket')}, the class has {expected.sockets}"
        yield failed(
            place(host.name, "sockets"),
            cause,
            PROCESSORS,
            value=cpu.sockets,
            limit=expected.sockets,
        )


def judge_memory_size(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass with at least the memory of the class."""
    if not host.has_class:
        return []
    expected = view.profile.hardware.host.memory_gib
    found = facts.memory.total // GIB
    return _at_least(view, host, facts, "memory", found, expected, "GiB", MODULES)


def judge_numa(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass with at least the NUMA nodes of the class; nodes without memory or processors do not count."""
    if not host.has_class:
        return []
    expected = view.profile.hardware.host.numa_nodes
    found = sum(1 for node in facts.numa if node.cpus and node.memory)
    return _at_least(view, host, facts, "numa", found, expected, "NUMA nodes", NODES)


def _at_least(
    view: View,
    host: Host,
    facts: HostFacts,
    area: str,
    found: int,
    bound: int,
    unit: str,
    fix: str,
) -> Iterable[Judgement]:
    common = {"unit": unit, "limit": bound, "limit_source": f"profile {view.profile.name}"}
    if reason := _borrowed(facts, area):
        return [not_assessed(host.name, reason, required=False, **common)]
    # The probe's area "cpu" reads memory and NUMA nodes, too.
    if "cpu" in facts.errors or not found:
        return [not_assessed(host.name, facts.gap("cpu"), **common)]
    if found >= bound:
        return [passed(host.name, found, **common)]
    cause = f"{counted(found, unit)}, the class has {bound}"
    return [failed(host.name, cause, fix, value=found, **common)]


def _borrowed(facts: HostFacts, area: str) -> str:
    """Return why the figure is not this host's own; empty if it is."""
    if facts.os.container:
        return "container host shares its machine's processors"
    return f"{area} is simulated" if {area, "host"} & set(facts.simulated) else ""
