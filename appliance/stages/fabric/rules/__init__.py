"""Rules for the fabric's managers, partitions, IP and lossless Ethernet."""

from collections.abc import Iterator

from appliance.config.compatibility import table
from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule, nearest, repeated
from appliance.config.rules.networks import MANAGEMENT
from appliance.models.site import Role
from appliance.stages.fabric.rules import cabling
from appliance.stages.fabric.site import DEFAULT_PARTITION

INFINIBAND_MTU = {"datagram": 4092, "connected": 65520}
"""The largest IP packet of each mode, bytes: a link MTU of 4096 less the header, and the limit of RFC 4755."""


def managers(case: Case) -> Iterator[Finding]:
    """A standby subnet manager runs on hosts that have none otherwise, and only if the master is ours."""
    given = case.site.fabric
    for i, name in enumerate(given.standby):
        path: KeyPath = ("fabric", "standby", i)
        if not case.checked.whole("hosts"):
            continue
        host = next((h for h in case.site.hosts if h.name == name), None)
        if host is None:
            names = [h.name for h in case.site.hosts]
            yield case.problem(path, f'there is no host "{name}"', nearest(name, names, "hosts"))
        elif Role.CONTROL in host.roles:
            message = f"{name} is a control host, which is master or standby already"
            yield case.problem(path, message, "remove this line")
        elif Role.GPU not in host.roles:
            message = f"{name} is not part of stage fabric"
            yield case.problem(path, message, "name a GPU host")
    if given.standby and given.subnet_manager != "opensm":
        yield case.problem(
            ("fabric", "standby"),
            f"is given, but fabric.subnet_manager is {given.subnet_manager}",
            "configure the standby of the switch or UFM itself, or use opensm",
        )


def partitions(case: Case) -> Iterator[Finding]:
    """Partitions have unique names and keys, and their members exist; opensm configures them."""
    given = case.site.fabric.partitions
    if given and case.site.fabric.subnet_manager != "opensm":
        yield case.problem(
            ("fabric", "partitions"),
            f"are given, but fabric.subnet_manager is {case.site.fabric.subnet_manager}",
            "configure them in that manager, or use opensm",
        )
    names: list[tuple[KeyPath, str]] = [
        (("fabric", "partitions", i, "name"), p.name.lower()) for i, p in enumerate(given)
    ]
    names.append((("fabric", "partitions"), DEFAULT_PARTITION.lower()))
    keys: list[tuple[KeyPath, str]] = [
        (("fabric", "partitions", i, "pkey"), str(p.pkey)) for i, p in enumerate(given)
    ]
    for path, text, first in repeated([names[-1], *names[:-1]]):
        also = "the default partition" if len(first) == 2 else f"line {case.line(first)}"
        yield case.problem(
            path, f'"{text}" is given twice (also {also})', "give each a unique name"
        )
    for path, text, first in repeated(keys):
        yield case.problem(
            path, f"{text} is given twice (also line {case.line(first)})", "give each a unique key"
        )
    known = [h.name for h in case.site.hosts]
    for i, partition in enumerate(given):
        for j, name in enumerate(partition.hosts):
            if name not in known and case.checked.whole("hosts"):
                yield case.problem(
                    ("fabric", "partitions", i, "hosts", j),
                    f'there is no host "{name}"',
                    nearest(name, known, "hosts"),
                )


def driver(case: Case) -> Iterator[Finding]:
    """DOCA-OFED has a release and a repository."""
    if case.site.fabric.driver != "doca":
        return
    at: KeyPath = ("fabric", "driver")
    if case.site.repositories.doca is None:
        yield case.problem(
            at,
            "doca needs a repository",
            "add repositories.doca: mirror and fingerprint (docs/fabric.md)",
        )
    own = case.site.software.get("doca_ofed")
    if not own and any(profile.software.doca_ofed is None for profile in case.profiles):
        lines = ", ".join(table().lines("doca_ofed"))
        message = "doca needs a release, but neither profile nor site sets one"
        yield case.problem(at, message, f"add software: doca_ofed, one of {lines}")


def firmware(case: Case) -> Iterator[Finding]:
    """One minimum firmware per adapter type."""
    given = case.site.fabric.firmware_minimum
    kinds: list[tuple[KeyPath, str]] = [
        (("fabric", "firmware_minimum", i), version.split(".")[0])
        for i, version in enumerate(given)
    ]
    for path, kind, first in repeated(kinds):
        yield case.problem(
            path,
            f"firmware {kind}.x already has a minimum (line {case.line(first)})",
            "keep one of them",
        )


def roce(case: Case) -> Iterator[Finding]:
    """Lossless Ethernet needs Ethernet ports."""
    if case.site.fabric.roce is None or case.profile is None:
        return
    if not _have(case, "Ethernet"):
        message = f"is given, but {_named(case)} no Ethernet fabric"
        yield case.problem(("fabric", "roce"), message, "remove it")


def _have(case: Case, link_layer: str) -> bool:
    return any(profile.hardware.fabric.link_layer == link_layer for profile in case.profiles)


def _named(case: Case) -> str:
    names = [profile.name for profile in case.profiles]
    return f"{'profiles' if len(names) > 1 else 'profile'} {' and '.join(names)} {'have' if len(names) > 1 else 'has'}"


def ipoib(case: Case) -> Iterator[Finding]:
    """IP on InfiniBand has a dedicated network, an existing partition, and an MTU that its mode supports."""
    given = case.site.fabric.ipoib
    if given is None:
        return
    at: KeyPath = ("fabric", "ipoib")
    if case.profile and not _have(case, "InfiniBand"):
        yield case.problem(at, f"is given, but {_named(case)} no InfiniBand", "remove it")
    networks = [name for name in case.site.networks if name != MANAGEMENT]
    if given.network not in networks:
        if case.checked.whole("networks"):
            message = f'"{given.network}" is not a dedicated network'
            yield case.problem(
                (*at, "network"), message, nearest(given.network, networks, "networks")
            )
        return
    mtu, most = case.site.networks[given.network].mtu, INFINIBAND_MTU[given.mode]
    if mtu > most:
        message = f"{mtu} exceeds the limit of mode {given.mode}"
        yield case.problem(("networks", given.network, "mtu"), message, f"use at most {most}")
    if not any(given.network in host.addresses for host in case.site.hosts):
        message = f"no host has an address in {given.network}"
        yield case.problem(
            (*at, "network"), message, f"give hosts addresses: {{{given.network}: ...}}"
        )
    names = [p.name for p in case.site.fabric.partitions]
    if given.partition is not None and given.partition not in names:
        yield case.problem(
            (*at, "partition"),
            f'there is no partition "{given.partition}"',
            nearest(given.partition, names, "partitions"),
        )


def ipoib_members(case: Case) -> Iterator[Finding]:
    """Hosts with an address in a partition are members of it: without its key, the interface gets no link."""
    given = case.site.fabric.ipoib
    if given is None or not case.checked.whole("fabric"):
        return
    chosen = next((p for p in case.site.fabric.partitions if p.name == given.partition), None)
    for i, host in enumerate(case.site.hosts if chosen else ()):
        # The subnet manager's own port is in every partition.
        if Role.CONTROL in host.roles or given.network not in host.addresses:
            continue
        if chosen and host.name not in chosen.hosts:
            message = f"{host.name} is not in partition {chosen.name}, which carries network {given.network}"
            remedy = "add it to hosts of that partition, or remove the address"
            yield case.problem(("hosts", i, "addresses", given.network), message, remedy)


def subnet_manager(case: Case) -> Iterator[Finding]:
    """InfiniBand needs a subnet manager."""
    own = next((p for p in case.profiles if p.hardware.fabric.link_layer == "InfiniBand"), None)
    if own is None:
        return
    if case.site.fabric.subnet_manager == "none":
        message = f"none, but profile {own.name} has InfiniBand, which needs a subnet manager"
        yield case.problem(
            ("fabric", "subnet_manager"),
            message,
            "use opensm, or external if a switch or UFM runs it",
        )


RULES: tuple[Rule, ...] = (
    subnet_manager,
    managers,
    partitions,
    ipoib,
    ipoib_members,
    roce,
    firmware,
    driver,
    cabling.stated,
    cabling.cables,
    cabling.trunks,
)
