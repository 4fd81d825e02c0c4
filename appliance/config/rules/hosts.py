"""Rules over hosts: names, roles, numbers, and addresses nobody else has."""

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
"""Of a MAC address's first byte: frames to many, all of them with the broadcast address (IEEE 802)."""


def names(case: Case) -> Iterator[Finding]:
    """A name stands once."""
    named: list[tuple[KeyPath, str]] = [
        (("hosts", i, "name"), host.name) for i, host in enumerate(case.site.hosts)
    ]
    for path, name, first in repeated(named):
        message = f'"{name}" stands twice (also line {case.line(first)})'
        yield case.problem(path, message, "give every host a name of its own")


def reserved_names(case: Case) -> Iterator[Finding]:
    """A name means one host: Ansible and /etc/hosts have words of their own, and each role is a group of hosts."""
    for i, host in enumerate(case.site.hosts):
        lacks_role = host.name in set(Role) and host.name not in host.roles
        if host.name in RESERVED or host.name in SLURM_WORDS or lacks_role:
            why = "is the group of hosts with that role" if lacks_role else "has a meaning already"
            yield case.problem(
                ("hosts", i, "name"), f'"{host.name}" {why}', "give the host another name, as gpu-1"
            )


def numbers_for_names(case: Case) -> Iterator[Finding]:
    """A name of digits alone is an address to whoever resolves it: 10 is 0.0.0.10 (inet_aton(3))."""
    for i, host in enumerate(case.site.hosts):
        if NUMBER.fullmatch(host.name):
            message = f'"{host.name}" would be read as an address'
            yield case.problem(("hosts", i, "name"), message, "begin it with a letter, as gpu-1")


def second_names(case: Case) -> Iterator[Finding]:
    """In each network a host is called HOST-NETWORK: a name of its own, and no longer than a name may be."""
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
        message = f"{name} would be the name of this address, and is also {case.also(first)}"
        yield case.problem(path, message, "give the host or the network another name")
    for path, name in seconds:
        if len(name) > LABEL:
            message = f"{name} would be the name of this address, and has {len(name)} characters"
            yield case.problem(path, message, f"take a shorter name: at most {LABEL} together")


def macs(case: Case) -> Iterator[Finding]:
    """A MAC address is one port's, and belongs to one host."""
    for i, host in enumerate(case.site.hosts):
        if host.mac and (
            int(host.mac[:2], 16) & GROUP_BIT or not int(host.mac.replace(":", ""), 16)
        ):
            message = f"{host.mac} is no address of a port"
            remedy = "look at the label of the port: the second digit of a port's address is even"
            yield case.problem(("hosts", i, "mac"), message, remedy)
    given: list[tuple[KeyPath, str]] = [
        (("hosts", i, "mac"), host.mac) for i, host in enumerate(case.site.hosts) if host.mac
    ]
    for path, mac, first in repeated(given):
        yield case.problem(
            path, f"{mac} is also {case.also(first)}", "look at the label of the port"
        )


def disks(case: Case) -> Iterator[Finding]:
    """A serial number or World Wide Name is one disk's, and so one host's. Makers pad them and mix cases."""
    for key in ("serial", "wwn"):
        given: list[tuple[KeyPath, str]] = [
            (("hosts", i, "disk", key), name.strip().lower())
            for i, host in enumerate(case.site.hosts)
            if host.disk and (name := getattr(host.disk, key))
        ]
        for path, name, first in repeated(given):
            message = f"{name} is also {case.also(first)}, and is one disk's alone"
            remedy = "look at the disk's label, or name what several can have: model, path, min_gb"
            yield case.problem(path, message, remedy)


def addresses(case: Case) -> Iterator[Finding]:
    """An address belongs to one interface, one BMC or one gateway."""
    for path, address, first in repeated(owned(case)):
        remedy = "give every host, BMC and gateway an address of its own"
        yield case.problem(path, f"{address} is also {case.also(first)}", remedy)


def owned(case: Case) -> Iterator[tuple[KeyPath, IPv4Address]]:
    """Addresses that are one machine's alone."""
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
    """Somebody does each job that is needed, and no host is given one twice."""
    for i, host in enumerate(case.site.hosts):
        given: list[tuple[KeyPath, Role]] = [
            (("hosts", i, "roles", j), role) for j, role in enumerate(host.roles)
        ]
        for path, role, first in repeated(given):
            yield case.problem(path, f'"{role}" stands twice (also {case.also(first)})', "keep one")
    if not _roles_are_known(case):
        return
    needed = {Role.CONTROL: "runs the cluster", Role.GPU: "does the work"}
    if case.site.storage.exports:
        needed[Role.STORAGE] = "serves storage.exports"
    for role, what in needed.items():
        if not case.site.with_role(role):
            message = f'no host has the role "{role}", which {what}'
            yield case.problem(("hosts",), message, f"add {role} to the roles of a host")


def control_hosts(case: Case) -> Iterator[Finding]:
    """Members of a control plane vote: an even number gains nothing over one fewer."""
    count = len(case.site.with_role(Role.CONTROL))
    if not _roles_are_known(case):
        return
    if count and count % 2 == 0:
        message = f"{count} hosts have the role control, and an even number has no majority when it splits"
        yield case.problem(("hosts",), message, f"take {count - 1} or {count + 1}")


def gpu_hosts(case: Case) -> Iterator[Finding]:
    """The hardware class says how many GPU hosts one appliance of it has."""
    count = len(case.site.with_role(Role.GPU))
    if case.profile is None or not _roles_are_known(case) or not count:
        return
    low, high = case.profile.gpu_hosts.minimum, case.profile.gpu_hosts.maximum
    if not low <= count <= high:
        message = f"{count} GPU host{'s' if count > 1 else ''}, but profile {case.profile.name} is for {low} to {high}"
        yield case.problem(
            ("hosts",), message, "change the number, or gpu_hosts in a profile of your own"
        )


def gpus(case: Case) -> Iterator[Finding]:
    """A GPU host has as many GPUs as its class at most."""
    for i, host in enumerate(case.site.hosts):
        if host.gpus is None:
            continue
        path: KeyPath = ("hosts", i, "gpus")
        if Role.GPU not in host.roles and _roles_are_known(case):
            yield case.problem(
                path, f"{host.name} has not the role gpu", "add gpu to its roles, or take this out"
            )
        if case.profile is None:
            continue
        gpu, name = case.profile.hardware.gpu, case.profile.name
        if host.gpus > gpu.count:
            message = f"is {host.gpus}, and a host of profile {name} has {gpu.count} at most"
            yield case.problem(
                path, message, f"take 1 to {gpu.count}, or a profile of larger hosts"
            )
        elif gpu.interconnect is Interconnect.NVLINK_BRIDGE and host.gpus % 2:
            message = f"{host.gpus} GPUs cannot be bridged in pairs, as profile {name} says"
            yield case.problem(
                path, message, "take an even number, or a profile of interconnect pcie"
            )


def _roles_are_known(case: Case) -> bool:
    """Every host was read, with all of its roles."""
    cut = case.checked.cut
    roles_cut = any(c[:1] == ("hosts",) and len(c) > 2 and c[2] == "roles" for c in cut)
    return case.checked.listed("hosts") and not roles_cut
