"""Rules over stage base: admins and time."""

from collections.abc import Iterator
from functools import cache
from zoneinfo import available_timezones

from appliance.config.finding import Finding, KeyPath
from appliance.config.public_key import complaint
from appliance.config.rules.base import Case, Rule, named_twice, nearest
from appliance.config.rules.reserved import is_system_account, server


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
    for i, name in enumerate(case.site.base.ntp_servers):
        yield from server(case, ("base", "ntp_servers", i), name)


@cache
def _zones() -> frozenset[str]:
    """Of this machine; looked up once, for it reads some hundred files."""
    return frozenset(available_timezones())


RULES: tuple[Rule, ...] = (admins, time)
