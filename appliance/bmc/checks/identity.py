"""Checks that this is the machine the site means, and that its BMC has a safe password."""

from collections.abc import Iterable, Mapping

from appliance.checks.check import BmcCheck, View, failed, not_assessed, passed
from appliance.models.bmc import BmcArea, BmcFacts
from appliance.models.result import Judgement
from appliance.models.site import Host

NO_SERIAL = frozenset(
    {"", "0", "none", "n/a", "na", "default string", "system serial number", "0123456789"}
)
"""Placeholders on boards without a serial number."""
FILLER = "to be filled by o.e.m"
NO_UUID = frozenset({"", "0" * 32, "f" * 32, "03000200040005000006000700080009"})
"""Missing UUIDs, and the one that AMI's firmware gives to every board by default."""
TWICE = (
    "one of the two hosts[].bmc.address in site.yml is the address of the other's BMC, or two boards have the same identity: "
    "compare the labels"
)
WRONG_MACHINE = "compare the label: correct hosts[].serial in site.yml, or hosts[].bmc.address if this is another machine"


def judge_unique(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """No other host of the site has the same serial number, UUID or MAC address."""
    owners = view.once(_owners)
    mine = _marks(facts)
    if not mine:
        why = "its BMC shows neither serial number, UUID nor MAC address"
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
    """hosts[].mac belongs to a port of the machine."""
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


def judge_serial(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """The machine has the serial number of hosts[].serial."""
    if host.serial is None:
        return
    found = facts.machine.serial.strip()
    if found.lower() in NO_SERIAL or FILLER in found.lower():
        why = facts.unread.get(BmcArea.SYSTEM) or "its BMC reports no serial number"
        yield not_assessed(host.name, why, limit=host.serial)
    elif found.lower() != host.serial.strip().lower():
        cause = f"the machine has serial number {found}, expected {host.serial}"
        yield failed(host.name, cause, WRONG_MACHINE, value=found, limit=host.serial)
    else:
        yield passed(host.name, found)


def judge_password(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """The BMC's password is not a vendor's default."""
    if facts.default_password:
        cause = "its BMC still has the vendor's default password"
        fix = "set a new password on the BMC, then in the file of hosts[].bmc.password"
        yield failed(host.name, cause, fix)
    elif facts.must_change_password:
        cause = "its BMC requires a new password"
        fix = "set one on the BMC, then in the file of hosts[].bmc.password"
        yield failed(host.name, cause, fix)
    else:
        yield passed(host.name)


CHECKS = (
    BmcCheck(
        id="bmc.unique",
        title="Each BMC belongs to a different machine",
        judge=judge_unique,
        limit="serial numbers, UUIDs and MAC addresses of all hosts",
        explain="Serial number, UUID and MAC addresses that the BMCs of all hosts report. If two are equal, one address in "
        "the site is wrong, and a power cycle would hit the other host. Placeholders of unprogrammed boards are ignored.",
    ),
    BmcCheck(
        id="bmc.mac",
        title="The machine has the site's MAC address",
        judge=judge_mac,
        limit="hosts[].mac of the site",
        explain="The MAC addresses of the machine's ports. If the machine lacks the site's address, it is the wrong machine, "
        "or the port was replaced. Without hosts[].mac nothing is judged.",
    ),
    BmcCheck(
        id="bmc.serial",
        title="The machine has the site's serial number",
        judge=judge_serial,
        limit="hosts[].serial of the site",
        explain="The serial number of the system, as its BMC reports it. If it differs, the BMC's address or cable is another machine's, "
        "or the mainboard was replaced. Without hosts[].serial nothing is judged.",
    ),
    BmcCheck(
        id="bmc.password",
        title="The BMC has a password of its own",
        judge=judge_password,
        limit="no vendor's default password",
        explain="Compares the password in the site with vendors' default passwords, and reads what the BMC reports about it "
        "at the login. No other password is tried. Anyone who reaches the BMC controls the machine.",
    ),
)
