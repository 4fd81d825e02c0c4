"""Hosts out of work and back: Slurm and Kubernetes alike, nobody's work cut off unasked, nobody else's drain taken back."""

from collections.abc import Sequence
from typing import Any

import pytest

from appliance.adapters.process import Completed
from appliance.engine.run import drain as draining
from appliance.engine.run.drain import Drain, drain, resume
from appliance.engine.run.kubernetes_hosts import DRAINED, is_work
from appliance.engine.run.schedulers import Workload
from appliance.engine.session import Session
from appliance.errors import ClusterFailed, CommandFailed, ConnectionFailed, DeadlineExceeded
from appliance.mig import node as on_demand
from appliance.models.drain import Why
from appliance.stages.kubernetes.site import KubernetesOptions
from tests.support.drain_world import Pod, World
from tests.support.engine_fakes import FakeHosts


def pod(name: str, controller: str = "ReplicaSet", restart: str = "Always", **meta: Any) -> Pod:
    owners = [{"kind": controller, "controller": True}] if controller else []
    return {
        "metadata": {"name": name, "namespace": "team", "ownerReferences": owners, **meta},
        "spec": {"restartPolicy": restart},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def world(session: Session, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch) -> World:
    """A site with both."""
    monkeypatch.setattr(draining, "PAUSE", 0.0)
    both = session.site.model_copy(update={"kubernetes": KubernetesOptions(version="1.28.2")})
    object.__setattr__(session, "site", both)
    return World(hosts)


def at_most(seconds: float, *, force: bool = False) -> Drain:
    return Drain(Why.MIG, seconds, force, "wait longer")


def test_waits_until_the_last_job_has_ended_and_keeps_the_host_out(
    session: Session, world: World
) -> None:
    world.jobs, world.looks_until_jobs_end = ["7 of ada"], 3
    drain(session, ("gpu-1",), at_most(60))
    assert world.reasons["gpu-1"] == Why.MIG
    assert world.cordoned


def test_jobs_that_do_not_end_are_named_and_the_host_takes_work_again(
    session: Session, world: World
) -> None:
    world.jobs = ["7 of ada"]
    with pytest.raises(
        DeadlineExceeded, match=r"gpu-1 is not free after 0 min: job 7 of ada"
    ) as raised:
        drain(session, ("gpu-1",), at_most(0))
    assert raised.value.hint == "wait longer; its jobs keep running"
    assert world.reasons["gpu-1"] == ""
    assert not world.cordoned
    assert world.node == {"metadata": {"name": "gpu-1", "annotations": {}}, "spec": {}}


def test_the_words_of_work_lend_no_patience_and_take_none(
    session: Session, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.jobs, world.looks_until_jobs_end = ["7 of ada (is ending)"], 3
    with pytest.raises(DeadlineExceeded, match=r"job 7 of ada \(is ending\)"):
        drain(session, ("gpu-1",), at_most(0))
    monkeypatch.setattr(Workload, "__str__", lambda work: "x")
    world.jobs, world.pods = [], [pod("web")]
    drain(session, ("gpu-1",), at_most(0))
    assert world.evicted == ["web"]


def test_pods_that_are_made_anew_elsewhere_are_evicted_and_the_hosts_own_stay(
    session: Session, world: World
) -> None:
    mirror = {"kubernetes.io/config.mirror": "x"}
    over = {**pod("old", "Job", "Never"), "status": {"phase": "Succeeded"}}
    world.pods = [pod("web"), pod("db", "StatefulSet"), pod("cni", "DaemonSet"), over]
    world.pods.append(pod("static", "Node", annotations=mirror))
    drain(session, ("gpu-1",), at_most(0))
    assert world.evicted == ["web", "db"]


def test_computations_are_waited_for_and_evicted_with_consent_alone(
    session: Session, world: World
) -> None:
    world.pods = [pod("train", "Job", "Never"), pod("bare", ""), pod("mpi", "MPIJob", "OnFailure")]
    with pytest.raises(DeadlineExceeded, match="pod team/train, pod team/bare, pod team/mpi"):
        drain(session, ("gpu-1",), at_most(0))
    assert world.evicted == []
    world.jobs = ["7 of ada", "8 of bob"]
    drain(session, ("gpu-1",), at_most(0, force=True))
    assert set(world.evicted) == {"train", "bare", "mpi"}
    assert world.jobs == []


def test_a_pod_deleted_with_a_grace_of_a_year_does_not_hold_the_host(
    session: Session, world: World
) -> None:
    year: dict[str, Any] = {
        "deletionTimestamp": "2099-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 31_536_000,
    }
    world.pods = [pod("web", **year), pod("train", "Job", "Never", **year)]
    told = r"pod team/train \(deleted with a grace period of 31536000 s; --force ends it\)"
    with pytest.raises(DeadlineExceeded, match=told):
        drain(session, ("gpu-1",), at_most(0))
    assert world.graces == {"web": 600}
    drain(session, ("gpu-1",), at_most(0, force=True))
    assert world.graces == {"web": 600, "train": 600}


def test_a_pod_on_its_way_out_by_its_own_grace_is_left_to_it(
    session: Session, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "GRACE", 0.0)
    soon: dict[str, Any] = {
        "deletionTimestamp": "2099-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 600,
    }
    world.pods = [pod("web", **soon)]
    with pytest.raises(DeadlineExceeded, match="pod team/web"):
        drain(session, ("gpu-1",), at_most(0, force=True))
    assert world.evicted == []


@pytest.mark.parametrize(
    ("tolerations", "limits", "stays"),
    [
        ([{"operator": "Exists"}], {"memory": "1Gi"}, True),
        ([{"operator": "Exists", "effect": "NoSchedule"}], {}, True),
        ([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], {}, True),
        ([{"operator": "Exists", "effect": "NoExecute"}], {}, False),
        ([{"key": "nvidia.com/gpu", "operator": "Exists"}], {}, False),
        ([{"operator": "Exists"}], {"nvidia.com/gpu": "1"}, False),
        ([], {}, False),
    ],
)
def test_what_would_be_back_at_once_is_left_unless_it_holds_devices(
    tolerations: list[dict[str, str]],
    limits: dict[str, str],
    stays: bool,
) -> None:
    operator = pod("operator")
    containers = [{"resources": {"limits": limits}}]
    operator["spec"] |= {"tolerations": tolerations, "containers": containers}
    assert is_work(operator) is not stays
    operator["spec"] |= {"containers": [], "initContainers": containers}
    assert is_work(operator) is not stays
    computing = pod("train", "Job", "Never")
    computing["spec"]["tolerations"] = [{"operator": "Exists"}]
    assert is_work(computing)


def test_a_pod_that_two_budgets_name_is_waited_for_like_any_other_and_named(
    session: Session, world: World
) -> None:
    world.pods, world.budget = [pod("web")], {"web"}
    world.refusal = (
        "Error from server (InternalError): This pod has more than one PodDisruptionBudget, "
        "which the eviction subresource does not support."
    )
    with pytest.raises(DeadlineExceeded, match=r"pod team/web \(its disruption budget allows no"):
        drain(session, ("gpu-1",), at_most(0))


def test_a_disruption_budget_holds_even_against_consent(
    session: Session, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "GRACE", 0.0)
    world.pods, world.budget = [pod("web")], {"web"}
    with pytest.raises(DeadlineExceeded, match=r"pod team/web \(its disruption budget allows no"):
        drain(session, ("gpu-1",), at_most(0, force=True))
    assert world.evicted == []
    assert not world.cordoned


def test_what_somebody_else_has_taken_out_stays_theirs(session: Session, world: World) -> None:
    assert world.node
    world.reasons["gpu-1"] = "bad fan"
    world.node["spec"]["unschedulable"] = True
    drain(session, ("gpu-1",), at_most(0))
    resume(session, ("gpu-1",))
    assert world.reasons["gpu-1"] == "bad fan"
    assert world.cordoned
    assert DRAINED not in world.node["metadata"].get("annotations", {})


def test_a_drain_a_killed_run_left_is_ours_and_taken_back(session: Session, world: World) -> None:
    assert world.node
    world.reasons["gpu-1"] = Why.DRIVER
    world.node = {
        "metadata": {"annotations": {DRAINED: Why.DRIVER}},
        "spec": {"unschedulable": True},
    }
    drain(session, ("gpu-1",), at_most(0))
    assert world.reasons["gpu-1"] == Why.MIG
    resume(session, ("gpu-1",))
    assert world.reasons["gpu-1"] == ""
    assert not world.cordoned


def divides(world: World, *, runs: bool = True) -> None:
    """MIG on demand is at work on the host."""
    world.units[on_demand.UNIT] = "active" if runs else "inactive"
    notes = {DRAINED: on_demand.REASON, on_demand.AT_WORK: "1"}
    world.node = {"metadata": {"annotations": notes}, "spec": {"unschedulable": True}}


def test_a_cordon_of_mig_on_demand_becomes_the_drains(session: Session, world: World) -> None:
    divides(world, runs=False)
    drain(session, ("gpu-1",), at_most(0))
    assert world.node
    assert world.node["metadata"]["annotations"][DRAINED] == Why.MIG
    resume(session, ("gpu-1",))
    assert not world.cordoned


def test_a_drain_waits_until_gpus_are_not_divided_any_more(
    session: Session, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    divides(world)
    monkeypatch.setattr(draining, "GRACE", 0.0)
    with pytest.raises(DeadlineExceeded, match="MIG on demand, which partitions GPUs there"):
        drain(session, ("gpu-1",), at_most(0))
    divides(world)
    monkeypatch.setattr(draining, "GRACE", 60.0)

    def over(host: str, argv: Sequence[str]) -> Completed:
        answered = world.answer(host, argv)
        if on_demand.UNIT in argv and world.node:
            world.node["metadata"]["annotations"].pop(on_demand.AT_WORK)
        return answered

    world.hosts.answer = over
    drain(session, ("gpu-1",), at_most(0))
    assert world.cordoned


def test_a_host_that_takes_work_again_leaves_mig_on_demand_its_cordon(
    session: Session, world: World
) -> None:
    divides(world)
    resume(session, ("gpu-1",))
    assert world.cordoned


def test_hosts_neither_knows_have_no_work(session: Session, world: World) -> None:
    world.broken = {"scontrol": "slurm_load_node error: Node gpu-1 not found"}
    world.node = None
    drain(session, ("gpu-1",), at_most(0))


@pytest.mark.parametrize(
    ("command", "unit", "error"),
    [("scontrol", "slurmd", CommandFailed), ("kubectl", "kubelet", ClusterFailed)],
)
def test_where_nobody_tells_of_work_a_host_that_may_have_some_is_left_alone(
    command: str, unit: str, error: type[Exception], session: Session, world: World
) -> None:
    world.broken = {command: "Unable to contact"}
    drain(session, ("gpu-1",), at_most(0))
    for state in ("active", "activating", "failed", ""):
        world.units = {unit: state}
        with pytest.raises(error, match=f"{unit} runs on gpu-1, but .*Unable to contact"):
            drain(session, ("gpu-1",), at_most(0))


def test_an_answer_without_a_state_is_not_taken_for_a_host_without_work(
    session: Session, world: World, hosts: FakeHosts
) -> None:
    hosts.answer = lambda host, argv: Completed(tuple(argv), 0, "", "slurm_load_node: odd")
    with pytest.raises(CommandFailed, match="no state for gpu-1: slurm_load_node: odd"):
        drain(session, ("gpu-1",), at_most(0))


def test_an_interrupt_gives_the_host_back(session: Session, world: World) -> None:
    world.jobs = ["7 of ada"]
    session.cancelled.set()
    with pytest.raises(DeadlineExceeded, match="at the interrupt"):
        drain(session, ("gpu-1",), at_most(600, force=True))
    assert world.jobs
    assert world.reasons["gpu-1"] == ""


def test_of_several_control_planes_one_that_is_ready_is_asked(
    session: Session, hosts: FakeHosts
) -> None:
    hosts.answer = lambda host, argv: Completed(tuple(argv), int(host == "head-2"), "", "")
    hosts.down = {"head"}
    three = ("head", "head-2", "head-3")
    assert draining._desk(session, three) == "head-3"
    assert draining._desk(session, ("head",)) == "head"
    hosts.answer = lambda host, argv: Completed(tuple(argv), 0, "", "")
    assert draining._desk(session, three) == "head-2"


@pytest.mark.parametrize("is_down", [True, False], ids=["silent", "without scontrol"])
def test_slurm_is_asked_from_the_next_control_host_where_the_first_gives_no_answer(
    session: Session, world: World, is_down: bool
) -> None:
    two = (*session.site.hosts, session.site.host("head").model_copy(update={"name": "head-2"}))
    alone = session.site.model_copy(update={"kubernetes": None, "hosts": two})
    object.__setattr__(session, "site", alone)
    world.hosts.down = {"head"} if is_down else set()

    def answer(host: str, argv: Sequence[str]) -> Completed:
        if host == "head":
            return Completed(tuple(argv), 127, "", "timeout: scontrol: No such file or directory")
        return world.answer("head" if host == "head-2" else host, argv)

    world.hosts.answer = answer
    drain(session, ("gpu-1",), at_most(60))
    assert world.reasons["gpu-1"] == Why.MIG
    resume(session, ("gpu-1",))
    assert world.reasons["gpu-1"] == ""


def test_where_no_control_host_answers_the_first_is_named(session: Session, world: World) -> None:
    alone = session.site.model_copy(update={"kubernetes": None})
    object.__setattr__(session, "site", alone)
    world.hosts.down = {"head"}
    with pytest.raises(ConnectionFailed) as raised:
        drain(session, ("gpu-1",), at_most(0))
    assert raised.value.host == "head"
