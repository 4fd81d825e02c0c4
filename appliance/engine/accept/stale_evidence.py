"""Why evidence no longer covers the site: another class or limit, a changed stage, replaced GPUs."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from appliance.benchmarks.benchmark import Requirement, Target
from appliance.checks.check import View
from appliance.engine.accept.evidence import Recorded
from appliance.engine.look.fact_history import gpus_up_to
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.models.gpu_counts import gpu_least
from appliance.models.profile import Limit
from appliance.models.site import Role
from appliance.report.formatting import fold
from appliance.text import plural

OF_HOSTS = ("host_started", "host_done", "host_failed", "host_interrupted")
"""Journal entries about a host in a stage."""
SLACK = timedelta(seconds=1)
"""Journal entries have milliseconds; evidence has more digits."""


@dataclass(frozen=True)
class StageChange:
    """When a stage changed a host, and by which journal entry; 0 if another journal has it."""

    time: datetime
    seq: int = 0


def stale_reason(
    session: Session,
    view: View,
    wanted: Requirement,
    recorded: Recorded,
    targets: Iterable[Target],
) -> str:
    """Return why the evidence does not count for these targets of the gate; "" if it counts."""
    concerned = tuple(targets)
    if why := _foreign(view, wanted, recorded):
        return why
    if any(target.of_cluster for target in concerned) and (why := _resized(view, recorded)):
        return why
    hosts = dict.fromkeys(host for target in concerned for host in target.hosts)
    return next(_outlived(session, view, wanted, recorded, tuple(hosts)), "")


def _foreign(view: View, wanted: Requirement, recorded: Recorded) -> str:
    """Return why it belongs to another site, class or limit."""
    evidence = recorded.evidence
    if (evidence.site, evidence.profile) != (view.site.name, view.profile.name):
        return f"the evidence is from site {evidence.site} with profile {evidence.profile}"
    if evidence.simulated:
        return f"it was measured on simulated hardware ({', '.join(evidence.simulated)})"
    if wanted.of_gpus and wanted.gpus and wanted.gpus != {evidence.gpu}:
        then = evidence.gpu or "GPUs of several models"
        return f"the evidence is from {then}, but the site has {', '.join(sorted(wanted.gpus))}"
    if wanted.of_gpus and evidence.gpus_per_host != gpu_least(view.profile, view.site):
        return f"the evidence is from hosts with {evidence.gpus_per_host} GPUs"
    was, now = evidence.limits.get(wanted.id), wanted.limit
    if was != now:
        return f"the limit has changed since: {_bound(was)} then, {_bound(now)} now"
    return ""


def _bound(limit: Limit | None) -> str:
    return f"{limit.value} {limit.unit}".strip() if limit else "none"


def _resized(view: View, recorded: Recorded) -> str:
    """Return why it belongs to another set of GPU hosts."""
    then, now = recorded.evidence, [host.name for host in view.site.with_role(Role.GPU)]
    if then.size != len(now):
        hosts = plural(then.size, "GPU host")
        return f"the evidence is from a site with {hosts}, but this one has {len(now)}"
    if then.hosts and set(then.hosts) != set(now):
        return f"the evidence is from {fold(then.hosts)}, but the site's GPU hosts are {fold(now)}"
    return ""


def _outlived(
    session: Session,
    view: View,
    wanted: Requirement,
    recorded: Recorded,
    hosts: tuple[str, ...],
) -> Iterator[str]:
    """Return what has changed on a host since the measurement began, or is not known to be unchanged."""
    found = recorded.evidence.began_of(wanted.part)
    if found is None:
        yield "no file of the evidence could be read"
        return
    began, dated_by = found
    if recorded.since is None and began > recorded.time + SLACK:
        yield (
            f"it began at {_day(began)} by {dated_by}, after it was recorded ({_day(recorded.time)}):"
            " clocks or time zones differ; synchronize them, then record it again"
        )
    until = _until(session, recorded, began)
    for host in hosts:
        yield from _changed(session, view, wanted, host, began, until)


def _until(session: Session, recorded: Recorded, began: datetime) -> int:
    """Return the last journal entry known to be no later than the measurement.

    The journal's order shows what a clock that was set back would hide: an entry after one dated later than
    ``began`` is later, whatever its own date is.
    """
    if recorded.since is not None:
        return recorded.since
    after = session.journal.first_after(began)
    return recorded.seq if after is None else min(after - 1, recorded.seq)


def _changed(
    session: Session, view: View, wanted: Requirement, host: str, began: datetime, until: int
) -> Iterator[str]:
    facts = view.facts.get(host)
    for stage in wanted.stages:
        last = _last_change(session, stage, host, facts)
        if last and (last.seq > until or (not last.seq and last.time > began)):
            yield (
                f"the evidence, of {_day(began)}, is older than the last change of stage {stage} on {host}"
                f" ({_day(last.time)})"
            )
    if wanted.of_gpus and Role.GPU in view.site.host(host).roles:
        yield from _exchanged(session, host, facts, began, until)


def _exchanged(
    session: Session, host: str, facts: HostFacts | None, began: datetime, until: int
) -> Iterator[str]:
    now = frozenset(gpu.uuid for gpu in facts.gpus.devices) if facts and facts.gpus else None
    then = gpus_up_to(session, host, until)
    if not now:
        yield f"the GPUs of {host} are unknown; run appliance health"
    elif then is None:
        yield f"the GPUs of {host} on {_day(began)} were not recorded: measure the site in its current state"
    elif now != then:
        yield f"the evidence, of {_day(began)}, is older than {plural(len(now ^ then) // 2 or 1, 'GPU')} of {host}"


def _last_change(
    session: Session, stage: str, host: str, facts: HostFacts | None
) -> StageChange | None:
    """Return the stage's last change of the host. A run without an end, or of another journal, may have changed it."""
    last: StageChange | None = None
    begun: StageChange | None = None
    for entry in session.journal.entries(*OF_HOSTS, stage=stage, host=host):
        this = StageChange(entry.time, entry.seq)
        if entry.kind == "host_started":
            last, begun = (begun or last), this
        elif entry.kind == "host_done" and not entry.data.get("changes"):
            begun = None
        else:
            last, begun = this, None
    last = begun or last
    receipt = facts.receipts.get(stage) if facts else None
    if receipt and not session.journal.knows(receipt.run):
        with suppress(ValueError, OverflowError):
            written = StageChange(datetime.fromisoformat(receipt.written).astimezone())
            return max(written, last or written, key=lambda change: change.time)
    return last


def _day(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M}"
