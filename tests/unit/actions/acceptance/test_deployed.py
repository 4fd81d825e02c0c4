"""What a deployment says comes next: deploying again only where that would do something."""

from datetime import UTC, datetime

import pytest

from appliance.actions.deployment.deploy import Deployed
from appliance.checks.check import failed
from appliance.models.result import CheckResult, Verdict
from appliance.models.run import RunRecord, StageOutcome, StageState

NOW = datetime(2026, 11, 24, tzinfo=UTC)
STRANGER = failed("gpu-1", "/etc/cron.d/miner is not the appliance's", "undo it").of("base.foreign")
SICK = failed("gpu-1", "12 uncorrectable errors", "replace the GPU").of("gpu.ecc")
UNPROVED = failed("gpu-1", "/data is not mounted", "appliance deploy").of("storage.mount")


def _ended(
    results: tuple[CheckResult, ...],
    state: StageState = StageState.DONE,
    code: int = Verdict.FAILED.exit_code,
) -> Deployed:
    outcome = StageOutcome(stage="base", host="gpu-1", state=state)
    record = RunRecord(
        run="2026-11-24T00-00-00",
        verb="deploy",
        site="mysite",
        profile="hpc",
        started=NOW,
        finished=NOW,
        user="root",
        appliance="0.1.0",
        control_host="head",
        verdict=Verdict.FAILED,
        outcomes=(outcome,),
        results=results,
    )
    return Deployed(record, code)


@pytest.mark.parametrize("results", [(STRANGER,), (SICK,), (STRANGER, SICK)])
def test_what_no_stage_mends_is_not_deployed_again(results: tuple[CheckResult, ...]) -> None:
    assert not _ended(results).goes_on


@pytest.mark.parametrize("results", [(UNPROVED,), (STRANGER, UNPROVED)])
def test_what_a_stage_has_to_prove_is(results: tuple[CheckResult, ...]) -> None:
    assert _ended(results).goes_on


@pytest.mark.parametrize("state", [StageState.FAILED, StageState.BLOCKED, StageState.NOT_RUN])
def test_a_stage_that_did_not_end_is(state: StageState) -> None:
    assert _ended((STRANGER,), state).goes_on


def test_an_interrupted_one_is() -> None:
    assert _ended((STRANGER,), code=130).goes_on


@pytest.mark.parametrize("code", [Verdict.PASSED.exit_code, Verdict.INCOMPLETE.exit_code])
def test_a_whole_one_is_not(code: int) -> None:
    assert not _ended((), code=code).goes_on
