"""Jobs that go on without the program: submitted once, found again, waited for within their bound, read from their first host."""

import subprocess  # noqa: TID251 - the job's script is run by a real shell
from collections.abc import Sequence
from pathlib import Path

import pytest

from appliance.adapters.process import Completed
from appliance.benchmarks import batch
from appliance.benchmarks.batch import Batch, Job, Memory, Unended, through
from appliance.errors import ConnectionFailed

BATCH = Batch(("--nodes=2", "--time=5"), ("srun", "echo", "a b"))
PROMPT = Job(key="5b 2n", name="appliance-x", control="head", until=240.0)


class Slurm:
    """Says of one job what it is told; ``states``: those of squeue one after the other, None for no answer."""

    def __init__(self, *states: str | None, sacct: str = "COMPLETED|gpu-[1-2]") -> None:
        self.states, self.sacct = list(states), sacct
        self.asked: list[str] = []
        self.files = {"code": "0\n", "out": "said\n", "err": ""}
        self.refused = ""
        self.lost: set[str] = set()

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        self.asked.append(argv[0])
        if argv[0] in self.lost:
            raise ConnectionFailed("connection lost", "again", host)
        if argv[0] == "squeue":
            assert "--me" in argv, "any user may have a job of that name"
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            if state is None:
                raise ConnectionFailed("no answer", "is it up?", host)
            return Completed(tuple(argv), 0, f"{state}\n" if state else "", "")
        if argv[0] == "head":
            assert host == "gpu-1"
            return Completed(tuple(argv), 0, self.files[argv[-1].rpartition(".")[2]], "")
        said = {"sbatch": "17;cluster\n", "sacct": self.sacct, "scontrol": "gpu-1\ngpu-2\n"}
        code = 1 if argv[0] == "sbatch" and self.refused else 0
        return Completed(tuple(argv), code, said.get(argv[0], ""), self.refused)


class Book(Memory):
    """Time passes by waiting; ``stop``: somebody wants the program to end."""

    def __init__(self, *known: Job, stop: bool = False) -> None:
        super().__init__(jobs={job.key: job for job in known})
        self.at, self.stop = 0.0, stop
        self.closed: list[Job] = []

    def now(self) -> float:
        return self.at

    def wait(self, seconds: float) -> bool:
        self.at += seconds
        return self.stop

    def close(self, job: Job) -> None:
        self.closed.append(job)


def test_its_name_is_kept_before_it_is_submitted_and_its_id_at_once() -> None:
    kept: list[str] = []

    class Telling(Book):
        def note(self, job: Job) -> None:
            kept.append(f"{job.id} {len(slurm.asked)}")
            super().note(job)

    slurm, book = Slurm("RUNNING", ""), Telling()
    done = through(slurm, book, PROMPT, BATCH)
    assert kept == [" 0", "17 1"]
    assert (done.returncode, done.stdout) == (0, "said\n")
    assert [job.id for job in book.closed] == ["17"]


def test_one_that_is_known_is_waited_for_and_not_submitted_again() -> None:
    slurm = Slurm("RUNNING", "RUNNING", "")
    done = through(slurm, Book(PROMPT.model_copy(update={"id": "17"})), PROMPT, BATCH)
    assert "sbatch" not in slurm.asked
    assert done.stdout == "said\n"


def test_one_whose_id_nobody_wrote_down_is_found_by_its_name() -> None:
    slurm, book = Slurm("RUNNING", "", sacct="17\n17.batch\n"), Book(PROMPT)
    through(slurm, book, PROMPT, BATCH)
    assert "sbatch" not in slurm.asked
    assert book.jobs[PROMPT.key].id == "17"


def test_one_that_slurm_never_took_is_submitted_now() -> None:
    slurm = Slurm("", sacct="")
    slurm.lost = {"squeue"}
    with pytest.raises(Unended) as found:
        through(slurm, Book(PROMPT), PROMPT, BATCH)
    assert found.value.goes_on
    assert slurm.asked[:2] == ["sacct", "sbatch"]


def test_one_that_is_overdue_is_cancelled_with_slurms_reason() -> None:
    slurm, book = Slurm("PENDING (Resources)"), Book()
    with pytest.raises(Unended) as found:
        through(slurm, book, PROMPT, BATCH)
    assert found.value.state == "PENDING (Resources)"
    assert not found.value.goes_on
    assert slurm.asked[-1] == "scancel"
    assert book.closed
    assert 240 < book.at < 240 + 2 * batch.POLL


def test_one_that_is_not_begun_in_time_is_cancelled_and_one_that_is_has_its_whole_time() -> None:
    bounded = PROMPT.model_copy(update={"begin": 60.0})
    slurm, book = Slurm("PENDING (Resources)"), Book()
    with pytest.raises(Unended):
        through(slurm, book, bounded, BATCH)
    assert 60 < book.at < 60 + 2 * batch.POLL
    slurm, book = Slurm("RUNNING (None)"), Book()
    with pytest.raises(Unended):
        through(slurm, book, bounded, BATCH)
    assert 240 < book.at < 240 + 2 * batch.POLL


def test_accounting_that_learns_late_where_a_job_ran_is_asked_again() -> None:
    class Late(Slurm):
        def run(self, host: str, argv: Sequence[str], **_: object) -> Completed:
            self.sacct = "COMPLETED|gpu-[1-2]" if self.asked.count("sacct") > 1 else "RUNNING|"
            return super().run(host, argv)

    slurm = Late("")
    assert through(slurm, Book(), PROMPT, BATCH).stdout == "said\n"
    assert slurm.asked.count("sacct") == 3


def test_its_bound_counts_from_its_submission_not_from_whoever_comes_back() -> None:
    slurm, book = Slurm("RUNNING (None)"), Book(PROMPT.model_copy(update={"id": "17"}))
    book.at = 500.0
    with pytest.raises(Unended):
        through(slurm, book, PROMPT, BATCH)
    assert slurm.asked == ["squeue", "scancel"]


def test_one_that_ended_in_time_is_read_however_late_somebody_comes_back() -> None:
    slurm, book = Slurm(""), Book(PROMPT.model_copy(update={"id": "17"}))
    book.at = 5000.0
    assert through(slurm, book, PROMPT, BATCH).returncode == 0


def test_a_line_that_is_lost_for_moments_costs_nothing() -> None:
    slurm = Slurm("RUNNING", *[None] * (batch.LOST - 1), "RUNNING", "")
    assert through(slurm, Book(), PROMPT, BATCH).returncode == 0


@pytest.mark.parametrize("stop", [False, True])
def test_one_nobody_can_ask_about_any_more_goes_on_and_is_not_cancelled(stop: bool) -> None:
    slurm, book = Slurm("RUNNING" if stop else None), Book(stop=stop)
    with pytest.raises(Unended) as found:
        through(slurm, book, PROMPT, BATCH)
    assert found.value.goes_on
    assert "17" in str(found.value)
    assert "scancel" not in slurm.asked
    assert book.closed == []


def test_a_line_that_is_lost_while_it_is_submitted_leaves_its_name_to_look_for() -> None:
    slurm, book = Slurm(""), Book()
    slurm.lost = {"sbatch"}
    with pytest.raises(Unended) as found:
        through(slurm, book, PROMPT, BATCH)
    assert found.value.goes_on
    assert book.jobs[PROMPT.key].name == PROMPT.name


def test_one_that_slurm_refuses_is_told_with_its_reason_and_closed() -> None:
    slurm, book = Slurm(""), Book()
    slurm.refused = "sbatch: error: Batch job submission failed: Invalid partition name\n"
    with pytest.raises(Unended, match="Invalid partition name"):
        through(slurm, book, PROMPT, BATCH)
    assert book.closed


@pytest.mark.parametrize(
    ("sacct", "files", "told"),
    [
        ("NODE_FAIL|gpu-[1-2]", {"code": ""}, "Slurm reports NODE_FAIL"),
        (
            "CANCELLED by 0|None assigned",
            {},
            "it never ran on a host; Slurm reports CANCELLED by 0",
        ),
        ("", {}, "it never ran on a host"),
        ("PENDING|None assigned", {}, "it never ran on a host; Slurm reports PENDING"),
        ("FAILED|gpu-[1-2]", {"code": "137\n", "err": "task 1: Killed\n"}, "task 1: Killed"),
    ],
)
def test_an_end_without_a_result_is_no_good_end(
    sacct: str, files: dict[str, str], told: str
) -> None:
    slurm = Slurm("", sacct=sacct)
    slurm.files |= files
    done = through(slurm, Book(), PROMPT, BATCH)
    assert done.returncode != 0
    assert told in done.stderr


def test_output_that_cannot_be_fetched_now_is_left_where_it_lies() -> None:
    slurm, book = Slurm(""), Book()
    slurm.lost = {"head"}
    with pytest.raises(Unended, match="is on gpu-1") as found:
        through(slurm, book, PROMPT, BATCH)
    assert found.value.goes_on
    assert book.closed == []


def test_the_script_keeps_what_its_step_prints_and_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "FOLDER", str(tmp_path / "jobs"))
    step = ("sh", "-c", 'cat; echo "$X $(pwd)"; echo bad >&2; exit 7')
    of = Batch((), step, ("export X='a $b'",), "line 'one' $HOME\n")
    subprocess.run(["/bin/sh"], input=batch.script(of, "n").encode(), check=True, timeout=20)
    kept = {file.suffix: file.read_text() for file in (tmp_path / "jobs").iterdir()}
    assert kept == {".out": "line 'one' $HOME\na $b /\n", ".err": "bad\n", ".code": "7\n"}
    assert {file.stat().st_mode & 0o77 for file in (tmp_path / "jobs").iterdir()} == {0}
