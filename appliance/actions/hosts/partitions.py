"""Slurm's partitions, and the jobs that wait in them with their reasons, as Slurm's own commands print them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from appliance.actions.sites.opening import Target, open_session
from appliance.engine.session import Session
from appliance.errors import ApplianceError, CommandFailed
from appliance.models.events import Observer
from appliance.models.site import Role
from appliance.text import one_line

SINFO = ("timeout", "20", "sinfo", "--noheader", "--format=%R|%a|%D|%T")
SQUEUE = (
    *("timeout", "20", "env", "SLURM_TIME_FORMAT=%s"),
    *("squeue", "--noheader", "--states=PENDING", "--format=%i|%u|%P|%D|%b|%V|%r|%j"),
)
WORDS = {
    "Resources": ("no free hosts or GPUs as requested", ""),
    "Priority": ("jobs of higher priority wait for the same hosts", ""),
    "Dependency": ("another job must end first", ""),
    "BeginTime": ("its start time is in the future", ""),
    "JobHeldUser": ("its user holds it", "scontrol release JOB"),
    "JobHeldAdmin": ("an administrator holds it", "scontrol release JOB"),
    "PartitionDown": ("its partition is down", "scontrol update partitionname=NAME state=up"),
    "PartitionInactive": (
        "its partition is inactive",
        "scontrol update partitionname=NAME state=up",
    ),
    "PartitionTimeLimit": ("its time limit exceeds that of its partition", ""),
    "PartitionNodeLimit": ("it requests more hosts than its partition has", ""),
    "ReqNodeNotAvail": ("a host that it needs is drained, down or reserved", "sinfo -R"),
    "NodeDown": ("a host that it needs is down", "sinfo -R"),
    "BadConstraints": ("no host has what it requests, so it can never start", "scancel JOB"),
    "Reservation": ("it waits for its reservation", ""),
    "Licenses": ("it waits for a license", ""),
}
"""Slurm's reasons in words, and what to do on a control host; other reasons are shown as Slurm prints them."""


DIGITS = 18


@dataclass(frozen=True)
class Partition:
    """One partition; ``hosts``: their number by state."""

    name: str
    available: str
    hosts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class PendingJob:
    """One job that waits, for ``waits_s`` seconds. ``wants``: hosts and GPUs; ``fix``: "" if waiting is all there is to do."""

    id: str
    user: str
    partition: str
    name: str
    wants: str
    waits_s: float
    cause: str
    fix: str = ""


@dataclass(frozen=True)
class Partitions:
    """The partitions of a site, and its pending jobs, longest first."""

    partitions: tuple[Partition, ...]
    pending: tuple[PendingJob, ...]


def partitions(target: Target, observer: Observer) -> Partitions:
    """Reads them from the first control host that answers. Raises ApplianceError if none does, or Slurm does not."""
    with open_session(target, "health", observer, only_looks=True) as session:
        found, jobs = _ask(session, SINFO), _ask(session, SQUEUE)
        said = session.redact.texts((found, jobs))
    return read(*said, datetime.now(UTC))


def read(sinfo: str, squeue: str, now: datetime) -> Partitions:
    """What the two commands printed. Lines of another form are left out."""
    states: dict[tuple[str, str], dict[str, int]] = {}
    for line in sinfo.splitlines():
        match line.strip().split("|"):
            case [name, available, count, state] if _is_number(count):
                of_state = states.setdefault((one_line(name), one_line(available)), {})
                of_state[one_line(state)] = of_state.get(one_line(state), 0) + int(count)
    jobs = [job for line in squeue.splitlines() if (job := _job(line, now))]
    return Partitions(
        tuple(
            Partition(name, available, tuple(hosts.items()))
            for (name, available), hosts in states.items()
        ),
        tuple(sorted(jobs, key=lambda job: -job.waits_s)),
    )


def _is_number(text: str) -> bool:
    """Python refuses to read a number of more than 4,300 digits."""
    return text.isdecimal() and len(text) < DIGITS


def _job(line: str, now: datetime) -> PendingJob | None:
    fields = [one_line(part) for part in line.strip().split("|", 7)]
    if len(fields) != 8 or not _is_number(fields[5]):
        return None
    number, user, partition, hosts, gres, since, reason, name = fields
    reason = reason.strip("()") or "no reason given"
    cause, fix = WORDS.get(reason.partition(",")[0], (reason, ""))
    wants = (
        f"{hosts} x {gres.removeprefix('gres/')}" if gres not in {"", "N/A"} else f"{hosts} x host"
    )
    return PendingJob(
        id=number,
        user=user,
        partition=partition,
        name=name,
        wants=wants,
        waits_s=max(0.0, now.timestamp() - int(since)),
        cause=cause if cause == reason else f"{cause} ({reason})",
        fix=fix.replace("JOB", number).replace("NAME", partition),
    )


def _ask(session: Session, argv: Sequence[str]) -> str:
    """The output on the first control host where the command succeeds; else the first failure is raised."""
    failures: list[ApplianceError] = []
    for host in session.site.with_role(Role.CONTROL):
        try:
            done = session.remote.run(host.name, argv)
        except ApplianceError as error:
            failures.append(error)
            continue
        if not done.returncode:
            return done.stdout
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        hint = "appliance health --check slurm shows the cause"
        failures.append(CommandFailed(f"Slurm did not answer: {one_line(said)}", hint, host.name))
    raise failures[0]
