"""Judging a site: silent hosts are findings, an unfinished stage is one line, nothing is a pass by absence."""

from dataclasses import replace

import pytest

from appliance.checks.check import HostCheck, View
from appliance.engine.look import judge as judging
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.look.judge import REACHABLE, judge_all
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status, Verdict, overall
from appliance.stages.catalog import HARDWARE, STAGES
from tests.support.engine_fakes import receipt_of
from tests.support.facts import facts_of


def judge(session: Session, found: Round) -> list[CheckResult]:
    view = View(session.profile, session.site, found.facts)
    return judge_all(view, found, ALL_CHECK_IDS)


def test_silent_host_fails_reachability_with_its_reason(session: Session) -> None:
    results = judge(session, Round({}, {h: Unanswered(h, "off", "on") for h in ("head", "gpu-1")}))
    silent = [r for r in results if r.id == REACHABLE and r.status is Status.FAIL]
    assert [(r.target, r.cause, r.fix) for r in silent] == [
        ("head", "off", "on"),
        ("gpu-1", "off", "on"),
    ]
    assert overall(results) is Verdict.FAILED


def test_unfinished_stage_is_one_result_in_place_of_its_checks(session: Session) -> None:
    hosts = ("head", "gpu-1", "gpu-2")
    results = judge(session, Round({h: facts_of(h) for h in hosts}, {}))
    base = [r for r in results if r.target == "gpu-1" and r.id.startswith("base.")]
    assert base == []
    unfinished = [r for r in results if r.id == "stage.base"]
    assert {r.target for r in unfinished} == set(hosts)
    assert {r.status for r in unfinished} == {Status.NOT_ASSESSED}
    assert overall(results) is Verdict.INCOMPLETE


def test_finished_stage_is_judged(session: Session) -> None:
    receipts = {"base": receipt_of("base", "f")}
    found: dict[str, HostFacts] = {"gpu-1": facts_of("gpu-1", receipts=receipts)}
    results = judge(session, Round(found, {}))
    assert any(r.id == "base.os" and r.target == "gpu-1" for r in results)


def test_receipts_that_cannot_be_read_hide_nothing(session: Session) -> None:
    found = {"gpu-1": facts_of("gpu-1", errors={"receipts": "needs root"})}
    results = judge(session, Round(found, {}))
    assert any(r.id == "base.os" for r in results)
    assert not any(r.id.startswith("stage.") and r.target == "gpu-1" for r in results)
    (unread,) = [r for r in results if r.id == "host.receipts"]
    assert (unread.target, unread.status) == ("gpu-1", Status.NOT_ASSESSED)
    assert unread.required


def test_hardware_is_judged_whichever_stages_are_finished(session: Session) -> None:
    results = judge(session, Round({h: facts_of(h) for h in ("head", "gpu-1")}, {}))
    judged = {r.id for r in results if r.target.split("/")[0] == "gpu-1"}
    assert {c.id for c in HARDWARE if isinstance(c, HostCheck)} <= judged
    assert not any(r.id.startswith("gpu.") and r.host == "head" for r in results)
    assert any(r.id == "gpu.vbios_spread" and r.target == "cluster" for r in results)


def test_only_hardware_that_was_asked_for_is_judged(session: Session) -> None:
    found = Round({"gpu-1": facts_of("gpu-1")}, {})
    view = View(session.profile, session.site, found.facts)
    assert {r.id for r in judge_all(view, found, ("gpu.ecc",))} == {REACHABLE, "gpu.ecc"}
    assert {r.id for r in judge_all(view, found, ())} == {REACHABLE}


def test_stage_the_site_does_not_want_is_not_missed(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    unwanted = tuple(
        replace(s, wanted=lambda site: False) if s.name == "observe" else s for s in STAGES
    )
    monkeypatch.setattr(judging, "STAGES", unwanted)
    receipts = {s.name: receipt_of(s.name, "f") for s in unwanted}
    found = {h: facts_of(h, receipts=receipts) for h in ("head", "gpu-1", "gpu-2")}
    areas = {r.id.split(".")[0] for r in judge(session, Round(found, {}))}
    assert "observe" not in areas
    assert {"base", "slurm"} <= areas
    assert not any(r.id == "stage.observe" for r in judge(session, Round({}, {})))


def test_what_an_ordinary_user_may_not_see_is_unknown_with_a_remedy(session: Session) -> None:
    denied = {"xids": "needs root to read /dev/kmsg", "receipts": "needs root to read it"}
    problems = [{"area": a, "text": text, "kind": "denied"} for a, text in denied.items()]
    found = {"gpu-1": facts_of("gpu-1", user="ada", errors=denied, problems=problems)}
    results = judge(session, Round(found, {}))
    (xid,) = [r for r in results if r.id == "gpu.xid"]
    assert xid.status is Status.NOT_ASSESSED
    assert "ada" in xid.fix
    assert "access.become" in xid.fix


def test_what_root_may_not_see_either_is_not_a_matter_of_the_user(session: Session) -> None:
    denied = {"area": "xids", "text": "Operation not permitted", "kind": "denied"}
    found = {"gpu-1": facts_of("gpu-1", errors={"xids": denied["text"]}, problems=[denied])}
    (xid,) = [r for r in judge(session, Round(found, {})) if r.id == "gpu.xid"]
    assert xid.fix == ""
