"""The Slurm job: judged by what srun and sacct really print, with every fault planted."""

from collections.abc import Sequence

import pytest

from appliance.adapters.process import Completed
from appliance.benchmarks import slurm_job
from appliance.checks.check import View
from appliance.errors import ApplianceError, ConnectionFailed, DeadlineExceeded
from appliance.models.result import CheckResult, Measurement, Status
from appliance.models.site import Owner, Site
from appliance.stages.kubernetes.site import KubernetesOptions
from tests.support.profiles import profile_of
from tests.support.sites import site_of

PROFILE = profile_of(fabric={"link_layer": "InfiniBand", "ports": 8, "rate_gbps": 200})
EIGHT = "0,1,2,3,4,5,6,7"


def site(*leave_out: str) -> Site:
    return site_of(*(name for name in ("head", "gpu-1", "gpu-2") if name not in leave_out))


def line(node: str, gpus: str = EIGHT, host: str = "", job: int = 42) -> str:
    return f"appliance-job={job} node={node} host={host or node} gpus={gpus}\n"


GOOD = line("gpu-2") + line("gpu-1")


class FakeRemote:
    """Answers srun, sacct and scancel, and remembers who asked what."""

    def __init__(
        self,
        stdout: str = GOOD,
        stderr: str = "",
        code: int = 0,
        states: Sequence[str] = ("COMPLETED",),
        srun: ApplianceError | None = None,
        others: ApplianceError | None = None,
    ) -> None:
        self.answer = (code, stdout, stderr)
        self.states = list(states)
        self.srun, self.others = srun, others
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        self.asked.append((host, tuple(argv)))
        error = self.srun if argv[0] == "srun" else self.others
        if error:
            raise error
        if argv[0] == "srun":
            self.name = next(a for a in argv if a.startswith("--job-name=")).partition("=")[2]
            return Completed(tuple(argv), *self.answer)
        if argv[0] == "sacct":
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            rows = f"42|{self.name}|{state}\n" if state else ""
            return Completed(tuple(argv), 0, rows, "")
        return Completed(tuple(argv), 0, "", "")

    def programs(self) -> list[str]:
        return [argv[0] for _, argv in self.asked]


class Clock:
    """Time that passes only by sleeping."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def run(
    remote: FakeRemote, where: Site | None = None
) -> tuple[CheckResult, CheckResult, list[Measurement]]:
    clock = Clock()
    view = View(PROFILE, where or site(), {})
    done = slurm_job.run(view, remote, clock=clock, sleep=clock.sleep)
    job, record = done.results
    assert (job.id, record.id) == ("slurm.job", "slurm.job_accounting")
    return job, record, list(done.measurements)


def test_every_host_with_all_gpus_passes_and_is_measured() -> None:
    remote = FakeRemote()
    job, record, measured = run(remote)
    assert (job.status, job.value, record.status) == (Status.PASS, 16, Status.PASS)
    assert [m.name for m in measured] == ["slurm.job"]
    assert remote.programs() == ["srun", "sacct"]


def test_the_job_asks_for_every_gpu_host_and_all_gpus_on_the_first_control_host() -> None:
    remote = FakeRemote()
    run(remote)
    host, argv = remote.asked[0]
    assert host == "head"
    assert {"--nodes=2", "--nodelist=gpu-1,gpu-2", "--gres=gpu:8"} <= set(argv)


@pytest.mark.parametrize(
    ("stdout", "cause"),
    [
        (line("gpu-1"), "gpu-2 did not run the job"),
        ("", "gpu-1, gpu-2 did not run the job"),
        (GOOD + line("gpu-2"), "gpu-2 answered unexpectedly, or more than once"),
        (GOOD + line("gpu-9"), "gpu-9 answered"),
        (line("gpu-1", "0,1,2") + line("gpu-2"), "gpu-1 gave the job 3 of 8 GPUs (0,1,2)"),
        (line("gpu-1", "") + line("gpu-2"), "gpu-1 gave the job 0 of 8 GPUs (none)"),
        (line("gpu-1", "0,0,0,0,0,0,0,0") + line("gpu-2"), "gpu-1 gave the job 1 of 8"),
        (line("gpu-1", host="gpu-7") + line("gpu-2"), "gpu-1 calls itself gpu-7"),
        (line("gpu-1", job=41) + line("gpu-2"), "several jobs"),
        ("Welcome to gpu-1!\n" + GOOD, '"Welcome to gpu-1!"'),
        (GOOD.replace("node=", "nodes="), "which is not the expected output"),
    ],
)
def test_an_answer_that_is_not_whole_fails(stdout: str, cause: str) -> None:
    job, _, measured = run(FakeRemote(stdout))
    assert job.status is Status.FAIL
    assert cause in job.cause
    assert not measured


def test_a_refused_allocation_fails_with_sruns_last_word_and_no_accounting() -> None:
    said = "srun: Required node not available (down, drained or reserved)\nsrun: error: Unable to allocate resources: Job violates limits\n"
    job, record, _ = run(FakeRemote("", said, 1))
    assert job.status is Status.FAIL
    assert "Job violates limits" in job.cause
    assert record.status is Status.NOT_ASSESSED


@pytest.mark.parametrize(
    "said",
    [
        "srun: error: Unable to allocate resources: Immediate execution impossible, insufficient priority",
        "srun: error: Unable to allocate resources: Requested nodes are busy",
    ],
)
def test_a_busy_cluster_is_not_assessed(said: str) -> None:
    job, record, measured = run(FakeRemote("", said, 1))
    assert {job.status, record.status} == {Status.NOT_ASSESSED}
    assert not measured


def test_a_job_without_an_end_is_cancelled_by_its_own_name_and_fails() -> None:
    remote = FakeRemote(srun=DeadlineExceeded("srun did not end within 180 s"))
    job, record, _ = run(remote)
    name = next(a for a in remote.asked[0][1] if a.startswith("--job-name=")).partition("=")[2]
    assert remote.asked[1] == ("head", ("scancel", f"--name={name}"))
    assert (job.status, record.status) == (Status.FAIL, Status.NOT_ASSESSED)
    assert "was cancelled" in job.cause


def test_a_job_that_cannot_be_cancelled_is_named() -> None:
    gone = ConnectionFailed("no way to head")
    job, _, _ = run(FakeRemote(srun=DeadlineExceeded("late"), others=gone))
    assert "it may still run: scancel --name=appliance-" in job.cause


def test_a_lost_connection_is_not_assessed() -> None:
    remote = FakeRemote(srun=ConnectionFailed("connection lost"))
    job, record, _ = run(remote)
    assert {job.status, record.status} == {Status.NOT_ASSESSED}
    assert "connection lost" in job.cause
    assert remote.programs() == ["srun", "scancel"]


def test_accounting_may_take_some_seconds() -> None:
    _, record, _ = run(FakeRemote(states=["", "RUNNING", "COMPLETED"]))
    assert record.status is Status.PASS


@pytest.mark.parametrize(
    ("state", "cause"),
    [("", "does not know it"), ("RUNNING", "says RUNNING"), ("NODE_FAIL", "says NODE_FAIL")],
)
def test_a_job_accounting_never_saw_completed_fails(state: str, cause: str) -> None:
    _, record, _ = run(FakeRemote(states=[state]))
    assert record.status is Status.FAIL
    assert cause in record.cause


def test_another_job_of_that_number_is_not_taken_for_ours() -> None:
    told = Completed((), 0, "42|wrap|COMPLETED\n", "")
    assert slurm_job._state(told, 42, "appliance-1") == ""


def test_accounting_that_cannot_be_asked_is_not_assessed() -> None:
    job, record, _ = run(FakeRemote(others=ConnectionFailed("no way to head")))
    assert (job.status, record.status) == (Status.PASS, Status.NOT_ASSESSED)


@pytest.mark.parametrize("left_out", [("head",), ("gpu-1", "gpu-2")])
def test_a_site_without_controller_or_gpu_hosts_is_not_assessed(left_out: tuple[str, ...]) -> None:
    remote = FakeRemote()
    job, record, _ = run(remote, site(*left_out))
    assert {job.status, record.status} == {Status.NOT_ASSESSED}
    assert not remote.asked


def owned(**owners: Owner) -> Site:
    """A site with a cluster, and hosts whose owner is named."""
    given = site()
    hosts = tuple(
        h.model_copy(update={"owner": owners.get(h.name.replace("-", ""))}) for h in given.hosts
    )
    return given.model_copy(update={"hosts": hosts, "kubernetes": KubernetesOptions()})


def test_hosts_of_kubernetes_are_asked_for_nothing() -> None:
    remote = FakeRemote(line("gpu-2"))
    job, record, measured = run(remote, owned(gpu2=Owner.SLURM))
    assert (job.status, record.status) == (Status.PASS, Status.PASS)
    assert {"--nodes=1", "--nodelist=gpu-2"} <= set(remote.asked[0][1])
    assert measured


def test_where_slurm_has_no_host_nothing_is_run_and_nothing_missed() -> None:
    remote = FakeRemote()
    job, record, measured = run(remote, owned())
    assert (job.status, job.required) == (Status.NOT_ASSESSED, False)
    assert (record.status, record.required) == (Status.NOT_ASSESSED, False)
    assert "belongs to Kubernetes" in job.cause
    assert (remote.asked, measured) == ([], [])
