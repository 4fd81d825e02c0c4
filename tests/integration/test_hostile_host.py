"""A deployed rack on which one host was taken over: it lies in every answer, and harms nobody but itself."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.process import Completed
from appliance.models.facts import HostFacts
from appliance.models.result import Status
from appliance.models.run import StageState
from tests.integration.deployed import Deployed
from tests.integration.hostile_site import payloads, spread
from tests.integration.rack import own_name
from tests.planted import planted

pytestmark = pytest.mark.rack

HOSTILE, HONEST = "gpu-2", ("head", "gpu-1")
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
        said = json.dumps(json.loads(lie.read_text())["facts"])
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
    assert deployed.deploy().returncode == 0
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


def _lies(deployed: Deployed, facts: object) -> None:
    text = json.dumps({"payload": payloads(MADE)[0], "facts": facts})
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
    assert "its answer is refused" in done.stdout
    _honest_hosts_are_proved(deployed, done)
    _nothing_ran(deployed)


def test_numbers_of_one_host_change_no_file_of_the_others(
    deployed: Deployed, taken_over: dict[str, Any]
) -> None:
    def files() -> list[str]:
        names = "slurm.conf gres.conf cgroup.conf"
        return [deployed.said(host, f"cd /etc/slurm && sha256sum {names}") for host in HONEST]

    before = files()
    lie = {
        **taken_over,
        "os": {**taken_over["os"], "cgroup": "v1"},
        "cpu": {**taken_over["cpu"], "cores": 4096, "threads": 4096},
        "memory": {**taken_over["memory"], "total": 8 << 30},
    }
    _lies(deployed, lie)
    deployed.deploy("--stage", "slurm")
    assert files() == before
    assert "base.facts" in deployed.program("health").stdout
    assert "facts contradict" in deployed.said("head", f"scontrol --oneliner show node {HOSTILE}")


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
