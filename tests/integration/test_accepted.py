"""A site of real hardware: deployed ends 0 with the gates of acceptance open, and evidence of each closes them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters import process
from appliance.models.acceptance import Accepted, GateState
from appliance.models.result import Verdict
from tests.integration.deployed import Deployed
from tests.integration.entered import enter_passes, training_logs, unmarked_hosts

pytestmark = pytest.mark.rack
NEVER = "Accepted: no. Simulated hardware (fabric, gpu) cannot be accepted."


@pytest.fixture(scope="module")
def unmarked(deployed: Deployed) -> Iterator[Deployed]:
    """The shared rack as one whose hardware nobody marked as simulated; the marks come back."""
    with unmarked_hosts(deployed):
        yield deployed
    done = deployed.deploy()
    assert done.returncode == 0
    # Whatever evidence it has by now.
    assert NEVER in done.stdout


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
    close = f"appliance validate --site {unmarked.site} gpt3-logs DIR --model 5b"
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

    logs = unmarked.program("validate", "gpt3-logs", str(training_logs(tmp_path, "bare-metal")))
    assert logs.returncode == 0, logs.stdout + logs.stderr
    assert unmarked.deploy().returncode == 0
    assert {name for name, state in _states(unmarked).items() if state is GateState.OPEN} == RUNS
    assert set(enter_passes(unmarked.site)) == RUNS
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
    logs = unmarked.program(
        "validate", "gpt3-logs", str(training_logs(tmp_path / "logs", "bare-metal"))
    )
    assert logs.returncode == 0, logs.stdout + logs.stderr

    enter_passes(unmarked.site)

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
