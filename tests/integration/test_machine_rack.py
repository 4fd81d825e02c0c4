"""A rack of virtual machines, as its owner has it: raised off and blank, one deployment to a Slurm job, a second, and gone.

A module's story is told in order: machines are emulated, and an install takes minutes.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.process import Completed, run
from appliance.lab import hall, rack, ssh, vms
from appliance.lab.spec import Rack, load
from tests.integration.rack import PROGRAM, own_name, traces
from tests.support.machine_hall import orders

pytestmark = pytest.mark.machines

NAME = own_name("bare")
DEPLOY_S = 5400.0
BLANK_BYTES = 1 << 20
"""What an empty qcow2 takes is less."""


def lab(*words: str) -> Completed:
    return run((PROGRAM, "lab", *words, "--name", NAME), timeout=2400, check=False)


class Raised:
    """The rack, and the program on its site."""

    def __init__(self) -> None:
        found = load(NAME)
        assert found
        self.rack: Rack = found
        self.machines = vms.hall_of(found).machines

    def appliance(self, *words: str) -> Completed:
        """The program, as its owner calls it; its time and its last words are printed."""
        began = time.monotonic()
        argv = (PROGRAM, *words, "--site", str(self.rack.site_dir))
        done = run(argv, timeout=DEPLOY_S, check=False)
        print(f"{' '.join(words)}: exit {done.returncode} in {time.monotonic() - began:.0f} s")  # noqa: T201
        print(done.stdout[-8000:], done.stderr[-3000:])  # noqa: T201
        return done

    def on(self, name: str, line: str) -> str:
        done = ssh.on_host(self.rack, self.rack.host(name), (line,), timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def boots(self) -> list[str]:
        return [self.on(m.name, "cat /proc/sys/kernel/random/boot_id") for m in self.machines]

    def states(self) -> list[str]:
        told = json.loads(lab("status", "--json").stdout)
        return [host["state"] for host in told["hosts"]]


@pytest.fixture(scope="module")
def raised() -> Iterator[Raised]:
    rack.down(NAME)
    done = lab("up", "--machines", "vm", "--count", "2")
    print(done.stdout, done.stderr)  # noqa: T201
    try:
        assert done.returncode == 0, done.stderr
        yield Raised()
    finally:
        rack.down(NAME)


def test_machines_come_off_and_blank_and_up_again_changes_nothing(raised: Raised) -> None:
    assert raised.states() == ["stopped", "stopped"]
    assert lab("status").returncode == 1
    assert all(m.disk.stat().st_blocks * 512 < BLANK_BYTES for m in raised.machines)
    began = json.loads((raised.machines[0].folder / "hall.json").read_text())
    again = lab("up", "--machines", "vm", "--count", "2")
    assert again.returncode == 0
    assert "appliance deploy --site" in again.stdout
    assert json.loads((raised.machines[0].folder / "hall.json").read_text()) == began


def test_faults_of_containers_are_refused(raised: Raised) -> None:
    done = lab("fault", "gpu-1", "freeze")
    assert done.returncode == 2
    assert "virtual machines" in done.stderr


def test_one_deployment_from_powered_off_to_the_slurm_job(raised: Raised) -> None:
    done = raised.appliance("deploy", "--profile", "hpc", "--yes")
    assert done.returncode == 0
    assert raised.states() == ["running", "running"]
    job = raised.on("head", "srun -N1 --chdir=/ --gres=gpu:8 sh -c 'hostname; nvidia-smi -L | wc -l'")  # fmt: skip
    assert job.split() == ["gpu-1", "8"]


def test_a_second_deployment_changes_nothing_and_orders_no_controller(raised: Raised) -> None:
    boots, told = raised.boots(), [orders(m) for m in raised.machines]
    done = raised.appliance("deploy", "--profile", "hpc", "--yes", "--json")
    assert done.returncode == 0
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [event for event in events if event.get("event") == "stage_started"]
    assert raised.boots() == boots
    assert [orders(m) for m in raised.machines] == told


def test_a_deployment_writes_to_no_disk_that_carries_a_system(raised: Raised) -> None:
    """Off, and no key of it is pinned: by all that can be known without its disk it was never installed."""
    raised.on("gpu-1", "touch /root/theirs; sync")
    known = raised.rack.site_dir / "known_hosts"
    text = known.read_text()
    kept = [line for line in text.splitlines() if raised.rack.host("gpu-1").address not in line]
    assert raised.appliance("power", "off", "gpu-1", "--hard", "--force", "--yes").returncode == 0
    known.write_text("".join(f"{line}\n" for line in kept))
    done = raised.appliance("deploy", "--yes")
    known.write_text(text)
    assert done.returncode == 1
    assert "carries a partition table (gpt)" in done.stdout + done.stderr
    assert "nothing was deployed" in done.stdout + done.stderr
    raised.appliance("power", "off", "gpu-1", "--hard", "--force", "--yes")
    assert raised.appliance("power", "on", "gpu-1", "--yes").returncode == 0
    ends = time.monotonic() + 600
    while not ssh.answers(raised.rack.host("gpu-1"), 5):
        assert time.monotonic() < ends, hall.console(raised.machines[1])[-500:]
        time.sleep(2)
    assert raised.on("gpu-1", "ls /root/theirs") == "/root/theirs"


def test_down_leaves_nothing(raised: Raised) -> None:
    found = vms.hall_of(raised.rack)
    assert lab("down", "--yes").returncode == 0
    assert traces(raised.rack) == []
    assert not [m.name for m in found.machines if hall.pid(found, m)]
    assert not Path(f"/sys/class/net/{raised.rack.bridge}").exists()
