"""Is the fabric what the profile says: ports, links, rates, errors, one subnet manager, everybody reachable."""

from collections.abc import Iterable

from appliance.checks import fabric_cabling, fabric_links
from appliance.checks.check import (
    GPU_HOSTS,
    Check,
    ClusterCheck,
    HostCheck,
    View,
    failed,
    not_assessed,
    passed,
)
from appliance.checks.fabric_errors import judge_errors
from appliance.checks.fabric_subnet import judge_subnet_manager, judge_topology
from appliance.models.facts import HostFacts, Port
from appliance.models.result import CheckResult
from appliance.models.site import Host

UNITS = ("opensm.service",)
# What keeps a port from being usable, by a word of its physical or logical state, and what to do.
OBSTACLES = {
    "disabled": ("the port is disabled", "enable it with ibportstate, or at the switch"),
    "polling": (
        "no signal: no cable, a dead one, or nothing at its far end",
        "reseat or replace the cable of {device}, then look at the switch's port",
    ),
    "init": (
        "the link is up, but no subnet manager has configured it",
        "start the subnet manager: systemctl restart opensm on the control host",
    ),
    "armed": (
        "the subnet manager has not finished configuring it",
        "wait a minute, then look at /var/log/opensm.log on the control host",
    ),
    "down": ("the link is down", "look at the cable of {device} and at the switch's port"),
}
UNKNOWN_OBSTACLE = ("the link is not usable", "look at iblinkinfo and at the cable of {device}")


def judge_ports(view: View, host: Host, facts: HostFacts) -> Iterable[CheckResult]:
    """As many ports of the profile's kind as the class has."""
    expectation = view.profile.hardware.fabric
    found = len(_ports(view, facts))
    common = {
        "unit": "ports",
        "limit": expectation.ports,
        "limit_source": f"profile {view.profile.name}",
        "simulated": _simulated(facts),
    }
    if found >= expectation.ports:
        return [passed("fabric.ports", host.name, found, **common)]
    why = facts.errors.get("fabric", "")
    if why and not facts.ports:
        cause = f"ports could not be read: {why}"
        return [not_assessed("fabric.ports", host.name, cause, **common)]
    missing = _missing_devices(view, facts)
    return [
        failed(
            "fabric.ports",
            host.name,
            f"{found} {expectation.link_layer} ports, the class has {expectation.ports}"
            + (f"; missing {missing}" if missing else ""),
            "lspci -d 15b3: on the host: if the adapter is listed, look for mlx5 in the kernel log; if not, reseat it",
            value=found,
            **common,
        )
    ]


def judge_state(view: View, host: Host, facts: HostFacts) -> Iterable[CheckResult]:
    """Every port ACTIVE on a physical link that is up."""
    ports = _ports(view, facts)
    if not ports:
        return _silent(view, "fabric.state", host, facts, "no port was found")
    bad = [port for port in ports if not _is_active(port)]
    if bad:
        return [_obstructed(host, facts, port) for port in bad]
    common = {"evidence": f"{len(ports)} ports", "simulated": _simulated(facts)}
    return [passed("fabric.state", host.name, "ACTIVE", limit="ACTIVE", **common)]


def judge_rate(view: View, host: Host, facts: HostFacts) -> Iterable[CheckResult]:
    """Every active port at the profile's rate; a port that is down has no rate to judge."""
    ports = [port for port in _ports(view, facts) if _is_active(port)]
    if not ports:
        return _silent(view, "fabric.rate", host, facts, "no port is active")
    wanted, source = _rate_limit(view)
    common = {
        "unit": "Gb/s",
        "limit": wanted,
        "limit_source": source,
        "simulated": _simulated(facts),
    }
    slow = [port for port in ports if port.rate < wanted]
    if slow:
        return [_slow(host, port, wanted, common) for port in slow]
    rate = min(port.rate for port in ports)
    return [passed("fabric.rate", host.name, rate, evidence=f"{len(ports)} ports", **common)]


def _ports(view: View, facts: HostFacts) -> tuple[Port, ...]:
    kind = view.profile.hardware.fabric.link_layer
    return tuple(port for port in facts.ports if port.link_layer == kind)


def _is_active(port: Port) -> bool:
    """sysfs writes "4: ACTIVE" and "5: LinkUp"; tools leave the number out."""
    return port.state.upper().endswith("ACTIVE") and "LINKUP" in port.physical.upper()


def _simulated(facts: HostFacts) -> bool:
    return "fabric" in facts.simulated


def _rate_limit(view: View) -> tuple[float, str]:
    limit = view.limit("fabric.rate")
    if limit and isinstance(limit.value, int | float):
        return float(limit.value), limit.source
    return float(view.profile.hardware.fabric.rate_gbps), f"profile {view.profile.name}"


def _silent(
    view: View, check_id: str, host: Host, facts: HostFacts, cause: str, required: bool = True
) -> list[CheckResult]:
    """Nothing to judge: by design where the class has no fabric, not assessed everywhere else."""
    if not view.profile.hardware.fabric.ports:
        return []
    why = facts.errors.get("fabric", cause)
    common = {"required": required, "simulated": _simulated(facts)}
    return [not_assessed(check_id, host.name, why, **common)]


def _missing_devices(view: View, facts: HostFacts) -> str:
    """Devices other GPU hosts have and this one lacks; else the gaps in its own numbering."""
    own = {port.device for port in facts.ports}
    known = {port.device for other in view.facts.values() for port in _ports(view, other)} - own
    stems = {device.rstrip("0123456789") for device in own}
    if not known and len(stems) == 1:
        expected = view.profile.hardware.fabric.ports
        known = {f"{stem}{n}" for stem in stems for n in range(expected)} - own
    return ", ".join(sorted(known))


def _obstructed(host: Host, facts: HostFacts, port: Port) -> CheckResult:
    words = f"{port.physical} {port.state}".lower()
    cause, fix = next((text for word, text in OBSTACLES.items() if word in words), UNKNOWN_OBSTACLE)
    return failed(
        "fabric.state",
        f"{host.name}/{port.device}",
        f"port {port.port} is {port.state}, {port.physical}: {cause}",
        fix.format(device=port.device),
        value=port.state,
        limit="ACTIVE",
        simulated=_simulated(facts),
    )


def _slow(host: Host, port: Port, wanted: float, common: dict[str, object]) -> CheckResult:
    half = "half the rate, " if port.rate * 2 == wanted else ""
    return failed(
        "fabric.rate",
        f"{host.name}/{port.device}",
        f"{half}{port.rate:g} of {wanted:g} Gb/s: the link trained at a lower width or speed",
        f"reseat or replace the cable of {port.device}; iblinkinfo shows width and speed of both ends",
        value=port.rate,
        **common,
    )


CHECKS: tuple[Check, ...] = (
    HostCheck(
        id="fabric.ports",
        title="All high-speed ports are there",
        roles=GPU_HOSTS,
        judge=judge_ports,
        explain="Counts the RDMA ports of the kind the profile names. A missing one is an adapter that fell off the "
        "PCIe bus, a port in the wrong mode (Ethernet instead of InfiniBand) or a driver that refused its firmware.",
    ),
    HostCheck(
        id="fabric.state",
        title="Ports are active",
        roles=GPU_HOSTS,
        judge=judge_state,
        explain="A port must be LinkUp (the cable) and ACTIVE (the subnet manager). Polling means no signal; "
        "INIT on a link that is up means that no subnet manager has been there.",
    ),
    HostCheck(
        id="fabric.rate",
        title="Ports run at full rate",
        roles=GPU_HOSTS,
        judge=judge_rate,
        explain="Rate per port against the profile. A dirty or badly seated connector lets a link train at half its "
        "width or speed; every collective then waits for that one port.",
    ),
    HostCheck(
        id="fabric.errors",
        title="Ports count no errors",
        roles=GPU_HOSTS,
        judge=judge_errors,
        explain="Growth of each port's error counters since the last deploy, plan or validate that is more than a "
        "minute old. They count from the day they were cleared, so one reading above zero proves nothing.",
        limit="none: link_downed, local_link_integrity_errors, excessive_buffer_overrun_errors, rnr_nak_retry_err; "
        "symbol_error 120/h, link_error_recovery 5/min, port_rcv_errors 10/s, port_xmit_discards 100/s (NVSentinel)",
    ),
    ClusterCheck(
        id="fabric.sm",
        title="One subnet manager is master",
        judge=judge_subnet_manager,
        explain="Asks through the fabric itself who manages the subnet. Without a master no port becomes ACTIVE after "
        "a reboot; with two, the fabric has fallen into parts.",
    ),
    ClusterCheck(
        id="fabric.topology",
        title="Discovery finds every port",
        judge=judge_topology,
        explain="Compares the ports each GPU host reports with those discovery meets from the control host. What is "
        "missing is unplugged, or hangs on another fabric.",
    ),
    *fabric_cabling.CHECKS,
    *fabric_links.CHECKS,
)
