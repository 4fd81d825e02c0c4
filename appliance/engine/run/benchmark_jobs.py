"""Jobs that continue without the program: recorded in the site's journal before submission, closed once their results are read."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from appliance.benchmarks.batch import Job, JobLeft
from appliance.engine.session import Session
from appliance.journal import Entry

NOTED, CLOSED = "job_noted", "job_closed"


@dataclass(frozen=True)
class JournalBook:
    """The Book of one benchmark in one run."""

    session: Session
    benchmark: str

    @property
    def again(self) -> str:
        """See Book."""
        return _again(self.session.run)

    def job_of(self, key: str) -> Job | None:
        """See Book."""
        noted = self.session.journal.entries(NOTED, run=self.session.run)
        found = [job for e in noted if (job := self._job(e)) and job.key == key]
        return found[-1] if found else None

    def left(self) -> tuple[JobLeft, ...]:
        """See Book."""
        own = self.session.run
        return tuple(
            JobLeft(run, job, _again(run))
            for run, job in _open(self.session, self.benchmark)
            if run != own
        )

    def note(self, job: Job) -> None:
        """See Book."""
        self._append(NOTED, job)

    def close(self, job: Job) -> None:
        """See Book."""
        self._append(CLOSED, job)

    def now(self) -> float:
        """See Book."""
        return time.time()

    def wait(self, seconds: float) -> bool:
        """See Book."""
        return self.session.cancelled.wait(seconds)

    def _append(self, kind: str, job: Job) -> None:
        self.session.journal.append(
            self.session.run, kind, benchmark=self.benchmark, job=job.model_dump()
        )

    def _job(self, entry: Entry) -> Job | None:
        return _job(entry) if entry.data.get("benchmark") == self.benchmark else None


def open_jobs(session: Session, benchmark: str = "") -> tuple[Job, ...]:
    """Return jobs that this run has submitted and not seen end; "": of any benchmark."""
    return tuple(job for run, job in _open(session, benchmark) if run == session.run)


def has_submitted(session: Session, benchmark: str) -> bool:
    """Return whether this run has recorded a job of the benchmark, running or not."""
    noted = session.journal.entries(NOTED, run=session.run)
    return any(entry.data.get("benchmark") == benchmark for entry in noted)


def _open(session: Session, benchmark: str = "") -> Iterator[tuple[str, Job]]:
    found: dict[tuple[str, str], Job] = {}
    for entry in session.journal.entries(NOTED, CLOSED):
        job = _job(entry)
        if job is None or benchmark not in {"", entry.data.get("benchmark")}:
            continue
        found.pop((entry.run, job.name), None)
        if entry.kind == NOTED:
            found[entry.run, job.name] = job
    yield from ((run, job) for (run, _), job in found.items())


def _job(entry: Entry) -> Job | None:
    """Return None for an entry that this release cannot read."""
    try:
        return Job.model_validate(entry.data.get("job"))
    except ValidationError:
        return None


def _again(run: str) -> str:
    return f"appliance validate --resume {run}"
