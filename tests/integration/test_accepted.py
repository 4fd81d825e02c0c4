"""A site of real hardware: deployed ends 0 with the gates of acceptance open, and evidence of each closes them."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.actions.sites.opening import Target, open_session
from appliance.adapters import process
from appliance.benchmarks import BENCHMARKS
from appliance.checks.check import View
from appliance.engine.accept.evidence import begin, keep_evidence
from appliance.engine.accept.gate_self_test import honest_evidence
from appliance.engine.look.fact_history import last_facts
from appliance.models.acceptance import Accepted, GateState
from appliance.models.result import Verdict
from tests.integration.deployed import HOSTS, Deployed

pytestmark = pytest.mark.rack
MARK = "/etc/appliance/simulated.json"
NEVER = "Accepted: no. Simulated hardware (fabric, gpu) cannot be accepted."
LOGS = Path(__file__).parents[1] / "data" / "gpt3"


@pytest.fixture(scope="module")
def unmarked(deployed: Deployed) -> Iterator[Deployed]:
    """The shared rack as one whose hardware nobody marked as simulated; the marks come back."""
    file = deployed.site / "site.yml"
    text = file.read_text()
    marks = {host: deployed.said(host, f"cat {MARK}") for host in HOSTS}
    lines = [line for line in text.splitlines(True) if not line.startswith("simulated:")]
    assert len(lines) == len(text.splitlines()) - 1
    try:
        file.write_text("".join(lines))
        for host, mark in marks.items():
            # What simulates the hardware stays where it is; only nobody says so.
            _write(deployed, host, json.dumps(json.loads(mark) | {"areas": []}))
        yield deployed
    finally:
        file.write_text(text)
        for host, mark in marks.items():
            _write(deployed, host, mark)
        done = deployed.deploy()
    assert done.returncode == 0
    # Whatever evidence it has by now.
    assert NEVER in done.stdout


def _write(deployed: Deployed, host: str, text: str) -> None:
    done = deployed.shell(host, f"cat > {MARK}", input=text)
    assert done.returncode == 0, done.stderr


def _logs(folder: Path) -> Path:
    """Of one and two hosts through Slurm, trained just now; the published ones carry dates of 2023."""
    for log in LOGS.glob("*/bare-metal/[12]n.log"):
        there = folder / log.relative_to(LOGS)
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(log.read_bytes())
    shutil.copy(LOGS / "runs.yml", folder)
    return folder


class Nobody:
    def handle(self, event: object) -> None: ...


def _measured(deployed: Deployed) -> list[str]:
    """Enters a pass for every gate that a run closes, and names them. No GPU is here that could be measured: the values are made up."""
    entered: list[str] = []
    with open_session(Target(deployed.site), "validate", Nobody(), keeps=True) as session:
        known = {host.name: last_facts(session, host.name) for host in session.site.hosts}
        facts = {name: told for name, told in known.items() if told}
        view = View(session.profile, session.site, facts)
        for benchmark in BENCHMARKS:
            for wanted in benchmark.gates(view):
                if wanted.by_run:
                    begin(session, benchmark)
                    keep_evidence(session, honest_evidence(session, view, benchmark, wanted))
                    entered.append(wanted.id)
    return entered


RUNS = {
    *("dcgm.diag", "nccl.host", "nccl.cluster", "perftest.write_bw", "perftest.write_lat"),
    *("fio.scratch_read", "burnin.done"),
}


def _states(deployed: Deployed) -> dict[str, GateState]:
    found = deployed.record(deployed.runs()[-1]).acceptance
    assert found
    return {gate.id: gate.state for gate in found.gates}


def test_marked_rack_is_deployed_and_never_accepted(deployed: Deployed) -> None:
    done = deployed.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Deployed." in done.stdout
    assert NEVER in done.stdout


def test_unmarked_site_is_deployed_and_evidence_of_every_gate_makes_it_accepted(
    unmarked: Deployed, tmp_path: Path
) -> None:
    done = unmarked.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Deployed." in done.stdout
    assert "Accepted: not yet." in done.stdout
    said = " ".join(done.stdout.split())
    close = f"appliance validate --site {unmarked.site} gpt3 --model 5b --from-logs DIR"
    assert close in said
    record = unmarked.record(unmarked.runs()[-1])
    assert record.verdict is Verdict.PASSED
    assert record.simulated == ()
    assert record.acceptance
    assert {g.id for g in record.acceptance.gates} == {*RUNS, "gpt3.126m", "gpt3.5b"}
    assert {g.state for g in record.acceptance.gates} == {GateState.OPEN}
    assert "9 gates are open. The deployment stands. ? no measurement of this site" in said
    assert "nccl.host, nccl.cluster: appliance validate" in said
    planned = " ".join(unmarked.program("plan").stdout.split())
    assert "9 gates are open" in planned
    assert close in planned

    logs = unmarked.program("validate", "gpt3", "--from-logs", str(_logs(tmp_path)))
    assert logs.returncode == 0, logs.stdout + logs.stderr
    assert unmarked.deploy().returncode == 0
    assert {name for name, state in _states(unmarked).items() if state is GateState.OPEN} == RUNS
    assert set(_measured(unmarked)) == RUNS
    again = unmarked.deploy()
    assert again.returncode == 0
    assert "Accepted: yes." in again.stdout
    record = unmarked.record(unmarked.runs()[-1])
    assert record.acceptance
    assert record.acceptance.verdict is Accepted.YES


def test_accepted_site_is_handed_over_and_the_archive_is_of_it_alone(
    unmarked: Deployed, tmp_path: Path
) -> None:
    """It goes the whole way on the rack: open, measured, signed, verified, and another site tomorrow."""
    key, allowed = tmp_path / "key", tmp_path / "signers"
    process.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)])
    allowed.write_text(f"acme {' '.join(key.with_suffix('.pub').read_text().split()[:2])}\n")
    assert unmarked.deploy().returncode == 0
    logs = unmarked.program("validate", "gpt3", "--from-logs", str(_logs(tmp_path / "logs")))
    assert logs.returncode == 0, logs.stdout + logs.stderr

    _measured(unmarked)

    out = tmp_path / "out"
    done = unmarked.program("accept", "--sign", str(key), "--output", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Accepted: yes." in done.stdout
    (archive,) = out.glob("*.tar")
    verify = ("report", "verify", str(archive), "--allowed-signers", str(allowed))
    verified = unmarked.program(*verify)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "signed by acme" in verified.stdout

    file = unmarked.site / "site.yml"
    text = file.read_text()
    try:
        file.write_text(f"{text}\nlimits: {{base.clock: {{value: 5, unit: s, source: mine}}}}\n")
        later = unmarked.program(*verify)
    finally:
        file.write_text(text)
    assert later.returncode == 1
    assert "site limits has changed" in later.stdout
