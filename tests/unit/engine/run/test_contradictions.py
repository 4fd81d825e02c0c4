"""A host that contradicts what was accepted takes no jobs, until a deployment finds that it no longer does."""

from dataclasses import replace
from typing import Any

import pytest

from appliance.engine.look.gather import Round
from appliance.engine.run.contradictions import drain_contradicting
from appliance.engine.session import Session
from appliance.models.drain import CONTRADICTS
from appliance.models.facts import HostFacts
from tests.support.deployed_site import deployed
from tests.support.drain_world import World
from tests.support.engine_fakes import FakeHosts
from tests.support.facts import facts_of


def seen(memory: int = 1 << 40, **reasons: str) -> dict[str, HostFacts]:
    nodes = [
        {"name": name, "state": "IDLE+DRAIN" if reasons.get(name) else "IDLE"}
        | {"reason": reasons.get(name, "")}
        for name in ("gpu_1", "gpu_2")
    ]
    for node in nodes:
        node["name"] = node["name"].replace("_", "-")
    head = facts_of("head", slurm={"controller": "up", "nodes": nodes})
    return {"head": head, "gpu-1": _gpu("gpu-1", memory), "gpu-2": _gpu("gpu-2", 1 << 40)}


def _gpu(host: str, memory: int) -> HostFacts:
    return facts_of(host, memory={"total": memory, "available": 0})


@pytest.fixture
def world(hosts: FakeHosts) -> World:
    return World(hosts)


def updates(hosts: FakeHosts) -> list[Any]:
    return [argv for _, argv, _ in hosts.calls if "update" in argv]


def test_a_contradicting_host_is_drained_by_a_reason_that_names_what(
    session: Session, world: World, hosts: FakeHosts
) -> None:
    deployed(session, seen())
    drain_contradicting(session, Round(seen(memory=1 << 38), {}))
    assert world.reasons == {"gpu-1": f"{CONTRADICTS}memory"}


def test_a_host_drains_no_other_by_reporting_its_guid(
    session: Session, world: World, hosts: FakeHosts
) -> None:
    """At a first deployment it is not known which of the two lies."""
    port = {"device": "mlx5_0", "port": 1, "state": "", "physical": "", "rate": 0.0}
    port |= {"link_layer": "InfiniBand", "guid": "0x1"}
    found = {
        name: facts.model_copy(update={"ports": facts_of(name, ports=[port]).ports})
        for name, facts in seen().items()
        if name != "head"
    }
    drain_contradicting(session, Round({**seen(), **found}, {}))
    assert world.reasons == {}


def test_it_takes_jobs_again_once_it_agrees_or_is_accepted(
    session: Session, world: World, hosts: FakeHosts
) -> None:
    deployed(session, seen())
    reason = f"{CONTRADICTS}memory"
    for memory, accepting in ((1 << 40, set[str]()), (1 << 38, {"gpu-1"})):
        world.reasons = {"gpu-1": reason}
        its = replace(session, accepting=frozenset(accepting))
        drain_contradicting(its, Round(seen(memory=memory, gpu_1=reason), {}))
        assert world.reasons == {"gpu-1": ""}


def test_a_drain_of_a_persons_stays(session: Session, world: World, hosts: FakeHosts) -> None:
    deployed(session, seen())
    world.reasons = {"gpu-1": "mine"}
    drain_contradicting(session, Round(seen(memory=1 << 38, gpu_1="mine"), {}))
    drain_contradicting(session, Round(seen(gpu_1="mine"), {}))
    assert updates(hosts) == []


def test_where_all_agree_nobody_is_asked(session: Session, world: World, hosts: FakeHosts) -> None:
    deployed(session, seen())
    drain_contradicting(session, Round(seen(), {}))
    assert hosts.calls == []
