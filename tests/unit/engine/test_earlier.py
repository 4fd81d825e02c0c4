"""What is kept of earlier looks: silent hosts' answers, and the fabric as it was discovered last."""

from typing import Any

from appliance.engine.earlier import known_facts, remember
from appliance.engine.gather import Round, Unanswered
from appliance.engine.session import Session
from tests.facts import facts_of

TOPOLOGY = {"switches": [{"guid": "0x1", "description": "leaf-1", "ports": 40}]}


def a_round(**head: Any) -> Round:
    return Round({"head": facts_of("head", **head)}, {})


def test_a_host_that_cannot_discover_keeps_what_it_discovered_last(session: Session) -> None:
    remember(session, a_round(topology=TOPOLOGY))
    remember(session, a_round())
    found = known_facts(session, a_round())["head"].topology
    assert found is not None
    assert found.switches[0].description == "leaf-1"


def test_a_new_discovery_counts_at_once(session: Session) -> None:
    remember(session, a_round(topology=TOPOLOGY))
    found = known_facts(session, a_round(topology={}))["head"].topology
    assert found is not None
    assert found.switches == ()


def test_without_any_discovery_there_is_none(session: Session) -> None:
    remember(session, a_round())
    assert known_facts(session, a_round())["head"].topology is None


def test_the_same_fabric_is_written_down_once(session: Session) -> None:
    for _ in range(3):
        remember(session, a_round(topology=TOPOLOGY))
    assert len(list(session.journal.entries("topology"))) == 1


def test_a_silent_host_keeps_its_last_answer(session: Session) -> None:
    remember(session, a_round(topology=TOPOLOGY))
    silent = Round({}, {"head": Unanswered("head", "no route", "look")})
    assert known_facts(session, silent)["head"].topology is not None


def test_what_is_kept_and_is_no_fact_counts_as_nothing_kept(session: Session) -> None:
    template = {"switches": [{"guid": "{{ x }}", "description": "leaf-1", "ports": 40}]}
    session.journal.append(session.run, "topology", host="head", topology=template)
    session.journal.append(session.run, "facts", host="gpu-1", facts={"topology": template})
    assert known_facts(session, a_round())["head"].topology is None
    silent = Round({}, {"gpu-1": Unanswered("gpu-1", "no route", "look")})
    assert known_facts(session, silent) == {}
