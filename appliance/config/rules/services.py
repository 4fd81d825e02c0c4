"""Rules over Slurm, the fabric, admins, time and access."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from ipaddress import IPv4Address
from zoneinfo import available_timezones

from appliance.config.finding import Finding, KeyPath
from appliance.config.public_key import complaint
from appliance.config.rules.base import Case, nearest, repeated
from appliance.config.rules.reserved import SLURM_WORDS, is_for_hosts, is_system_account

DEFAULT_ACCOUNT = "default"
"""As a site without accounts has it; in accounting it is a name like any other."""
UNLIMITED = "UNLIMITED"


def partitions(case: Case) -> Iterator[Finding]:
    """Partitions have names of their own, and jobs that name none go to exactly one."""
    given = case.site.slurm.partitions
    names: list[tuple[KeyPath, str]] = [
        (("slurm", "partitions", i, "name"), p.name) for i, p in enumerate(given)
    ]
    for at, name, first in repeated(names):
        yield case.problem(at, f'"{name}" stands twice (also line {case.line(first)})', "keep one")
    for i, partition in enumerate(given):
        path: KeyPath = ("slurm", "partitions", i)
        if partition.name.lower() in SLURM_WORDS:
            yield case.problem((*path, "name"), *_slurms(partition.name))
        if (
            not any(digit in "123456789" for digit in partition.max_time)
            and partition.max_time != UNLIMITED
        ):
            message = f'"{partition.max_time}" lets no job run'
            yield case.problem((*path, "max_time"), message, "a minute at least, or UNLIMITED")
    defaults = sum(p.default for p in given)
    if defaults != 1 and case.checked.whole("slurm", "partitions"):
        message = f"{defaults or 'none'} of {len(given)} partitions is the default"
        yield case.problem(("slurm", "partitions"), message, 'set "default: true" on exactly one')


def slurm_words(case: Case) -> Iterator[Finding]:
    """What Slurm reads as a value is no name of a cluster or an account."""
    given: list[tuple[KeyPath, str]] = [(("slurm", "cluster"), case.site.slurm.cluster)]
    given += [
        (("slurm", "accounts", i, "name"), account.name)
        for i, account in enumerate(case.site.slurm.accounts)
        if account.name != DEFAULT_ACCOUNT
    ]
    for path, name in given:
        if name.lower() in SLURM_WORDS:
            yield case.problem(path, *_slurms(name))


def _slurms(name: str) -> tuple[str, str]:
    return f'"{name}" has a meaning in Slurm\'s files', "take another name"


def accounts(case: Case) -> Iterator[Finding]:
    """Slurm accounts and people have names of their own."""
    groups: dict[str, list[tuple[KeyPath, str]]] = {
        "account": [
            (("slurm", "accounts", i, "name"), a.name)
            for i, a in enumerate(case.site.slurm.accounts)
        ],
        "admin": [
            (("base", "admins", i, "name"), a.name) for i, a in enumerate(case.site.base.admins)
        ],
    }
    for what, names in groups.items():
        for path, name, first in repeated(names):
            message = f'{what} "{name}" stands twice (also line {case.line(first)})'
            yield case.problem(path, message, "make them one")


def admins(case: Case) -> Iterator[Finding]:
    """Admins are people with public keys."""
    for i, admin in enumerate(case.site.base.admins):
        path: KeyPath = ("base", "admins", i, "name")
        if admin.name == "root":
            yield case.problem(
                path, "root is no person", "name the person; sudo: true makes them root"
            )
        elif is_system_account(admin.name):
            message = f"{admin.name} is an account of the system or of a service"
            yield case.problem(path, message, "name the person, as alice")
        for j, key in enumerate(admin.keys):
            where: KeyPath = ("base", "admins", i, "keys", j)
            if "PRIVATE KEY" in key:
                yield case.problem(
                    where, "is a private key", "put the .pub file's line here, and make a new pair"
                )
            elif why := complaint(key):
                remedy = "paste the whole line of a .pub file, as ssh-ed25519 AAAA... alice"
                yield case.problem(where, why, remedy)


def time(case: Case) -> Iterator[Finding]:
    """The time zone exists, and time servers are names or addresses."""
    zone = case.site.base.timezone
    zones = _zones()
    if zones and zone not in zones:
        close = nearest(zone, sorted(zones), "")
        remedy = (
            close
            if close.startswith("did")
            else "take one of timedatectl list-timezones, as Europe/Berlin"
        )
        yield case.problem(("base", "timezone"), f'"{zone}" is not a time zone', remedy)
    for i, server in enumerate(case.site.base.ntp_servers):
        yield from _server(case, ("base", "ntp_servers", i), server)


@cache
def _zones() -> frozenset[str]:
    """Of this machine; looked up once, for it reads some hundred files."""
    return frozenset(available_timezones())


def external_servers(case: Case) -> Iterator[Finding]:
    """External NFS servers are names or addresses."""
    for i, external in enumerate(case.site.storage.external):
        yield from _server(case, ("storage", "external", i, "server"), external.server)


def fabric(case: Case) -> Iterator[Finding]:
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


def access(case: Case) -> Iterator[Finding]:
    """Who is not root needs sudo, except to look."""
    given = case.site.access
    if given.user != "root" and not given.become and case.checked.whole("access"):
        finding = case.problem(
            ("access", "user"),
            f"{given.user} is not root and become is false",
            "set access.become: true (needs sudo without a password)",
        )
        yield replace(finding, level="todo")


def _server(case: Case, path: KeyPath, server: str) -> Iterator[Finding]:
    """Names are as the schema has them; one whose last part is a number would be read as an address (RFC 1123)."""
    if not re.search(r"(^|\.)(0x[0-9a-f]*|[0-9]+)\Z", server, re.IGNORECASE):
        return
    try:
        usable = is_for_hosts(IPv4Address(server))
    except ValueError:
        usable = False
    if not usable:
        yield case.problem(
            path, f'"{server}" is not a host name or address', "as ntp1.example.org or 10.0.0.1"
        )
