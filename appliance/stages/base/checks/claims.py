"""Compares the hardware that a host reports with the accepted state, its class and other hosts."""

from collections.abc import Iterable

from appliance.checks.check import View, failed, not_assessed, passed
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, place
from appliance.models.site import Host


def judge_claims(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Report contradictions, which do not reach files of other hosts (appliance/engine/look/shared_facts.py)."""
    found = view.standing.contradictions.get(host.name, ())
    if not (facts.cpu.threads and facts.memory.total):
        yield not_assessed(host.name, facts.gap("cpu"))
    elif not found:
        yield passed(host.name, "agrees")
    for one in found:
        cause = f"{one.what}: the host reports {one.says}; {one.known}"
        if host.name in view.standing.left_out:
            cause += "; other hosts' files leave this host out"
        accept = f"appliance deploy --accept-facts {host.name}"
        fix = one.fix or f"find out what changed; if the new hardware is correct: {accept}"
        yield failed(place(host.name, one.what), cause, fix, value=one.says, limit=one.known)
