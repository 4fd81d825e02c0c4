"""Finds silences of Alertmanager that suppress too much."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.models.result import CLUSTER, Judgement, Place, place
from appliance.models.site import Host
from appliance.stages.observe.facts import Matcher, Silence
from appliance.text import plural

LONGEST_DAYS = 30.0
"""Own choice; for longer, renew the silence or change the rule."""
MANY = 5
"""Own choice: maximum number of alerts of one host, or of all, that may be silenced at once."""
LISTED = 20
"""Maximum number of silences with a finding of their own; further ones are counted."""
NAMES = re.compile(r"[\w-]+(\|[\w-]+)*")
"""The only pattern that is parsed: any other may match anything."""
ALERT, HOST = "alertname", "instance"
ALL = ""
"""Stands for all hosts."""
SIGNS = {(True, False): "=", (True, True): "=~", (False, False): "!=", (False, True): "!~"}
"""Operators, by whether a matcher must match and whether it is a pattern."""
AMTOOL = "amtool silence {} --alertmanager.url=http://127.0.0.1:9093"

Tell = Callable[[Place, str, str], Judgement]
Held = Mapping[str, set[str]]
"""Alerts that are suppressed by name, by host."""


def judge(view: View, server: Host, known: tuple[Silence, ...] | None) -> Iterator[Judgement]:
    """Return a finding for each silence that suppresses too much, or for too long."""
    if known is None:
        gap = view.facts[server.name].gap("observe", "Alertmanager does not list its silences")
        yield not_assessed(CLUSTER, gap)
        return
    everybody = frozenset(host.name for host in view.site.hosts)
    held = _suppressed(known, everybody)
    broad = ((one, _why(one, _hosts(one, everybody), held)) for one in known)
    found = [_found(server, one, *why) for one, why in broad if why]
    yield from found[:LISTED]
    if len(found) > LISTED:
        cause = f"{len(found) - LISTED} more silences hold back too much"
        yield failed(place(CLUSTER, "more"), cause, f"on {server.name}: {AMTOOL.format('query')}")
    if not found:
        yield passed(CLUSTER, len(known), unit="silences")


def _found(server: Host, silence: Silence, tell: Tell, why: str) -> Judgement:
    matchers = ", ".join(f'{m.name}{SIGNS[m.equal, m.regex]}"{m.value}"' for m in silence.matchers)
    cause = f"a silence {why}, until {silence.until}, made by {silence.by or 'nobody'}: {matchers}"
    fix = f"on {server.name}: {AMTOOL.format('expire ' + silence.id)}"
    return tell(place(CLUSTER, f"silence {silence.id}"), cause, fix)


def _why(silence: Silence, hosts: frozenset[str], held: Held) -> tuple[Tell, str] | None:
    if _alerts(silence) is None:
        names = ", ".join(sorted(hosts)) if len(hosts) <= MANY else plural(len(hosts), "host")
        whole = f"holds back all alerts of {names}"
        return (warned, whole) if hosts else (failed, "holds back alerts of all kinds on all hosts")
    count = max(len(held[host] | held[ALL]) for host in hosts or (ALL,))
    if count > MANY:
        where = "of one host" if hosts else "of all hosts"
        return warned, f"is one of those that hold back {count} kinds of alerts {where}"
    if silence.days > LONGEST_DAYS:
        return warned, f"lasts {silence.days:.0f} days"
    return None


def _suppressed(known: Iterable[Silence], everybody: frozenset[str]) -> Held:
    held: dict[str, set[str]] = defaultdict(set)
    for silence in known:
        for host in _hosts(silence, everybody) or (ALL,):
            held[host] |= _alerts(silence) or set()
    return held


def _alerts(silence: Silence) -> frozenset[str] | None:
    """Return the alerts it names; None if it may suppress any."""
    return _named(silence.matchers, ALERT)


def _hosts(silence: Silence, everybody: frozenset[str]) -> frozenset[str]:
    """Return the hosts it names; empty if it may suppress alerts of all."""
    hosts = _named(silence.matchers, HOST) or frozenset()
    return frozenset() if everybody <= hosts else hosts


def _named(matchers: Iterable[Matcher], label: str) -> frozenset[str] | None:
    """Return the smallest set of values among matchers of one label, because an alert must match all of them."""
    sets = [found for m in matchers if m.name == label and (found := _values(m))]
    return min(sets, key=len, default=None)


def _values(matcher: Matcher) -> frozenset[str]:
    """Return the possible values of the label; empty for any value."""
    if not matcher.equal or not matcher.value:
        return frozenset()
    if not matcher.regex:
        return frozenset({matcher.value})
    names = NAMES.fullmatch(matcher.value)
    return frozenset(matcher.value.split("|")) if names else frozenset()
