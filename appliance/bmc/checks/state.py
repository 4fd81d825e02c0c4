"""Is the machine well: its own verdict, power supplies, fans and temperatures, and what its event log says."""

from collections.abc import Iterable

from appliance.bmc.checks.parts import ill
from appliance.checks.check import BmcCheck, View, failed, not_assessed, passed, warned
from appliance.models.bmc import BmcArea, BmcFacts, Condition
from appliance.models.result import Judgement, place
from appliance.models.site import Host


def judge_health(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """The controller's own verdict on the whole machine."""
    said = facts.machine.condition
    cause = f"its controller says {said} of the whole machine"
    fix = "the other bmc checks name the part; the controller's own page does where they do not"
    common = {"value": said.value or None, "limit": Condition.OK.value}
    match said:
        case Condition.OK:
            yield passed(host.name, said.value)
        case Condition.UNKNOWN:
            why = "its controller gives no verdict on the machine"
            yield not_assessed(host.name, why)
        case Condition.WARNING:
            yield warned(host.name, cause, fix, **common)
        case Condition.CRITICAL:
            yield failed(host.name, cause, fix, **common)


def judge_supplies(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """Every power supply is there and well."""
    wrong = list(ill(host, facts.supplies))
    for supply in facts.supplies:
        if supply.present is False:
            cause = f"the bay of {supply.name} is empty, so the others carry its load"
            fix = "put one in, or take the machine for one of fewer supplies"
            wrong.append(warned(place(host.name, supply.name), cause, fix))
    yield from wrong
    if wrong:
        return
    if gap := facts.unread.get(BmcArea.SUPPLIES, "" if facts.supplies else "none are listed"):
        yield not_assessed(host.name, gap)
    elif silent := [s.name for s in facts.supplies if s.condition is Condition.UNKNOWN]:
        why = f"its controller does not say how {', '.join(silent[:4])} is"
        yield not_assessed(host.name, why)
    else:
        yield passed(host.name, len(facts.supplies), unit="supplies")


def judge_sensors(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """No fan and no temperature is out of its bounds."""
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
    """The event log has no critical entry that is still open."""
    open_ones = [e for e in facts.events if e.severity is Condition.CRITICAL and not e.resolved]
    if open_ones:
        last = max(open_ones, key=lambda e: e.created)
        more = f", and {len(open_ones) - 1} more" if len(open_ones) > 1 else ""
        cause = f"{last.created or 'at an unknown time'}: {last.message}{more}"
        fix = "mend what it speaks of, then clear the log on the controller"
        count = len(open_ones)
        yield warned(host.name, cause, fix, value=count, unit="entries", limit=0)
    elif gap := facts.unread.get(BmcArea.EVENTS):
        yield not_assessed(host.name, gap, required=False)
    else:
        yield passed(host.name, 0, unit="entries")


def judge_power(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """The controller says whether the machine is on; either is good."""
    if facts.machine.power in {"On", "Off"}:
        yield passed(host.name, facts.machine.power)
    elif facts.machine.power:
        why = f"the machine is between states: {facts.machine.power}"
        yield not_assessed(host.name, why, fix="look again in a minute")
    else:
        yield not_assessed(host.name, "its controller does not say whether it is on")


CHECKS = (
    BmcCheck(
        id="bmc.power",
        title="The controller knows whether the machine is on",
        judge=judge_power,
        limit="On or Off",
        explain="PowerState of the system. A controller that does not know it has lost its board; without it nothing can be "
        "switched.",
    ),
    BmcCheck(
        id="bmc.health",
        title="The controller finds the machine well",
        judge=judge_health,
        limit="OK",
        explain="Health of the system with all its parts, as the controller sums it up. Makers differ in what they put into "
        "it; the other checks look at the parts.",
    ),
    BmcCheck(
        id="bmc.supplies",
        title="Power supplies are there and well",
        judge=judge_supplies,
        limit="OK, and no empty bay",
        explain="Each power supply. With one missing a machine of 10 kW runs at its limit, and slows its GPUs down under "
        "load. Usual causes: a cable, a breaker, a supply that was never put in.",
    ),
    BmcCheck(
        id="bmc.sensors",
        title="Fans and temperatures are in bounds",
        judge=judge_sensors,
        limit="OK",
        explain="Fans and temperatures, by the bounds the controller knows. A fan that stands still is found here before a "
        "GPU slows down.",
    ),
    BmcCheck(
        id="bmc.events",
        title="The event log has no open critical entry",
        judge=judge_events,
        limit="0 critical entries",
        explain="The newest 200 entries of the machine's event log. Uncorrectable memory errors, lost supplies and thermal "
        "trips stay there after a reboot that hides them. Times are those of the controller's clock.",
    ),
)
