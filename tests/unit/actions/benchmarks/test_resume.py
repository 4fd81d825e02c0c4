"""A run of benchmarks that was cut off goes on: nothing is submitted twice, nothing judged is measured again."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from appliance.actions.benchmarks.resume import BenchmarkRequest, resumed_request, store_request
from appliance.benchmarks import BENCHMARKS
from appliance.benchmarks.batch import Job
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.gpt3.trial import Framework, Request
from appliance.checks.check import View, passed
from appliance.engine.accept.evidence import keep_run, recorded
from appliance.engine.run.benchmark_jobs import JournalBook, open_jobs
from appliance.engine.run.benchmark_runs import begun
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.stages.slurm.site import JobContainer
from tests.support.engine_session import hosts, recorder, session

__all__ = ["hosts", "recorder", "session"]


JOB = Job(key="5b 2n", name="appliance-x", control="head", until=9.0)
ID = JOB.model_copy(update={"id": "17"})
GPT3 = next(benchmark for benchmark in BENCHMARKS if benchmark.name == "gpt3")
STORAGE = next(benchmark for benchmark in BENCHMARKS if benchmark.name == "storage")
FIVE = BenchmarkRequest(
    ("storage", "gpt3"),
    JobContainer(image="nvcr.io#nvidia/nemo:24.03", mounts=("/data:/data",)),
    {
        "gpt3": {"request": Request("126m", (1, 2), framework=Framework.PYTORCH)},
        "dcgm": {"level": 3},
    },
    ("skipped because no benchmark was named: perftest (needs a physical fabric)",),
    owed=True,
)


def killed(session: Session) -> Session:
    """The same site seen by a program that comes later: only the journal is left."""
    return replace(session)


def test_what_was_asked_for_and_what_is_at_work_outlives_the_program(session: Session) -> None:
    store_request(session, FIVE)
    book = JournalBook(session, "gpt3")
    book.note(JOB)
    book.note(ID)
    later = killed(session)
    assert resumed_request(later) == (FIVE, {})
    assert JournalBook(later, "gpt3").job_of("5b 2n") == ID
    assert JournalBook(later, "gpt3").job_of("5b 1n") is None
    assert JournalBook(later, "burnin").job_of("5b 2n") is None
    assert open_jobs(later) == (ID,)


def test_other_runs_are_told_of_a_job_until_it_has_been_read(session: Session) -> None:
    book, other = JournalBook(session, "gpt3"), replace(session, run="r-other")
    book.note(ID)
    (left,) = JournalBook(other, "gpt3").left()
    assert (left.run, left.job) == (session.run, ID)
    assert left.again == f"appliance validate --resume {session.run}"
    assert book.left() == ()
    book.close(ID)
    assert JournalBook(other, "gpt3").left() == ()
    assert book.job_of("5b 2n") == ID


def test_what_was_judged_before_is_kept_and_only_the_rest_is_run(session: Session) -> None:
    store_request(session, FIVE)
    outcome = Outcome((passed("head").of("storage.roundtrip"),))
    view = View(session.profile, session.site, {})
    keep_run(session, view, STORAGE, outcome, begun(session, STORAGE))
    JournalBook(session, "gpt3").note(ID)
    _, known = resumed_request(killed(session))
    assert {name: one.results for name, one in known.items()} == {"storage": outcome.results}


def test_a_training_is_as_old_as_its_submission_whenever_it_is_read(session: Session) -> None:
    """A stage that changed a host while nobody waited must make it stale."""
    began = begun(session, GPT3)
    JournalBook(session, "gpt3").note(ID)
    change = session.journal
    change.append("deployment", "host_done", stage="gpu", host="gpu-1", changes=1)
    later = killed(session)
    again = begun(later, GPT3)
    assert abs((again - began).total_seconds()) < 1
    results = (passed("cluster").of("gpt3.loss"),)
    keep_run(later, View(session.profile, session.site, {}), GPT3, Outcome(results), again)
    (one,) = recorded(later)
    (changed,) = change.entries("host_done")
    assert one.since is not None
    assert one.since < changed.seq


def test_one_that_submitted_nothing_begins_anew(session: Session) -> None:
    begun(session, GPT3)
    session.journal.append("deployment", "host_done", stage="gpu", host="gpu-1", changes=1)
    assert (datetime.now(UTC) - begun(killed(session), GPT3)).total_seconds() < 1
    kinds = [entry.kind for entry in session.journal.entries("benchmark_started", "host_done")]
    assert kinds == ["benchmark_started", "host_done", "benchmark_started"]


@pytest.mark.parametrize(("interrupted", "at_work"), [(True, False), (False, True)])
def test_one_that_ended_goes_on_where_it_was_interrupted_or_has_a_job(
    session: Session, interrupted: bool, at_work: bool
) -> None:
    store_request(session, FIVE)
    if at_work:
        JournalBook(session, "gpt3").note(ID)
    session.journal.append(session.run, "run_finished", interrupted=interrupted)
    assert resumed_request(session)[0] == FIVE


def test_what_cannot_go_on_is_refused_with_the_reason(session: Session) -> None:
    with pytest.raises(ConfigError, match="is not a benchmark run"):
        resumed_request(session)
    store_request(
        session, replace(FIVE, names=("serving",), settings={"serving": {"request": object()}})
    )
    with pytest.raises(ConfigError, match="the settings of serving"):
        resumed_request(session)
    store_request(session, FIVE)
    session.journal.append(session.run, "run_finished", interrupted=False)
    with pytest.raises(ConfigError, match="is already complete"):
        resumed_request(session)


def test_an_entry_that_cannot_be_read_is_refused_and_is_no_job(session: Session) -> None:
    session.journal.append(session.run, "validation_asked", names=["gpt3"], settings={"gpt3": {}})
    session.journal.append(session.run, "job_noted", benchmark="gpt3", job={"name": 7})
    assert open_jobs(session) == ()
    with pytest.raises(ConfigError, match="cannot be read"):
        resumed_request(session)
