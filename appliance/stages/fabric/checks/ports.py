"""Checks each port of a host: present, linked, configured, at full rate."""

from collections.abc import Iterable, Mapping, Sequence

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.models.bound import Bound
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, place
from appliance.models.site import Host, Role
from appliance.stages.fabric import ids
from appliance.stages.fabric.cabling import Socket, ends_of
from appliance.stages.fabric.checks.subnet import discovered
from appliance.stages.fabric.facts import Port
from appliance.text import plural

# Why a port has no link, by a word of its physical or logical state, and what to do.
OBSTACLES = {
    "disabled": ("the port is disabled", "enable it with ibportstate, or at the switch"),
    "polling": (
        "no signal: the cable is missing or broken, or nothing is at its far end",
        "reseat or replace the cable of {device}, then check the switch's port",
    ),
    "down": ("the link is down", "check the cable of {device} and the switch's port"),
}
DARK_ETHERNET = (
    "no cable, a broken cable, or an interface or far end that is down",
    "ls /sys/class/infiniband/{device}/device/net shows its interface: ip link set it up; if it stays down, reseat or replace "
    "the cable of {device} and check the switch's port",
)
"""The kernel's state of every Ethernet port without a carrier."""
UNKNOWN_OBSTACLE = ("the link is not usable", "check iblinkinfo and the cable of {device}")
UNCONFIGURED = {
    "init": (
        "the link is up, but no subnet manager has configured it",
        "start the subnet manager: systemctl restart opensm on the control host",
    ),
    "armed": (
        "the subnet manager has not finished configuring it",
        "wait a minute, then read /var/log/opensm.*log on the control host",
    ),
}


def judge_ports(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass with as many ports of the profile's kind as the class has."""
    expectation = view.profile.hardware.fabric
    found = len(ports_of_kind(view, facts))
    common = {
        "unit": "ports",
        "limit": expectation.ports,
        "limit_source": f"profile {view.profile.name}",
        "simulated": is_simulated(facts),
    }
    if extra := beyond(view, facts):
        return [_too_many(host, found, extra, expectation.link_layer, common)]
    if found >= expectation.ports:
        return [passed(host.name, found, **common)]
    if "fabric" in facts.errors and not facts.ports:
        why = facts.gap("fabric").after("ports could not be read: ")
        return [not_assessed(host.name, why, **common)]
    wrong = _turned(view, facts)
    if wrong and found + len(wrong) >= expectation.ports:
        return [_wrong_kind(host, port, expectation.link_layer, common) for port in wrong]
    return _missing(view, host, facts, found, common | {"value": found})


def beyond(view: View, facts: HostFacts) -> tuple[Port, ...]:
    """Return excess ports: without a link on all GPU hosts, and at most as many as exceed the class."""
    own = ports_of_kind(view, facts)
    expected = view.profile.hardware.fabric.ports
    if not expected or len(own) <= expected:
        return ()
    linked = view.once(_linked)
    unused = [p for p in own if not is_linked(p) and (p.device, p.port) not in linked]
    return tuple(unused) if len(unused) <= len(own) - expected else ()


def _linked(view: View) -> frozenset[tuple[str, int]]:
    """Return devices and ports that have a link on any GPU host."""
    hosts = (view.facts[h.name] for h in view.site.with_role(Role.GPU) if h.name in view.facts)
    ports = (port for facts in hosts for port in ports_of_kind(view, facts))
    return frozenset((port.device, port.port) for port in ports if is_linked(port))


def ports_of_class(view: View, facts: HostFacts) -> tuple[Port, ...]:
    """Return the ports of the profile's kind, without those beyond the class."""
    extra = beyond(view, facts)
    return tuple(port for port in ports_of_kind(view, facts) if port not in extra)


def _too_many(
    host: Host, found: int, extra: Sequence[Port], kind: str, common: dict[str, object]
) -> Judgement:
    names = [port.device for port in extra]
    is_one = len(names) == 1
    cause = (
        f"{plural(found, f'{kind} port')}, the class has {common['limit']}: {', '.join(names)} "
        f"{'has' if is_one else 'have'} no link and {'is one' if is_one else f'are {len(names)}'} too many"
    )
    fix = f"if nothing uses {'it' if is_one else 'them'}, remove {'it' if is_one else 'them'} from the host"
    if kind == "InfiniBand":
        first = extra[0]
        fix = (
            f"mlxconfig -d {first.device} set LINK_TYPE_P{first.port}=2 makes {'it' if is_one else 'each'} an Ethernet port; "
            "or remove it from the host"
        )
    return warned(place(host.name, *names), cause, fix, value=found, **common)


def _missing(
    view: View, host: Host, facts: HostFacts, found: int, common: dict[str, object]
) -> list[Judgement]:
    """Report missing ports: by adapter if its name is known, else for the host."""
    expectation = view.profile.hardware.fabric
    names = _missing_devices(view, facts)
    lacking = expectation.ports - len(ports_of_kind(view, facts))
    said = f"{plural(found, f'{expectation.link_layer} port')}, the class has {expectation.ports}"
    fix = (
        "lspci -d 15b3: on the host: if the adapter is listed, look for mlx5 in the kernel log; "
        "if not, reseat it"
    )
    if len(names) != lacking or lacking == expectation.ports:
        more = f"; missing {', '.join(names)}" if names else ""
        named = {"names": tuple(names)}
        return [failed(host.name, said + more, fix, **named, **common)]
    return [
        failed(place(host.name, name), f"{name} is missing: {said}", fix, **common)
        for name in names
    ]


def _turned(view: View, facts: HostFacts) -> list[Port]:
    """Return ports with the wrong link layer, without additional ports for storage."""
    expected = view.profile.hardware.fabric
    others = [port for port in facts.ports if port.link_layer != expected.link_layer]
    whole = [
        other
        for other in alike(view, facts.host)
        if len(ports_of_kind(view, other)) >= expected.ports and other is not facts
    ]
    if not whole:
        found = len(ports_of_kind(view, facts))
        return others if found + len(others) == expected.ports else []
    beside = min(len(other.ports) - len(ports_of_kind(view, other)) for other in whole)
    of_kind = {port.device for other in whole for port in ports_of_kind(view, other)}
    return [port for port in others if port.device in of_kind] if len(others) > beside else []


def _wrong_kind(host: Host, port: Port, wanted: str, common: dict[str, object]) -> Judgement:
    kind = {"InfiniBand": "1", "Ethernet": "2"}.get(wanted, "")
    return failed(
        place(host.name, port.device),
        f"port {port.port} of {port.device} uses {port.link_layer}, the class has {wanted} ports",
        f"mlxconfig -d {port.device} set LINK_TYPE_P{port.port}={kind}, then restart the host",
        value=port.link_layer,
        **{**common, "limit": wanted, "unit": ""},
    )


def judge_state(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if every port has a link. ``judge_active`` checks the subnet manager's part."""
    ports = ports_of_class(view, facts)
    if not ports:
        return silent(view, host, facts, "no port was found")
    dark = [port for port in ports if not is_linked(port)]
    if dark:
        return [_obstructed(host, facts, port) for port in dark]
    common = {"evidence": plural(len(ports), "port"), "simulated": is_simulated(facts)}
    return [passed(host.name, "LinkUp", limit="LinkUp", **common)]


def judge_active(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if every port with a link is ACTIVE."""
    ports = [port for port in ports_of_class(view, facts) if is_linked(port)]
    if not ports:
        return silent(view, host, facts, "no port has a link")
    waiting = [port for port in ports if not is_active(port)]
    if waiting:
        return [_unconfigured(host, facts, port) for port in waiting]
    common = {"evidence": plural(len(ports), "port"), "simulated": is_simulated(facts)}
    return [passed(host.name, "ACTIVE", limit="ACTIVE", **common)]


def judge_rate(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if every active port has the profile's rate; a port that is down has none."""
    ports = [port for port in ports_of_kind(view, facts) if is_active(port)]
    if not ports:
        return silent(view, host, facts, "no port is active")
    wanted, source = wanted_rate(view)
    common = {
        "unit": "Gb/s",
        "limit": wanted,
        "limit_source": source,
        "simulated": is_simulated(facts),
    }
    slow = [port for port in ports if 0 < port.rate < wanted]
    seen = discovered(view) if slow else None
    ends = ends_of(seen[1], host, facts) if seen else {}
    results = [_slow(host, port, wanted, ends, common) for port in slow]
    unread = ", ".join(port.device for port in ports if not port.rate)
    if unread:
        results.append(not_assessed(host.name, f"the kernel reports no rate of {unread}", **common))
    if results:
        return results
    rate = min(port.rate for port in ports)
    return [passed(host.name, rate, evidence=plural(len(ports), "port"), **common)]


def ports_of_kind(view: View, facts: HostFacts) -> tuple[Port, ...]:
    """Return the ports with the link layer of the host's class."""
    kind = view.profile_of(facts.host).hardware.fabric.link_layer
    return tuple(port for port in facts.ports if port.link_layer == kind)


def alike(view: View, host: str) -> list[HostFacts]:
    """Return the answers of hosts of the same class, including this one."""
    own = view.profile_of(host)
    return [facts for name, facts in view.facts.items() if view.profile_of(name) is own]


def is_linked(port: Port) -> bool:
    """sysfs writes "5: LinkUp"; tools leave the number out."""
    return "LINKUP" in port.physical.upper()


def is_active(port: Port) -> bool:
    """A link, and configured: "4: ACTIVE"."""
    return port.state.upper().endswith("ACTIVE") and is_linked(port)


def is_simulated(facts: HostFacts) -> bool:
    """Return whether the host's fabric is simulated."""
    return "fabric" in facts.simulated


RATE = Bound("Gb/s", most=1600)
"""Accepted limits of a port's rate and of a cable's rate."""


def wanted_rate(view: View) -> tuple[float, str]:
    """Return the required Gb/s of a port, and the source."""
    own = float(view.profile.hardware.fabric.rate_gbps), f"profile {view.profile.name}"
    return view.number(ids.RATE) or own


def silent(
    view: View, host: Host, facts: HostFacts, cause: str, required: bool = True
) -> list[Judgement]:
    """Return the result without ports: none if the class has no fabric, otherwise not assessed."""
    if not view.profile.hardware.fabric.ports:
        return []
    why = facts.gap("fabric", cause)
    common = {"required": required, "simulated": is_simulated(facts)}
    return [not_assessed(host.name, why, **common)]


def _missing_devices(view: View, facts: HostFacts) -> list[str]:
    """Return devices that other GPU hosts have and this one lacks; else gaps in its own numbering."""
    own = {port.device for port in facts.ports}
    others = {
        port.device for other in alike(view, facts.host) for port in ports_of_kind(view, other)
    } - own
    stems = {device.rstrip("0123456789") for device in own}
    if not others and len(stems) == 1:
        expected = view.profile.hardware.fabric.ports
        others = {f"{stem}{n}" for stem in stems for n in range(expected)} - own
    return sorted(others)


def _obstructed(host: Host, facts: HostFacts, port: Port) -> Judgement:
    words = f"{port.physical} {port.state}".lower()
    known = (text for word, text in OBSTACLES.items() if word in words)
    cause, fix = next(known, UNKNOWN_OBSTACLE)
    if port.link_layer == "Ethernet":
        cause, fix = DARK_ETHERNET
    return failed(
        place(host.name, port.device),
        f"port {port.port} is {port.state}, {port.physical}: {cause}",
        fix.format(device=port.device),
        value=port.physical,
        limit="LinkUp",
        simulated=is_simulated(facts),
    )


def _unconfigured(host: Host, facts: HostFacts, port: Port) -> Judgement:
    words = port.state.lower()
    known = (text for word, text in UNCONFIGURED.items() if word in words)
    cause, fix = next(known, UNKNOWN_OBSTACLE)
    return failed(
        place(host.name, port.device),
        f"port {port.port} is {port.state}, {port.physical}: {cause}",
        fix.format(device=port.device),
        value=port.state,
        limit="ACTIVE",
        simulated=is_simulated(facts),
    )


def _slow(
    host: Host,
    port: Port,
    wanted: float,
    ends: Mapping[tuple[str, int], Socket],
    common: dict[str, object],
) -> Judgement:
    half = "half the rate, " if port.rate * 2 == wanted else ""
    far = ends.get((port.device, port.port))
    told = "iblinkinfo" if port.link_layer == "InfiniBand" else "ethtool, and the switch,"
    cable = f"the cable of {port.device}" + (f", which ends in {far}" if far else "")
    return failed(
        place(host.name, port.device),
        f"{half}{port.rate:g} of {wanted:g} Gb/s: the link trained at a lower width or speed",
        f"reseat or replace {cable}; {told} shows width and speed of both ends",
        value=port.rate,
        evidence=str(far or ""),
        **common,
    )
