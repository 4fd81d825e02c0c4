"""Checks whether etcd accepts changes, and how close its database is to its maximum size."""

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
OWN_CHOICE = "own choice: room for writes until an operator reacts"
FREE, LEAST = 50.0, 500e6
"""Percent of free space within a database, and the minimum size for this check."""
SLOW_MS = 500.0
"""Half of the election timeout (etcd's tuning guide: 1000 ms). Its authors expect 10 ms from a good disk."""
REPAIR = "appliance etcd repair"
WRITERS = (
    "for i in 1 2; do grep -s ^write_bytes /proc/[0-9]*/io; sleep 5; done "
    "| awk '$1 in a {print $2 - a[$1], $1} {a[$1] = $2}' | sort -n | tail -3"
)
"""Command that prints the bytes written by the busiest processes in five seconds, from the kernel's counters: control hosts have neither iostat nor iotop."""


def judge_etcd(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    """Fail for an alarm or a slow disk; warn for a database that is nearly full or mostly free space."""
    known = facts.kubernetes.etcd if facts.kubernetes else None
    if known is None:
        why = facts.gap("kubernetes", "etcd of this host does not answer at 127.0.0.1:2381")
        yield not_assessed(host.name, why if facts.kubernetes else f"{host.name} has no kubelet")
    elif known.alarm:
        yield _alarmed(host, known, known.alarm)
    elif known.sync_ms is not None and known.sync_ms >= SLOW_MS:
        yield _slow(host, known.sync_ms)
    else:
        yield _sized(view, host, known)


def _slow(host: Host, took: float) -> Judgement:
    """Report a slow disk: the member loses its leader, and every change in the cluster waits for it."""
    cause = (
        f"etcd waits {took:.0f} ms for each write to its disk, and loses its leader from 1000 ms"
    )
    fix = (
        f"on {host.name}, as root: {WRITERS} shows which processes write most; end them, or move "
        "their files to another disk than that of /var/lib/etcd"
    )
    return failed(host.name, cause, fix, value=took, unit="ms", limit=SLOW_MS)


def _alarmed(host: Host, known: EtcdMember, alarm: str) -> Judgement:
    if alarm != FULL:
        cause = f"etcd reports the alarm {alarm}"
        cause += ": its members have different data" if alarm == DIFFER else ""
        fix = "appliance etcd list, then appliance etcd restore with an earlier backup"
        return failed(host.name, cause, fix, value=alarm, limit="no alarm")
    size = ""
    if known.bytes is not None and known.quota:
        size = f": its database has {size_text(known.bytes)} of {size_text(known.quota)}"
    cause = f"etcd is full and refuses all changes but deletions{size}"
    return failed(host.name, cause, REPAIR, value=alarm, limit="no alarm")


def _sized(view: View, host: Host, known: EtcdMember) -> Judgement:
    if known.bytes is None or known.in_use is None or not known.quota:
        return not_assessed(host.name, "etcd's metrics do not report the size of its database")
    if known.alarm is None:
        return not_assessed(host.name, "etcd does not report its alarms")
    most, source = view.number(ids.ETCD) or (MOST, OWN_CHOICE)
    share = round(100 * known.bytes / known.quota, 1)
    size = f"{size_text(known.bytes)} of {size_text(known.quota)}, {size_text(known.in_use)} in use"
    said: dict[str, Any] = {"value": share, "unit": "%", "limit": most, "limit_source": source}
    if share >= most:
        cause = f"etcd's database has {size}; when it is full, all changes are refused"
        return warned(host.name, cause, REPAIR, **said)
    free = known.bytes - known.in_use
    if known.bytes > LEAST and 100 * free > FREE * known.bytes:
        cause = f"more than half of etcd's database is free space: {size}"
        return warned(host.name, cause, REPAIR, **said)
    return passed(host.name, **said, evidence=size)


def size_text(size: int) -> str:
    """Return a size for people."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.ETCD,
        "etcd has room, a disk that is fast enough, and no alarm",
        CONTROL_HOSTS,
        judge_etcd,
        "etcd refuses all changes except deletions when its database reaches its quota. Then the scheduler and the controller manager lose "
        "their leases, and no pod is admitted. The check fails on this alarm, and if a disk write takes half a second on average. It warns "
        "if the database is nearly full, or larger than 500 MB with more than half of it free. Usual causes: many large objects in one "
        "namespace, or space that no defragmentation has freed.",
        "80 % of etcd's quota (own choice)",
        Bound("% of etcd's quota", below=100),
        nature=Nature.SYMPTOM,
        causes=(Cause(ids.API, "etcd does not answer if the API does not", when=is_unknown),),
    ),
)
