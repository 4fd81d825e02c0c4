"""The driver of a rack that works: upgraded between jobs, rolled back, refused, taken up after a kill, and then left alone."""

import re
import signal
from collections.abc import Iterator

import pytest

from appliance.lab import repository
from appliance.lab.driver.packages import Driver
from appliance.lab.spec import RackSpec
from appliance.models.plan import Action, Plan
from tests.integration.rack import Bench, Event, own_name, raised

pytestmark = [pytest.mark.rack, pytest.mark.slow]

OLD, NEW, DEAD = "580.82.07", "580.178.04", "580.190.03"
GPU_HOSTS = ("gpu-1", "gpu-2")
ASK = "nvidia-smi --query-gpu=driver_version --format=csv,noheader | sort | uniq -c"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A rack of two GPU hosts with the older driver, deployed up to Slurm."""
    with raised(RackSpec(own_name("driver"), 3), tmp_path_factory.mktemp("driver"), Bench) as found:
        _choose(found, OLD)
        first = found.deploy("--json", "--until", "slurm")
        assert first.end() in {0, 3}, first.tail
        yield found


def _choose(bench: Bench, version: str, consent: bool = False) -> None:
    """What the owner would write into site.yml."""
    file = bench.site / "site.yml"
    text = file.read_text().partition("\nsoftware:")[0].rstrip()
    gpu = f"gpu:\n  drain_minutes: 0\n  interrupt_jobs: {str(consent).lower()}\n"
    file.write_text(f'{text}\n\nsoftware:\n  driver_branch: "{version}"\n{gpu}')


def _deploy(bench: Bench, *flags: str) -> tuple[int, str]:
    deployment = bench.deploy("--json", "--stage", "gpu", *flags)
    return deployment.end(), deployment.text


def _said(bench: Bench, host: str, script: str) -> str:
    done = bench.shell(host, script)
    assert done.returncode == 0, f"{host}: {script}: {done.stderr}"
    return done.stdout.strip()


def _versions(bench: Bench) -> set[str]:
    """How many GPUs answer in which version, on both hosts."""
    return {" ".join(_said(bench, host, ASK).split()) for host in GPU_HOSTS}


def _node(bench: Bench, host: str) -> str:
    return _said(bench, "head", f"scontrol --oneliner show node {host}")


def _failures(bench: Bench) -> dict[str, Event]:
    run = bench.journal("run_started")[-1]["run"]
    return {str(e["host"]): e for e in bench.journal("host_failed", run)}


def test_driver_comes_from_the_signed_repository_in_the_chosen_version(bench: Bench) -> None:
    assert _versions(bench) == {f"8 {OLD}"}
    for host in GPU_HOSTS:
        origin = _said(bench, host, "apt-cache policy nvidia-driver-cuda")
        assert repository.address(bench.rack) in origin
        assert OLD in _said(bench, host, "nv-fabricmanager --version")
        held = _said(bench, host, "apt-mark showhold").split()
        assert {"nvidia-driver-cuda", "nvidia-fabricmanager", "nvidia-kernel-open-dkms"} <= set(
            held
        )


def test_second_deployment_changes_nothing(bench: Bench) -> None:
    code, text = _deploy(bench)
    assert code in {0, 3}, text
    run = bench.journal("run_started")[-1]["run"]
    assert bench.journal("host_started", run) == []


def test_running_job_is_neither_interrupted_nor_its_host_kept(bench: Bench) -> None:
    _said(bench, "head", "sbatch --parsable -w gpu-1 --gres=gpu:1 --wrap 'sleep 600'")
    _said(
        bench,
        "head",
        "for i in $(seq 60); do squeue -h -t R | grep . && exit; sleep 1; done; exit 1",
    )
    _choose(bench, NEW)
    plan = Plan.model_validate_json(bench.program("plan", "--stage", "gpu", "--json").stdout)
    cells = [cell for cell in plan.cells if cell.host in GPU_HOSTS]
    assert {(c.action, c.reboot) for c in cells} == {(Action.RUN, True)}
    assert all("gpu_release" in c.why for c in cells)
    code, text = _deploy(bench)
    assert code == 1, text
    assert set(_failures(bench)) == {"gpu-1"}
    failure = _failures(bench)["gpu-1"]
    assert re.search(r"gpu-1 is not free after 0 min: job \d+ of root", str(failure["cause"]))
    assert "gpu.interrupt_jobs" in str(failure["fix"])
    assert _said(bench, "gpu-1", ASK).split() == ["8", OLD]
    assert _said(bench, "head", "squeue -h -o %T") == "RUNNING"
    assert "DRAIN" not in _node(bench, "gpu-1")
    # The other host had no job: it has the new driver, and is back at work.
    assert _said(bench, "gpu-2", ASK).split() == ["8", NEW]
    assert "DRAIN" not in _node(bench, "gpu-2")


def test_consent_ends_the_job_and_the_host_comes_back(bench: Bench) -> None:
    _choose(bench, NEW, consent=True)
    code, text = _deploy(bench)
    assert code in {0, 3}, text
    assert _versions(bench) == {f"8 {NEW}"}
    assert _said(bench, "head", "squeue -h") == ""
    assert all("DRAIN" not in _node(bench, host) for host in GPU_HOSTS)
    _choose(bench, NEW)
    assert _deploy(bench)[0] in {0, 3}


def test_driver_that_does_not_load_is_rolled_back_stops_the_roll_and_leaves_somebody_elses_drain(
    bench: Bench,
) -> None:
    _said(bench, "head", "scontrol update nodename=gpu-1 state=drain reason='fan is loud'")
    repository.publish(bench.rack, [Driver(OLD), Driver(NEW), Driver(DEAD, loads=False)])
    try:
        _choose(bench, DEAD)
        code, text = _deploy(bench)
        assert code == 1, text
        assert set(_failures(bench)) == {"gpu-1"}
        cause = str(_failures(bench)["gpu-1"]["cause"])
        assert f"driver {DEAD} does not come up" in cause
        assert f"rolled back to {NEW}, which works" in cause
        assert "gpu-1 failed, so stage gpu stops here" in text
        assert _versions(bench) == {f"8 {NEW}"}
        assert "Reason=fan is loud" in _node(bench, "gpu-1")
        assert "DRAIN" not in _node(bench, "gpu-2")
    finally:
        repository.publish(bench.rack, [Driver(OLD), Driver(NEW)])
        _said(bench, "head", "scontrol update nodename=gpu-1 state=resume")
    _choose(bench, NEW)
    assert _deploy(bench)[0] in {0, 3}


def _changes_driver(bench: Bench, host: str) -> bool:
    """Whether the role has noted which packages were there before."""
    return not bench.shell(host, "test -e /var/lib/appliance/gpu-driver.json").returncode


def test_change_that_is_killed_is_taken_up_by_the_next_deployment(bench: Bench) -> None:
    _choose(bench, OLD)
    deployment = bench.deploy("--json", "--stage", "gpu")
    deployment.until(lambda _: any(_changes_driver(bench, host) for host in GPU_HOSTS))
    deployment.send(signal.SIGKILL)
    assert deployment.end(10) == -signal.SIGKILL
    code, text = _deploy(bench)
    assert code in {0, 3}, text
    assert _versions(bench) == {f"8 {OLD}"}
    for host in GPU_HOSTS:
        assert "DRAIN" not in _node(bench, host)
        assert bench.shell(host, "test -e /var/lib/appliance/gpu-driver.json").returncode
    answer = _said(bench, "head", "timeout 60 srun -N2 --gres=gpu:8 hostname")
    assert sorted(answer.split()) == list(GPU_HOSTS)
