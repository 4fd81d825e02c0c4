"""Acceptance goes level by level: what checks say of each is a gate, and one that holds back holds the site back."""

from datetime import date, timedelta

import pytest

from appliance.actions.acceptance.accept import with_checks
from appliance.checks.check import failed, not_assessed, passed
from appliance.engine.accept.levels import ORDER, check_gates, in_order, level_of
from appliance.models.acceptance import Acceptance, Accepted, Gate, GateState, Level
from appliance.models.result import CheckResult
from appliance.models.waiver import Waiver

GOOD = passed("gpu-1", 8).of("gpu.count")
BAD = failed("gpu-1/GPU 5", "uncorrected errors", "exchange it").of("gpu.ecc")
UNKNOWN = not_assessed("gpu-1", "no answer").of("storage.mount")
WAIVER = Waiver(
    check="gpu.ecc", reason="ordered", until=(date.today() + timedelta(days=3)).isoformat()
)
MEASURED = Gate(id="gpt3.5b", level=Level.TRAINING, state=GateState.PASSED)


@pytest.mark.parametrize(
    ("check", "level"),
    [
        ("host.reachable", Level.HARDWARE),
        ("base.memory_size", Level.HARDWARE),
        ("gpu.vbios_spread", Level.FIRMWARE),
        ("fabric.firmware", Level.FIRMWARE),
        ("base.clock", Level.SYSTEM),
        ("gpu.ecc", Level.GPU),
        ("mig.layout", Level.GPU),
        ("fabric.rate", Level.FABRIC),
        ("storage.mount", Level.STORAGE),
        ("slurm.nodes", Level.SCHEDULERS),
        ("kubernetes.nodes", Level.SCHEDULERS),
        ("stage.fabric", Level.FABRIC),
        ("stage.slurm", Level.SCHEDULERS),
    ],
)
def test_each_check_belongs_to_a_level(check: str, level: Level) -> None:
    assert level_of(check) is level


@pytest.mark.parametrize(
    ("result", "state", "verdict"),
    [
        (GOOD, GateState.PASSED, Accepted.YES),
        (BAD, GateState.FAILED, Accepted.NO),
        (UNKNOWN, GateState.OPEN, Accepted.NOT_YET),
        (UNKNOWN.model_copy(update={"required": False}), GateState.OPEN, Accepted.NOT_YET),
    ],
)
def test_what_a_level_is_decides_with_what_was_measured(
    result: CheckResult, state: GateState, verdict: Accepted
) -> None:
    (gate,) = check_gates([result], ())
    assert gate.state is state
    yes = Acceptance(verdict=Accepted.YES, gates=(MEASURED,))
    assert with_checks(yes, (gate,)).verdict is verdict


@pytest.mark.parametrize("verdict", [Accepted.NO, Accepted.SIMULATED, Accepted.NO_GATES])
def test_good_checks_make_no_verdict_better(verdict: Accepted) -> None:
    gates = check_gates([GOOD], ())
    assert gates[0].title == "1 of 1 check passed now"
    unknown = not_assessed(GOOD.target, "a container", required=False).of(GOOD.id)
    (gate,) = check_gates([GOOD, unknown], ())
    assert (gate.state, gate.title) == (
        GateState.PASSED,
        "1 of 2 checks passed now, 1 not assessed",
    )
    assert with_checks(Acceptance(verdict=verdict), gates).verdict is verdict


def test_failed_check_that_is_waived_holds_nothing_back_and_stays_failed() -> None:
    (gate,) = check_gates([GOOD, BAD], (WAIVER,))
    assert (gate.state, gate.waivers) == (GateState.FAILED, (WAIVER,))
    found = with_checks(Acceptance(verdict=Accepted.YES, gates=(MEASURED,)), (gate,))
    assert (found.verdict, found.waivers) == (Accepted.YES, (WAIVER,))
    (open_one,) = check_gates([BAD, failed("gpu-1", "7", "x").of("gpu.count")], (WAIVER,))
    assert open_one.waivers == ()


def test_gates_stand_in_the_order_of_acceptance() -> None:
    checks = check_gates([UNKNOWN, BAD, passed("gpu-1").of("host.reachable")], ())
    levels = [gate.level for gate in in_order((MEASURED, *reversed(checks)))]
    assert levels == [Level.HARDWARE, Level.GPU, Level.STORAGE, Level.TRAINING]
    assert ORDER[0] is Level.HARDWARE
    assert ORDER[-1] is Level.BURN_IN


@pytest.mark.parametrize(
    ("result", "close"),
    [(GOOD, ""), (BAD, "exchange it"), (UNKNOWN, "appliance health")],
)
def test_level_says_what_closes_it(result: CheckResult, close: str) -> None:
    (gate,) = check_gates([result], ())
    assert gate.close == close


@pytest.mark.parametrize(
    ("results", "state", "why"),
    [
        ([BAD], GateState.FAILED, "gpu.ecc gpu-1/GPU 5: uncorrected errors"),
        (
            [GOOD, BAD, BAD],
            GateState.FAILED,
            "gpu.ecc gpu-1/GPU 5: uncorrected errors (and 1 more)",
        ),
        ([GOOD], GateState.PASSED, ""),
        (
            [not_assessed("gpu-1", "no tool", required=False).of("gpu.ecc")],
            GateState.OPEN,
            "nothing was judged",
        ),
    ],
)
def test_a_level_says_why_it_is_not_passed(
    results: list[CheckResult], state: GateState, why: str
) -> None:
    (gate,) = check_gates(results, ())
    assert (gate.state, gate.why) == (state, why)
