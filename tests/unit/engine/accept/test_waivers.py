"""A waiver lets a site be accepted with a fault that stays one; it ends by itself, and some things nobody may waive."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest

from appliance.checks.check import View, failed, passed
from appliance.engine.accept.acceptance import acceptance_of
from appliance.engine.accept.deployment_state import deployment_state
from appliance.engine.accept.waivers import active, all_waivers, give, withdraw
from appliance.engine.session import Session
from appliance.journal import New
from appliance.models.acceptance import Accepted, GateState
from appliance.models.result import CheckResult, Status, Verdict, overall
from appliance.models.waiver import Waiver, unwaivable
from appliance.report.formatting import acceptance_words
from tests.support.measured import deployed, measured, of_real_roles, seen, with_result

ECC = failed("gpu-1/GPU 5", "uncorrected errors", "exchange it").of("gpu.ecc")


@pytest.fixture
def session(session: Session) -> Session:
    """With the roles that the program ships; both GPU hosts have told which GPUs they have."""
    return of_real_roles(session)


def _waiver(check: str, target: str = "", days: int = 30) -> Waiver:
    until = (date.today() + timedelta(days=days)).isoformat()
    given = datetime.now(UTC)
    return Waiver(check=check, target=target, reason="ordered", by="Ann", until=until, given=given)


def _with(session: Session, *results: CheckResult) -> None:
    """A deployment of the whole site that ended so."""
    deployed(session, overall(results), results=results)


@pytest.mark.parametrize(
    "waiver",
    [_waiver("gpt3.5b"), _waiver("gpt3.5b", "cluster"), _waiver("gpt3.throughput", "cluster")],
)
def test_failed_gate_that_is_waived_stays_failed_and_holds_nothing_back(
    session: Session, waiver: Waiver
) -> None:
    deployed(session)
    with_result(session, status=Status.FAIL, cause="21 % below", value=77_000)
    assert seen(session).verdict is Accepted.NO
    give(session, waiver)
    found = seen(session)
    assert found.verdict is Accepted.YES
    assert found.waivers == (waiver,)
    gate = next(g for g in found.gates if g.id == "gpt3.5b")
    assert (gate.state, gate.waivers) == (GateState.FAILED, (waiver,))
    assert gate.why == "bare-metal 2n: 21 % below"
    assert acceptance_words(found) == ("yes, with 1 waiver", "1 gate passed.")


def test_a_waiver_whose_day_is_over_counts_no_more(session: Session) -> None:
    deployed(session)
    with_result(session, status=Status.FAIL, cause="21 % below")
    give(session, _waiver("gpt3.5b", days=-1))
    assert active(session) == ()
    assert len(all_waivers(session)) == 1
    assert seen(session).verdict is Accepted.NO
    assert active(session, date.today() - timedelta(days=1)) != ()


def test_a_waiver_that_was_withdrawn_counts_no_more(session: Session) -> None:
    waiver = _waiver("gpt3.5b")
    give(session, waiver)
    withdraw(session, waiver, "Ann")
    assert all_waivers(session) == ()
    give(session, waiver)
    assert all_waivers(session) == (waiver,)


@pytest.mark.parametrize(
    "waiver",
    [
        _waiver("gpt3.126m"),
        _waiver("gpt3.5b", "gpu-1"),
        _waiver("gpt3.loss"),
        _waiver("gpt3.5"),
        Waiver(check="gpt3.5b", reason="x", until="for ever"),
    ],
)
def test_a_waiver_of_something_else_closes_no_gate(session: Session, waiver: Waiver) -> None:
    deployed(session)
    with_result(session, status=Status.FAIL, cause="21 % below")
    give(session, waiver)
    assert seen(session).verdict is Accepted.NO


def test_a_good_gate_needs_no_waiver(session: Session) -> None:
    deployed(session)
    measured(session)
    give(session, _waiver("gpt3.5b"))
    found = seen(session)
    assert (found.verdict, found.waivers) == (Accepted.YES, ())


def test_failed_check_that_is_waived_leaves_the_deployment_proved(session: Session) -> None:
    measured(session)
    _with(session, ECC, passed("gpu-1", 8).of("gpu.count"))
    assert "did not pass (failed)" in deployment_state(session, active(session)).why
    give(session, _waiver("gpu.ecc", "gpu-1"))
    found = seen(session)
    assert (found.verdict, [w.name for w in found.waivers]) == (Accepted.YES, ["gpu.ecc@gpu-1"])


@pytest.mark.parametrize(
    "beside",
    [
        failed("gpu-2/GPU 0", "x", "y").of("gpu.ecc"),
        failed("gpu-1", "x", "y").of("gpu.temperature"),
        failed("gpu-1", "x", "y").of("stage.slurm"),
    ],
)
def test_every_failure_of_a_deployment_has_to_be_waived(
    session: Session, beside: CheckResult
) -> None:
    measured(session)
    _with(session, ECC, beside)
    give(session, _waiver("gpu.ecc", "gpu-1"))
    assert seen(session).verdict is Accepted.NOT_YET


@pytest.mark.parametrize("check", ["stage.slurm", "host.reachable", "host.receipts"])
def test_what_nobody_may_waive_is_covered_by_no_waiver(session: Session, check: str) -> None:
    measured(session)
    _with(session, failed("gpu-1", "x", "y").of(check))
    give(session, _waiver(check))
    assert seen(session).verdict is Accepted.NOT_YET


def test_deployment_that_judged_nothing_is_proved_by_no_waiver(session: Session) -> None:
    measured(session)
    deployed(session, Verdict.INCOMPLETE)
    give(session, _waiver("gpu.ecc"))
    assert seen(session).verdict is Accepted.NOT_YET


def test_simulated_hardware_is_accepted_with_no_waiver(session: Session) -> None:
    deployed(session)
    give(session, _waiver("gpt3.5b"))
    give(session, _waiver("gpt3.126m"))
    view = View(session.profile, session.site, {})
    assert acceptance_of(session, view, ()).verdict is Accepted.YES
    assert acceptance_of(session, view, ("gpu",)).verdict is Accepted.SIMULATED


def test_a_waiver_that_is_given_anew_is_the_last_and_what_is_none_is_passed_over(
    session: Session,
) -> None:
    first, second = _waiver("gpu.ecc"), _waiver("gpt3.5b")
    for waiver in (first, second, first):
        give(session, waiver)
    session.journal.append("r1", "waived", waiver={"check": "gpu.xid"})
    assert all_waivers(session) == (second, first)
    withdraw(session, second, "Ann")
    (entry,) = session.journal.entries("waiver_withdrawn")
    assert (entry.data["check"], entry.data["by"]) == ("gpt3.5b", "Ann")
    assert all_waivers(session) == (first,)


@pytest.mark.parametrize(
    ("check", "never"), [("stage", True), ("stage.gpu", True), ("stages", False)]
)
def test_no_stage_can_be_waived(check: str, never: bool) -> None:
    assert bool(unwaivable(check)) is never


def _xid(code: int, gpu: str = "gpu-1/GPU 5") -> CheckResult:
    return failed(gpu, f"Xid {code}: it broke", "mend it", aspect=f"Xid {code}").of("gpu.xid")


def _looked(session: Session, run: str, *found: CheckResult, old: bool = False) -> None:
    """What a look wrote; ``old``: as a version that knew no aspects."""
    for result in found:
        data = {**result.key._asdict(), "status": result.status.value, "cause": result.cause}
        if old:
            del data["aspect"]
        session.journal.append(run, "health", host=result.host or "", **data)


@pytest.mark.parametrize("old", [False, True])
def test_a_waiver_covers_what_was_found_when_it_was_given_and_nothing_that_comes_later(
    session: Session, old: bool
) -> None:
    _looked(session, "a", _xid(63), old=old)
    give(session, _waiver("gpu.xid", "gpu-1"))
    _looked(session, "b", _xid(79))
    (waiver,) = all_waivers(session)
    assert waiver.covers(_xid(63).key)
    assert not waiver.covers(_xid(79).key)
    assert not waiver.covers(_xid(6).key)
    assert not waiver.covers(_xid(63, "gpu-1/GPU 6").key)


def test_two_things_that_one_look_of_an_earlier_version_found_are_covered_both(
    session: Session,
) -> None:
    _looked(session, "a", _xid(48), _xid(63), old=True)
    give(session, _waiver("gpu.xid"))
    (waiver,) = all_waivers(session)
    assert waiver.covers(_xid(48).key)
    assert waiver.covers(_xid(63).key)


def test_what_was_good_again_when_a_waiver_was_given_is_not_covered(session: Session) -> None:
    _looked(session, "a", _xid(63))
    good = passed("gpu-1/GPU 5", aspect="Xid 63").of("gpu.xid")
    _looked(session, "b", good)
    give(session, _waiver("gpu.xid", "gpu-1"))
    (waiver,) = all_waivers(session)
    assert not waiver.covers(_xid(63).key)


def test_what_a_deployment_found_is_covered_until_it_finds_something_else(
    session: Session,
) -> None:
    measured(session)
    _with(session, _xid(63))
    give(session, _waiver("gpu.xid", "gpu-1"))
    assert seen(session).verdict is Accepted.YES
    _with(session, _xid(63), _xid(79))
    assert seen(session).verdict is Accepted.NOT_YET


def test_a_deployment_of_an_earlier_version_is_read_as_it_was(session: Session) -> None:
    measured(session)
    _with(session, ECC)
    entry = session.journal.last("deployment")
    assert entry is not None
    old = [key[:2] for key in entry.data["lacking"]]  # type: ignore[attr-defined]
    data = {**entry.data, "lacking": old}
    session.journal.append_all("later", [New("deployment", data)])
    give(session, _waiver("gpu.ecc", "gpu-1"))
    assert seen(session).verdict is Accepted.YES


def test_a_waiver_of_a_check_that_was_renamed_holds_and_ends_under_todays_id(
    session: Session,
) -> None:
    missing = failed("gpu-1", "7 of 8", "look").of("kubernetes.gpus")
    give(session, _waiver("scheduler.gpus", "gpu-1"))
    (waiver,) = all_waivers(session)
    assert waiver.covers(missing.key)
    withdraw(session, waiver, "Ann")
    assert all_waivers(session) == ()
    give(session, _waiver("kubernetes.gpus", "gpu-1"))
    session.journal.append("later", "waiver_withdrawn", check="scheduler.gpus", target="gpu-1")
    assert all_waivers(session) == ()


OPERATOR = "head/gpu-operator"
"""Until stage kubernetes installed it, its release and pods were findings of stage scheduler."""


@pytest.mark.parametrize("look", [_looked, lambda session, _, *found: _with(session, *found)])
@pytest.mark.parametrize("target", ["", "head", OPERATOR])
def test_a_waiver_covers_what_another_check_finds_since_an_upgrade(
    session: Session, target: str, look: Callable[..., None]
) -> None:
    look(session, "a", failed(OPERATOR, "1 of 2 ready", "look").of("scheduler.pods"))
    give(session, _waiver("scheduler.pods", target))
    (waiver,) = all_waivers(session)
    assert waiver.covers(failed(OPERATOR, "1 of 2 ready", "look").of("kubernetes.gpu_pods").key)
    kai = failed("head/kai-scheduler", "1 of 3 ready", "look").of("scheduler.pods")
    assert waiver.covers(kai.key) is (target != OPERATOR)
    assert not waiver.covers(failed("head/other", "x", "look").of("kubernetes.gpu_pods").key)
    withdraw(session, waiver, "Ann")
    assert all_waivers(session) == ()


def test_a_waiver_of_a_divided_check_covers_nothing_that_the_other_one_found(
    session: Session,
) -> None:
    found = failed(OPERATOR, "1 of 2 ready", "look").of("kubernetes.gpu_pods")
    _looked(session, "a", found)
    give(session, _waiver("scheduler.pods"))
    (waiver,) = all_waivers(session)
    assert not waiver.covers(found.key)


def test_a_waived_deployment_stays_proved_when_its_check_is_renamed(session: Session) -> None:
    measured(session)
    _with(session, failed("gpu-1", "7 of 8", "look").of("scheduler.gpus"))
    give(session, _waiver("scheduler.gpus"))
    assert seen(session).verdict is Accepted.YES
