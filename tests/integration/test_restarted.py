"""What the plan names is restarted, and nothing else: processes of all daemons of the rack before and after a change."""

import json
import re
from collections.abc import Iterator, Mapping

import pytest

from tests.integration import standing
from tests.integration.deployed import HOSTS, USER, Deployed

pytestmark = pytest.mark.rack

PLAIN = "slurm: {ssh_needs_job: false}"
CHANGED = """slurm:
  ssh_needs_job: false
  partitions: [{name: gpu, default: true, max_time: 3-00:00:00}]
observe: {retention_days: 17}
"""
LAST = "observe"
"""The last stage that changes a host."""
CHRONY = "/etc/chrony/chrony.conf"
NAME = re.compile(r"^Id=(.+)\.service$", re.M)
JOB = "sbatch --parsable --chdir=/ --output=/dev/null -w gpu-1 --mem=16M --wrap='sleep 7200'"


OF_ANOTHER_RELEASE = """
import glob, json
for name in glob.glob("/var/lib/appliance/receipts/*.json"):
    with open(name) as file:
        receipt = json.load(file)
    receipt["fingerprint"] = receipt["inputs"]["module apply"] = "0" * 24
    with open(name, "w") as file:
        json.dump(receipt, file)
"""
"""Receipts as a release writes them whose modules are not the present ones."""


@pytest.fixture
def changed(deployed: Deployed) -> Iterator[Deployed]:
    """A site with another partition and another retention, and a host whose chrony somebody changed."""
    assert deployed.deploy("--until", LAST).returncode == 0
    file = deployed.site / "site.yml"
    before = file.read_text()
    assert before.count(PLAIN) == 1
    assert "\nobserve:" not in before
    try:
        file.write_text(before.replace(PLAIN, CHANGED))
        deployed.said("gpu-2", f"echo '# mine' >> {CHRONY}")
        yield deployed
    finally:
        file.write_text(before)
        done = deployed.deploy("--until", LAST)
    assert done.returncode == 0, done.stdout + done.stderr


def _daemons(deployed: Deployed) -> dict[str, dict[str, str]]:
    """Daemon to its processes and starts, by host."""
    found = standing.taken(deployed, HOSTS)
    return {
        host: {name[1]: one for one in found[host]["daemons"] if (name := NAME.search(one))}
        for host in HOSTS
    }


def _restarted(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    return {name for name in {**before, **after} if before.get(name) != after.get(name)}


def test_daemons_that_the_plan_names_are_restarted_and_no_others(changed: Deployed) -> None:
    number = changed.said("head", f"runuser -u {USER} -- {JOB}").strip()
    try:
        named = {host: changed.plan().restarts(host) for host in HOSTS}
        assert named == {
            "head": (("slurmctld", "prometheus"), ()),
            "gpu-1": (("slurmd",), ()),
            "gpu-2": (("chrony", "slurmd"), ()),
        }
        shown = changed.program("plan").stdout
        assert "head: restarts slurmctld, prometheus\n" in shown
        before, jobs = _daemons(changed), standing.jobs(changed, USER)
        done = changed.deploy("--until", LAST)
        assert done.returncode == 0, done.stdout
        assert "gpu-2: restarts chrony, slurmd" in done.stdout
        after = _daemons(changed)
        assert {host: _restarted(before[host], after[host]) for host in HOSTS} == {
            host: set(sure) for host, (sure, _) in named.items()
        }
        assert standing.jobs(changed, USER) == jobs
    finally:
        changed.said("head", f"scancel {number}")


def test_a_run_of_everything_on_a_finished_site_restarts_nothing(deployed: Deployed) -> None:
    full = json.loads(deployed.program("plan", "--full", "--json").stdout)
    assert not any(one["restarts"] or one["may_restart"] for one in full["cells"])
    before = _daemons(deployed)
    done = deployed.deploy("--full", "--until", LAST)
    assert done.returncode == 0, done.stdout
    assert _daemons(deployed) == before


def test_stages_that_another_release_deployed_run_again_and_restart_nothing(
    deployed: Deployed,
) -> None:
    number = deployed.said("head", f"runuser -u {USER} -- {JOB}").strip()
    try:
        for host in HOSTS:
            assert deployed.shell(host, "python3 -", input=OF_ANOTHER_RELEASE).returncode == 0
        changed = [cell for cell in deployed.plan().cells if "module apply" in cell.why]
        assert {"base", "gpu", "fabric", "storage", "slurm", LAST} <= {c.stage for c in changed}
        assert {cell.host for cell in changed if cell.may_restart} == set(HOSTS)
        before, jobs = standing.taken(deployed, HOSTS), standing.jobs(deployed, USER)
        done = deployed.deploy("--until", LAST)
        assert done.returncode == 0, done.stdout
        after = standing.taken(deployed, HOSTS)
        assert [standing.differences(before[host], after[host]) for host in HOSTS] == [[], [], []]
        assert standing.jobs(deployed, USER) == jobs
    finally:
        deployed.said("head", f"scancel {number}")
