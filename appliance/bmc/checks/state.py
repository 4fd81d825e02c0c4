"""Checks the health of the machine: overall, power supplies, fans and temperatures, and its event log."""

from collections.abc import Iterable

from appliance.bmc.checks.parts import ill
from appliance.checks.check import BmcCheck, View, failed, not_assessed, passed, warned
from appliance.models.bmc import BmcArea, BmcFacts, Condition
from appliance.models.result import Judgement, place
from appliance.models.site import Host


def judge_health(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """The BMC's overall verdict on the machine."""
    said = facts.machine.condition
    cause = f"its BMC reports {said} for the whole machine"
    fix = "the other bmc checks name the part; otherwise see the web page of the BMC"
    common = {"value": said.value or None, "limit": Condition.OK.value}
    match said:
        case Condition.OK:
            yield passed(host.name, said.value)
        case Condition.UNKNOWN:
            why = "its BMC reports no overall health"
            yield not_assessed(host.name, why)
        case Condition.WARNING:
            yield warned(host.name, cause, fix, **common)
        case Condition.CRITICAL:
            yield failed(host.name, cause, fix, **common)


def judge_supplies(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """Every power supply is present and healthy."""
    wrong = list(ill(host, facts.supplies))
    for supply in facts.supplies:
        if supply.present is False:
            cause = f"the bay of {supply.name} is empty, so the others carry its load"
            fix = "install a power supply, or choose the profile of a machine with fewer"
            wrong.append(warned(place(host.name, supply.name), cause, fix, aspect="empty"))
    yield from wrong
    if wrong:
        return
    if gap := facts.unread.get(BmcArea.SUPPLIES, "" if facts.supplies else "none are listed"):
        yield not_assessed(host.name, gap)
    elif silent := [s.name for s in facts.supplies if s.condition is Condition.UNKNOWN]:
        why = f"its BMC does not report the state of {', '.join(silent[:4])}"
        yield not_assessed(host.name, why)
    else:
        yield passed(host.name, len(facts.supplies), unit="supplies")


def judge_sensors(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """All fans and temperatures are within their limits."""
    wrong = list(ill(host, facts.sensors))
    yield from wrong
    judged = [s for s in facts.sensors if s.condition is not Condition.UNKNOWN]
    if wrong:
        return
    if gap := facts.unread.get(BmcArea.SENSORS, "" if judged else "none of them has a state"):
        yield not_assessed(host.name, gap)
    else:
        yield passed(host.name, len(judged), unit="sensors")


def judge_events(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """The event log has no open critical entry."""
    open_ones = [e for e in facts.events if e.severity is Condition.CRITICAL and not e.resolved]
    if open_ones:
        last = max(open_ones, key=lambda e: e.created)
        more = f", and {len(open_ones) - 1} more" if len(open_ones) > 1 else ""
        cause = f"{last.created or 'at an unknown time'}: {last.message}{more}"
        fix = "fix the cause, then clear the log on the BMC"
        count = len(open_ones)
        yield warned(host.name, cause, fix, value=count, unit="entries", limit=0)
    elif gap := facts.unread.get(BmcArea.EVENTS):
        yield not_assessed(host.name, gap, required=False)
    else:
        yield passed(host.name, 0, unit="entries")


def judge_power(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """The BMC reports whether the machine is on; on and off are both good."""
    if facts.machine.power in {"On", "Off"}:
        yield passed(host.name, facts.machine.power)
    elif facts.machine.power:
        why = f"the machine is changing its power state: {facts.machine.power}"
        yield not_assessed(host.name, why, fix="check again in a minute")
    else:
        yield not_assessed(host.name, "its BMC does not report whether it is on")


CHECKS = (
    BmcCheck(
        id="bmc.power",
        title="The BMC reports the power state",
        judge=judge_power,
        limit="On or Off",
        explain="PowerState of the system. A BMC that does not report it has lost its board; without it nothing can be "
        "switched.",
    ),
    BmcCheck(
        id="bmc.health",
        title="The BMC reports the machine as healthy",
        judge=judge_health,
        limit="OK",
        explain="Health of the system and all its parts, as summarized by the BMC. Vendors differ in what they include; "
        "the other checks examine the parts.",
    ),
    BmcCheck(
        id="bmc.supplies",
        title="Power supplies are present and healthy",
        judge=judge_supplies,
        limit="OK, and no empty bay",
        explain="Each power supply. With one missing, a machine of 10 kW runs at its limit, and slows its GPUs down under "
        "load. Usual causes: a cable, a breaker, a supply that was never installed.",
    ),
    BmcCheck(
        id="bmc.sensors",
        title="Fans and temperatures are within limits",
        judge=judge_sensors,
        limit="OK",
        explain="Fans and temperatures, by the thresholds of the BMC. Detects a stopped fan before a "
        "GPU slows down.",
    ),
    BmcCheck(
        id="bmc.events",
        title="The event log has no open critical entry",
        judge=judge_events,
        limit="0 critical entries",
        explain="The newest 200 entries of the machine's event log. Uncorrectable memory errors, failed power supplies and thermal "
        "trips stay there after a reboot that hides them. Times are those of the BMC's clock.",
    ),
)
