"""The size of a GPU host against its class: processors, memory, NUMA nodes."""

from collections.abc import Iterable

from appliance.checks.check import View, failed, not_assessed, passed
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult
from appliance.models.site import Host

GIB = 1 << 30


def judge_cpu(view: View, host: Host, facts: HostFacts) -> Iterable[CheckResult]:
    """Sockets and cores are at least the class's."""
    expected = view.profile.hardware.host
    cpu = facts.cpu
    yield from _at_least(view, host, facts, "base.cpu", "cpu", cpu.cores, expected.cores, "cores")
    if cpu.sockets < expected.sockets and not _borrowed(facts, "cpu"):
        cause = f"{cpu.sockets} sockets, the class has {expected.sockets}"
        fix = "the management controller's inventory shows whether the second processor is seen"
        yield failed(
            "base.cpu",
            f"{host.name}/sockets",
            cause,
            fix,
            value=cpu.sockets,
            limit=expected.sockets,
        )


def judge_memory_size(view: View, host: Host, facts: HostFacts) -> Iterable[CheckResult]:
    """The kernel found at least the class's memory."""
    expected = view.profile.hardware.host.memory_gib
    found = facts.memory.total // GIB
    return _at_least(view, host, facts, "base.memory_size", "memory", found, expected, "GiB")


def judge_numa(view: View, host: Host, facts: HostFacts) -> Iterable[CheckResult]:
    """Memory is split into at least the class's NUMA nodes."""
    expected = view.profile.hardware.host.numa_nodes
    return _at_least(view, host, facts, "base.numa", "numa", len(facts.numa), expected, "nodes")


def _at_least(
    view: View,
    host: Host,
    facts: HostFacts,
    check_id: str,
    area: str,
    found: int,
    bound: int,
    unit: str,
) -> Iterable[CheckResult]:
    common = {"unit": unit, "limit": bound, "limit_source": f"profile {view.profile.name}"}
    if reason := _borrowed(facts, area):
        return [not_assessed(check_id, host.name, reason, required=False, **common)]
    # The probe's area "cpu" reads memory and NUMA nodes, too.
    if "cpu" in facts.errors or not found:
        return [not_assessed(check_id, host.name, facts.errors.get("cpu") or "not read", **common)]
    if found >= bound:
        return [passed(check_id, host.name, found, **common)]
    cause = f"{found} {unit}, the class has {bound}"
    fix = "compare with the management controller's inventory; hardware.host in the profile holds the bound"
    return [failed(check_id, host.name, cause, fix, value=found, **common)]


def _borrowed(facts: HostFacts, area: str) -> str:
    """Why the figure is not this host's own; empty when it is."""
    if facts.os.container:
        return "container host shares its machine's processors"
    return f"{area} is simulated" if {area, "host"} & set(facts.simulated) else ""
