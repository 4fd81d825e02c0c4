"""Whether etcd still takes changes, and how far its database is from the size at which it takes none."""

from collections.abc import Iterator
from typing import Any

from appliance.checks.causes import Cause, is_unknown
from appliance.checks.check import (
    CONTROL_HOSTS,
    Check,
    HostCheck,
    Nature,
    View,
    failed,
    not_assessed,
    passed,
    warned,
)
from appliance.models.bound import Bound
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.facts import EtcdMember

FULL, DIFFER = "NOSPACE", "CORRUPT"
MOST = 80.0
OWN_CHOICE = "own choice: room for what else is written until somebody comes"
FREE, LEAST = 50.0, 500e6
"""Percent of a database that is free space, from so many bytes on."""
REPAIR = "appliance etcd repair"


def judge_etcd(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    """An alarm fails; a database that is nearly full, or mostly free space, warns."""
    known = facts.kubernetes.etcd if facts.kubernetes else None
    if known is None:
        why = facts.gap("kubernetes", "etcd of this host does not answer at 127.0.0.1:2381")
        yield not_assessed(host.name, why if facts.kubernetes else f"{host.name} has no kubelet")
    elif known.alarm:
        yield _alarmed(host, known, known.alarm)
    else:
        yield _sized(view, host, known)


def _alarmed(host: Host, known: EtcdMember, alarm: str) -> Judgement:
    if alarm != FULL:
        cause = f"etcd has raised the alarm {alarm}"
        cause += ": its members do not have the same" if alarm == DIFFER else ""
        fix = "appliance etcd list, then appliance etcd restore with a backup from before"
        return failed(host.name, cause, fix, value=alarm, limit="no alarm")
    size = ""
    if known.bytes is not None and known.quota:
        size = f": its database has {told(known.bytes)} of {told(known.quota)}"
    cause = f"etcd is full and refuses all changes but deletions{size}"
    return failed(host.name, cause, REPAIR, value=alarm, limit="no alarm")


def _sized(view: View, host: Host, known: EtcdMember) -> Judgement:
    if known.bytes is None or known.in_use is None or not known.quota:
        return not_assessed(host.name, "etcd's metrics do not say the size of its database")
    if known.alarm is None:
        return not_assessed(host.name, "etcd does not say whether it has raised an alarm")
    most, source = view.number(ids.ETCD) or (MOST, OWN_CHOICE)
    share = round(100 * known.bytes / known.quota, 1)
    size = f"{told(known.bytes)} of {told(known.quota)}, {told(known.in_use)} in use"
    said: dict[str, Any] = {"value": share, "unit": "%", "limit": most, "limit_source": source}
    if share >= most:
        cause = f"etcd's database has {size}; when it is full, all changes are refused"
        return warned(host.name, cause, REPAIR, **said)
    free = known.bytes - known.in_use
    if known.bytes > LEAST and 100 * free > FREE * known.bytes:
        cause = f"more than half of etcd's database is free space: {size}"
        return warned(host.name, cause, REPAIR, **said)
    return passed(host.name, **said, evidence=size)


def told(size: int) -> str:
    """As people read it."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.ETCD,
        "etcd has room, and no alarm",
        CONTROL_HOSTS,
        judge_etcd,
        "etcd refuses all changes but deletions once its database has the size of its quota. Then the scheduler and the controller "
        "manager lose their leases, and no pod is admitted. It fails on such an alarm, and warns of a database that is nearly full, or above 500 MB and "
        "more than half free space. Usual causes: many large objects of one namespace, or free space that no defragmentation gave back.",
        "80 % of etcd's quota (own choice)",
        Bound("% of etcd's quota", below=100),
        nature=Nature.SYMPTOM,
        causes=(Cause(ids.API, "etcd has no answer where the API has none", when=is_unknown),),
    ),
)
