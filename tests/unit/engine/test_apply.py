"""Applying a plan: a host's failure is a value, what needs it waits, nothing counts unproved."""

import json
from collections.abc import Callable, Mapping

import pytest

from appliance.adapters.ansible import HostPlay, Play, TaskEvent
from appliance.config.roles.context import RoleContext, Variables
from appliance.engine import apply as engine
from appliance.engine import learn, prove, stage_run
from appliance.engine.gather import Round, Unanswered
from appliance.engine.planning import Selection, make_plan, prepare
from appliance.engine.session import Session
from appliance.errors import AnsibleFailed
from appliance.models.plan import Action
from appliance.models.run import StageOutcome, StageState
from appliance.stages.stage import Stage
from tests.unit.engine.world import PASSWORD, FakeHosts, facts_of, receipt_of, stage_of

HOSTS = ("head", "gpu-1", "gpu-2")
STAGES = (stage_of("one"), stage_of("two", "one"), stage_of("three"))
Follow = Callable[[TaskEvent], None]


class FakeAnsible:
    """Plays that succeed, except for (playbook, host) pairs that fail with a message."""

    def __init__(self) -> None:
        self.failures: dict[tuple[str, str], str] = {}
        self.unreachable: set[tuple[str, str]] = set()
        self.played: list[tuple[str, tuple[str, ...]]] = []
        self.variables: dict[tuple[str, str], Mapping[str, object]] = {}

    def __call__(
        self, request: Play, on_event: Follow, cancelled: Callable[[], bool]
    ) -> dict[str, HostPlay]:
        name = request.playbook.stem
        self.played.append((name, tuple(request.hosts)))
        self.variables |= {(name, host): given for host, given in request.hosts.items()}
        return {host: self._host(name, host) for host in request.hosts}

    def _host(self, name: str, host: str) -> HostPlay:
        play = HostPlay(
            host, tasks=3, changes=1, finished=True, resources={("file", "/etc/x"): None}
        )
        if (name, host) in self.unreachable:
            play.unreachable, play.failed_task, play.finished = True, "t", False
        elif said := self.failures.get((name, host)):
            play.failed_task, play.message, play.finished = "write", said, False
        return play


@pytest.fixture
def ansible(monkeypatch: pytest.MonkeyPatch) -> FakeAnsible:
    fake = FakeAnsible()
    monkeypatch.setattr(stage_run, "play", fake)
    monkeypatch.setattr(prove, "gather", lambda remote, requests: facts(requests))
    monkeypatch.setattr(stage_run, "gather", lambda remote, requests: facts(requests))
    monkeypatch.setattr(prove, "SETTLE", 0.0)
    return fake


def facts(requests: Mapping[str, Mapping[str, object]]) -> Round:
    return Round(
        {h: facts_of(h, resources=r.get("resources", ())) for h, r in requests.items()}, {}
    )


def apply(
    session: Session, stages: tuple[Stage, ...] = STAGES
) -> dict[tuple[str, str], StageOutcome]:
    prepared = prepare(session, {}, stages)
    found = Round({h: facts_of(h) for h in HOSTS}, {})
    plan = make_plan(session, found, prepared, Selection(stages=stages))
    return {(o.stage, o.host): o for o in engine.apply(session, plan, stages, prepared)}


def test_every_stage_is_done_and_leaves_a_receipt(
    session: Session, ansible: FakeAnsible, hosts: FakeHosts
) -> None:
    outcomes = apply(session)
    assert {o.state for o in outcomes.values()} == {StageState.DONE}
    assert len(outcomes) == 9
    receipt = json.loads(hosts.calls[0][2])
    assert receipt["run"] == "r1"
    assert receipt["resources"] == [{"kind": "file", "name": "/etc/x"}]
    assert len(list(session.journal.entries("host_done"))) == 9


def test_stage_waits_for_what_it_needs(session: Session, ansible: FakeAnsible) -> None:
    apply(session)
    order = [name for name, _ in ansible.played]
    assert order.index("one") < order.index("two")


def test_failed_host_is_left_out_of_what_needs_it_and_the_others_go_on(
    session: Session, ansible: FakeAnsible, hosts: FakeHosts
) -> None:
    ansible.failures["one", "gpu-1"] = "OSError: [Errno 28] No space left on device"
    outcomes = apply(session, STAGES[:2])
    assert outcomes["one", "gpu-1"].state is StageState.FAILED
    assert "disk is full" in outcomes["one", "gpu-1"].cause
    assert "gpu-1" in outcomes["one", "gpu-1"].fix
    assert outcomes["two", "gpu-1"].state is StageState.BLOCKED
    assert outcomes["two", "gpu-1"].why == "one failed there"
    assert outcomes["two", "gpu-2"].state is StageState.DONE
    assert ("two", ("head", "gpu-2")) in ansible.played
    assert "gpu-1" not in {host for host, _, _ in hosts.calls}


def test_unreachable_host_tells_what_ssh_found(
    session: Session, ansible: FakeAnsible, hosts: FakeHosts
) -> None:
    ansible.unreachable.add(("one", "gpu-2"))
    hosts.down.add("gpu-2")
    outcome = apply(session, STAGES[:1])["one", "gpu-2"]
    assert (outcome.state, outcome.cause, outcome.fix) == (
        StageState.FAILED,
        "it does not answer",
        "power it on",
    )


def test_green_playbook_without_facts_is_a_failure(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch, hosts: FakeHosts
) -> None:
    silent = Round({}, {h: Unanswered(h, "hangs", "reset it") for h in HOSTS})
    monkeypatch.setattr(prove, "gather", lambda remote, requests: silent)
    outcomes = apply(session, STAGES[:1])
    assert {o.state for o in outcomes.values()} == {StageState.FAILED}
    assert outcomes["one", "head"].cause == "hangs"
    assert hosts.calls == []


def test_playbook_that_cannot_run_fails_its_hosts_not_the_program(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> dict[str, HostPlay]:
        raise AnsibleFailed("no such role", "report it")

    monkeypatch.setattr(stage_run, "play", broken)
    outcomes = apply(session, STAGES[:1])
    assert {o.state for o in outcomes.values()} == {StageState.FAILED}
    assert "no such role" in outcomes["one", "head"].cause


def test_interrupt_keeps_what_is_done_and_starts_nothing_more(
    session: Session, ansible: FakeAnsible
) -> None:
    session.cancelled.set()
    outcomes = apply(session)
    assert {o.state for o in outcomes.values()} == {StageState.NOT_RUN}
    assert ansible.played == []


def test_no_secret_reaches_journal_events_or_outcomes(
    session: Session, ansible: FakeAnsible, recorder: object
) -> None:
    ansible.failures["one", "gpu-1"] = f"cannot log in with {PASSWORD}"
    outcome = apply(session, STAGES[:1])["one", "gpu-1"]
    assert "***" in outcome.cause
    told = repr(vars(recorder)) + repr(list(session.journal.entries()))
    assert PASSWORD not in told


def taught(context: RoleContext) -> Variables:
    """What a stage says of the fabric, which a host shows only once it is up."""
    seen = {h: f.nfs_client for h, f in context.facts.items()}
    return {"x_fabric": sorted(f"{h}:{name}" for h, name in seen.items())}


def test_stage_is_made_anew_from_what_the_one_before_it_changed(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = (stage_of("one"), stage_of("two", learns_from=("one",), variables=taught))
    before = {h: facts_of(h) for h in HOSTS}
    prepared = prepare(session, before, stages)
    receipts = {
        h: {
            "two": receipt_of(
                "two", prepared["two", h].fingerprint, inputs=prepared["two", h].inputs
            )
        }
        for h in HOSTS
    }
    now = Round({h: facts_of(h, nfs_client="kernel") for h in HOSTS}, {})
    monkeypatch.setattr(learn, "gather", lambda remote, requests: now)
    found = Round({h: facts_of(h, receipts=receipts[h]) for h in HOSTS}, {})
    plan = make_plan(session, found, prepared, Selection(stages=stages))
    assert {c.action for c in plan.by_stage("two")} == {Action.SKIP}
    outcomes = engine.apply(session, plan, stages, prepared)
    assert {o.state for o in outcomes if o.stage == "two"} == {StageState.DONE}
    assert [name for name, _ in ansible.played] == ["one", "two"]
    assert ansible.variables["two", "gpu-1"]["x_fabric"] == [
        "gpu-1:kernel",
        "gpu-2:kernel",
        "head:kernel",
    ]
    (why, *_) = {e.data["why"] for e in session.journal.entries("host_started", stage="two")}
    assert why == "changed by one: x_fabric"


def test_stage_that_learns_nothing_new_stays_finished(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = (stage_of("one"), stage_of("two", learns_from=("one",)))
    prepared = prepare(session, {}, stages)
    found = Round(
        {
            h: facts_of(h, receipts={"two": receipt_of("two", prepared["two", h].fingerprint)})
            for h in HOSTS
        },
        {},
    )
    monkeypatch.setattr(learn, "gather", lambda remote, requests: found)
    plan = make_plan(session, found, prepared, Selection(stages=stages))
    outcomes = engine.apply(session, plan, stages, prepared)
    assert {o.state for o in outcomes if o.stage == "two"} == {StageState.SKIPPED}
    assert [name for name, _ in ansible.played] == ["one"]


def test_stage_learns_nothing_where_its_teacher_did_not_run(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> Round:
        raise AssertionError("nobody is to be asked")

    monkeypatch.setattr(learn, "gather", asked)
    apply(session, (stage_of("two", learns_from=("one",)),))
    assert [name for name, _ in ansible.played] == ["two"]
