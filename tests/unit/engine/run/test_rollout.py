"""Changes that need free hosts: in waves, each host drained before and given back after, and no further than the first failure."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from appliance.engine.look.gather import Round
from appliance.engine.plan.planning import make_plan
from appliance.engine.plan.prepare import prepare
from appliance.engine.plan.selection import Selection
from appliance.engine.run import rollout
from appliance.engine.run.drain import Drain
from appliance.engine.run.stage_run import LearnedFacts
from appliance.engine.session import Session
from appliance.errors import ConnectionFailed, DeadlineExceeded
from appliance.models.drain import Why
from appliance.models.events import Message
from appliance.models.facts import HostFacts
from appliance.models.run import StageOutcome, StageState
from appliance.models.site import Host, Owner, Role, Site
from appliance.stages.gpu import stage as gpu
from appliance.stages.gpu.site import GpuOptions
from appliance.stages.stage import Stage
from tests.support.engine_fakes import Recorder, receipt_of, stage_of
from tests.support.facts import facts_of
from tests.support.fake_ansible import FakeAnsible
from tests.support.fake_ansible import ansible as ansible

HOSTS = ("head", "gpu-1", "gpu-2", "gpu-3", "gpu-4")
GPU = {"index": 0, "uuid": "GPU-0", "name": "x", "bus_id": "0", "memory": 1}
GPUS = {"driver": "580.82.07", "nvml": "12", "devices": (GPU,)}


def is_gpu(host: Host, facts: HostFacts | None, variables: object) -> bool:
    return Role.GPU in host.roles


STAGE = stage_of("one", drains=is_gpu)


class Hands:
    """Drains and their ends, in order; hosts that are ``busy`` do not get free."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.busy: set[str] = set()
        self.wanted: list[Drain] = []

    def drain(self, session: Session, hosts: Sequence[str], wanted: Drain) -> None:
        self.wanted.append(wanted)
        if self.busy & set(hosts):
            raise DeadlineExceeded("job 7 of ada", "wait")
        self.done += [f"drain {host}" for host in hosts]

    def resume(self, session: Session, hosts: Sequence[str]) -> None:
        self.done += [f"resume {host}" for host in hosts]


@pytest.fixture
def hands(ansible: FakeAnsible, session: Session, monkeypatch: pytest.MonkeyPatch) -> Hands:
    """A site of four GPU hosts, two of each owner; what is played stands among what is drained."""
    made = Hands()
    monkeypatch.setattr(rollout, "drain", made.drain)
    monkeypatch.setattr(rollout, "resume", made.resume)
    monkeypatch.setattr(rollout, "ask", lambda *_: facts_of("x", gpus=GPUS))
    ansible.at_work = lambda name: made.done.append(f"play {' '.join(ansible.played[-1][1])}")
    owners = {"gpu-1": Owner.KUBERNETES, "gpu-3": Owner.KUBERNETES}
    first = session.site.host("gpu-1")
    gpus = [
        first.model_copy(update={"name": name, "owner": owners.get(name, Owner.SLURM)})
        for name in HOSTS[1:]
    ]
    widened = session.site.model_copy(update={"hosts": (session.site.host("head"), *gpus)})
    object.__setattr__(session, "site", widened)
    return made


def run(
    session: Session, stage: Stage = STAGE, facts: Mapping[str, HostFacts] | None = None
) -> dict[str, StageOutcome]:
    found = dict(facts or {h: facts_of(h) for h in HOSTS})
    prepared = prepare(session, {}, (stage,))
    plan = make_plan(session, Round(found, {}), prepared, Selection(stages=(stage,)))
    cells = [c for c in plan.cells if c.action.changes]
    assert {c.host for c in cells if c.drain} == set(HOSTS[1:])
    return {o.host: o for o in rollout.run_stage(session, stage, cells, prepared, LearnedFacts())}


def sized(session: Session, at_once: int) -> None:
    site = session.site.model_copy(update={"gpu": GpuOptions(at_once=at_once)})
    object.__setattr__(session, "site", site)


def test_one_host_of_each_owner_at_a_time_drained_before_and_given_back_after(
    session: Session, hands: Hands
) -> None:
    outcomes = run(session)
    assert {o.state for o in outcomes.values()} == {StageState.DONE}
    assert list(outcomes) == list(HOSTS)
    assert hands.done[0] == "play head"
    first, second = hands.done[1:6], hands.done[6:]
    assert set(first[:2]) == {"drain gpu-1", "drain gpu-2"}
    assert first[2] == "play gpu-1 gpu-2"
    assert first[3:] == ["resume gpu-1", "resume gpu-2"]
    assert set(second[:2]) == {"drain gpu-3", "drain gpu-4"}
    assert {w.why for w in hands.wanted} == {Why.DRIVER}


def test_the_plan_counts_the_waves(session: Session, hands: Hands) -> None:
    def planned() -> tuple[float, dict[str, int]]:
        prepared = prepare(session, {}, (STAGE,))
        found = Round({h: facts_of(h) for h in HOSTS}, {})
        plan = make_plan(session, found, prepared, Selection(stages=(STAGE,)))
        return plan.minutes, {c.host: c.wave for c in plan.cells}

    assert planned() == (3.0, {"head": 0, "gpu-1": 1, "gpu-2": 1, "gpu-3": 2, "gpu-4": 2})
    sized(session, 2)
    assert planned()[0] == 2.0


def test_as_many_at_once_as_the_site_says(session: Session, hands: Hands) -> None:
    sized(session, 2)
    run(session)
    assert "play gpu-1 gpu-2 gpu-3 gpu-4" in hands.done


def test_a_host_that_fails_stops_the_roll_and_the_rest_is_named_and_untouched(
    session: Session, hands: Hands, ansible: FakeAnsible, recorder: Recorder
) -> None:
    ansible.failures["one", "gpu-2"] = "driver 580.95.05 does not come up"
    outcomes = run(session)
    assert outcomes["gpu-1"].state is StageState.DONE
    assert outcomes["gpu-2"].state is StageState.FAILED
    for host in ("gpu-3", "gpu-4"):
        assert outcomes[host].state is StageState.BLOCKED
        assert outcomes[host].why == "gpu-2 failed, so stage one stops here"
        assert outcomes[host].fix == "repair gpu-2, then deploy again"
        assert not any(host in done for done in hands.done)
    told = [e.host for e in recorder.events if isinstance(e, Message) and "stops here" in e.text]
    assert told == ["gpu-3", "gpu-4"]


def test_a_lost_host_stops_it_too_and_stays_drained(
    session: Session, hands: Hands, ansible: FakeAnsible, hosts: Any
) -> None:
    ansible.unreachable.add(("one", "gpu-1"))
    hosts.down.add("gpu-1")
    outcomes = run(session)
    assert outcomes["gpu-1"].away
    assert "resume gpu-1" not in hands.done
    assert "resume gpu-2" in hands.done
    assert outcomes["gpu-3"].state is StageState.BLOCKED


def test_a_host_whose_work_does_not_end_fails_alone_and_the_next_has_its_turn(
    session: Session, hands: Hands
) -> None:
    hands.busy = {"gpu-1"}
    outcomes = run(session)
    assert outcomes["gpu-1"].state is StageState.FAILED
    assert (outcomes["gpu-1"].cause, outcomes["gpu-1"].fix) == ("job 7 of ada", "wait")
    assert "play gpu-2" in hands.done
    assert outcomes["gpu-3"].state is StageState.DONE


def test_whose_silence_keeps_a_host_from_being_drained_is_named(
    session: Session, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drain(session: Session, hosts: Sequence[str], wanted: Drain) -> None:
        raise ConnectionFailed("does not answer on port 22", "", "head")

    monkeypatch.setattr(rollout, "drain", drain)
    assert run(session)["gpu-1"].cause == "head: does not answer on port 22"


@pytest.mark.parametrize(
    ("now", "back"),
    [
        (GPUS, True),
        ({**GPUS, "devices": ()}, False),
        ({**GPUS, "devices": ({**GPU, "error": "GPU is lost"},)}, False),
        (None, False),
    ],
)
def test_a_host_that_failed_gets_work_again_only_if_all_its_gpus_answer(
    now: Any,
    back: bool,
    session: Session,
    hands: Hands,
    ansible: FakeAnsible,
    monkeypatch: pytest.MonkeyPatch,
    recorder: Recorder,
) -> None:
    known = facts_of("gpu-1", gpus=GPUS)
    session.journal.append("r0", "facts", host="gpu-1", facts=known.model_dump(mode="json"))
    monkeypatch.setattr(rollout, "ask", lambda *_: facts_of("gpu-1", gpus=now))
    ansible.failures["one", "gpu-1"] = "driver 580.95.05 does not come up"
    run(session)
    assert ("resume gpu-1" in hands.done) is back
    told = [e.text for e in recorder.events if isinstance(e, Message) and e.host == "gpu-1"]
    assert any("stays drained" in text for text in told) is not back


def test_where_nothing_was_known_before_all_gpus_of_the_class_must_answer(
    session: Session, hands: Hands, ansible: FakeAnsible
) -> None:
    ansible.failures["one", "gpu-1"] = "driver 580.95.05 does not come up"
    run(session)
    assert "resume gpu-1" not in hands.done


def test_an_interrupt_keeps_what_is_not_begun(
    session: Session, hands: Hands, ansible: FakeAnsible
) -> None:
    def interrupted(name: str) -> None:
        if "gpu-1" in ansible.played[-1][1]:
            session.cancelled.set()

    ansible.at_work = interrupted
    outcomes = run(session)
    assert outcomes["gpu-3"].state is StageState.NOT_RUN
    assert not any("gpu-3" in done for done in hands.done)


def test_a_drain_that_a_killed_change_left_is_taken_back_once_nothing_is_to_be_drained(
    session: Session, hands: Hands
) -> None:
    found = {h: facts_of(h, receipts={"one": receipt_of("one", "old")}) for h in HOSTS}
    stage = stage_of("one", drains=lambda *_: False)
    prepared = prepare(session, {}, (stage,))
    plan = make_plan(session, Round(found, {}), prepared, Selection(stages=(stage,)))
    cells = [c for c in plan.cells if c.host == "gpu-1"]
    assert (
        rollout.run_stage(session, stage, cells, prepared, LearnedFacts())[0].state
        is StageState.DONE
    )
    assert hands.done == ["play gpu-1", "resume gpu-1"]


def test_a_run_killed_before_it_gave_a_host_back_leaves_that_to_the_next(
    session: Session, hands: Hands
) -> None:
    found = {h: facts_of(h) for h in HOSTS}
    prepared = prepare(session, {}, (STAGE,))
    for host in HOSTS:
        mark = prepared[STAGE.name, host].fingerprint
        found[host] = facts_of(host, receipts={STAGE.name: receipt_of(STAGE.name, mark)})
    plan = make_plan(session, Round(found, {}), prepared, Selection(stages=(STAGE,)))
    rollout.resume_left_drained(session, plan, (STAGE,))
    assert hands.done == []
    session.journal.append("killed", rollout.DRAINED, host="gpu-2")
    rollout.resume_left_drained(session, plan, (STAGE,))
    rollout.resume_left_drained(session, plan, (STAGE,))
    assert hands.done == ["resume gpu-2"]


def test_a_host_whose_change_is_not_through_stays_drained_until_it_is(
    session: Session, hands: Hands
) -> None:
    session.journal.append("killed", rollout.DRAINED, host="gpu-2")
    found = {h: facts_of(h) for h in HOSTS}
    prepared = prepare(session, {}, (STAGE,))
    plan = make_plan(session, Round(found, {}), prepared, Selection(stages=(STAGE,)))
    rollout.resume_left_drained(session, plan, (STAGE,))
    assert hands.done == []


def facts_with(gpus: object, *stages: str, drifted: str = "") -> HostFacts:
    drift = [{"kind": "package", "name": drifted, "expected": "1", "found": "2"}] if drifted else []
    receipts = {s: receipt_of(s, "f", drift=drift if s == "gpu" else []) for s in stages}
    return facts_of("gpu-1", gpus=gpus, receipts=receipts)


@pytest.mark.parametrize(
    ("facts", "release", "expected"),
    [
        (facts_with(GPUS, "gpu", "slurm"), "580", False),
        (facts_with(GPUS, "gpu", "slurm"), "580.95.05", True),
        (facts_with(GPUS, "gpu", "kubernetes"), "590", True),
        (facts_with(GPUS, "gpu"), "590", False),
        (facts_with(None), "580", False),
        (facts_with(None, "gpu", "slurm"), "580", True),
        (facts_with(GPUS, "gpu", "slurm", drifted="nvidia-driver-cuda"), "580", True),
        (facts_with(GPUS, "gpu", "slurm", drifted="nvidia-container-toolkit"), "580", False),
        (None, "580", False),
        (facts_of("gpu-1", gpus=GPUS, errors={"receipts": "no answer within 20 s"}), "590", True),
        (facts_of("gpu-1", gpus=GPUS, errors={"receipts": "needs root"}), "580", False),
    ],
)
def test_a_host_is_drained_where_its_driver_may_be_unloaded_and_somebody_may_be_at_work(
    facts: HostFacts | None, release: str, expected: bool, session: Session
) -> None:
    site: Site = session.site
    assert gpu.disturbs(site.host("gpu-1"), facts, {"gpu_release": release}) is expected
