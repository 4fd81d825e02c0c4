"""Benchmarks are run once for a state of the site: what rests on them is compared as it is after the run."""

from dataclasses import replace

import pytest

from appliance.actions import validation
from appliance.actions.planned import Narrowing, Planned
from appliance.actions.validation import validate_cluster, with_validation
from appliance.benchmarks.benchmark import Outcome
from appliance.checks.check import View
from appliance.config.roles.context import RoleContext, Variables
from appliance.engine.gather import Round
from appliance.engine.planning import Selection, make_plan, prepare
from appliance.engine.record import Findings
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.models.plan import Action
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status
from appliance.models.run import StageState
from tests.facts import facts_of
from tests.unit.engine.conftest import hosts, recorder, session
from tests.unit.engine.world import receipt_of, stage_of

__all__ = ["hosts", "recorder", "session"]

HOSTS = ("head", "gpu-1", "gpu-2")


def _variables(context: RoleContext) -> Variables:
    """What a host shows of the fabric only once it is up."""
    return {"x": sorted(f"{h}:{f.nfs_client}" for h, f in context.facts.items())}


STAGE = stage_of("one", variables=_variables)


@pytest.fixture(autouse=True)
def _one_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "STAGES", (STAGE,))
    _measured(monkeypatch, Status.PASS)


def _measured(monkeypatch: pytest.MonkeyPatch, status: Status, *, required: bool = True) -> None:
    """What the benchmarks come to from now on."""
    result = CheckResult(id="slurm.job", target="cluster", status=status, required=required)
    done = (Outcome((result,)), StageState.DONE, 1.0)
    monkeypatch.setattr(validation, "run_benchmarks", lambda *_: done)


def _facts(client: str, fingerprint: str = "", boot: str = "") -> dict[str, HostFacts]:
    receipts = {"one": receipt_of("one", fingerprint)} if fingerprint else {}
    seen = {h: facts_of(h, nfs_client=client, receipts=receipts) for h in HOSTS}
    if boot:
        seen["gpu-1"] = facts_of(
            "gpu-1",
            nfs_client=client,
            receipts=receipts,
            os=seen["gpu-1"].os.model_copy(update={"boot_id": boot}),
        )
    return seen


def _planned(session: Session, facts: dict[str, HostFacts]) -> Planned:
    found = Round(facts, {})
    prepared = prepare(session, facts, (STAGE,))
    plan = make_plan(session, found, prepared, Selection(stages=(STAGE,)))
    return Planned(found, plan, (STAGE,), prepared)


def _first_run(session: Session) -> str:
    """A deployment that finds the fabric unknown and leaves it known; returns the fingerprint it left."""
    planned = _planned(session, _facts(""))
    plan = with_validation(session, planned, Narrowing())
    assert {c.action for c in plan.by_stage("validate")} == {Action.RUN}
    after = _facts("kernel")
    view = View(session.profile, session.site, after)
    validate_cluster(session, plan, view, Round(after, {}), Findings())
    return prepare(session, after, (STAGE,))["one", "head"].fingerprint


def _again(session: Session, facts: dict[str, HostFacts], **flags: object) -> set[Action]:
    plan = with_validation(session, _planned(session, facts), Narrowing(**flags))  # type: ignore[arg-type]
    return {c.action for c in plan.by_stage("validate")}


def test_site_that_was_unknown_before_its_first_run_is_validated_once(session: Session) -> None:
    fingerprint = _first_run(session)
    assert _again(session, _facts("kernel", fingerprint)) == {Action.SKIP}


@pytest.mark.parametrize(("required", "action"), [(True, Action.RUN), (False, Action.SKIP)])
def test_what_could_not_be_measured_is_tried_again(
    required: bool, action: Action, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    _measured(monkeypatch, Status.NOT_ASSESSED, required=required)
    fingerprint = _first_run(session)
    assert _again(session, _facts("kernel", fingerprint)) == {action}


def test_measuring_something_by_itself_asks_for_nothing_new(session: Session) -> None:
    fingerprint = _first_run(session)
    session.journal.append("r2", "run_started", verb="validate")
    session.journal.append("r2", "measured", name="gpt3")
    assert _again(session, _facts("kernel", fingerprint)) == {Action.SKIP}


def test_other_boot_is_another_state(session: Session) -> None:
    fingerprint = _first_run(session)
    assert _again(session, _facts("kernel", fingerprint, boot="later")) == {Action.RUN}


def test_other_limit_is_another_state(session: Session) -> None:
    fingerprint = _first_run(session)
    bound = Limit(value=1.0, unit="MB/s", source="site")
    site = session.site.model_copy(update={"limits": {"storage.roundtrip": bound}})
    assert _again(replace(session, site=site), _facts("kernel", fingerprint)) == {Action.RUN}


def test_repair_in_between_is_another_state(session: Session) -> None:
    fingerprint = _first_run(session)
    session.journal.append("r2", "host_started", stage="one", host="gpu-1", why="drift")
    assert _again(session, _facts("kernel", fingerprint)) == {Action.RUN}


def test_benchmarks_that_are_asked_for_by_name_run(session: Session) -> None:
    fingerprint = _first_run(session)
    assert _again(session, _facts("kernel", fingerprint), stages=("validate",)) == {Action.RUN}
