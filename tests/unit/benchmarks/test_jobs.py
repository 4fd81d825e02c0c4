"""Scripts on hosts: the wrapper is run by a real shell, and every way it can end badly is told for what it is."""

import shutil
import subprocess  # noqa: TID251 - the wrapper is run as a host would run it
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network

import pytest

from appliance.adapters.process import Completed
from appliance.benchmarks import jobs
from appliance.benchmarks.jobs import Task, Trouble, on_each, together
from appliance.checks.check import View
from appliance.errors import ApplianceError, ConnectionFailed, DeadlineExceeded
from appliance.models.result import Status
from appliance.models.site import Host, Network, Role, Site
from tests.profiles import profile_of

ROLES = {"head": (Role.CONTROL,), "gpu-1": (Role.GPU,), "gpu-2": (Role.GPU,)}


def site() -> Site:
    hosts = tuple(
        Host(name=name, roles=roles, address=IPv4Address(f"10.0.0.{i}"))
        for i, (name, roles) in enumerate(ROLES.items(), 10)
    )
    networks = {"management": Network(cidr=IPv4Network("10.0.0.0/24"))}
    return Site(version=1, name="lab", networks=networks, hosts=hosts)


VIEW = View(profile_of(), site(), {})


def as_host(argv: Sequence[str], name: str) -> str:
    """What the task prints on a host: Slurm names it, a real shell runs it."""
    words = argv[argv.index("/bin/sh") :]
    env = {"PATH": "/usr/bin:/bin", "SLURMD_NODENAME": name}
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=60, check=False)
    return done.stdout


class Shells:
    """A control host whose srun runs the task once per host, labelled; ``spoil`` changes what a host printed."""

    def __init__(self, spoil: Callable[[str, str], str] = lambda _, text: text) -> None:
        self.spoil = spoil
        self.error: ApplianceError | None = None
        self.stderr = ""
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        self.asked.append((host, tuple(argv)))
        if argv[0] == "scancel":
            return Completed(tuple(argv), 0, "", "")
        if self.error:
            raise self.error
        if argv[0] != "srun":
            return Completed(tuple(argv), 0, self.spoil(host, as_host(argv, host)), "")
        nodes = next(a for a in argv if a.startswith("--nodelist=")).partition("=")[2].split(",")
        lines = []
        for number, node in enumerate(nodes):
            lines += [
                f"{number}: {line}" for line in self.spoil(node, as_host(argv, node)).splitlines()
            ]
        return Completed(tuple(argv), 1 if self.stderr else 0, "\n".join(lines), self.stderr)


def task(script: str, seconds: float = 20, tools: dict[str, str] | None = None) -> Task:
    return Task("test", script, seconds, tools or {})


def one(script: str, remote: Shells | None = None, seconds: float = 20) -> jobs.Said:
    return together(VIEW, remote or Shells(), task(script, seconds), ("gpu-1",))["gpu-1"]


def test_each_host_says_its_own() -> None:
    remote = Shells()
    said = together(
        VIEW, remote, task("echo $SLURMD_NODENAME; echo 'two  words'"), ("gpu-1", "gpu-2")
    )
    assert {host: s.output for host, s in said.items()} == {
        "gpu-1": "gpu-1\ntwo  words\n",
        "gpu-2": "gpu-2\ntwo  words\n",
    }
    assert [host for host, _ in remote.asked] == ["head"]


def test_hosts_that_slurm_does_not_rule_are_asked_by_ssh() -> None:
    remote = Shells()
    assert on_each(VIEW, remote, task("echo here"), ("head",))["head"].output == "here\n"
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
    said = together(VIEW, Shells(), wanted, ("gpu-1",))["gpu-1"]
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


def test_output_that_breaks_off_is_an_error() -> None:
    cut = Shells(lambda _, text: text.rpartition("appliance-end")[0])
    result = one("echo 12", cut).verdict("fio.scratch_read", "gpu-1")
    assert (result.status, result.cause[:22]) == (Status.ERROR, "its output breaks off:")


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
            "srun: error: Unable to allocate resources: Requested nodes are busy",
            Trouble.BUSY,
            Status.NOT_ASSESSED,
        ),
        (
            "srun: Required node not available (down, drained or reserved)",
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
def test_a_host_that_printed_nothing_is_told_by_what_srun_said(
    stderr: str, trouble: Trouble, status: Status
) -> None:
    remote = Shells(lambda _, __: "")
    remote.stderr = stderr
    said = one("true", remote)
    assert (said.trouble, said.verdict("c.d", "gpu-1").status) == (trouble, status)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DeadlineExceeded("srun did not end"), Status.ERROR),
        (ConnectionFailed("connection lost", "is it up?", "head"), Status.NOT_ASSESSED),
    ],
)
def test_a_job_nobody_waits_for_is_cancelled(error: ApplianceError, status: Status) -> None:
    remote = Shells()
    remote.error = error
    said = one("true", remote)
    assert said.verdict("c.d", "gpu-1").status is status
    name = next(a for a in remote.asked[0][1] if a.startswith("--job-name=")).partition("=")[2]
    assert remote.asked[-1] == ("head", ("scancel", f"--name={name}"))


def test_a_job_takes_its_hosts_alone_and_is_bounded() -> None:
    argv = jobs.srun(Task("fio", "true", 100, {}, gpus=8), "appliance-fio-1", ("gpu-1", "gpu-2"))
    assert {
        "--exclusive",
        "--gres=gpu:8",
        "--nodelist=gpu-1,gpu-2",
        "--time=4",
        "--immediate=60",
    } < set(argv)
