"""Applying a plan: a host's failure is a value, what needs it waits, nothing counts unproved."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from appliance.adapters.ansible import HostPlay
from appliance.checks.check import View, failed
from appliance.engine import stopwatch
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.plan import replan
from appliance.engine.plan.planning import make_plan
from appliance.engine.plan.prepare import prepare
from appliance.engine.plan.selection import Selection
from appliance.engine.run import apply as engine
from appliance.engine.run import prove, rollout, stage_run
from appliance.engine.run.play_facts import System
from appliance.engine.session import Session
from appliance.errors import AnsibleFailed, OutOfFiles
from appliance.models.facts import HostFacts
from appliance.models.plan import Action, HostStage
from appliance.models.result import CheckResult, Status
from appliance.models.run import StageOutcome, StageState
from appliance.models.site import Host, Role
from appliance.stages.context import RoleContext, Variables
from appliance.stages.stage import SYSTEM, Stage
from tests.support.engine_fakes import PASSWORD, FakeHosts, receipt_of, stage_of
from tests.support.facts import facts_of
from tests.support.fake_ansible import FakeAnsible, ansible

__all__ = ["ansible"]


HOSTS = ("head", "gpu-1", "gpu-2")
STAGES = (stage_of("one"), stage_of("two", "one"), stage_of("three"))


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


def test_a_play_is_given_the_system_that_a_proof_has_just_read(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_kernel(remote: object, host: str, request: Mapping[str, object]) -> HostFacts:
        facts = facts_of(host, resources=request.get("resources", ()))
        return facts.model_copy(update={"os": facts.os.model_copy(update={"kernel": "6.6.6"})})

    monkeypatch.setattr(prove, "ask", other_kernel)
    # A stage beside the first one may end, and be proved, before that begins.
    apply(session, STAGES[:2])
    assert SYSTEM not in ansible.variables["one", "gpu-1"]
    told = ansible.variables["two", "gpu-1"][SYSTEM]
    assert isinstance(told, dict)
    assert (told["distribution"], told["kernel"]) == ("Debian", "6.6.6")


def test_plays_share_their_connections_but_for_the_one_that_changes_logins(
    session: Session, ansible: FakeAnsible
) -> None:
    there: list[bool] = []
    ansible.at_work = lambda name: there.append((ansible.connections[name] or Path("/x")).is_dir())
    base = stage_of("base", ansible_roles=("base",))
    (session.data / "playbooks/base.yml").write_text("- hosts: all\n")
    (session.data / "roles/base/tasks").mkdir(parents=True)
    apply(session, (base, stage_of("one", "base"), stage_of("two", "one")))
    assert ansible.connections["base"] is None
    shared = ansible.connections["one"]
    assert shared is not None
    assert shared == ansible.connections["two"]
    assert there == [False, True, True]
    assert not shared.exists()


@pytest.mark.parametrize(("name", "age"), [("hannah", 0.0), ("debian", 601.0)])
def test_a_host_is_asked_itself_where_its_system_is_not_known_or_not_fresh(
    name: str, age: float
) -> None:
    os = facts_of("gpu-1").os
    assert System(os, time.monotonic()).facts()["os_family"] == "Debian"
    assert System(os.model_copy(update={"id": name}), time.monotonic() - age).facts() == {}


def test_stage_waits_for_what_it_needs(session: Session, ansible: FakeAnsible) -> None:
    apply(session)
    order = [name for name, _ in ansible.played]
    assert order.index("one") < order.index("two")


def at_once(
    session: Session,
    stages: tuple[Stage, ...],
    monkeypatch: pytest.MonkeyPatch,
    seconds: float = 30.0,
) -> int:
    """How many of the stages are at work together; one that is alone waits so long for the others."""
    working, most = set[str](), [0]

    def run_stage(
        session: Session, stage: Stage, cells: Sequence[HostStage], *_: object
    ) -> list[StageOutcome]:
        working.add(stage.name)
        end = time.monotonic() + seconds
        while most[0] < len(stages) and time.monotonic() < end:
            most[0] = max(most[0], len(working))
            time.sleep(0.01)
        working.discard(stage.name)
        return [StageOutcome(stage=c.stage, host=c.host, state=StageState.DONE) for c in cells]

    monkeypatch.setattr(engine, "run_stage", run_stage)
    apply(session, stages)
    return most[0]


@pytest.mark.parametrize("taking", ["reboots", "drains"])
def test_a_host_that_is_rebooted_or_drained_is_one_stages_alone(
    session: Session, monkeypatch: pytest.MonkeyPatch, taking: str
) -> None:
    def on_gpu_1(host: Host, *_: object) -> bool:
        return host.name == "gpu-1"

    takes = stage_of("two", **{taking: on_gpu_1})
    assert at_once(session, (stage_of("one"), takes), monkeypatch, seconds=0.3) == 1
    elsewhere = stage_of("one", roles=frozenset({Role.CONTROL}))
    assert at_once(session, (elsewhere, takes), monkeypatch) == 2
    assert at_once(session, (stage_of("one"), stage_of("two")), monkeypatch) == 2


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
    monkeypatch.setattr(prove, "ask", lambda _, host, __: Unanswered(host, "hangs", "reset it"))
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
    told = outcomes["one", "head"]
    assert (told.cause, told.fix) == ("no such role", "report it")


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


def test_host_is_proved_and_has_its_receipt_while_another_is_at_work(
    session: Session, ansible: FakeAnsible, hosts: FakeHosts
) -> None:
    done: list[str] = []
    ansible.slow.add(("one", "gpu-2"))

    def look(name: str) -> None:
        deadline = time.monotonic() + 20
        while len(done) < 2 and time.monotonic() < deadline:
            done[:] = [e.host for e in session.journal.entries("host_done")]
        assert {host for host, _, _ in hosts.calls} == {"head", "gpu-1"}

    ansible.at_work = look
    outcomes = apply(session, STAGES[:1])
    assert sorted(done) == ["gpu-1", "head"]
    assert {o.state for o in outcomes.values()} == {StageState.DONE}


def test_proof_that_needs_its_peers_waits_for_them(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller misses a node that is still being installed: that is no failure."""
    looks = dict.fromkeys(HOSTS, 0)
    through: list[str] = []

    def peers_end(name: str) -> None:
        _wait_for(lambda: looks["head"] >= 1)
        through.append(name)

    ansible.at_work = peers_end

    def judge(view: View, host: Host, ids: object) -> list[CheckResult]:
        looks[host.name] += 1
        status = Status.FAIL if host.name == "head" and not through else Status.PASS
        return [CheckResult(id="x.nodes", target=host.name, status=status, cause="gpu-2 missing")]

    monkeypatch.setattr(prove, "judge_host", judge)
    outcomes = apply(session, (stage_of("one", settle_seconds=60.0),))
    assert {o.state for o in outcomes.values()} == {StageState.DONE}
    assert looks["head"] >= 2
    assert looks["gpu-1"] == 1


def test_proof_that_stays_bad_fails_its_host_alone(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch, hosts: FakeHosts
) -> None:
    def judge(view: View, host: Host, ids: object) -> list[CheckResult]:
        status = Status.FAIL if host.name == "head" else Status.PASS
        return [CheckResult(id="x.y", target=host.name, status=status, cause="bad", fix="mend")]

    monkeypatch.setattr(prove, "judge_host", judge)
    outcomes = apply(session, STAGES[:1])
    assert (outcomes["one", "head"].cause, outcomes["one", "head"].fix) == ("x.y: bad", "mend")
    assert outcomes["one", "gpu-1"].state is StageState.DONE
    assert {host for host, _, _ in hosts.calls} == {"gpu-1", "gpu-2"}


def test_host_that_went_away_is_not_tried_in_stages_that_follow(
    session: Session, ansible: FakeAnsible, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask_again(session: Session, names: Sequence[str]) -> Round:
        asked.extend(names)
        return Round({}, {})

    monkeypatch.setattr(replan, "survey", ask_again)
    stages = (stage_of("one"), stage_of("two", "one"), stage_of("three", "two"))
    independent = replace(stages[2], roles=frozenset({Role.GPU}), after=(), facts_from=("one",))
    ansible.unreachable.add(("one", "gpu-2"))
    hosts.down.add("gpu-2")
    outcomes = apply(session, (*stages[:2], independent))
    assert [h for _, played in ansible.played[1:] for h in played].count("gpu-2") == 0
    for stage in ("two", "three"):
        left = outcomes[stage, "gpu-2"]
        assert (left.state, left.why) == (StageState.NOT_RUN, "gpu-2 went away in stage one")
        assert outcomes[stage, "gpu-1"].state is StageState.DONE
    assert asked == ["head", "gpu-1"]


def test_a_host_this_machine_cannot_look_at_is_not_told_as_gone(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(host: str) -> None:
        raise OutOfFiles("this process may hold 64 files open", "ulimit -n 8192")

    ansible.unreachable.add(("one", "gpu-2"))
    monkeypatch.setattr(session.remote, "reach", refuse)
    outcome = apply(session, STAGES[:1])["one", "gpu-2"]
    assert (outcome.state, outcome.away) == (StageState.FAILED, False)
    assert outcome.cause == "this process may hold 64 files open"


def test_task_that_failed_because_the_host_died_says_that(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch
) -> None:
    ansible.failures["one", "gpu-1"] = "Connection reset by peer"
    gone = Unanswered("gpu-1", "it does not answer", "power it on", away=True)
    monkeypatch.setattr(stage_run, "ask", lambda *_: gone)
    outcomes = apply(session, STAGES[:2])
    assert outcomes["one", "gpu-1"].cause == "it does not answer"
    assert outcomes["two", "gpu-1"].why == "gpu-1 went away in stage one"


def _wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not what() and time.monotonic() < deadline:
        time.sleep(0.01)


def taught(context: RoleContext) -> Variables:
    """What a stage says of the fabric, which a host shows only once it is up."""
    seen = {h: "".join(p.device for p in f.ports) for h, f in context.facts.items()}
    return {"x_fabric": sorted(f"{h}:{name}" for h, name in seen.items())}


def with_fabric(host: str, **more: object) -> HostFacts:
    port = {"device": "mlx5_0", "port": 1, "state": "ACTIVE", "physical": "LinkUp", "rate": 200}
    named = {"link_layer": "InfiniBand", "guid": f"0x{HOSTS.index(host) + 1:x}"}
    memory = {"total": 1 << 40, "available": 0}
    return facts_of(host, ports=[port | named], memory=memory, **more)


def test_stage_is_made_anew_from_what_the_one_before_it_changed(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = (stage_of("one"), stage_of("two", facts_from=("one",), variables=taught))
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
    now = Round({h: with_fabric(h) for h in HOSTS}, {})
    monkeypatch.setattr(replan, "survey", lambda *_: now)
    found = Round({h: facts_of(h, receipts=receipts[h]) for h in HOSTS}, {})
    plan = make_plan(session, found, prepared, Selection(stages=stages))
    assert {c.action for c in plan.by_stage("two")} == {Action.SKIP}
    outcomes = engine.apply(session, plan, stages, prepared)
    assert {o.state for o in outcomes if o.stage == "two"} == {StageState.DONE}
    assert [name for name, _ in ansible.played] == ["one", "two"]
    assert ansible.variables["two", "gpu-1"]["x_fabric"] == [
        "gpu-1:mlx5_0",
        "gpu-2:mlx5_0",
        "head:mlx5_0",
    ]
    (why, *_) = {e.data["why"] for e in session.journal.entries("host_started", stage="two")}
    assert str(why).startswith("changed by one: x_fabric (gpu-1:mlx5_0 added, ")


def test_a_reboot_that_was_learned_in_the_run_waits_for_a_plan_that_names_it(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = stage_of(
        "two",
        facts_from=("one",),
        variables=taught,
        reboots=lambda host, facts, variables: bool(facts and facts.nfs_client),
    )
    stages = (stage_of("one"), two)
    before = {h: facts_of(h) for h in HOSTS}
    prepared = prepare(session, before, stages)
    plan = make_plan(session, Round(before, {}), prepared, Selection(stages=stages))
    assert plan.reboots == ()
    now = {**before, "gpu-1": with_fabric("gpu-1", nfs_client="kernel")}
    monkeypatch.setattr(replan, "survey", lambda *_: Round(now, {}))
    outcomes = {
        o.host: o for o in engine.apply(session, plan, stages, prepared) if o.stage == "two"
    }
    assert outcomes["gpu-1"].state is StageState.BLOCKED
    assert "would reboot gpu-1, and the plan did not include a reboot" in outcomes["gpu-1"].why
    assert outcomes["gpu-2"].state is StageState.DONE
    assert [h for stage, played in ansible.played if stage == "two" for h in played] == [
        "head",
        "gpu-2",
    ]


def test_what_a_stage_left_behind_is_forgotten_once_it_has_taken_it_away(
    session: Session, ansible: FakeAnsible, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = (stage_of("one", wanted=lambda site: False, removable=True),)
    had = {h: facts_of(h, receipts={"one": receipt_of("one", "any")}) for h in HOSTS}
    monkeypatch.setattr(prove, "ask", lambda remote, host, request: had[host])
    prepared = prepare(session, had, stages)
    plan = make_plan(session, Round(had, {}), prepared, Selection(stages=stages))
    outcomes = engine.apply(session, plan, stages, prepared)
    assert {o.state for o in outcomes} == {StageState.DONE}
    assert {argv for _, argv, _ in hosts.calls} == {
        ("rm", "-f", "/var/lib/appliance/receipts/one.json")
    }


@pytest.mark.parametrize("judged", [True, False])
def test_what_was_taken_away_is_judged_where_the_checks_hold_without_it(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch, judged: bool
) -> None:
    stage = stage_of("one", wanted=lambda site: False, removable=True, checks_removal=judged)
    had = {h: facts_of(h, receipts={"one": receipt_of("one", "any")}) for h in HOSTS}
    bad = [failed("gpu-1", "a part of it is left", "look").of("one.check")]
    monkeypatch.setattr(prove, "ask", lambda remote, host, request: had[host])
    monkeypatch.setattr(prove, "judge_host", lambda *_: bad)
    prepared = prepare(session, had, (stage,))
    plan = make_plan(session, Round(had, {}), prepared, Selection(stages=(stage,)))
    outcomes = engine.apply(session, plan, (stage,), prepared)
    assert {o.state for o in outcomes} == {StageState.FAILED if judged else StageState.DONE}


def test_stage_that_learns_nothing_new_stays_finished(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = (stage_of("one"), stage_of("two", facts_from=("one",)))
    prepared = prepare(session, {}, stages)
    found = Round(
        {
            h: facts_of(h, receipts={"two": receipt_of("two", prepared["two", h].fingerprint)})
            for h in HOSTS
        },
        {},
    )
    monkeypatch.setattr(replan, "survey", lambda *_: found)
    plan = make_plan(session, found, prepared, Selection(stages=stages))
    outcomes = engine.apply(session, plan, stages, prepared)
    assert {o.state for o in outcomes if o.stage == "two"} == {StageState.SKIPPED}
    assert [name for name, _ in ansible.played] == ["one"]


@pytest.mark.parametrize("turns", [False, True])
def test_a_finished_stage_whose_checks_fail_after_the_one_before_it_runs_in_the_same_run(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch, turns: bool
) -> None:
    """As Slurm on a host that drained itself for a mount, which stage storage has mended."""
    work = stage_of("two", "one", drains=lambda *_: False) if turns else stage_of("two", "one")
    stages = (stage_of("one"), work)
    prepared = prepare(session, {}, stages)
    done = receipt_of("two", prepared["two", "gpu-1"].fingerprint)
    before = {h: facts_of(h) for h in HOSTS} | {"gpu-1": facts_of("gpu-1", receipts={"two": done})}
    plan = make_plan(session, Round(before, {}), prepared, Selection(stages=stages))
    assert [c.action for c in plan.cells if (c.stage, c.host) == ("two", "gpu-1")] == [Action.SKIP]
    monkeypatch.setattr(prove, "ask", lambda remote, host, request: before[host])
    bad = CheckResult(id="two.fit", target="gpu-1", status=Status.FAIL, cause="fit, and drained")
    monkeypatch.setattr(stage_run, "judge_host", lambda view, host, ids: [bad])
    outcomes = {
        o.host: o for o in engine.apply(session, plan, stages, prepared) if o.stage == "two"
    }
    assert outcomes["gpu-1"].state is (StageState.SKIPPED if turns else StageState.DONE)
    (why,) = [
        e.data["why"] for e in session.journal.entries("host_started", stage="two", host="gpu-1")
    ] or ["a stage that drains waits for a plan"]
    assert why == ("a stage that drains waits for a plan" if turns else "two.fit: fit, and drained")


def test_stage_learns_nothing_where_its_teacher_did_not_run(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> Round:
        raise AssertionError("nobody is to be asked")

    monkeypatch.setattr(replan, "survey", asked)
    apply(session, (stage_of("two", facts_from=("one",)),))
    assert [name for name, _ in ansible.played] == ["two"]


class Stepped(datetime):
    """A clock that NTP sets back by an hour at every look."""

    looks = 0

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "Stepped":
        cls.looks += 1
        return cls(2026, 11, 22, 20, 15, tzinfo=tz) - timedelta(hours=cls.looks)


def test_clock_that_is_set_back_during_a_run_leaves_times_a_plan_can_read(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (rollout, stage_run, stopwatch):
        monkeypatch.setattr(module, "datetime", Stepped, raising=False)
    outcomes = apply(session)
    assert all(o.seconds >= 0 for o in outcomes.values())
    found = Round({h: facts_of(h) for h in HOSTS}, {})
    prepared = prepare(session, found.facts, STAGES)
    plan = make_plan(session, found, prepared, Selection(stages=STAGES))
    assert all(0 <= c.minutes < 1 for c in plan.cells)


def test_time_below_zero_in_an_older_journal_is_no_estimate(session: Session) -> None:
    session.journal.append("r0", "host_done", stage="one", host="head", seconds=-3599.5)
    found = Round({h: facts_of(h) for h in HOSTS}, {})
    plan = make_plan(session, found, prepare(session, {}, STAGES), Selection(stages=STAGES))
    cell = plan.cell("one", "head")
    assert cell is not None
    assert cell.minutes == STAGES[0].minutes


def test_a_full_disk_is_told_at_once_for_no_waiting_empties_it(
    session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def judge(view: View, host: Host, ids: object) -> list[CheckResult]:
        looks.append(host.name)
        known = {"status": Status.FAIL, "unit": "% free", "value": 0.0, "cause": "/srv is full"}
        return [CheckResult.model_validate({"id": "storage.export", "target": host.name, **known})]

    monkeypatch.setattr(prove, "judge_host", judge)
    outcomes = apply(session, (stage_of("one", settle_seconds=3600.0),))
    assert {o.cause for o in outcomes.values()} == {"storage.export: /srv is full"}
    assert sorted(looks) == sorted(HOSTS)
