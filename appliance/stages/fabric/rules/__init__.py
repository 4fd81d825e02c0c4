"""Rules over the fabric's managers, partitions, IP and lossless Ethernet."""

from collections.abc import Iterator

from appliance.config.compatibility import table
from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule, nearest, repeated
from appliance.config.rules.networks import MANAGEMENT
from appliance.models.site import Role
from appliance.stages.fabric.rules import cabling
from appliance.stages.fabric.site import DEFAULT_PARTITION

INFINIBAND_MTU = {"datagram": 4092, "connected": 65520}
"""The largest IP packet of each mode, bytes: a link MTU of 4096 less the header, and what RFC 4755 allows."""


def managers(case: Case) -> Iterator[Finding]:
    """A subnet manager stands by on hosts of this site that have none anyway, and only where ours is the master."""
    given = case.site.fabric
    for i, name in enumerate(given.standby):
        path: KeyPath = ("fabric", "standby", i)
        if not case.checked.whole("hosts"):
            continue
        host = next((h for h in case.site.hosts if h.name == name), None)
        if host is None:
            names = [h.name for h in case.site.hosts]
            yield case.problem(path, f'no host is called "{name}"', nearest(name, names, "hosts"))
        elif Role.CONTROL in host.roles:
            message = f"{name} is a control host, which manages the subnet or stands by anyway"
            yield case.problem(path, message, "take this line out")
        elif Role.GPU not in host.roles:
            message = f"{name} takes no part in stage fabric"
            yield case.problem(path, message, "name a GPU host")
    if given.standby and given.subnet_manager != "opensm":
        yield case.problem(
            ("fabric", "standby"),
            f"is given, but fabric.subnet_manager is {given.subnet_manager}",
            "let the switch or UFM have its own standby, or take opensm",
        )


def partitions(case: Case) -> Iterator[Finding]:
    """Partitions have names and keys of their own, and members there are; opensm hands them out."""
    given = case.site.fabric.partitions
    if given and case.site.fabric.subnet_manager != "opensm":
        yield case.problem(
            ("fabric", "partitions"),
            f"are given, but fabric.subnet_manager is {case.site.fabric.subnet_manager}",
            "set them where that manager keeps them, or take opensm",
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
        yield case.problem(path, f'"{text}" stands twice (also {also})', "give each its own")
    for path, text, first in repeated(keys):
        yield case.problem(
            path, f"{text} stands twice (also line {case.line(first)})", "give each its own key"
        )
    known = [h.name for h in case.site.hosts]
    for i, partition in enumerate(given):
        for j, name in enumerate(partition.hosts):
            if name not in known and case.checked.whole("hosts"):
                yield case.problem(
                    ("fabric", "partitions", i, "hosts", j),
                    f'no host is called "{name}"',
                    nearest(name, known, "hosts"),
                )


def driver(case: Case) -> Iterator[Finding]:
    """DOCA-OFED comes in a release, from a repository."""
    if case.site.fabric.driver != "doca":
        return
    at: KeyPath = ("fabric", "driver")
    if case.site.repositories.doca is None:
        yield case.problem(
            at,
            "doca wants a repository to come from",
            "add repositories.doca: mirror and fingerprint (docs/fabric.md)",
        )
    own = case.site.software.get("doca_ofed")
    if case.profile and not own and case.profile.software.doca_ofed is None:
        lines = ", ".join(table().lines("doca_ofed"))
        message = "doca wants a release, and neither profile nor site names one"
        yield case.problem(at, message, f"add software: doca_ofed, one of {lines}")


def firmware(case: Case) -> Iterator[Finding]:
    """One minimum for each kind of adapter."""
    given = case.site.fabric.firmware_minimum
    kinds: list[tuple[KeyPath, str]] = [
        (("fabric", "firmware_minimum", i), version.split(".")[0])
        for i, version in enumerate(given)
    ]
    for path, kind, first in repeated(kinds):
        yield case.problem(
            path,
            f"firmware {kind}.x has a minimum already (line {case.line(first)})",
            "keep one of them",
        )


def roce(case: Case) -> Iterator[Finding]:
    """Lossless Ethernet wants Ethernet ports."""
    if case.site.fabric.roce is None or case.profile is None:
        return
    if case.profile.hardware.fabric.link_layer != "Ethernet":
        message = f"is given, but profile {case.profile.name} has no Ethernet fabric"
        yield case.problem(("fabric", "roce"), message, "take it out")


def ipoib(case: Case) -> Iterator[Finding]:
    """IP on InfiniBand has a network of its own, a partition there is and a size its mode can carry."""
    given = case.site.fabric.ipoib
    if given is None:
        return
    at: KeyPath = ("fabric", "ipoib")
    if case.profile and case.profile.hardware.fabric.link_layer != "InfiniBand":
        yield case.problem(
            at, f"is given, but profile {case.profile.name} has no InfiniBand", "take it out"
        )
    networks = [name for name in case.site.networks if name != MANAGEMENT]
    if given.network not in networks:
        if case.checked.whole("networks"):
            message = f'"{given.network}" is no network of its own'
            yield case.problem(
                (*at, "network"), message, nearest(given.network, networks, "networks")
            )
        return
    mtu, most = case.site.networks[given.network].mtu, INFINIBAND_MTU[given.mode]
    if mtu > most:
        message = f"{mtu} is more than mode {given.mode} carries"
        yield case.problem(("networks", given.network, "mtu"), message, f"take at most {most}")
    if not any(given.network in host.addresses for host in case.site.hosts):
        message = f"no host has an address in {given.network}"
        yield case.problem(
            (*at, "network"), message, f"give hosts addresses: {{{given.network}: ...}}"
        )
    names = [p.name for p in case.site.fabric.partitions]
    if given.partition is not None and given.partition not in names:
        yield case.problem(
            (*at, "partition"),
            f'no partition is called "{given.partition}"',
            nearest(given.partition, names, "partitions"),
        )


def ipoib_members(case: Case) -> Iterator[Finding]:
    """Who has an address in a partition is in it: without its key the port's interface gets no link."""
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
            remedy = "add it to hosts of that partition, or take the address out"
            yield case.problem(("hosts", i, "addresses", given.network), message, remedy)


def subnet_manager(case: Case) -> Iterator[Finding]:
    """InfiniBand does not come up without a subnet manager."""
    if case.profile is None or case.profile.hardware.fabric.link_layer != "InfiniBand":
        return
    if case.site.fabric.subnet_manager == "none":
        message = (
            f"none, but profile {case.profile.name} has InfiniBand, which needs a subnet manager"
        )
        yield case.problem(
            ("fabric", "subnet_manager"),
            message,
            "take opensm, or external where a switch or UFM does it",
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
