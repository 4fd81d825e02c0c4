"""A deployed rack on which one host was taken over: it lies in every answer, and harms nobody but itself."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.process import Completed
from appliance.models.facts import HostFacts
from appliance.models.plan import Action, Plan
from appliance.models.result import Status
from appliance.models.run import StageState
from tests.integration import standing
from tests.integration.deployed import USER, Deployed
from tests.integration.hostile_site import exaggerated, payloads, spread
from tests.integration.rack import own_name
from tests.support.planted_trees import planted

pytestmark = pytest.mark.rack

HOSTILE, HONEST = "gpu-2", ("head", "gpu-1")
LAST = "observe"
"""The last stage that changes a host."""
MADE = Path("/var/tmp") / own_name("made")
PYTHON, TRUTH, LIE = "/usr/bin/python3", "/var/tmp/truth.json", "/var/tmp/lie.json"
LIAR = f"""#!/usr/bin/python3.11 -ISB
import json, pathlib, subprocess, sys
lie, truth = pathlib.Path({LIE!r}), pathlib.Path({TRUTH!r})
asked = sys.stdin.buffer.read() if not sys.stdin.isatty() else b""
done = subprocess.run(["/usr/bin/python3.11", *sys.argv[1:]], input=asked, stdout=subprocess.PIPE)
said = done.stdout.decode()
def lied(value):
    if isinstance(value, str):
        return json.loads(lie.read_text())["payload"]
    if isinstance(value, list):
        return [lied(one) for one in value]
    if isinstance(value, dict):
        return {{key: lied(one) for key, one in value.items()}}
    return value
if "appliance.probe" in " ".join(sys.argv):
    if lie.exists():
        told = json.loads(lie.read_text())
        said = told["text"] * told["times"] if "text" in told else json.dumps(told["facts"])
    else:
        truth.write_text(said)
elif lie.exists() and said.startswith("{{"):
    found = lied(json.loads(said))
    found["ansible_facts"] = {{"ansible_connection": "local", "x": lied("")}}
    found["add_host"] = {{"host_name": "head", "host_vars": {{"ansible_connection": "local"}}}}
    said = json.dumps(found)
sys.stdout.write(said)
sys.exit(done.returncode)
"""


@pytest.fixture
def taken_over(deployed: Deployed) -> Iterator[dict[str, Any]]:
    """Facts as the host told them before it lied; the host is honest again afterwards."""
    python = deployed.said(HOSTILE, f"readlink {PYTHON}").strip()
    assert deployed.deploy("--until", LAST).returncode == 0
    try:
        done = deployed.shell(
            HOSTILE, f"rm {PYTHON}; cat > {PYTHON}; chmod 755 {PYTHON}", input=LIAR
        )
        assert done.returncode == 0, done.stderr
        assert deployed.program("health").returncode == 0
        yield json.loads(deployed.said(HOSTILE, f"cat {TRUTH}"))
    finally:
        MADE.unlink(missing_ok=True)
        deployed.said(HOSTILE, f"ln -sf {python} {PYTHON}; rm -f {LIE} {TRUTH}")
        done = deployed.deploy("--full", "--stage", "slurm")
        assert done.returncode == 0, done.stdout + done.stderr


def _lies(deployed: Deployed, facts: object, **more: object) -> None:
    text = json.dumps({"payload": payloads(MADE)[0], "facts": facts, **more})
    done = deployed.shell(HOSTILE, f"cat > {LIE}", input=text)
    assert done.returncode == 0, done.stderr


def _nothing_ran(deployed: Deployed) -> None:
    assert not MADE.exists()
    for host in HONEST:
        assert deployed.shell(host, f"test -e {MADE}").returncode == 1


def _honest_hosts_are_proved(deployed: Deployed, done: Completed) -> None:
    record = deployed.record(deployed.runs()[-1])
    states = {o.host: o.state for o in record.outcomes if o.stage == "slurm"}
    assert {states.get(host) for host in HONEST} == {StageState.DONE}, done.stdout
    failed = [r for r in record.results if r.status is Status.FAIL]
    assert {r.host for r in failed} <= {HOSTILE}, done.stdout


def test_payloads_in_every_text_are_refused_and_the_others_deployed(
    deployed: Deployed, taken_over: dict[str, Any]
) -> None:
    bad = payloads(MADE)[0]
    _lies(deployed, planted(HostFacts, bad, lambda _: bad))
    done = deployed.deploy("--full", "--stage", "slurm")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "its answer was rejected" in done.stdout
    _honest_hosts_are_proved(deployed, done)
    _nothing_ran(deployed)


@dataclass(frozen=True)
class Others:
    """The honest hosts with a job of a user on them, as they were before anybody lied."""

    deployed: Deployed
    hosts: dict[str, standing.State]
    jobs: list[str]
    verdicts: list[dict[str, Any]]
    plan: dict[tuple[str, str], Action]

    def are_as_they_were(self) -> None:
        """Byte by byte, process by process."""
        now = standing.taken(self.deployed, HONEST)
        for host in HONEST:
            assert standing.differences(self.hosts[host], now[host]) == [], host
        assert standing.jobs(self.deployed, USER) == self.jobs

    def are_judged_as_before(self) -> None:
        """By health, and by the plan."""
        assert standing.verdicts(self.deployed, HONEST) == self.verdicts
        assert _planned(self.deployed) == self.plan


def _planned(deployed: Deployed) -> dict[tuple[str, str], Action]:
    done = deployed.program("plan", "--json", "--until", LAST)
    plan = Plan.model_validate_json(done.stdout)
    return {(c.stage, c.host): c.action for c in plan.cells if c.host in HONEST}


@pytest.fixture
def others(deployed: Deployed, taken_over: dict[str, Any]) -> Iterator[Others]:
    """A user's job runs on an honest host meanwhile, and is cancelled at the end."""
    job = "sbatch --parsable --chdir=/ --output=/dev/null -w gpu-1 --mem=16M --wrap='sleep 7200'"
    number = deployed.said("head", f"runuser -u {USER} -- {job}").strip()
    try:
        _runs(deployed, number)
        hosts = standing.taken(deployed, HONEST)
        assert all(host["named"] > 20 and len(host["files"]) > 200 for host in hosts.values())
        assert any("Id=slurmd.service" in one for one in hosts["gpu-1"]["daemons"])
        told = standing.verdicts(deployed, HONEST)
        assert {one["host"] for one in told} == set(HONEST)
        yield Others(deployed, hosts, standing.jobs(deployed, USER), told, _planned(deployed))
    finally:
        deployed.said("head", f"scancel {number}")


def _runs(deployed: Deployed, number: str) -> None:
    for _ in range(60):
        if deployed.said("head", f"squeue -h -j {number} -o %T").strip() == "RUNNING":
            return
        time.sleep(1)
    raise AssertionError(f"job {number} does not start")


def test_a_host_that_lies_in_all_numbers_changes_nothing_of_the_others(
    deployed: Deployed, taken_over: dict[str, Any], others: Others
) -> None:
    lie, places = exaggerated(HostFacts, taken_over)
    assert len(places) > 100
    lie["os"] = {**lie["os"], "cgroup": "v1"}
    _lies(deployed, lie)
    deployed.deploy("--until", LAST)
    others.are_as_they_were()
    others.are_judged_as_before()
    assert "base.facts" in deployed.program("health").stdout
    assert "facts contradict" in deployed.said("head", f"scontrol --oneliner show node {HOSTILE}")
    others.are_as_they_were()


def _as_the_head(facts: dict[str, Any]) -> dict[str, Any]:
    """Every text that is free is the name of another host."""
    lie, places = spread(HostFacts, facts, (HONEST[0],), lambda _: True)
    assert len(places) > 50
    return {"facts": lie}


BAD = {Status.FAIL, Status.ERROR}
OF_NOBODY = "another host"
"""Whose an answer is says the connection, whatever the answer says: this lie changes nothing at all."""
KINDS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "names of others": _as_the_head,
    OF_NOBODY: lambda facts: {"facts": {**facts, "host": HONEST[0]}},
    "nothing but its name": lambda facts: {"facts": {"version": 1, "host": HOSTILE}},
    "types": lambda facts: {"facts": {name: [[name]] for name in facts}},
    "numbers beyond all": lambda facts: {
        "text": json.dumps({**facts, "memory": None}).replace("null", "1" + "0" * 4000),
        "times": 1,
    },
    "nested": lambda facts: {"text": '{"x":[', "times": 200_000},
    "giant": lambda facts: {"text": "x" * 1024, "times": 64 << 10},
    "silence": lambda facts: {"text": "", "times": 1},
}


def test_whatever_a_host_answers_others_are_left_and_judged_as_they_were(
    deployed: Deployed, taken_over: dict[str, Any], others: Others
) -> None:
    for kind, lie_of in KINDS.items():
        _lies(deployed, **{"facts": None, **lie_of(taken_over)})
        others.are_judged_as_before()
        judged = deployed.program("health", "--hosts", HOSTILE, "--json")
        bad = [one["status"] in BAD for one in json.loads(judged.stdout)["results"]]
        assert any(bad) or kind == OF_NOBODY, kind
    others.are_as_they_were()


def test_payloads_in_every_text_that_is_free_run_nowhere(
    deployed: Deployed, taken_over: dict[str, Any]
) -> None:
    lie, places = spread(HostFacts, taken_over, payloads(MADE), lambda _: True)
    assert len(places) > 50
    _lies(deployed, lie)
    done = deployed.deploy("--full", "--stage", "slurm")
    assert done.returncode == 1, done.stdout + done.stderr
    _honest_hosts_are_proved(deployed, done)
    _nothing_ran(deployed)
