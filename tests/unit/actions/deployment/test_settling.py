"""After its last change a deployment gives the cluster a while to notice: what lags is not yet broken."""

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from appliance.actions.deployment import deploy as deploy_action
from appliance.actions.deployment.facts_and_plan import Planned, take_facts
from appliance.actions.deployment.run_scope import Scope
from appliance.adapters.process import Completed
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.look.run_record import Findings
from appliance.engine.plan.selection import Filters, select
from appliance.engine.run.cluster_stages import Look
from appliance.engine.session import Session
from appliance.models.plan import Plan
from appliance.models.result import CheckResult
from appliance.models.run import StageOutcome, StageState
from appliance.stages.observe.checks import EXPORTER, SERVER, SOCKET
from tests.support.engine_fakes import FakeHosts
from tests.support.engine_session import hosts, recorder, session
from tests.support.facts import facts_of

__all__ = ["hosts", "recorder", "session"]

HOSTS = ("head", "gpu-1", "gpu-2")
ALL = Scope(frozenset(HOSTS), frozenset())


class Impatient(threading.Event):
    """Waits without waiting."""

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        return self.is_set()


@pytest.fixture
def quick(session: Session, hosts: FakeHosts) -> Session:
    """Hosts that answer the probe, and no second between two looks."""

    def answer(host: str, argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, facts_of(host).model_dump_json(), "")

    hosts.answer = answer
    return replace(session, cancelled=Impatient())


def _observe(health: str) -> dict[str, object]:
    targets = [{"job": "node", "instance": h, "health": "up"} for h in HOSTS]
    targets += [{"job": "prometheus", "instance": "head", "health": "up"}]
    targets[2]["health"] = health
    return {"targets": targets, "rules": 99, "firing": ()}


def _seen(health: str) -> Round:
    unit = {"load": "loaded", "active": "active", "enabled": "enabled"}
    units = dict.fromkeys((EXPORTER, SERVER, SOCKET), unit)
    receipt = {
        "observe": {
            "stage": "observe",
            "fingerprint": "x",
            "written": "2026-11-20T11:00:00+00:00",
            "run": "r0",
            "appliance": "0.1.0",
            "resources": 1,
        }
    }
    more = {"units": units, "receipts": receipt}
    return Round(
        {
            h: facts_of(h, **more, **({"observe": _observe(health)} if h == "head" else {}))
            for h in HOSTS
        },
        {},
    )


def _done(state: StageState = StageState.DONE) -> list[StageOutcome]:
    return [StageOutcome(stage="observe", host="gpu-2", state=state)]


def test_facts_are_taken_again_until_they_are_enough(quick: Session, hosts: FakeHosts) -> None:
    answers = iter([False, False, True])
    take_facts(quick, lambda _: next(answers), 60.0)
    assert len(hosts.calls) == 3 * len(HOSTS)
    # Only the last look is what the run remembers.
    assert len(list(quick.journal.entries("facts"))) == len(HOSTS)


def test_facts_that_never_suffice_end_with_the_settling_time(quick: Session) -> None:
    assert set(take_facts(quick, lambda _: False, 0.2).facts) == set(HOSTS)


def test_interrupt_ends_the_wait(quick: Session, hosts: FakeHosts) -> None:
    quick.cancelled.set()
    take_facts(quick, lambda _: False, 60.0)
    assert len(hosts.calls) == len(HOSTS)


@pytest.mark.parametrize(
    ("health", "is_settled"), [("up", True), ("down", False), ("unknown", False)]
)
def test_mended_exporter_waits_for_prometheus_to_look(
    session: Session, health: str, is_settled: bool
) -> None:
    assert deploy_action.is_settled(session, _seen(health), _done(), ALL) is is_settled


def test_other_stages_are_not_waited_for(session: Session) -> None:
    other = [StageOutcome(stage="fabric", host="gpu-2", state=StageState.SKIPPED)]
    assert deploy_action.is_settled(session, _seen("down"), other, ALL)


def test_failed_stage_and_silent_host_are_not_waited_for(session: Session) -> None:
    assert deploy_action.is_settled(session, _seen("down"), _done(StageState.FAILED), ALL)
    silent = Round({}, {"gpu-1": Unanswered("gpu-1", "down", "")})
    assert deploy_action.is_settled(session, silent, _done(), ALL)


def test_silence_of_a_host_the_run_is_not_about_does_not_end_the_wait(session: Session) -> None:
    seen = _seen("down")
    found = Round(seen.facts, {"gpu-9": Unanswered("gpu-9", "down", "")})
    assert not deploy_action.is_settled(session, found, _done(), ALL)


def test_what_waits_for_a_command_is_not_waited_for(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that has just got its scheduler may have no queues yet: that cost three minutes."""
    known = {"id": "limits.cluster", "target": "cluster", "status": "not_assessed", "kind": "waits"}
    waits = CheckResult.model_validate(known)
    monkeypatch.setattr(Scope, "judges", lambda *_: True)
    done = [StageOutcome(stage="limits", host="head", state=StageState.DONE)]
    monkeypatch.setattr(deploy_action, "judge_all", lambda *_: [waits])
    assert deploy_action.is_settled(session, _seen("up"), done, ALL)
    # Where this run has brought them, what it waited for is there.
    brought = StageOutcome(stage="queues", host="head", state=StageState.DONE, changes=57)
    assert not deploy_action.is_settled(session, _seen("up"), [brought], ALL)
    late = waits.model_copy(update={"kind": ""})
    monkeypatch.setattr(deploy_action, "judge_all", lambda *_: [waits, late])
    assert not deploy_action.is_settled(session, _seen("up"), done, ALL)


def test_a_full_disk_is_not_waited_for(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"id": "storage.export", "target": "head", "status": "fail", "unit": "% free"}
    full = CheckResult.model_validate(known)
    monkeypatch.setattr(deploy_action, "judge_all", lambda *_: [full])
    monkeypatch.setattr(Scope, "judges", lambda *_: True)
    done = [StageOutcome(stage="storage", host="head", state=StageState.DONE)]
    assert deploy_action.is_settled(session, _seen("up"), done, ALL)
    lagging = full.model_copy(update={"unit": ""})
    monkeypatch.setattr(deploy_action, "judge_all", lambda *_: [lagging])
    assert not deploy_action.is_settled(session, _seen("up"), done, ALL)


def test_stages_of_the_cluster_and_the_report_share_one_look(
    quick: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts after the last change are taken and judged once, before what measures the cluster starts."""
    found = _seen("up")
    good = CheckResult.model_validate({"id": "base.os", "target": "head", "status": "pass"})
    looked: list[Round] = []
    monkeypatch.setattr(deploy_action, "judge_all", lambda *_: [good])

    def run(_: object, __: object, ___: object, findings: Findings, look: Look) -> None:
        looked.extend((look(), look()))
        assert findings.results == [good]

    monkeypatch.setattr(deploy_action, "run_cluster_stage", run)
    plan = Plan(site="acme", profile="hpc", hosts=HOSTS, stages=())
    planned = Planned(found, plan, select(quick.site, Filters(stages=("validate",))), {})
    findings = Findings()
    assert deploy_action._carry_out(quick, planned, findings, ALL) is found
    assert looked == [found, found]
    assert findings.results == [good]
