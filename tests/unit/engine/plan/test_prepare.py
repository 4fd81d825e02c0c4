"""What is equal for all hosts of a site is made and digested once, and each host gets what it would get alone."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from appliance.config.secrets import Secret
from appliance.engine.look.shared_baseline import shared_facts_of
from appliance.engine.plan.fingerprint import Digests
from appliance.engine.plan.prepare import Preparation, prepare
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.stages.base import variables as base
from appliance.stages.context import RoleContext, Shared, Variables
from appliance.stages.fabric import topology
from appliance.stages.slurm import variables as slurm
from tests.support.engine_fakes import stage_of
from tests.support.fabric_cables import Fabric
from tests.support.facts import facts_of

STAGES = (
    stage_of("one", variables=slurm.variables),
    stage_of("two", variables=base.variables),
    stage_of(
        "three",
        variables=lambda context: {
            "x_labels": topology.node_labels(context),
            "x_families": topology.label_families(context),
        },
    ),
)
FABRIC = Fabric(2, words="gpu-{host} mlx5_{rail}")


@pytest.fixture
def with_secrets(session: Session) -> Session:
    """The session, with what role slurm wants to know."""
    return replace(session, secrets={**session.secrets, "munge_key": Secret("m" * 40)})


def known(memory: int = 1 << 40) -> dict[str, HostFacts]:
    """A head that discovered the fabric, and two hosts that are not alike."""
    return {
        "head": facts_of("head", topology=FABRIC.topology()),
        "gpu-1": facts_of("gpu-1", memory={"total": memory, "available": 0}),
        "gpu-2": facts_of(
            "gpu-2",
            cpu={"model": "x", "sockets": 1, "cores": 48, "threads": 48},
            memory={"total": 1 << 37, "available": 0},
        ),
    }


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, calls: Counter[str]) -> None:
    """Counts the calls of a module's function."""
    real: Callable[..., object] = getattr(module, name)

    def count(*args: object) -> object:
        calls[name] += 1
        return real(*args)

    monkeypatch.setattr(module, name, count)


def test_nodes_names_and_tree_of_a_site_are_made_once(
    with_secrets: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    counted(monkeypatch, slurm, "_node", calls)
    counted(monkeypatch, base, "names", calls)
    counted(monkeypatch, topology, "switch_tree", calls)
    prepare(with_secrets, known(), STAGES)
    assert calls == {"_node": 2, "names": 1, "switch_tree": 1}


def test_every_host_gets_what_it_would_get_alone(with_secrets: Session) -> None:
    seen = known()
    made = prepare(with_secrets, seen, STAGES)
    for stage in STAGES:
        for host in with_secrets.site.hosts:
            alone = with_secrets.context(host, seen, Shared(), shared_facts_of(with_secrets, seen))
            assert made[stage.name, host.name].variables == stage.variables(alone)
    of_three = {host: made["three", host].variables for host in ("head", "gpu-1")}
    assert of_three["head"] != of_three["gpu-1"]


def test_the_next_round_of_facts_is_made_anew(with_secrets: Session) -> None:
    def nodes(made: Preparation) -> object:
        return made["one", "head"].variables["slurm_nodes"]

    before = prepare(with_secrets, known(), STAGES)
    after = prepare(with_secrets, known(memory=1 << 39), STAGES)
    assert nodes(before) != nodes(after)
    differ = {
        name
        for name, digest in before["one", "gpu-2"].inputs.items()
        if after["one", "gpu-2"].inputs[name] != digest
    }
    assert differ == {"slurm_nodes"}


def test_what_hosts_share_is_digested_once_and_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Shared()
    value = shared.once("key", lambda: [{"name": "gpu-1"}])
    digests = Digests(b"salt", shared)
    calls: Counter[str] = Counter()
    counted(monkeypatch, digests, "_digest", calls)
    first = digests.of(value)
    assert [digests.of(value), digests.of(shared.once("key", list))] == [first, first]
    assert calls == {"_digest": 1}
    assert digests.of(json.loads(json.dumps(value))) == first
    assert digests.of([{"name": "gpu-2"}]) != first


def test_equal_values_of_other_types_are_digested_apart() -> None:
    digests, alone = (
        Digests(b"salt", Shared()),
        [1, True, 1.0, "1", Secret("1"), [1], [True], [1.0]],
    )
    found = [digests.of(value) for value in (*alone, *alone)]
    assert found[: len(alone)] == found[len(alone) :]
    assert found[: len(alone)] == [Digests(b"salt", Shared()).of(value) for value in alone]
    # A secret is digested as its text.
    assert len(set(found)) == len(alone) - 1
    assert digests.of(Secret("1")) == digests.of("1")


def test_a_host_that_is_given_another_value_gets_another_digest() -> None:
    digests = Digests(b"salt", Shared())
    same = ["a"]
    hosts: list[Variables] = [
        {"x": 1, "y": same},
        {"x": True, "y": same},
        {"y": ["b"]},
        {"x": 1, "y": ["a"]},
    ]
    found = [digests.of_all(host) for host in hosts]
    alone = Digests(b"salt", Shared())
    assert found == [{name: alone.of(value) for name, value in host.items()} for host in hosts]


def test_hosts_with_equal_inputs_share_them(with_secrets: Session) -> None:
    stage = stage_of("one", variables=lambda context: {"x": len(context.host.name)})
    made = prepare(with_secrets, known(), (stage,))
    one, other, head = (made["one", host] for host in ("gpu-1", "gpu-2", "head"))
    assert one.inputs is other.inputs
    assert one.fingerprint == other.fingerprint != head.fingerprint
    assert one.inputs["x"] != head.inputs["x"]


def test_contexts_of_their_own_share_nothing(with_secrets: Session) -> None:
    head, gpu = with_secrets.site.hosts[:2]
    one = RoleContext(with_secrets.profile, with_secrets.site, head, {}, {})
    other = RoleContext(with_secrets.profile, with_secrets.site, gpu, {}, {})
    assert [c.once(lambda context: context.host.name) for c in (one, other)] == ["head", "gpu-1"]
