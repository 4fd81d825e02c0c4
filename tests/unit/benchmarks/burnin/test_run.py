"""A burn-in goes on without the program: it is submitted once, waited for again, judged once, and ended where it hangs."""

import subprocess  # noqa: TID251 - the job's script is read by a real shell
from collections.abc import Sequence

import pytest

from appliance.adapters.process import Completed
from appliance.benchmarks.burnin import keepers
from appliance.benchmarks.burnin import run as burnin
from appliance.benchmarks.burnin.gates import CHECKS
from appliance.checks.check import View
from appliance.errors import ConnectionFailed
from appliance.models.profile import Limit
from appliance.models.result import Status
from appliance.stages.slurm.site import JobContainer
from tests.support.burnin_cluster import DONE, HOSTS, Cluster, view
from tests.support.burnin_output import HOURS, gpu, lines, written
from tests.support.gpt3_runs import IMAGE
from tests.support.gpt3_runs import view as contained
from tests.support.profiles import profile_of
from tests.support.sites import site_of


def test_a_burn_in_is_submitted_waited_for_and_judged() -> None:
    cluster = Cluster("", "PENDING", "RUNNING", "RUNNING", "", samples="")
    cluster.samples = ""
    first = cluster.outcome()
    assert cluster.asked.count("sbatch") == 1
    assert {r.status for r in first.results} == {Status.ERROR}

    cluster = Cluster("RUNNING", "", samples=DONE)
    outcome = cluster.outcome()
    assert "sbatch" not in cluster.asked
    assert {r.status for r in outcome.results} == {Status.PASS}
    assert [raw.name for raw in outcome.raw] == ["gpu-1.jsonl", "gpu-2.jsonl"]


def test_one_that_ended_meanwhile_is_judged_once() -> None:
    cluster = Cluster("", samples=DONE)
    assert {r.status for r in cluster.outcome().results} == {Status.PASS}
    assert "sbatch" not in cluster.asked
    cluster.outcome()
    assert "sbatch" in cluster.asked


def test_samples_of_an_earlier_one_are_none_of_a_job_that_never_began() -> None:
    """Slurm said that it ran and ended; on the hosts lies what was judged before."""
    cluster = Cluster("", samples=DONE)
    assert {r.status for r in cluster.outcome().results} == {Status.PASS}
    cluster.begins = False
    assert {r.status for r in cluster.outcome().results} == {Status.ERROR}
    assert "sbatch" in cluster.asked


def test_the_job_removes_what_an_earlier_one_wrote() -> None:
    script = keepers.batch(view(), keepers.BurnInRequest("head", HOSTS, 60.0))
    first = next(line for line in script.splitlines() if line.startswith("srun"))
    assert f"rm -f {keepers.FOLDER}/judged {keepers.FOLDER}/samples.jsonl" in first


def test_one_of_another_length_is_not_taken_for_this() -> None:
    cluster = Cluster("", samples=DONE)
    results = cluster.outcome(minutes=960).results
    assert "sbatch" in cluster.asked
    assert {r.status for r in results if r.id == "burnin.done"} == {Status.FAIL}


def test_a_control_host_that_went_away_leaves_it_running() -> None:
    cluster = Cluster("RUNNING", "RUNNING", None, samples=DONE)
    (result,) = cluster.outcome().results
    assert (result.status, result.fix) == (Status.NOT_ASSESSED, keepers.OfSlurm.again)
    assert "scancel" not in cluster.asked
    assert cluster.asked.count("squeue") == 2 + burnin.LOST


@pytest.mark.parametrize(
    ("state", "status", "least"),
    [("PENDING", Status.NOT_ASSESSED, burnin.WAIT), ("RUNNING", Status.ERROR, HOURS)],
)
def test_one_that_does_not_begin_or_end_is_cancelled(
    state: str, status: Status, least: float
) -> None:
    cluster = Cluster("", state)
    (result,) = cluster.outcome().results
    assert result.status is status
    assert "scancel" in cluster.asked
    assert cluster.now > least


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("sbatch: error: invalid partition\n", "sbatch: error: invalid partition"),
        ("\n", "no reason given"),
    ],
)
def test_what_slurm_refuses_is_told(said: str, told: str) -> None:
    cluster = Cluster("", refused=said)
    (result,) = cluster.outcome().results
    assert (result.status, result.cause) == (Status.ERROR, f"sbatch ended with 1: {told}")


def test_the_jobs_script_is_one_a_shell_reads_and_carries_the_program() -> None:
    script = keepers.batch(view(), keepers.BurnInRequest("head", HOSTS, 60.0))
    assert keepers.SCRIPT.read_text() in script
    checked = subprocess.run(["sh", "-n"], input=script.encode(), check=False, capture_output=True)
    assert (checked.returncode, checked.stderr) == (0, b"")


@pytest.mark.parametrize("names", [("head",), HOSTS])
def test_without_a_control_host_or_a_gpu_host_there_is_no_job(names: tuple[str, ...]) -> None:
    cluster = Cluster("", samples=DONE)
    seen = View(profile_of(gpu={"count": 2}), site_of(*names), {})
    if names == HOSTS:
        hosts = tuple(h for h in view().site.hosts if h.name != "head")
        seen = View(seen.profile, view().site.model_copy(update={"hosts": hosts}), {})
    results = cluster.outcome(site=seen).results
    assert {(r.status, r.required) for r in results} == {(Status.NOT_ASSESSED, False)}
    assert cluster.asked == []


@pytest.mark.parametrize(("asked", "hours"), [(None, 8), (3, 3)])
def test_a_burn_in_lasts_as_long_as_is_asked_for(asked: int | None, hours: int) -> None:
    seen = view()
    limits = {"burnin.done": Limit(value=asked, unit="h", source="x")} if asked else {}
    site = seen.site.model_copy(update={"limits": limits})
    cluster = Cluster("RUNNING", "", samples=DONE)
    results = cluster.outcome(0, View(seen.profile, site, {})).results
    assert {r.limit for r in results if r.id == "burnin.done"} == {hours}


def test_one_that_was_shorter_than_asked_for_hides_no_failure() -> None:
    seen = view()
    site = seen.site.model_copy(
        update={"limits": {"burnin.done": Limit(value=24, unit="h", source="x")}}
    )
    asking = View(seen.profile, site, {})
    good = Cluster("RUNNING", "", samples=DONE).outcome(480, asking).results
    assert {(r.id, r.status) for r in good if r.host == "gpu-1"} == {
        *((check, Status.PASS) for check in CHECKS if check != "burnin.done"),
        ("burnin.done", Status.NOT_ASSESSED),
    }
    died = written([*lines()[:-1], {**lines()[-1], "failed": 1}])
    bad = Cluster("RUNNING", "", samples=died).outcome(480, asking).results
    assert {r.status for r in bad if r.id == "burnin.done"} == {Status.FAIL}


def test_one_that_broke_off_is_not_taken_up() -> None:
    cluster = Cluster("", samples=written(lines()[:50]))
    assert {r.status for r in cluster.outcome().results if r.id == "burnin.done"} == {Status.FAIL}
    assert "sbatch" in cluster.asked


def test_a_control_host_that_does_not_answer_has_no_job() -> None:
    class Silent(Cluster):
        def run(
            self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
        ) -> Completed:
            if argv[0] == "sbatch":
                raise ConnectionFailed("no answer", "is it up?", host)
            return super().run(host, argv, input=input, timeout=timeout)

    (result,) = Silent("").outcome().results
    assert (result.status, result.fix) == (Status.NOT_ASSESSED, "is it up?")
    assert "no answer" in result.cause


def test_a_job_has_twenty_minutes_more_and_whole_hosts() -> None:
    cluster = Cluster("", samples=DONE)
    cluster.judged = True
    cluster.outcome()
    assert {"--time=500", "--nodes=2", "--exclusive", "--gres=gpu:2"} <= set(cluster.submitted)


@pytest.mark.parametrize(
    ("state", "least", "most"), [("PENDING", 1800, 1830), ("RUNNING", HOURS + 600, HOURS + 630)]
)
def test_how_long_is_waited_for_a_beginning_and_an_end(
    state: str, least: float, most: float
) -> None:
    cluster = Cluster("", state)
    cluster.now = 5000.0
    cluster.outcome()
    assert least < cluster.now - 5000.0 <= most


def test_heat_over_time_is_shown_of_each_gpu() -> None:
    cut = [
        row | {"gpus": [gpu(0), gpu(1, temperature="[N/A]" if at == 50 else 60 + at % 20)]}
        if row["kind"] == "sample"
        else row
        for at, row in enumerate(lines())
    ]
    first, _ = Cluster("RUNNING", "", samples=written(cut)).outcome().tables
    assert first.rows == ((0, 70, 395.2, 1410, 0), (1, 79, 395.2, 1410, 0))
    assert first.plot is not None
    assert [(s.label, len(s.points)) for s in first.plot.series] == [("GPU 0", 101), ("GPU 1", 100)]
    assert first.plot.series[0].points[-1][0] == pytest.approx(8.0, abs=0.01)
    blind = [row | {"gpus": []} if row["kind"] == "sample" else row for row in lines()]
    assert Cluster("RUNNING", "", samples=written(blind)).outcome().tables == ()


def test_waiting_in_the_queue_takes_nothing_of_its_time() -> None:
    cluster = Cluster("", *["PENDING"] * 170, "RUNNING")
    (result,) = cluster.outcome().results
    assert (result.status, "scancel" in cluster.asked) == (Status.ERROR, True)
    assert cluster.now > 1700 + HOURS + burnin.LATE


def test_a_host_that_does_not_answer_holds_no_burn_in_that_could_be_judged() -> None:
    class Mute(Cluster):
        def run(
            self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
        ) -> Completed:
            if argv[0] == "sh" and host == "gpu-2":
                raise ConnectionFailed("no answer", "is it up?", host)
            return super().run(host, argv, input=input, timeout=timeout)

    cluster = Mute("", samples=DONE)
    done = {r.host: r.status for r in cluster.outcome().results if r.id == "burnin.done"}
    assert "sbatch" in cluster.asked
    assert done == {"gpu-1": Status.PASS, "gpu-2": Status.ERROR}


def test_a_site_that_names_a_container_burns_in_there() -> None:
    wanted = keepers.BurnInRequest("head", HOSTS, 60.0)

    def script(chosen: JobContainer | None) -> str:
        seen = contained(2, container=chosen or IMAGE)
        assert seen.site.slurm_options.containers
        given = seen.site.slurm_options.containers.model_copy(update={"benchmark": chosen})
        slurm = seen.site.slurm_options.model_copy(update={"containers": given})
        site = seen.site.model_copy(update={"slurm": slurm})
        return keepers.batch(View(seen.profile, site, {}), wanted)

    said = script(IMAGE)
    assert f"--container-image='{IMAGE.image}'" in said
    mounts = ",".join((f"{keepers.FOLDER}:{keepers.FOLDER}", *IMAGE.mounts))
    assert f"--container-mounts='{mounts}'" in said
    assert "--container" not in script(None)
    assert "--container" not in keepers.batch(view(), wanted)
