"""GPU hosts that judge themselves on a real Slurm: who is unfit is drained, within the bound, and told where he is not."""

import json
import time
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from appliance.watch.bundle import executable
from tests.integration.deployed import Deployed

pytestmark = [pytest.mark.rack, pytest.mark.slow]

MANY = Path(__file__).parents[1] / "data/watch/many.sh"
WRONG = "/etc/slurm/health.d/50-wrong.sh"
GPU_HOSTS = ("gpu-1", "gpu-2")
ACT = "/usr/local/sbin/appliance-watch act"


def state(rack: Deployed, host: str) -> str:
    return rack.said("head", f"sinfo --noheader --nodes={host} --Format=StateLong,Reason:80")


def out(rack: Deployed) -> list[str]:
    return [host for host in GPU_HOSTS if "appliance: health:" in state(rack, host)]


def give_back(rack: Deployed) -> None:
    for host in GPU_HOSTS:
        rack.shell(host, f"rm -f {WRONG}; {ACT}")
        rack.shell("head", f"scontrol update nodename={host} state=resume")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if all(state(rack, host).startswith("idle ") for host in GPU_HOSTS):
            return
        time.sleep(1)
    pytest.fail(str([state(rack, host) for host in GPU_HOSTS]))


@pytest.fixture
def judged(deployed: Deployed) -> Iterator[Deployed]:
    """A judge that calls both GPU hosts unfit, planted; and all as before afterwards."""
    give_back(deployed)
    for host in GPU_HOSTS:
        plant = f"printf '#!/bin/sh\\necho the judge errs\\nexit 1\\n' > {WRONG}; chmod 755 {WRONG}"
        deployed.said(host, plant)
    yield deployed
    give_back(deployed)


@pytest.mark.parametrize("most", [1, 4])
def test_forty_hosts_at_the_same_second_are_no_more_than_the_bound(
    deployed: Deployed, most: int
) -> None:
    program = b64encode(executable()).decode()
    done = deployed.shell("head", f"set -- {most}\n{MANY.read_text()}", input=program)
    assert done.returncode == 0, done.stderr
    said = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    assert said == {"highest": str(most), "out": str(most), "announced": "0"}


def test_a_judge_that_errs_drains_one_of_two_hosts_and_tells_of_the_other(
    judged: Deployed,
) -> None:
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda host: judged.shell(host, ACT), GPU_HOSTS))
    assert [done.returncode for done in ended] == [1, 1]
    (first,) = out(judged)
    assert "slurm.watch 50-wrong.sh: the judge errs" in state(judged, first)
    (kept,) = set(GPU_HOSTS) - {first}
    assert json.loads(judged.said(kept, "cat /run/appliance/watch.json"))["state"] == "over"
    assert "keeps its work" in judged.said(kept, "journalctl -t appliance-watch -n 1")
    # A job before which the same judge is asked goes on there: Slurm would drain the host whose prolog fails.
    done = judged.said("head", "timeout 60 srun -N1 --gres=gpu:1 hostname")
    assert done.strip() == kept
    assert out(judged) == [first]


def test_a_silent_controller_drains_nobody(judged: Deployed) -> None:
    judged.said("head", "systemctl stop slurmctld")
    try:
        for host in GPU_HOSTS:
            assert judged.shell(host, ACT).returncode == 1
            kept = json.loads(judged.said(host, "cat /run/appliance/watch.json"))
            assert kept["state"] == "silent"
            assert kept["gaps"]
    finally:
        judged.said("head", "systemctl start slurmctld")
    assert len(out(judged)) <= 1


def test_a_person_s_drain_keeps_its_reason(judged: Deployed) -> None:
    for host in GPU_HOSTS:
        judged.said("head", f"scontrol update nodename={host} state=drain reason='waits for a fan'")
        judged.shell(host, ACT)
        assert "waits for a fan" in state(judged, host)


def test_a_host_mended_by_hand_is_named_and_given_back_by_the_next_deployment(
    deployed: Deployed,
) -> None:
    give_back(deployed)
    deployed.said("gpu-1", f"umount /scratch; {ACT}; true")
    assert "appliance: health: storage.scratch" in state(deployed, "gpu-1")
    deployed.said("gpu-1", "systemctl start scratch.mount")
    cell = deployed.plan().cell("slurm", "gpu-1")
    assert cell is not None
    assert cell.why.startswith("slurm.return: it is fit again")
    health = deployed.program("health", "--json")
    failed = [r for r in json.loads(health.stdout)["results"] if r["status"] == "fail"]
    alone = {(r["id"], r["target"]) for r in failed if not r["explained_by"]}
    assert alone == {("slurm.return", "gpu-1")}
    done = deployed.deploy("--until", "observe")
    assert done.returncode == 0, done.stdout
    assert state(deployed, "gpu-1").startswith("idle ")


@pytest.mark.parametrize("reason", ["waits for a fan", "appliance: waits for a fan"])
def test_no_deployment_gives_back_what_a_person_drained(deployed: Deployed, reason: str) -> None:
    give_back(deployed)
    deployed.said("gpu-1", f"umount /scratch; {ACT}; true")
    deployed.said("head", f"scontrol update nodename=gpu-1 state=drain reason='{reason}'")
    deployed.said("gpu-1", f"systemctl start scratch.mount; {ACT}")
    try:
        done = deployed.deploy("--stage", "slurm", "--full", "--hosts", "gpu-1")
        assert reason in state(deployed, "gpu-1"), done.stdout
    finally:
        give_back(deployed)


def test_slurm_itself_asks_the_judge_every_minute(judged: Deployed) -> None:
    began = time.monotonic()
    while not out(judged):
        assert time.monotonic() - began < 120
        time.sleep(3)
