"""A change that would drain hosts and cannot succeed is refused with everything it lacks, before a host is drained."""

from collections.abc import Iterator
from typing import Any

import pytest

from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.run import readiness
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.facts import HostFacts
from appliance.models.plan import Action, HostStage
from appliance.models.site import Host, Role
from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.facts import Kubernetes, KubernetesNode
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.stage import Readiness, Stage
from tests.support.engine_fakes import stage_of
from tests.support.facts import facts_of

HOSTS = ("head", "gpu-1")


def staged(*lacks: str, place: str = "") -> Stage:
    """A stage that misses these things on each host."""

    def lacking(host: Host, *_: object) -> Iterator[ApplianceError]:
        yield from (ConfigError(f"{host.name}: {what}", "bring it") for what in lacks)

    ready = Readiness(
        request=lambda facts, variables: {"areas": ["offer"]},
        lacks=lacking,
        proofs=(ids.BACKUP,),
        place=lambda *_: [ConfigError(place, "make room")] if place else [],
    )
    return stage_of("kubernetes", rolls_first=frozenset({Role.CONTROL}), readiness=ready)


def round_of(age: float = 1.0, **cordoned: str) -> Round:
    """Both hosts answer; the newest backup is so many hours old."""
    nodes = [
        {
            "name": name,
            "ready": True,
            "cordoned": name in cordoned,
            "cordoned_for": cordoned.get(name, ""),
        }
        for name in ("head", "gpu_1")
    ]
    nodes[1]["name"] = "gpu-1"
    nodes[1]["cordoned_for"] = cordoned.get("gpu_1", "")
    known = Kubernetes(
        nodes=tuple(map(KubernetesNode.model_validate, nodes)), backups=1, backup_age_h=age
    )
    found = {name: facts_of(name) for name in HOSTS}
    found["head"] = facts_of("head", kubernetes=known.model_dump())
    return Round(found, {})


def refuse(session: Session, stage: Stage, found: Round, drain: bool = True) -> None:
    """The judgement of a plan that changes both hosts."""
    given = session.site.model_copy(update={"kubernetes": KubernetesOptions()})
    object.__setattr__(session, "site", given)
    cells = tuple(
        HostStage(stage=stage.name, host=host, action=Action.RUN, drain=drain) for host in HOSTS
    )
    plan: Any = type("Plan", (), {"by_stage": lambda self, name: cells})()
    known: Any = type("Prepared", (), {"variables": {}})()
    prepared = {(stage.name, host): known for host in HOSTS}
    readiness.refuse_unready(session, found, plan, (stage,), prepared)


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, HostFacts | Unanswered]:
    """What each host answers."""
    given: dict[str, HostFacts | Unanswered] = {name: facts_of(name) for name in HOSTS}
    monkeypatch.setattr(readiness, "ask", lambda remote, host, request: given[host])
    return given


def test_a_change_that_has_all_it_needs_goes_on(session: Session) -> None:
    refuse(session, staged(), round_of())


def test_everything_that_is_missing_stands_in_one_line(session: Session) -> None:
    with pytest.raises(ConfigError) as caught:
        refuse(session, staged("no kubeadm", "no image", place="no place"), round_of())
    assert caught.value.message == (
        "stage kubernetes cannot run, so no host was drained: head: no kubeadm; head: no image; "
        "gpu-1: no kubeadm; and 2 more"
    )
    assert caught.value.hint == "bring it; nothing was changed"


def test_a_late_backup_and_a_host_without_an_answer_refuse_it(
    session: Session, answers: dict[str, HostFacts | Unanswered]
) -> None:
    with pytest.raises(ConfigError, match=r"head: kubernetes\.backup does not pass: the newest"):
        refuse(session, staged(), round_of(age=1000.0))
    answers["gpu-1"] = Unanswered("gpu-1", "the probe did not run", "look there")
    with pytest.raises(ConfigError, match="gpu-1: the probe did not run"):
        refuse(session, staged(), round_of())


def test_a_change_that_drains_nobody_is_not_looked_at(session: Session) -> None:
    refuse(session, staged("no kubeadm"), round_of(), drain=False)


def test_a_change_that_was_cut_off_goes_on_where_the_rest_has_what_it_needs(
    session: Session,
) -> None:
    found = round_of(age=1000.0, head="appliance: upgrade")
    refuse(session, staged(place="no place"), found)
    with pytest.raises(ConfigError, match="gpu-1: no kubeadm") as caught:
        refuse(session, staged("no kubeadm"), found)
    assert "head" not in caught.value.message
