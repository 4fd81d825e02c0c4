"""The way into the site's own cluster: which benchmark gets it, and to which hosts it leads."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from appliance.adapters.pods import PodRemote, PodTemplate
from appliance.benchmarks import BENCHMARKS
from appliance.engine.run import own_cluster
from appliance.engine.run.own_cluster import at_its_door
from appliance.engine.session import Session
from appliance.models.site import Owner
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.scheduler.site import Amount, NodePool, Project, Queue, SchedulerOptions
from appliance.stages.slurm.site import SlurmOptions
from tests.support.engine_session import hosts, recorder, session
from tests.support.fake_pods import Beside, Cluster

__all__ = ["hosts", "recorder", "session"]

BY_NAME = {benchmark.name: benchmark for benchmark in BENCHMARKS}


@pytest.fixture
def opened(session: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    @contextmanager
    def cluster(_: Session) -> Iterator[Cluster]:
        yield Cluster()

    monkeypatch.setattr(own_cluster, "own_cluster", cluster)
    queue = Queue(name="train", gpu=Amount(quota=4))
    scheduler = SchedulerOptions(projects=(Project(name="vision", queues=(queue,)),))
    update = {"kubernetes": KubernetesOptions(), "scheduler": scheduler}
    return replace(session, site=session.site.model_copy(update=update))


def test_only_what_goes_through_a_queue_gets_the_door(opened: Session) -> None:
    for name in ("storage", "slurm", "dcgm"):
        with at_its_door(opened, BY_NAME[name]) as inside:
            assert inside is opened
    for name in ("queue", "gpt3"):
        with at_its_door(opened, BY_NAME[name]) as inside:
            assert isinstance(inside.remote, PodRemote)
            assert inside.remote.way.queue == "vision-train"
            assert inside.remote.hosts == {"gpu-1", "gpu-2"}
            assert not inside.remote.next_to_slurm


def test_hosts_of_slurm_and_of_other_pools_are_not_behind_it(opened: Session) -> None:
    head, first, second = opened.site.hosts
    assert opened.site.scheduler
    pools = (NodePool(name="parts", hosts=("gpu-2",)),)
    update = {
        "hosts": (
            head,
            first,
            second,
            second.model_copy(update={"name": "gpu-3", "owner": Owner.SLURM}),
        ),
        "scheduler": opened.site.scheduler.model_copy(update={"node_pools": pools}),
    }
    site = opened.site.model_copy(update=update)
    with at_its_door(replace(opened, site=site), BY_NAME["gpt3"]) as inside:
        assert isinstance(inside.remote, PodRemote)
        assert inside.remote.hosts == {"gpu-1"}
        assert inside.remote.next_to_slurm


def test_a_door_that_was_opened_by_hand_stays_the_one(opened: Session) -> None:
    door = PodRemote(Beside(), Cluster(), frozenset(), PodTemplate("busybox:1"))
    own = replace(opened, remote=door)
    with at_its_door(own, BY_NAME["gpt3"]) as inside:
        assert inside is own


def test_a_site_without_queues_has_none(session: Session) -> None:
    with at_its_door(session, BY_NAME["gpt3"]) as inside:
        assert inside is session


@pytest.mark.parametrize("name", ["nccl", "perftest", "burnin"])
def test_hosts_that_meet_are_reached_by_pods_where_slurm_has_none(
    opened: Session, name: str
) -> None:
    with at_its_door(opened, BY_NAME[name]) as inside:
        assert isinstance(inside.remote, PodRemote)
        assert inside.remote.hosts == {"gpu-1", "gpu-2"}
        assert inside.remote.way.queue == ""
    *others, last = opened.site.hosts
    mixed = (*others, last.model_copy(update={"owner": Owner.SLURM}))
    site = opened.site.model_copy(update={"hosts": mixed, "slurm": SlurmOptions()})
    with at_its_door(replace(opened, site=site), BY_NAME[name]) as inside:
        assert not isinstance(inside.remote, PodRemote)
