"""Rules over Slurm, the fabric, admins, time and access."""

import re
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address
from zoneinfo import available_timezones

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, nearest, repeated

PUBLIC_KEY = re.compile(
    r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r" AAAA[A-Za-z0-9+/]+={0,2}( .*)?$"
)
SERVER = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")


def partitions(case: Case) -> Iterator[Finding]:
    """Partitions have names of their own, and jobs that name none go to exactly one."""
    given = case.site.slurm.partitions
    names: list[tuple[KeyPath, str]] = [
        (("slurm", "partitions", i, "name"), p.name) for i, p in enumerate(given)
    ]
    for path, name, first in repeated(names):
        yield case.problem(
            path, f'"{name}" stands twice (also line {case.line(first)})', "keep one"
        )
    defaults = sum(p.default for p in given)
    if defaults != 1 and case.checked.whole("slurm", "partitions"):
        message = f"{defaults or 'none'} of {len(given)} partitions is the default"
        yield case.problem(("slurm", "partitions"), message, 'set "default: true" on exactly one')


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
        if admin.name == "root":
            path: KeyPath = ("base", "admins", i, "name")
            yield case.problem(
                path, "root is no person", "name the person; sudo: true makes them root"
            )
        for j, key in enumerate(admin.keys):
            where: KeyPath = ("base", "admins", i, "keys", j)
            if "PRIVATE KEY" in key:
                yield case.problem(
                    where, "is a private key", "put the .pub file's line here, and make a new pair"
                )
            elif not PUBLIC_KEY.match(key):
                yield case.problem(
                    where,
                    "is not an OpenSSH public key",
                    "paste the line of a .pub file, as ssh-ed25519 AAAA...",
                )


def time(case: Case) -> Iterator[Finding]:
    """The time zone exists, and time servers are names or addresses."""
    zone = case.site.base.timezone
    zones = available_timezones()
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
    digits = re.fullmatch(r"[0-9.]+", server)
    try:
        usable = bool(ip_address(server)) if digits else bool(SERVER.match(server))
    except ValueError:
        usable = False
    if not usable:
        yield case.problem(
            path, f'"{server}" is not a host name or address', "as ntp1.example.org or 10.0.0.1"
        )
