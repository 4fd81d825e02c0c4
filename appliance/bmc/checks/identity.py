"""Is it the machine the site means, and is its controller safe to leave as it is."""

from collections.abc import Iterable, Mapping

from appliance.checks.check import BmcCheck, View, failed, not_assessed, passed
from appliance.models.bmc import BmcArea, BmcFacts
from appliance.models.result import Judgement
from appliance.models.site import Host

NO_SERIAL = frozenset(
    {"", "0", "none", "n/a", "na", "default string", "system serial number", "0123456789"}
)
"""What boards say that nobody has given a number."""
FILLER = "to be filled by o.e.m"
NO_UUID = frozenset({"", "0" * 32, "f" * 32, "03000200040005000006000700080009"})
"""No UUID, and one that AMI's firmware gives to every board nobody has set."""
TWICE = (
    "one of the two hosts[].bmc.address in site.yml leads to the other's controller; or two boards were programmed alike: "
    "compare the labels"
)


def judge_unique(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """No other host of the site shows the same serial number, UUID or MAC address."""
    owners = view.once(_owners)
    mine = _marks(facts)
    if not mine:
        why = "its controller shows neither serial number, UUID nor MAC address"
        yield not_assessed(host.name, why)
        return
    shared = [(mark, owners[mark]) for mark in mine if len(owners[mark]) > 1]
    for (kind, value), hosts in shared[:1]:
        others = [name for name in hosts if name != host.name]
        cause = f"{kind} {value} is also that of {', '.join(others)}"
        yield failed(host.name, cause, TWICE, value=value, names=tuple(others))
    if not shared:
        yield passed(host.name, facts.machine.serial or None)


def _owners(view: View) -> Mapping[tuple[str, str], list[str]]:
    owners: dict[tuple[str, str], list[str]] = {}
    for name, facts in view.controllers.items():
        for mark in _marks(facts):
            owners.setdefault(mark, []).append(name)
    return owners


def _marks(facts: BmcFacts) -> list[tuple[str, str]]:
    found = []
    machine = facts.machine
    if machine.serial.lower() not in NO_SERIAL and FILLER not in machine.serial.lower():
        found.append(("serial number", machine.serial))
    if machine.uuid.replace("-", "").lower() not in NO_UUID:
        found.append(("UUID", machine.uuid.lower()))
    macs = dict.fromkeys(port.mac for port in facts.interfaces)
    return found + [("MAC address", mac) for mac in macs if mac.strip("0:")]


def judge_mac(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """The management port of the site is one of the machine's."""
    if host.mac is None:
        return
    macs = {port.mac for port in facts.interfaces if port.mac}
    if host.mac in macs:
        yield passed(host.name, host.mac)
        return
    gap = facts.unread.get(BmcArea.INTERFACES, "" if macs else "it lists no MAC address")
    if gap:
        yield not_assessed(host.name, gap, limit=host.mac)
        return
    cause = f"no port has the MAC address {host.mac}; found: {', '.join(sorted(macs))}"
    fix = "correct hosts[].mac in site.yml, or hosts[].bmc.address if this is another machine"
    yield failed(host.name, cause, fix, limit=host.mac)


def judge_password(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """The controller's password is not the one it was sold with."""
    if facts.default_password:
        cause = "its controller still has the password it was sold with"
        fix = "set one of its own on the controller, then in the file of hosts[].bmc.password"
        yield failed(host.name, cause, fix)
    elif facts.must_change_password:
        cause = "its controller asks for a new password"
        fix = "set one on the controller, then in the file of hosts[].bmc.password"
        yield failed(host.name, cause, fix)
    else:
        yield passed(host.name)


CHECKS = (
    BmcCheck(
        id="bmc.unique",
        title="Each controller is of another machine",
        judge=judge_unique,
        limit="serial numbers, UUIDs and MAC addresses of all hosts",
        explain="Serial number, UUID and MAC addresses that the controllers of all hosts show. Two alike: one address in "
        "the site is wrong, and a power cycle would hit the other host. What unprogrammed boards say is left out.",
    ),
    BmcCheck(
        id="bmc.mac",
        title="The machine has the site's MAC address",
        judge=judge_mac,
        limit="hosts[].mac of the site",
        explain="The MAC addresses of the machine's ports. One that the site names and the machine lacks: another machine "
        "stands there, or the port was replaced. Without hosts[].mac nothing is judged.",
    ),
    BmcCheck(
        id="bmc.password",
        title="The controller has a password of its own",
        judge=judge_password,
        limit="no password of a maker's handbook",
        explain="The password in the site, beside those that makers print in handbooks, and what the controller says of it "
        "at the login. No other password is tried. Who reaches the controller owns the machine.",
    ),
)
