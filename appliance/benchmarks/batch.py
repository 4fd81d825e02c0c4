"""Jobs of Slurm that continue without the program: submitted once, recorded at once, and waited for by any later run.

The output of a job is on the first of its hosts, so no shared file system is needed, and a lost connection loses nothing.
"""

import re
import shlex
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from appliance.adapters.process import Completed
from appliance.adapters.remote import Remote
from appliance.errors import ApplianceError, ConnectionFailed, DeadlineExceeded
from appliance.models.base import Model
from appliance.models.line import Line
from appliance.text import one_line, shortened

FOLDER = "/var/lib/appliance/jobs"
LARGEST = 64 << 20
"""Bytes of output that are read; 50 steps of NeMo with its bars print some MiB."""
POLL = 10.0
LOST = 6
"""Number of polls without an answer, one minute: the job continues in the meantime."""
RECORD_POLLS, RECORD_SECONDS = 15, 2.0
"""slurmctld reports a job's hosts to slurmdbd within seconds; a job may end before that."""
KEPT_DAYS = 30
MARK = "APPLIANCE_END"
NO_END = "the job ended without an error message"
NEVER = "it never ran on a host"

BATCH = """#!/bin/sh
# What is not exported by the submitter is exported to the step here.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin SLURM_EXPORT_ENV=ALL
umask 077
mkdir -p {folder} && cd / || exit 1
find {folder} -type f -mtime +{days} -delete
{exports}
{step} >{folder}/{name}.out 2>{folder}/{name}.err {stdin}
echo $? >{folder}/{name}.code
"""


class Job(Model):
    """One job. ``key`` identifies it within its benchmark; ``id`` is Slurm's, "" before it is known.

    ``until``: time by which it must end, in s since the epoch; ``begin``: time by which it must start, 0 if only its end counts.
    """

    key: Line
    name: Line
    control: Line
    until: float
    begin: float = 0.0
    id: Line = ""


@dataclass(frozen=True)
class JobLeft:
    """A job that another run has submitted and that is still active, and the command that waits for it."""

    run: str
    job: Job
    again: str


@dataclass(frozen=True)
class Batch:
    """The submission: options of sbatch, variables, the step with its options, and its standard input."""

    options: tuple[str, ...]
    step: tuple[str, ...]
    exports: tuple[str, ...] = ()
    stdin: str = ""


class Book(Protocol):
    """Records the active jobs, so that a later run finds them. Also gives the time, and when to stop waiting."""

    @property
    def again(self) -> str:
        """The command that waits for them again."""
        ...

    def job_of(self, key: str) -> Job | None:
        """The job with that key that this run has submitted, active or ended; its output is kept."""
        ...

    def left(self) -> tuple[JobLeft, ...]:
        """Jobs that other runs have submitted and not seen end."""
        ...

    def note(self, job: Job) -> None:
        """The job is about to be submitted, or has been: then it has an id."""
        ...

    def close(self, job: Job) -> None:
        """Records that the job has ended and its output was read, or that it was cancelled."""
        ...

    def now(self) -> float:
        """s since the epoch."""
        ...

    def wait(self, seconds: float) -> bool:
        """Waits. Returns whether the program is requested to stop."""
        ...


@dataclass
class Memory:
    """A book in memory, lost when the program ends."""

    again: str = "appliance validate"
    jobs: dict[str, Job] = field(default_factory=dict)

    def job_of(self, key: str) -> Job | None:
        """See Book."""
        return self.jobs.get(key)

    def left(self) -> tuple[JobLeft, ...]:
        """See Book."""
        return ()

    def note(self, job: Job) -> None:
        """See Book."""
        self.jobs[job.key] = job

    def close(self, job: Job) -> None:
        """See Book."""

    def now(self) -> float:
        """See Book."""
        return datetime.now(UTC).timestamp()

    def wait(self, seconds: float) -> bool:
        """See Book."""
        time.sleep(seconds)
        return False


class Unended(Exception):
    """The reason why a job has no result to judge; ``state``: Slurm's state if it was overdue; ``goes_on``: it is still active."""

    def __init__(self, why: str, fix: str = "", *, state: str = "", goes_on: bool = False) -> None:
        super().__init__(why)
        self.fix, self.state, self.goes_on = fix, state, goes_on


def through(remote: Remote, book: Book, job: Job, batch: Batch) -> Completed:
    """Submits the job, or resumes the one with its key in the book, and waits for its end.

    Returns the end of the step: its exit code, its output, and Slurm's state. Raises Unended.
    """
    known = book.job_of(job.key)
    if known is None:
        book.note(job)
        job = _submitted(remote, book, job, batch)
    else:
        job = _known_job(remote, book, known, batch)
    _awaited(remote, book, job)
    done = _read(remote, book, job)
    book.close(job)
    return done


def script(batch: Batch, name: str) -> str:
    """The text that sbatch is given."""
    return BATCH.format(
        folder=FOLDER,
        days=KEPT_DAYS,
        name=name,
        exports="\n".join(batch.exports),
        step=shlex.join(batch.step),
        stdin=f"<<'{MARK}'\n{batch.stdin.rstrip()}\n{MARK}" if batch.stdin else "</dev/null",
    )


def _submitted(remote: Remote, book: Book, job: Job, batch: Batch) -> Job:
    argv = [
        *("sbatch", "--parsable", f"--job-name={job.name}", *batch.options),
        # No later run may wait for it, so Slurm itself removes the job if it cannot start in time.
        f"--deadline={_deadline(batch, job)}",
        *("--no-requeue", "--chdir=/", "--export=NONE", "--output=/dev/null"),
    ]
    try:
        done = remote.run(job.control, argv, input=script(batch, job.name).encode(), timeout=60)
    except (ConnectionFailed, DeadlineExceeded) as error:
        # It may have been taken all the same: the book keeps its name, by which it is found.
        raise Unended(
            error.told_of(), f"{book.again}, which searches for it", goes_on=True
        ) from None
    if done.returncode:
        book.close(job)
        said = shortened(one_line(done.stderr.strip() or "no reason given"), 300)
        raise Unended(f"sbatch ended with {done.returncode}: {said}", f"on {job.control}: sinfo -R")
    job = job.model_copy(update={"id": _number(done.stdout)})
    book.note(job)
    return job


def _deadline(batch: Batch, job: Job) -> str:
    """Slurm's time limit of the job: the remaining time in the queue, and its own time."""
    minutes = next(int(o.partition("=")[2]) for o in batch.options if o.startswith("--time="))
    end = datetime.fromtimestamp(job.until + 60 * minutes + 60, UTC)
    return f"now+{max(1, int((end - datetime.now(UTC)).total_seconds() // 60))}minutes"


def _known_job(remote: Remote, book: Book, known: Job, batch: Batch) -> Job:
    """Returns the job as Slurm knows it. A job that was recorded but never accepted by Slurm is submitted now."""
    if known.id:
        return known
    said = _ask(
        remote, known, "sacct", "-nXP", "-S", "now-7days", f"--name={known.name}", "-oJobID"
    )
    if said is None:
        raise Unended(f"{known.control} does not answer", book.again, goes_on=True)
    if not said.strip():
        return _submitted(remote, book, known, batch)
    job = known.model_copy(update={"id": _number(said)})
    book.note(job)
    return job


def _number(said: str) -> str:
    """Parses a job id as sbatch ("17;cluster") and sacct print it."""
    found = re.match(r"[0-9]{1,18}", said)
    return found[0] if found else ""


def _awaited(remote: Remote, book: Book, job: Job) -> None:
    """Waits until the job has left the queue. Raises Unended if it is overdue and cancelled, or if its state is unknown."""
    silent, began = 0, book.now()
    while True:
        state = _ask(
            remote, job, "squeue", "--me", "--noheader", f"--name={job.name}", "--format=%T (%r)"
        )
        if state == "":
            return
        silent = silent + 1 if state is None else 0
        if silent >= LOST:
            why = f"{job.control} no longer answers; job {job.id} is still running there"
            raise Unended(why, book.again, goes_on=True)
        if state and book.now() > _bound(job, state):
            _ask(remote, job, "scancel", f"--name={job.name}")
            book.close(job)
            raise Unended("overdue", state=state.partition("\n")[0])
        # Poll soon at first, because a small training takes half a minute.
        if book.wait(min(POLL, 1.0 + (book.now() - began) / 10)):
            raise Unended(f"interrupted; job {job.id} is still running", book.again, goes_on=True)


def _bound(job: Job, state: str) -> float:
    return job.begin if job.begin and state.startswith("PENDING") else job.until


def _recorded(remote: Remote, book: Book, job: Job) -> tuple[str, str]:
    """Its state and its hosts, as accounting has them; that may learn of a short job after its end."""
    state = nodes = ""
    for _ in range(RECORD_POLLS):
        ended = _ask(remote, job, "sacct", "-nXP", f"--jobs={job.id}", "-oState,NodeList")
        state, _, nodes = (ended or "").strip().partition("\n")[0].partition("|")
        known = nodes and not nodes.startswith("None")
        if known or state not in {"", "PENDING", "RUNNING"} or book.wait(RECORD_SECONDS):
            break
    return state, nodes


def _read(remote: Remote, book: Book, job: Job) -> Completed:
    """Output of the step on its first host."""
    state, nodes = _recorded(remote, book, job)
    names = _ask(remote, job, "scontrol", "show", "hostnames", nodes) if nodes else None
    host = (names or "").partition("\n")[0]
    if not host or nodes.startswith("None"):
        said = f"; Slurm reports {state}" if state else ""
        return Completed((), 1, "", f"{NEVER}{said}")
    try:
        code, errors, out = (_file(remote, host, job, kind) for kind in ("code", "err", "out"))
    except (ConnectionFailed, DeadlineExceeded) as error:
        why = f"the output of job {job.id} is on {host}, and {error.told_of()}"
        raise Unended(why, book.again, goes_on=True) from None
    if not re.fullmatch(r"[0-9]{1,9}", code.strip()):
        return Completed((), 1, out, f"{errors}\n{NO_END}; Slurm reports {state or 'nothing'}")
    return Completed((), int(code), out, errors)


def _file(remote: Remote, host: str, job: Job, kind: str) -> str:
    """Returns "" if there is none."""
    words = ("head", "-c", str(LARGEST), f"{FOLDER}/{job.name}.{kind}")
    return remote.run(host, words, timeout=120).stdout


def _ask(remote: Remote, job: Job, *argv: str) -> str | None:
    """Returns the output, or None if the host did not answer."""
    try:
        done = remote.run(job.control, argv, timeout=30)
    except ApplianceError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
