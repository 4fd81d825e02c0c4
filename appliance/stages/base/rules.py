"""Rules for stage base: people and time."""

import shlex
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import available_timezones

from appliance.config import certificate
from appliance.config.bounded_files import TooLarge, read_bytes
from appliance.config.finding import Finding, KeyPath
from appliance.config.public_key import complaint, of_private
from appliance.config.rules.base import Case, Rule, named_twice, nearest, repeated
from appliance.config.rules.reserved import (
    NOBODY,
    inside,
    is_system_account,
    is_system_folder,
    is_system_group,
    server,
)

OTHER_NAME = "rename the person or group"


def admins(case: Case) -> Iterator[Finding]:
    """Admins are people with names of their own and public keys."""
    given: list[tuple[KeyPath, str]] = [
        (("base", "admins", i, "name"), a.name) for i, a in enumerate(case.site.base.admins)
    ]
    yield from named_twice(case, "admin", given)
    for i, admin in enumerate(case.site.base.admins):
        path: KeyPath = ("base", "admins", i, "name")
        if admin.name == "root":
            yield case.problem(
                path,
                "`root` cannot be listed as an admin",
                "name the person; sudo: true grants root rights",
            )
        elif is_system_account(admin.name):
            message = f"{admin.name} is an account of the system or of a service"
            yield case.problem(path, message, "name the person, such as alice")
        yield from _keys(case, ("base", "admins", i, "keys"), admin.keys)


def _keys(case: Case, path: KeyPath, keys: tuple[str, ...]) -> Iterator[Finding]:
    for j, key in enumerate(keys):
        where: KeyPath = (*path, j)
        if "PRIVATE KEY" in key:
            yield case.problem(
                where,
                "is a private key",
                "write the line of the .pub file here, and create a new key pair: this private key is exposed",
            )
        elif why := complaint(key):
            remedy = "paste the whole line of a .pub file, such as ssh-ed25519 AAAA... alice"
            yield case.problem(where, why, remedy)


def advisories(case: Case) -> Iterator[Finding]:
    """A distribution backports fixes under its own version numbers, so it must be named; NVIDIA's versions are the same everywhere. Dates are valid and past."""
    # Time zones are up to 14 hours ahead.
    latest = datetime.now(UTC).date() + timedelta(days=1)
    for i, row in enumerate(case.site.base.advisories):
        if why := _no_day(row.looked, latest):
            where: KeyPath = ("base", "advisories", i, "looked")
            yield case.problem(where, f"{row.looked} {why}", "write the day of the last review")
        path: KeyPath = ("base", "advisories", i, "system")
        is_nvidias = row.of.startswith(("nvidia-", "datacenter-"))
        if is_nvidias and row.system:
            yield case.problem(path, f"{row.of} has the same versions on every system", "remove it")
        elif not is_nvidias and not row.system and row.of != "containerd.io":
            remedy = f"name the release, such as debian-12: each backports fixes to its {row.of}"
            yield case.problem(path, "is missing", remedy)


def _no_day(text: str, latest: date) -> str:
    """Why that day cannot be a review date; empty if it can."""
    try:
        return "is in the future" if date.fromisoformat(text) > latest else ""
    except ValueError:
        return "is not a valid date"


Numbered = list[tuple[KeyPath, str, KeyPath, int]]
"""Users or groups: the name and the number, each with its path."""


def _users(case: Case) -> Numbered:
    given = enumerate(case.site.base.users)
    return [(_in("users", i, "name"), u.name, _in("users", i, "uid"), u.uid) for i, u in given]


def _groups(case: Case) -> Numbered:
    given = enumerate(case.site.base.groups)
    return [(_in("groups", i, "name"), g.name, _in("groups", i, "gid"), g.gid) for i, g in given]


def _in(section: str, number: int, key: str) -> KeyPath:
    return ("base", section, number, key)


def names(case: Case) -> Iterator[Finding]:
    """A name belongs to one admin, user or group, and not to the system."""
    base = case.site.base
    admins = [(_in("admins", i, "name"), admin.name) for i, admin in enumerate(base.admins)]
    others = [(path, name) for path, name, _, _ in (*_users(case), *_groups(case))]
    for path, name, first in repeated([*admins, *others]):
        if path[1] != "admins":
            message = f"{name} is also {case.also(first)}"
            remedy = "keep one: an admin is a user already, and a user has a group of the same name"
            yield case.problem(path, message, remedy)
    for path, name in others:
        if is_system_group(name):
            message = f"{name} is reserved by the system, a service or the appliance"
            yield case.problem(path, message, "choose another name, such as alice or vision-team")


def numbers(case: Case) -> Iterator[Finding]:
    """A number belongs to one user or group, and not to the system."""
    given = [(path, number) for _, _, path, number in (*_users(case), *_groups(case))]
    for path, number, first in repeated(given):
        message = f"{number} is also {case.also(first)}"
        yield case.problem(
            path, message, "choose another number: a user's own group has the user's number"
        )
    for path, number in given:
        if number in NOBODY:
            message = f"{number} is reserved by systemd or for overflow IDs"
            yield case.problem(path, message, "choose a number up to 60000, or from 65536")


def users(case: Case) -> Iterator[Finding]:
    """Users have public keys, and their groups exist."""
    known = [group.name for group in case.site.base.groups]
    for i, user in enumerate(case.site.base.users):
        yield from _keys(case, ("base", "users", i, "keys"), user.keys)
        for j, name in enumerate(user.groups):
            if name not in known and case.checked.listed("base", "groups"):
                path: KeyPath = ("base", "users", i, "groups", j)
                message = f"there is no group {name} in base.groups"
                yield case.problem(path, message, nearest(name, known, "groups"))


def own_account(case: Case) -> Iterator[Finding]:
    """Admins and users replace keys, groups and home of an account: the deployment account must keep its own."""
    user = case.site.access.user
    if user == "root":
        return
    whose = f"{user} is the account that deployments log in with (access.user)"
    for i, one in enumerate(case.site.base.users):
        if one.name == user:
            message = f"{whose}: it would lose its home, its keys and sudo"
            yield case.problem(_in("users", i, "name"), message, OTHER_NAME)
    for i, group in enumerate(case.site.base.groups):
        if group.name == user:
            message = f"{whose}, and has a group of the same name"
            yield case.problem(_in("groups", i, "name"), message, OTHER_NAME)
    for i, admin in enumerate(case.site.base.admins):
        if admin.name != user:
            continue
        if not admin.sudo:
            message = f"{whose}, and would lose sudo"
            yield case.problem(_in("admins", i, "sudo"), message, "set sudo: true")
        own, file = _own_key(case)
        if own and own not in [key.split(" ")[1] for key in admin.keys if " " in key]:
            message = f"{whose}, and only these keys would be accepted: the key of {file} is not among them"
            remedy = (
                f"add it, as printed by ssh-keygen -y -f {shlex.quote(file)}, or rename the person"
            )
            yield case.problem(_in("admins", i, "keys"), message, remedy)


def _own_key(case: Case) -> tuple[str, str]:
    """The public half of the deployment key, and its file; "" if it is unknown, or if a certificate is used."""
    name = case.site.access.private_key
    if name is None:
        return "", ""
    file = case.folder / name
    if file.with_name(f"{file.name}-cert.pub").exists():
        return "", name
    for beside, read in ((file, of_private), (file.with_name(f"{file.name}.pub"), _of_public)):
        try:
            found = read(read_bytes(beside))
        except (OSError, TooLarge):
            continue
        if found:
            return found, name
    return "", name


def _of_public(text: bytes) -> str:
    words = text.decode("utf-8", "replace").split()
    return words[1] if len(words) > 1 else ""


def homes(case: Case) -> Iterator[Finding]:
    """Users' homes are in a folder of their own."""
    base = case.site.base
    path: KeyPath = ("base", "homes")
    if is_system_folder(base.homes):
        message = f"{base.homes} belongs to the operating system"
        yield case.problem(path, message, "use /home, or a folder of a mount, such as /shared/home")
    user = case.site.access.user
    whose = "base.admins" if base.admins else user if user != "root" else ""
    for i, mount in enumerate(case.site.storage.mounts):
        if inside("/home", mount.at) and whose:
            where: KeyPath = ("storage", "mounts", i, "at")
            message = f"{mount.at} would hide the homes of {whose} in /home, including their keys"
            remedy = "mount it elsewhere, such as at /shared, and set base.homes: /shared/home"
            yield case.problem(where, message, remedy)


def time(case: Case) -> Iterator[Finding]:
    """The time zone exists, and time servers are names or addresses."""
    zone = case.site.base.timezone
    zones = _zones()
    if zones and zone not in zones:
        close = nearest(zone, sorted(zones), "")
        remedy = (
            close
            if close.startswith("did")
            else "choose one of timedatectl list-timezones, such as Europe/Berlin"
        )
        yield case.problem(("base", "timezone"), f'"{zone}" is not a time zone', remedy)
    given = case.site.base.ntp_servers
    own = (
        {word: h.name for h in case.site.hosts for word in (h.name, str(h.address))}
        if given
        else {}
    )
    for i, name in enumerate(given):
        where: KeyPath = ("base", "ntp_servers", i)
        yield from server(case, where, name)
        if name in own:
            message = f"{own[name]} is a host of this site: it would use itself as its time server, and it serves no time"
            remedy = "name external servers, or remove this line: then the first control host serves time"
            yield case.problem(where, message, remedy)


def logs(case: Case) -> Iterator[Finding]:
    """The log server is a name or an address, and its CA has certificates."""
    given = case.site.base.logs
    if given is None:
        return
    yield from server(case, ("base", "logs", "to"), given.to)
    if given.ca and (why := certificate.complaint(given.ca)):
        yield case.problem(("base", "logs", "ca"), why, certificate.WHOLE)


@cache
def _zones() -> frozenset[str]:
    """Of this machine; cached, because it reads some hundred files."""
    return frozenset(available_timezones())


RULES: tuple[Rule, ...] = (
    admins,
    names,
    own_account,
    numbers,
    users,
    homes,
    time,
    logs,
    advisories,
)
