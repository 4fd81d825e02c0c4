"""Rules for hosts: names, roles, counts, and unique addresses."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Address

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, repeated
from appliance.config.rules.reserved import SLURM_WORDS
from appliance.models.profile import Interconnect
from appliance.models.site import Role

RESERVED = frozenset({"localhost", "all", "ungrouped"})
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
LABEL = 63
"""Characters of a name in the DNS (RFC 1035)."""
GROUP_BIT = 1
"""The group bit of a MAC address's first byte: multicast and broadcast (IEEE 802)."""


def names(case: Case) -> Iterator[Finding]:
    """Host names are unique."""
    named: list[tuple[KeyPath, str]] = [
        (("hosts", i, "name"), host.name) for i, host in enumerate(case.site.hosts)
    ]
    for path, name, first in repeated(named):
        message = f'"{name}" is given twice (also line {case.line(first)})'
        yield case.problem(path, message, "give every host a unique name")


def reserved_names(case: Case) -> Iterator[Finding]:
    """A name means one host: Ansible and /etc/hosts reserve names, and each role is a group of hosts."""
    for i, host in enumerate(case.site.hosts):
        lacks_role = host.name in set(Role) and host.name not in host.roles
        if host.name in RESERVED or host.name in SLURM_WORDS or lacks_role:
            why = "is the name of a role's host group" if lacks_role else "is a reserved name"
            yield case.problem(
                ("hosts", i, "name"), f'"{host.name}" {why}', "rename the host, such as gpu-1"
            )


def numbers_for_names(case: Case) -> Iterator[Finding]:
    """Resolvers read a numeric name as an address: 10 is 0.0.0.10 (inet_aton(3))."""
    for i, host in enumerate(case.site.hosts):
        if NUMBER.fullmatch(host.name):
            message = f'"{host.name}" would be resolved as an address'
            yield case.problem(
                ("hosts", i, "name"), message, "begin it with a letter, such as gpu-1"
            )


def second_names(case: Case) -> Iterator[Finding]:
    """In each network, a host is named HOST-NETWORK: unique, and within the length limit."""
    own: list[tuple[KeyPath, str]] = [
        (("hosts", i, "name"), host.name) for i, host in enumerate(case.site.hosts)
    ]
    seconds: list[tuple[KeyPath, str]] = [
        (("hosts", i, "addresses", network), f"{host.name}-{network}")
        for i, host in enumerate(case.site.hosts)
        for network in host.addresses
    ]
    alone = list({name: (path, name) for path, name in reversed(own)}.values())
    for path, name, first in repeated([*alone, *seconds]):
        message = f"the name of this address would be {name}, which is also {case.also(first)}"
        yield case.problem(path, message, "rename the host or the network")
    for path, name in seconds:
        if len(name) > LABEL:
            message = f"the name of this address would be {name}, which has {len(name)} characters"
            yield case.problem(
                path, message, f"use shorter names: at most {LABEL} characters together"
            )


def macs(case: Case) -> Iterator[Finding]:
    """A MAC address belongs to one port of one host."""
    for i, host in enumerate(case.site.hosts):
        if host.mac and (
            int(host.mac[:2], 16) & GROUP_BIT or not int(host.mac.replace(":", ""), 16)
        ):
            message = f"{host.mac} is not the address of a port"
            remedy = "read the label of the port: the second digit of a port's address is even"
            yield case.problem(("hosts", i, "mac"), message, remedy)
    given: list[tuple[KeyPath, str]] = [
        (("hosts", i, "mac"), host.mac) for i, host in enumerate(case.site.hosts) if host.mac
    ]
    for path, mac, first in repeated(given):
        yield case.problem(path, f"{mac} is also {case.also(first)}", "read the label of the port")


def places(case: Case) -> Iterator[Finding]:
    """A unit of a rack holds one machine, and a serial number is one machine's."""
    for i, host in enumerate(case.site.hosts):
        if host.unit and not host.rack:
            yield case.problem(
                ("hosts", i, "unit"), "its rack is not named", "add rack to the host"
            )
    units: list[tuple[KeyPath, str]] = [
        (("hosts", i, "unit"), f"unit {host.unit} of {host.rack}")
        for i, host in enumerate(case.site.hosts)
        if host.rack and host.unit
    ]
    serials: list[tuple[KeyPath, str]] = [
        (("hosts", i, "serial"), host.serial)
        for i, host in enumerate(case.site.hosts)
        if host.serial
    ]
    for path, what, first in repeated([*units, *serials]):
        yield case.problem(
            path, f"{what} is also {case.also(first)}", "read the label of the machine"
        )


def disks(case: Case) -> Iterator[Finding]:
    """A serial number or World Wide Name belongs to one disk of one host. Vendors pad them and mix upper and lower case."""
    for key in ("serial", "wwn"):
        given: list[tuple[KeyPath, str]] = [
            (("hosts", i, "disk", key), name.strip().lower())
            for i, host in enumerate(case.site.hosts)
            if host.disk and (name := getattr(host.disk, key))
        ]
        for path, name, first in repeated(given):
            message = f"{name} is also {case.also(first)}, but identifies a single disk"
            remedy = "read the disk's label, or use keys that several disks can share: model, path, min_gb"
            yield case.problem(path, message, remedy)


def addresses(case: Case) -> Iterator[Finding]:
    """An address belongs to one interface, one BMC or one gateway."""
    for path, address, first in repeated(owned_addresses(case)):
        remedy = "give every host, BMC and gateway a unique address"
        yield case.problem(path, f"{address} is also {case.also(first)}", remedy)


def owned_addresses(case: Case) -> Iterator[tuple[KeyPath, IPv4Address]]:
    """Addresses that belong to one machine."""
    for name, network in case.site.networks.items():
        if network.gateway:
            yield ("networks", name, "gateway"), network.gateway
    for i, host in enumerate(case.site.hosts):
        yield ("hosts", i, "address"), host.address
        for network_name, address in host.addresses.items():
            yield ("hosts", i, "addresses", network_name), address
        if host.bmc:
            yield ("hosts", i, "bmc", "address"), host.bmc.address


def roles(case: Case) -> Iterator[Finding]:
    """Every required role has a host, and no host has a role twice."""
    for i, host in enumerate(case.site.hosts):
        given: list[tuple[KeyPath, Role]] = [
            (("hosts", i, "roles", j), role) for j, role in enumerate(host.roles)
        ]
        for path, role, first in repeated(given):
            yield case.problem(
                path, f'"{role}" is listed twice (also {case.also(first)})', "keep one"
            )
    if not _roles_are_known(case):
        return
    needed = {Role.CONTROL: "runs the cluster's services", Role.GPU: "runs the work"}
    if case.site.storage.exports:
        needed[Role.STORAGE] = "serves storage.exports"
    for role, what in needed.items():
        if not case.site.with_role(role):
            message = f'no host has the role "{role}", which {what}'
            yield case.problem(("hosts",), message, f"add {role} to the roles of a host")


def control_hosts(case: Case) -> Iterator[Finding]:
    """Control plane members vote: an even number tolerates no more failures than one member fewer."""
    count = len(case.site.with_role(Role.CONTROL))
    if not _roles_are_known(case):
        return
    if count and count % 2 == 0:
        message = (
            f"{count} hosts have the role control; an even number has no majority after a split"
        )
        yield case.problem(("hosts",), message, f"use {count - 1} or {count + 1}")


def gpu_hosts(case: Case) -> Iterator[Finding]:
    """The hardware class limits the number of GPU hosts of an appliance."""
    names = [host.name for host in case.site.with_role(Role.GPU)]
    if not _roles_are_known(case) or not names:
        return
    for profile in case.profiles:
        count = sum(case.profile_of(name) is profile for name in names)
        low, high = profile.gpu_hosts.minimum, profile.gpu_hosts.maximum
        if not low <= count <= high:
            message = f"{count} GPU host{'s' if count > 1 else ''}, but profile {profile.name} supports {low} to {high}"
            yield case.problem(
                ("hosts",),
                message,
                "change the number of GPU hosts, or gpu_hosts in a profile of your own",
            )


def classes(case: Case) -> Iterator[Finding]:
    """A class describes hosts with the host's role: with or without GPUs."""
    if not _roles_are_known(case):
        return
    for i, host in enumerate(case.site.hosts):
        profile, is_gpu = case.profile_of(host.name), Role.GPU in host.roles
        if profile is None:
            continue
        path: KeyPath = ("hosts", i, "class") if host.hardware_class else ("profile",)
        if is_gpu and not profile.has_gpus:
            message = f"{host.name} has the role gpu, but profile {profile.name} describes hosts without GPUs"
            yield case.problem(
                path, message, "name a class of GPU hosts, or correct the host's roles"
            )
        elif host.hardware_class and not is_gpu and profile.has_gpus:
            message = f"{host.name} does not have the role gpu, but profile {profile.name} describes GPU hosts"
            remedy = "remove this line, name a class without hardware.gpu, or add gpu to the host's roles"
            yield case.problem(path, message, remedy)


def gpus(case: Case) -> Iterator[Finding]:
    """A GPU host has at most as many GPUs as its class."""
    for i, host in enumerate(case.site.hosts):
        if host.gpus is None:
            continue
        path: KeyPath = ("hosts", i, "gpus")
        if Role.GPU not in host.roles and _roles_are_known(case):
            yield case.problem(
                path,
                f"{host.name} does not have the role gpu",
                "add gpu to its roles, or remove this line",
            )
        profile = case.profile_of(host.name)
        if profile is None or not profile.has_gpus:
            continue
        gpu, name = profile.hardware.gpu, profile.name
        if host.gpus > gpu.count:
            message = f"is {host.gpus}, but a host of profile {name} has at most {gpu.count}"
            yield case.problem(path, message, f"use 1 to {gpu.count}, or a profile of larger hosts")
        elif gpu.interconnect is Interconnect.NVLINK_BRIDGE and host.gpus % 2:
            message = f"{host.gpus} GPUs cannot be bridged in pairs, as profile {name} requires"
            yield case.problem(
                path, message, "use an even number, or a profile with interconnect: pcie"
            )


def _roles_are_known(case: Case) -> bool:
    """Every host was read, with all of its roles."""
    cut = case.checked.cut
    roles_cut = any(c[:1] == ("hosts",) and len(c) > 2 and c[2] == "roles" for c in cut)
    return case.checked.listed("hosts") and not roles_cut
