"""A repair is judged by what was wanted; a proof that failed is remembered until the stage was proved."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from appliance.adapters.ansible import HostPlay, _collect
from appliance.engine.look.failed_stages import failed_stages
from appliance.engine.look.gather import Round
from appliance.engine.look.judge import judge_all
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.engine.look.survey import view_of
from appliance.engine.plan.planning import make_plan
from appliance.engine.plan.prepare import prepare
from appliance.engine.plan.selection import Selection
from appliance.engine.run import prove as proving
from appliance.engine.run.desired_state import Managed, deviations, unrepaired_drift
from appliance.engine.run.prove import SettleClock, prove
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.models.plan import Action
from appliance.models.result import Status
from appliance.stages.catalog import STAGES
from appliance.stages.slurm import ids as slurm_ids
from tests.support.engine_fakes import FakeHosts, receipt_of, stage_of
from tests.support.facts import facts_of

USER = {"kind": "user", "name": "ops", "groups": ["root"], "shell": "/bin/bash"}
WANTED: Managed = {("user", "ops"): {"groups": ["admins"], "shell": "/bin/bash"}}
DRIFT = {"kind": "user", "name": "ops", "expected": "groups admins", "found": "groups root"}


def test_what_a_module_wanted_comes_with_its_resource() -> None:
    play = HostPlay("gpu-1")
    told = {"kind": "user", "name": "ops", "wanted": {"groups": ["admins"]}}
    _collect(play, {"resources": [told, {"kind": "file", "name": "/x", "wanted": "nonsense"}]})
    assert play.resources == {("user", "ops"): {"groups": ["admins"]}, ("file", "/x"): {}}


def test_what_is_found_otherwise_is_named() -> None:
    found = deviations(facts_of("gpu-1", resources=[USER]), WANTED)
    assert found is not None
    assert found.cause == "differs from the desired state: user ops: groups is root, not admins"


def test_what_is_as_wanted_or_was_not_decided_is_good() -> None:
    good = {**USER, "groups": ["admins"], "home": "/anywhere"}
    assert deviations(facts_of("gpu-1", resources=[good]), WANTED) is None
    assert deviations(facts_of("gpu-1", resources=[USER]), {("user", "ops"): {}}) is None


def test_what_could_not_be_looked_at_is_no_difference() -> None:
    unread = {"kind": "user", "name": "ops", "error": "needs root"}
    assert deviations(facts_of("gpu-1", resources=[unread]), WANTED) is None


def adrift(session: Session, fingerprint: str = "", drift: Mapping[str, str] = DRIFT) -> HostFacts:
    """gpu-1 as a repair left it: stage one's receipt still differs."""
    known = prepare(session, {}, (stage_of("one"),))["one", "gpu-1"].fingerprint
    receipt = receipt_of("one", fingerprint or known, drift=[drift])
    return facts_of("gpu-1", receipts={"one": receipt})


def test_a_repair_that_left_the_drift_is_none(session: Session) -> None:
    known = prepare(session, {}, (stage_of("one"),))["one", "gpu-1"]
    managed: Managed = {("user", "ops"): {}}
    found = unrepaired_drift(adrift(session), "one", managed, known)
    assert found is not None
    assert found.cause == "differs from the desired state: user ops: groups root, not groups admins"
    assert unrepaired_drift(adrift(session), "one", {}, known) is None, (
        "the role manages it no more"
    )
    assert unrepaired_drift(adrift(session, "other"), "one", managed, known) is None, "other inputs"
    updated = {**DRIFT, "kind": "package"}
    assert unrepaired_drift(adrift(session, drift=updated), "one", managed, known) is None


@pytest.mark.parametrize("groups", [["root"], ["admins"]])
def test_a_receipt_records_no_foreign_state(
    session: Session, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch, groups: list[str]
) -> None:
    state: dict[str, Any] = {**USER, "groups": groups}
    monkeypatch.setattr(proving, "ask", lambda *_: facts_of("gpu-1", resources=[state]))
    known = prepare(session, {}, (stage_of("one"),))["one", "gpu-1"]
    proof = prove(session, stage_of("one"), "gpu-1", WANTED, known, SettleClock(60.0))
    written = [json.loads(given) for _, argv, given in hosts.calls if given]
    assert (proof.problem is not None) == (groups == ["root"])
    assert [receipt["resources"] for receipt in written] == (
        [] if groups == ["root"] else [[state]]
    )


@pytest.mark.parametrize("inputs", ["other", ""], ids=["changed", "the same"])
def test_a_new_munge_key_is_proved_although_the_receipt_knows_the_old_one(
    session: Session, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch, inputs: str
) -> None:
    judges = tuple(c for s in STAGES for c in s.judges if c.id == slurm_ids.MUNGE)
    stage = stage_of("one", judges=judges)
    known = prepare(session, {}, (stage,))["one", "gpu-1"]
    path = "/etc/munge/munge.key"
    drift = {"kind": "file", "name": path, "expected": "digest a", "found": "digest b"}
    receipt = receipt_of("one", inputs or known.fingerprint, drift=[drift])
    running = {"munge.service": {"load": "loaded", "active": "active", "enabled": "enabled"}}
    told = facts_of("gpu-1", receipts={"one": receipt}, units=running)
    monkeypatch.setattr(proving, "ask", lambda *_: told)
    peers = SettleClock(0.0)
    peers.end()
    proof = prove(session, stage, "gpu-1", {}, known, peers)
    assert (proof.problem is None) is (inputs == "other"), proof.problem


def failed(session: Session) -> Round:
    """A site of finished stages; base has failed on gpu-1 since."""
    session.journal.append("r1", "host_done", stage="base", host="gpu-2")
    session.journal.append("r1", "host_failed", stage="base", host="gpu-1", cause="no")
    receipts = {"base": receipt_of("base", "f")}
    return Round({h: facts_of(h, receipts=receipts) for h in ("head", "gpu-1", "gpu-2")}, {})


def test_a_failure_stands_until_the_stage_is_proved(session: Session) -> None:
    found = failed(session)
    assert failed_stages(session, found.facts) == {("base", "gpu-1"): "no"}
    session.journal.append("r2", "host_done", stage="base", host="gpu-1")
    assert failed_stages(session, found.facts) == {}


def test_a_receipt_proved_from_elsewhere_ends_it(session: Session) -> None:
    failed(session)
    younger = receipt_of("base", "f", written="2999-01-01T00:00:00+00:00")
    assert failed_stages(session, {"gpu-1": facts_of("gpu-1", receipts={"base": younger})}) == {}
    unread = receipt_of("base", "f", written="")
    assert failed_stages(session, {"gpu-1": facts_of("gpu-1", receipts={"base": unread})})


def test_health_does_not_call_it_good(session: Session) -> None:
    found = failed(session)
    results = judge_all(view_of(session, found), found, ALL_CHECK_IDS)
    (told,) = [r for r in results if r.id == "stage.base"]
    assert (told.target, told.status, told.required) == ("gpu-1", Status.NOT_ASSESSED, True)
    assert told.cause == "stage base failed here and has not passed since: no"
    assert any(r.id == "base.os" and r.target == "gpu-1" for r in results)


def test_plan_repeats_it(session: Session) -> None:
    stage = stage_of("one")
    prepared = prepare(session, {}, (stage,))
    facts = {
        h: facts_of(h, receipts={"one": receipt_of("one", prepared["one", h].fingerprint)})
        for h in ("head", "gpu-1", "gpu-2")
    }
    session.journal.append("r1", "host_failed", stage="one", host="gpu-1", cause="no")
    plan = make_plan(session, Round(facts, {}), prepared, Selection(stages=(stage,)))
    told = {c.host: (c.action, c.why) for c in plan.cells}
    assert told["gpu-1"] == (Action.REPAIR, "not passed since it failed: no")
    assert told["gpu-2"] == (Action.SKIP, "")
