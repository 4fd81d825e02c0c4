"""GPUs in parts on a deployed rack: made, in Slurm, the same after a reboot, never under a process, and gone again."""

import json
import time
from collections.abc import Iterator

import pytest

from appliance.adapters.process import Completed
from tests.integration.deployed import Deployed, appliance

pytestmark = pytest.mark.rack

HOST = "gpu-1"
PATIENCE = 180.0
"""Seconds for what must come by itself: a boot, a node that reports to Slurm."""
DECLARED = f"""
mig:
  hosts:
    {HOST}:
      gpus:
        "0": all-balanced
        "2": 7 x 1g.10gb
"""


@pytest.fixture
def plain(deployed: Deployed) -> Iterator[str]:
    """The site without a word of MIG, as it is before and after."""
    file = deployed.site / "site.yml"
    before = file.read_text()
    yield before
    deployed.shell(HOST, "rm -f /run/appliance-lab/gpu.processes; pkill -f '^sleep 86'")
    file.write_text(before)
    mig(deployed, "disable", "--hosts", HOST, "--yes")
    mended = deployed.deploy()
    assert mended.returncode in (0, 3), mended.stdout
    assert not parts(deployed)
    left = (
        "/etc/appliance/mig.json /var/lib/appliance/receipts/mig.json /usr/local/sbin/appliance-mig"
        " /etc/systemd/system/appliance-mig.service"
    )
    assert "/" not in deployed.shell(HOST, f"ls {left} 2>/dev/null").stdout
    assert deployed.shell(HOST, "systemctl is-enabled appliance-mig").returncode
    assert not deployed.plan().changes


def mig(deployed: Deployed, verb: str, *flags: str) -> Completed:
    argv = ("mig", verb, "--site", str(deployed.site), *flags)
    return appliance(*argv, timeout=600)


def devices(deployed: Deployed) -> list[str]:
    """What ``nvidia-smi -L`` lists, UUIDs and all."""
    return deployed.said(HOST, "nvidia-smi -L").splitlines()


def parts(deployed: Deployed) -> list[str]:
    return [line for line in devices(deployed) if "MIG" in line]


def until(deployed: Deployed, host: str, script: str) -> str:
    """What a script says once it succeeds."""
    deadline = time.monotonic() + PATIENCE
    while (done := deployed.shell(host, script)).returncode:
        assert time.monotonic() < deadline, f"{script}: {done.stdout} {done.stderr}"
        time.sleep(1)
    return done.stdout


def test_declared_parts_are_made_survive_a_reboot_and_never_cost_a_process_its_gpu(
    deployed: Deployed, plain: str
) -> None:
    file = deployed.site / "site.yml"
    file.write_text(plain + DECLARED)

    made = mig(deployed, "apply", "--drain", "--yes")
    assert made.returncode in (0, 3), made.stdout + made.stderr
    found = devices(deployed)
    assert len(found) == 8 + 4 + 7
    sizes = [line.split()[1] for line in parts(deployed)]
    assert sorted(sizes[:4]) == ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"]
    assert sizes[4:] == ["1g.10gb"] * 7
    assert not [cell for cell in deployed.plan().pending() if cell.stage == "mig"]

    # Slurm offers them in the same run.
    job = "srun --immediate=60 --gres=gpu:1g.10gb:2 sh -c 'echo $CUDA_VISIBLE_DEVICES'"
    given = until(deployed, "head", job).strip().split(",")
    assert len(given) == 2
    assert all(device.startswith("MIG-") for device in given)
    assert set(given) <= {line.rpartition(" ")[2].rstrip(")") for line in parts(deployed)}

    deployed.shell(HOST, "touch /run/before-the-reboot; systemctl reboot")
    until(deployed, HOST, "! test -e /run/before-the-reboot && systemctl is-active appliance-mig")
    assert devices(deployed) == found

    # Somebody computes on GPU 0: another layout for it is refused by name, GPU 2 is changed all the same.
    pid = deployed.said(
        HOST,
        "setsid sleep 8600 >/dev/null 2>&1 </dev/null & echo $! | tee /run/busy; "
        'echo "0 $(cat /run/busy)" > /run/appliance-lab/gpu.processes',
    ).strip()
    other = DECLARED.replace("all-balanced", "7g.80gb").replace("7 x 1g.10gb", "3g.40gb")
    file.write_text(plain + other)
    planned = mig(deployed, "plan", "--hosts", HOST, "--json")
    gpus = json.loads(planned.stdout)["hosts"][HOST]["gpus"]
    assert [gpu["state"] for gpu in gpus] == ["refused", "differs"]
    refused = mig(deployed, "apply", "--yes")
    assert refused.returncode == 1
    assert f"in use by {pid} sleep (root)" in " ".join(refused.stdout.split())
    assert parts(deployed)[:4] == [line for line in found if "MIG" in line][:4]
    assert [line.split()[1] for line in parts(deployed)[4:]] == ["3g.40gb"]
    deployed.said(HOST, f"kill {pid}")
