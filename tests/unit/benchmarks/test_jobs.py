"""Scripts on hosts: the wrapper is run by a real shell, and every way it can end badly is told for what it is."""

import shutil
import subprocess  # noqa: TID251 - the wrapper is run as a host would run it
from collections.abc import Callable, Sequence

import pytest

from appliance.adapters.process import Completed
from appliance.benchmarks import jobs
from appliance.benchmarks.batch import Memory
from appliance.benchmarks.jobs import HostAccess, Task, Trouble, on_each, together
from appliance.errors import ConnectionFailed
from appliance.models.result import Status
from tests.support.batches import LONGEST, Batches, labelled, value
from tests.support.benchmark_view import VIEW


def as_host(argv: Sequence[str], name: str) -> str:
    """What the task prints on a host: Slurm names it, a real shell runs it."""
    words = argv[argv.index("/bin/sh") :]
    env = {"PATH": "/usr/bin:/bin", "SLURMD_NODENAME": name}
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=60, check=False)
    return done.stdout


class Shells(Batches):
    """A control host whose jobs run the task once per host, labelled; ``spoil`` changes what a host printed."""

    def __init__(self, spoil: Callable[[str, str], str] = lambda _, text: text) -> None:
        super().__init__()
        self.spoil = spoil
        self.stderr = self.held = ""
        self.lost: set[str] = set()
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        self.asked.append((host, tuple(argv)))
        if argv[0] in self.lost:
            raise ConnectionFailed("connection lost", "is it up?", host)
        if argv[0] == "squeue":
            return Completed(tuple(argv), 0, self.held, "")
        return super().run(host, argv, input=input, timeout=timeout)

    def step(self, argv: Sequence[str]) -> Completed:
        nodes = value(argv, "--nodelist").split(",")
        said = labelled(*(self.spoil(node, as_host(argv, node)) for node in nodes))
        return Completed(tuple(argv), 1 if self.stderr else 0, said, self.stderr)

    def elsewhere(self, host: str, argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, self.spoil(host, as_host(argv, host)), "")


class Patient(Memory):
    """A book whose time passes by waiting; ``stop``: somebody wants the program to end."""

    def __init__(self, *, stop: bool = False) -> None:
        super().__init__(again="appliance validate --resume R")
        self.at, self.stop = 0.0, stop

    def now(self) -> float:
        return self.at

    def wait(self, seconds: float) -> bool:
        self.at += seconds
        return self.stop


def task(script: str, seconds: float = 20, tools: dict[str, str] | None = None) -> Task:
    return Task("test", script, seconds, tools or {})


def one(
    script: str, remote: Shells | None = None, seconds: float = 20, book: Memory | None = None
) -> jobs.HostOutput:
    reach = HostAccess(remote or Shells(), book or Patient())
    return together(VIEW, reach, task(script, seconds), ("gpu-1",))["gpu-1"]


def test_each_host_says_its_own() -> None:
    remote = Shells()
    said = together(
        VIEW,
        HostAccess(remote),
        task("echo $SLURMD_NODENAME; echo 'two  words'"),
        ("gpu-1", "gpu-2"),
    )
    assert {host: s.output for host, s in said.items()} == {
        "gpu-1": "gpu-1\ntwo  words\n",
        "gpu-2": "gpu-2\ntwo  words\n",
    }
    assert [argv[0] for _, argv in remote.asked].count("sbatch") == 1
    assert {host for host, argv in remote.asked if argv[0] != "head"} == {"head"}


def test_hosts_that_slurm_does_not_rule_are_asked_by_ssh() -> None:
    remote = Shells()
    assert (
        on_each(VIEW, HostAccess(remote), task("echo here"), ("head",))["head"].output == "here\n"
    )
    assert remote.asked[0][0] == "head"
    assert remote.asked[0][1][0] == "/bin/sh"


def test_the_exit_code_and_the_last_word_of_a_script_are_kept() -> None:
    said = one("echo half; echo first >&2; echo 'no such disk' >&2; exit 3")
    assert (said.output, said.code, said.last, said.trouble) == (
        "half\n",
        3,
        "no such disk",
        Trouble.NONE,
    )


def test_a_missing_tool_is_not_assessed_with_its_package() -> None:
    wanted = task("true", tools={"no-such-tool": "apt-get install it"})
    said = together(VIEW, HostAccess(Shells()), wanted, ("gpu-1",))["gpu-1"]
    result = said.verdict("fio.scratch_read", "gpu-1")
    assert (result.status, result.cause, result.fix) == (
        Status.NOT_ASSESSED,
        "no-such-tool is not there",
        "apt-get install it",
    )


@pytest.mark.skipif(not shutil.which("timeout"), reason="needs coreutils")
def test_a_script_past_its_deadline_is_ended_on_the_host() -> None:
    said = one("echo begun; sleep 30", seconds=1)
    assert (said.trouble, said.cause) == (Trouble.OVERDUE, "it did not end within 1 s")


def test_a_script_past_its_deadline_is_that_whatever_its_child_still_writes() -> None:
    grown = Shells(lambda _, text: text.replace("size=6", "size=9"))
    said = one("echo begun; sleep 30", grown, seconds=1)
    assert (said.trouble, said.cause) == (Trouble.OVERDUE, "it did not end within 1 s")


def test_output_that_breaks_off_is_an_error() -> None:
    cut = Shells(lambda _, text: text.rpartition("appliance-end")[0])
    result = one("echo 12", cut).verdict("fio.scratch_read", "gpu-1")
    assert (result.status, result.cause[:25]) == (Status.ERROR, "its output is incomplete:")


def test_a_line_that_srun_breaks_in_two_comes_back_as_it_was() -> None:
    """Seen with Slurm 22.05: a label at each 1,024 bytes, within words of JSON."""
    long = "".join(f'{{"number": {n}}}, ' for n in range(300))
    assert len(long) > 4 * LONGEST
    assert one(f"echo '{long}'").output == f"{long}\n"


def test_output_of_which_a_part_is_lost_is_an_error() -> None:
    cut = Shells(lambda _, text: text.replace("MT", "", 1))
    said = one("echo 12", cut)
    assert said.trouble is Trouble.CUT
    assert said.cause == "only 0 of the 3 printed bytes arrived"
    assert "run it again" in said.fix
    assert "base64" in said.fix


def test_more_output_than_is_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LARGEST", 4)
    assert one("echo 123456").trouble is Trouble.CUT


def test_output_cannot_pretend_to_be_the_end_of_the_task() -> None:
    said = one("echo appliance-missing=fio; echo appliance-end code=0 size=3; exit 7")
    assert (said.code, said.trouble) == (7, Trouble.NONE)


def test_a_host_that_ran_something_else_is_an_error() -> None:
    other = Shells(lambda _, __: "Welcome to gpu-1\n")
    assert one("echo 12", other).trouble is Trouble.FAILED


@pytest.mark.parametrize(
    ("stderr", "trouble", "status"),
    [
        (
            "it never ran on a host; Slurm says CANCELLED by 0",
            Trouble.BUSY,
            Status.NOT_ASSESSED,
        ),
        (
            "srun: error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:195: pmi/pmix: can not load PMIx library",
            Trouble.NO_TOOL,
            Status.NOT_ASSESSED,
        ),
        ("srun: error: Invalid --gres", Trouble.FAILED, Status.ERROR),
        ("", Trouble.FAILED, Status.ERROR),
    ],
)
def test_a_host_that_printed_nothing_is_told_by_what_slurm_said(
    stderr: str, trouble: Trouble, status: Status
) -> None:
    remote = Shells(lambda _, __: "")
    remote.stderr = stderr
    said = one("true", remote)
    assert (said.trouble, said.verdict("c.d", "gpu-1").status) == (trouble, status)


@pytest.mark.parametrize(
    ("held", "told", "fix"),
    [
        ("PENDING (Resources)", "it is busy: PENDING (Resources)", "squeue"),
        (
            "PENDING (ReqNodeNotAvail, UnavailableNodes:gpu-1)",
            "Slurm does not schedule work on it: PENDING (ReqNodeNotAvail",
            "sinfo -R",
        ),
    ],
)
def test_a_host_that_is_not_freed_within_a_minute_is_not_assessed(
    held: str, told: str, fix: str
) -> None:
    remote, book = Shells(), Patient()
    remote.held = held
    said = one("true", remote, seconds=600, book=book)
    assert said.verdict("c.d", "gpu-1").status is Status.NOT_ASSESSED
    assert said.cause.startswith(told)
    assert fix in said.fix
    assert jobs.START_SECONDS < book.at < jobs.START_SECONDS + 20
    assert remote.asked[-1][1][0] == "scancel"


def test_a_job_that_does_not_end_is_an_error_and_cancelled() -> None:
    remote, book = Shells(), Patient()
    remote.held = "RUNNING (None)"
    said = one("true", remote, seconds=300, book=book)
    assert (said.trouble, said.verdict("c.d", "gpu-1").status) == (Trouble.OVERDUE, Status.ERROR)
    assert 300 < book.at < 300 + jobs.START_SECONDS + 2 * jobs.GRACE_SECONDS + 20
    assert remote.asked[-1][1][0] == "scancel"


def test_a_job_whose_line_is_lost_goes_on_and_is_waited_for_by_whoever_comes_back() -> None:
    remote, book = Shells(), Patient()
    remote.lost = {"squeue"}
    said = one("echo 42", remote, book=book)
    assert (said.trouble, said.fix) == (Trouble.SILENT, "appliance validate --resume R")
    assert "still running" in said.cause
    remote.lost = set()
    assert one("echo 43", remote, book=book).output == "42\n"
    asked = [argv[0] for _, argv in remote.asked]
    assert (asked.count("sbatch"), asked.count("scancel")) == (1, 0)


def test_nothing_is_submitted_once_somebody_wants_to_stop() -> None:
    remote = Shells()
    assert one("true", remote, book=Patient(stop=True)).trouble is Trouble.SILENT
    assert remote.asked == []


def test_each_part_of_a_benchmark_has_jobs_of_its_own() -> None:
    host, loopback = (Task("nccl", "", 1, {}, part) for part in ("nccl.host", "nccl.loopback"))
    hosts = [f"gpu-{n}" for n in range(100)]
    keys = {jobs.key(task, of) for task in (host, loopback) for of in (hosts, hosts[1:], hosts[:1])}
    assert len(keys) == 6
    assert max(map(len, keys)) < 100


def test_a_job_takes_its_hosts_alone_and_is_bounded() -> None:
    found = jobs.batch(Task("fio", "true", 100, {}, gpus=8), ("gpu-1", "gpu-2"))
    assert {"--exclusive", "--gres=gpu:8", "--nodelist=gpu-1,gpu-2", "--time=4"} < {*found.options}
    assert "--gres=gpu:8" in found.step
