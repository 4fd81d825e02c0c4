"""Hosts that lead are changed before all others, each alone; and while one of them is behind, nobody else is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from appliance.engine.look.fact_history import store_facts
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.plan.planning import make_plan
from appliance.engine.plan.prepare import prepare
from appliance.engine.plan.selection import Selection
from appliance.engine.run import rollout
from appliance.engine.run.apply import apply
from appliance.engine.run.drain import Drain
from appliance.engine.session import Session
from appliance.errors import ClusterFailed, DeadlineExceeded
from appliance.models.drain import Why
from appliance.models.facts import HostFacts
from appliance.models.plan import Action, Plan
from appliance.models.run import StageOutcome, StageState
from appliance.models.site import Host, Role
from appliance.stages.gpu.site import GpuOptions
from appliance.stages.stage import DRAINED, Stage
from tests.support.engine_fakes import receipt_of, stage_of
from tests.support.facts import facts_of
from tests.support.fake_ansible import FakeAnsible
from tests.support.fake_ansible import ansible as ansible

HEADS = ("head-1", "head-2", "head-3")
GPUS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
OLD, NEW = {"version": "v1.20.2"}, {"version": "v1.21.2"}


def is_old(host: Host, facts: HostFacts | None, variables: object) -> bool:
    return bool(facts and facts.kubernetes and facts.kubernetes.version == OLD["version"])


STAGE = stage_of(
    "kubernetes",
    drains=is_old,
    drain_reason=Why.UPGRADE,
    rolls_first=frozenset({Role.CONTROL}),
    plan_note=lambda site, host, facts, variables: "upgrade 1.20.2 → 1.21",
)
BASE = stage_of("one")


@dataclass
class World:
    """A site of three control and four GPU hosts, and everything that is done to them in order."""

    session: Session
    done: list[str]
    busy: set[str]
    reasons: set[Why]

    def plan(self, facts: Mapping[str, Any], *limit: str, silent: Sequence[str] = ()) -> Plan:
        self.found = {
            host: facts_of(
                host,
                kubernetes=known,
                # What is of the new release is finished.
                receipts={"kubernetes": receipt_of("kubernetes", self.mark(host))}
                if known is NEW
                else {},
            )
            for host, known in facts.items()
            if host not in silent
        }
        stages = (BASE, STAGE) if self.with_base else (STAGE,)
        self.stages = stages
        self.prepared = prepare(self.session, {}, stages)
        lost = {h: Unanswered(h, "no route to host", "") for h in silent}
        for name, seen in self.found.items():
            told = seen.model_dump(mode="json")
            self.session.journal.append("r0", "facts", host=name, facts=told)
        chosen = Selection(frozenset(limit), stages)
        return make_plan(self.session, Round(self.found, lost), self.prepared, chosen)

    with_base = False

    def mark(self, host: str) -> str:
        return prepare(self.session, {}, (STAGE,))[STAGE.name, host].fingerprint

    def run(self, plan: Plan) -> dict[str, StageOutcome]:
        outcomes = apply(self.session, plan, self.stages, self.prepared)
        return {o.host: o for o in outcomes if o.stage == STAGE.name}


@pytest.fixture
def world(session: Session, ansible: FakeAnsible, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(session, [], set(), set())

    def drain(session: Session, hosts: Sequence[str], wanted: Drain) -> None:
        made.reasons.add(wanted.why)
        if made.busy & set(hosts):
            raise DeadlineExceeded("pod default/train", "wait")
        made.done += [f"drain {host}" for host in hosts]

    def resume(session: Session, hosts: Sequence[str]) -> None:
        made.done += [f"resume {host}" for host in hosts]

    def played(name: str) -> None:
        if name == STAGE.name:
            made.done.append(f"play {' '.join(ansible.played[-1][1])}")

    monkeypatch.setattr(rollout, "drain", drain)
    monkeypatch.setattr(rollout, "resume", resume)
    monkeypatch.setattr(rollout, "ask", lambda *_: facts_of("x"))
    ansible.at_work = played
    playbooks = session.data / "playbooks"
    (playbooks / "kubernetes.yml").write_text((playbooks / "one.yml").read_text())
    head, gpu = session.site.host("head"), session.site.host("gpu-1")
    hosts = [head.model_copy(update={"name": name, "roles": ("control",)}) for name in HEADS]
    hosts += [gpu.model_copy(update={"name": name, "roles": ("gpu",)}) for name in GPUS]
    widened = session.site.model_copy(update={"hosts": tuple(hosts), "gpu": GpuOptions(at_once=2)})
    object.__setattr__(session, "site", widened)
    return made


def everywhere(known: object) -> dict[str, object]:
    return dict.fromkeys((*HEADS, *GPUS), known)


def test_control_planes_go_one_after_the_other_and_then_the_rest_in_waves(
    world: World, ansible: FakeAnsible
) -> None:
    plan = world.plan(everywhere(OLD))
    assert {c.why for c in plan.cells} == {"upgrade 1.20.2 → 1.21"}
    assert {c.host: c.wave for c in plan.cells} == {
        **{"head-1": 1, "head-2": 2, "head-3": 3},
        **{"gpu-1": 5, "gpu-2": 5, "gpu-3": 6, "gpu-4": 6},
    }
    assert plan.minutes == 5.0
    outcomes = world.run(plan)
    assert {o.state for o in outcomes.values()} == {StageState.DONE}
    assert world.done[:9] == [
        f"{what} {head}" for head in HEADS for what in ("drain", "play", "resume")
    ]
    assert [d for d in world.done if d.startswith("play gpu")] == [
        "play gpu-1 gpu-2",
        "play gpu-3 gpu-4",
    ]
    assert world.reasons == {Why.UPGRADE}
    assert all(given[DRAINED] is True for given in ansible.variables.values())


def test_a_control_plane_that_fails_stops_all_that_come_after_it(
    world: World, ansible: FakeAnsible
) -> None:
    ansible.failures[STAGE.name, "head-2"] = "kubeadm upgrade node: etcd is not well"
    outcomes = world.run(world.plan(everywhere(OLD)))
    assert outcomes["head-1"].state is StageState.DONE
    assert outcomes["head-2"].state is StageState.FAILED
    for host in ("head-3", *GPUS):
        assert outcomes[host].state is StageState.BLOCKED
        assert outcomes[host].fix == "repair head-2, then deploy again"
    # It has no GPUs that could be lost: pods of the cluster's own may come back.
    assert world.done[-1] == "resume head-2"


def test_a_control_plane_that_does_not_get_free_is_not_passed_over(world: World) -> None:
    world.busy = {"head-1"}
    outcomes = world.run(world.plan(everywhere(OLD)))
    assert outcomes["head-1"].cause == "pod default/train"
    assert {outcomes[h].state for h in (*HEADS[1:], *GPUS)} == {StageState.BLOCKED}
    assert world.done == []


def test_what_is_done_is_left_alone_and_the_rest_goes_on(world: World) -> None:
    facts = {**everywhere(OLD), "head-1": NEW, "head-2": NEW, "head-3": NEW, "gpu-1": NEW}
    plan = world.plan(facts)
    assert {c.host for c in plan.cells if c.action is Action.SKIP} == {*HEADS, "gpu-1"}
    world.run(plan)
    assert [d for d in world.done if d.startswith("play")] == ["play gpu-2 gpu-3", "play gpu-4"]


def test_a_host_without_kubelet_joins_after_the_control_planes(world: World) -> None:
    plan = world.plan({**everywhere(OLD), "gpu-4": None})
    world.run(plan)
    plays = [d for d in world.done if d.startswith("play")]
    assert plays[:4] == ["play head-1", "play head-2", "play head-3", "play gpu-4"]
    assert "drain gpu-4" not in world.done


@pytest.mark.parametrize(
    ("limit", "silent", "why"),
    [
        (("gpu-1",), (), "waits for head-1, which is left out and comes first"),
        ((), ("head-2",), "waits for head-2, which does not answer and comes first"),
    ],
)
def test_without_all_control_planes_nobody_is_upgraded(
    world: World, limit: tuple[str, ...], silent: tuple[str, ...], why: str
) -> None:
    plan = world.plan(everywhere(OLD), *limit, silent=silent)
    assert plan.changes == 0
    assert {c.why for c in plan.blocked} == {why}
    outcomes = world.run(plan)
    assert {o.state for h, o in outcomes.items() if h not in silent} == {StageState.BLOCKED}
    assert world.done == []


def test_a_silent_control_plane_that_is_through_holds_nobody_back(world: World) -> None:
    done = {**everywhere(OLD), **dict.fromkeys(HEADS, NEW)}
    world.plan(done)
    plan = world.plan(done, silent=("head-2",))
    assert [c.host for c in plan.pending()] == list(GPUS)
    assert not plan.blocked


def test_a_control_plane_that_failed_an_earlier_stage_holds_the_others_back(
    world: World, ansible: FakeAnsible
) -> None:
    world.with_base = True
    ansible.failures["one", "head-1"] = "disk is full"
    stage = stage_of("kubernetes", "one", drains=is_old, rolls_first=STAGE.rolls_first)
    world.plan(everywhere(OLD))
    plan = world.plan(everywhere(OLD))
    world.stages = (BASE, stage)
    outcomes = world.run(plan)
    assert {o.state for o in outcomes.values()} == {StageState.BLOCKED}
    assert world.done == []


def test_a_change_that_was_cut_off_waits_for_the_api_to_come_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([ClusterFailed("the API does not answer"), None])

    def drain(session: Session, hosts: Sequence[str], wanted: Drain) -> None:
        if error := next(answers, None):
            raise error

    monkeypatch.setattr(rollout, "drain", drain)
    monkeypatch.setattr(rollout, "PAUSE", 0.0)
    world.session.journal.append("killed", rollout.DRAINED, host="head-1")
    outcomes = world.run(world.plan(everywhere(OLD)))
    assert outcomes["head-1"].state is StageState.DONE


def test_an_api_that_does_not_answer_before_anything_began_is_told_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drain(session: Session, hosts: Sequence[str], wanted: Drain) -> None:
        raise ClusterFailed("the API does not answer")

    monkeypatch.setattr(rollout, "drain", drain)
    outcomes = world.run(world.plan(everywhere(OLD)))
    assert outcomes["head-1"].cause == "the API does not answer"


def test_a_host_too_busy_to_tell_its_release_keeps_the_one_it_told_last(world: World) -> None:
    seen = {h: facts_of(h, kubernetes=OLD) for h in (*HEADS, *GPUS)}
    store_facts(world.session, Round(seen, {}))
    world.plan(everywhere(OLD))
    late = facts_of("head-1", errors={"kubernetes": "no answer within 15 s"})
    found = Round({**world.found, "head-1": late}, {})
    store_facts(world.session, found)
    plan = make_plan(world.session, found, world.prepared, Selection(stages=(STAGE,)))
    assert {c.host for c in plan.cells if c.drain} == {*HEADS, *GPUS}
    only_gpu = Selection(frozenset({"gpu-1"}), (STAGE,))
    assert make_plan(world.session, found, world.prepared, only_gpu).blocked
    # One that tells of no kubelet has none.
    gone = Round({**world.found, "head-1": facts_of("head-1")}, {})
    plan = make_plan(world.session, gone, world.prepared, Selection(stages=(STAGE,)))
    assert "head-1" not in {c.host for c in plan.cells if c.drain}


def test_a_stage_without_leading_hosts_has_no_first(world: World) -> None:
    plain: Stage = stage_of("kubernetes", drains=is_old)
    world.stages = (plain,)
    world.plan(everywhere(OLD))
    found = Round(world.found, {})
    plan = make_plan(world.session, found, world.prepared, Selection(stages=(plain,)))
    assert {c.wave for c in plan.cells} == {1, 2, 3, 4}
