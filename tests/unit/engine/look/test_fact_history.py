"""What is kept of earlier looks: silent hosts' answers, and the fabric as it was discovered last."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from appliance.engine.look import fact_history
from appliance.engine.look.fact_history import (
    KEPT,
    earlier_facts,
    gpus_up_to,
    known_facts,
    store_facts,
)
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from tests.support.engine_fakes import PASSWORD
from tests.support.facts import facts_of, gpus_of

TOPOLOGY = {"switches": [{"guid": "0x1", "description": "leaf-1", "ports": 40}]}


def a_round(**head: Any) -> Round:
    return Round({"head": facts_of("head", **head)}, {})


def test_a_host_that_cannot_discover_keeps_what_it_discovered_last(session: Session) -> None:
    store_facts(session, a_round(topology=TOPOLOGY))
    store_facts(session, a_round())
    found = known_facts(session, a_round())["head"].topology
    assert found is not None
    assert found.switches[0].description == "leaf-1"


def test_a_new_discovery_counts_at_once(session: Session) -> None:
    store_facts(session, a_round(topology=TOPOLOGY))
    found = known_facts(session, a_round(topology={}))["head"].topology
    assert found is not None
    assert found.switches == ()


def test_without_any_discovery_there_is_none(session: Session) -> None:
    store_facts(session, a_round())
    assert known_facts(session, a_round())["head"].topology is None


def test_the_same_fabric_is_written_down_once(session: Session) -> None:
    for _ in range(3):
        store_facts(session, a_round(topology=TOPOLOGY))
    assert len(list(session.journal.entries("topology"))) == 1


def test_a_silent_host_keeps_its_last_answer(session: Session) -> None:
    store_facts(session, a_round(topology=TOPOLOGY))
    silent = Round({}, {"head": Unanswered("head", "no route", "look")})
    assert known_facts(session, silent)["head"].topology is not None


def test_facts_that_an_earlier_version_took_besides_are_passed_over(session: Session) -> None:
    kept = facts_of("head", topology=TOPOLOGY).model_dump(mode="json")
    kept["os"] |= {"uptime_s": 60.0}
    session.journal.append(session.run, "facts", host="head", facts={**kept, "cpu_heat": 7})
    silent = Round({}, {"head": Unanswered("head", "no route", "look")})
    assert known_facts(session, silent)["head"].topology is not None


def test_what_is_kept_and_is_no_fact_counts_as_nothing_kept(session: Session) -> None:
    template = {"switches": [{"guid": "{{ x }}", "description": "leaf-1", "ports": 40}]}
    session.journal.append(session.run, "topology", host="head", topology=template)
    session.journal.append(session.run, "facts", host="gpu-1", facts={"topology": template})
    assert known_facts(session, a_round())["head"].topology is None
    silent = Round({}, {"gpu-1": Unanswered("gpu-1", "no route", "look")})
    assert known_facts(session, silent) == {}


def plan(session: Session, number: int, **hosts: HostFacts) -> None:
    """A round of a run of its own that only looks."""
    store_facts(replace(session, verb="plan", run=f"plan-{number}"), Round(hosts, {}))


@pytest.fixture
def ageless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round is old as soon as it is over."""
    monkeypatch.setattr(fact_history, "LEAST_AGE", timedelta(0))


def facts_in(session: Session, host: str) -> list[str]:
    return [entry.run for entry in session.journal.entries("facts", host=host)]


def uuids_of(facts: HostFacts) -> frozenset[str]:
    assert facts.gpus
    return frozenset(gpu.uuid for gpu in facts.gpus.devices)


def pages(session: Session) -> int:
    found: int = session.journal._db.execute("PRAGMA page_count").fetchone()[0]
    return found


def test_a_round_of_all_hosts_is_written_at_once_and_whole(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    session.journal._db.set_trace_callback(asked.append)
    silent = {"gpu-2": Unanswered("gpu-2", "no route", "look")}
    store_facts(session, Round({n: facts_of(n) for n in ("head", "gpu-1")}, silent))
    session.journal._db.set_trace_callback(None)
    assert sum(sql.startswith("COMMIT") for sql in asked) == 1

    def torn(facts: HostFacts) -> dict[str, dict[str, object]]:
        if facts.host == "gpu-1":
            raise RuntimeError("torn")
        return {}

    monkeypatch.setattr(fact_history, "_lasting", torn)
    before = [entry.seq for entry in session.journal.entries()]
    with pytest.raises(RuntimeError, match="torn"):
        store_facts(session, Round({n: facts_of(n) for n in ("head", "gpu-1")}, {}))
    assert [entry.seq for entry in session.journal.entries()] == before


@pytest.mark.usefixtures("ageless")
def test_a_thousand_looks_leave_a_journal_that_does_not_grow_by_facts(session: Session) -> None:
    hosts = {
        name: facts_of(name, packages={f"package-{n}": "1.0" for n in range(300)})
        for name in ("head", "gpu-1")
    }
    # What is written is what counts here, not when it is on the disk.
    session.journal._db.execute("PRAGMA synchronous = OFF")
    for number in range(100):
        plan(session, number, **hosts)
    before = pages(session)
    for number in range(100, 1000):
        plan(session, number, **hosts)
    assert facts_in(session, "head") == [f"plan-{n}" for n in range(1000 - KEPT, 1000)]
    # What is left of a look is that there was one.
    assert pages(session) - before < 100
    assert all(session.journal.knows(f"plan-{n}") for n in range(1000))


@pytest.mark.usefixtures("ageless")
def test_facts_a_site_was_deployed_with_stay(session: Session) -> None:
    store_facts(session, a_round())
    session.journal.append("older", "facts", host="head", facts={})
    for number in range(3 * KEPT):
        plan(session, number, head=facts_of("head"))
    assert facts_in(session, "head")[:2] == [session.run, "older"]
    assert len(facts_in(session, "head")) == 2 + KEPT


@pytest.mark.usefixtures("ageless")
def test_a_host_that_is_silent_for_long_keeps_its_last_answer(session: Session) -> None:
    plan(session, 0, **{"gpu-1": facts_of("gpu-1"), "head": facts_of("head")})
    for number in range(1, 3 * KEPT):
        plan(session, number, head=facts_of("head"))
    silent = Round({}, {"gpu-1": Unanswered("gpu-1", "no route", "look")})
    assert "gpu-1" in known_facts(session, silent)
    assert set(earlier_facts(session)) == {"head", "gpu-1"}


def test_looks_of_one_minute_leave_what_counters_are_compared_with(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fact_history, "LEAST_AGE", timedelta(hours=1))
    for number in range(3 * KEPT):
        plan(session, number, head=facts_of("head"))
    assert facts_in(session, "head") == [f"plan-{n}" for n in range(3 * KEPT)]
    monkeypatch.setattr(fact_history, "LEAST_AGE", timedelta())
    plan(session, 3 * KEPT, head=facts_of("head"))
    assert len(facts_in(session, "head")) < 3 * KEPT


@pytest.mark.usefixtures("ageless")
def test_the_gpus_a_host_once_had_are_known_when_its_facts_are_gone(session: Session) -> None:
    old, new = (facts_of("gpu-1", gpus=gpus_of("NVIDIA X", 2, first=n)) for n in (0, 1))
    plan(session, 0, **{"gpu-1": old})
    trained = datetime.now(UTC) + timedelta(milliseconds=2)
    while datetime.now(UTC) < trained + timedelta(milliseconds=2):
        pass
    for number in range(1, 3 * KEPT):
        plan(session, number, **{"gpu-1": new})
    assert "plan-0" not in facts_in(session, "gpu-1")
    first, second = [entry.seq for entry in session.journal.entries("gpus")]
    until = session.journal.first_after(trained)
    assert until is not None
    assert first < until <= second
    assert gpus_up_to(session, "gpu-1", until - 1) == uuids_of(old)
    assert gpus_up_to(session, "gpu-1", second) == uuids_of(new)
    assert gpus_up_to(session, "gpu-1", first - 1) is None


def test_a_journal_with_facts_alone_tells_the_gpus_of_a_host(session: Session) -> None:
    facts = facts_of("gpu-1", gpus=gpus_of("NVIDIA X", 2))
    session.journal.append("r0", "facts", host="gpu-1", facts=facts.model_dump(mode="json"))
    assert gpus_up_to(session, "gpu-1", 1) == uuids_of(facts)
    assert gpus_up_to(session, "gpu-1", 0) is None
    assert gpus_up_to(session, "gpu-2", 1) is None


def test_a_secret_in_any_word_of_a_host_is_not_kept(session: Session) -> None:
    """A mount's option, a switch's description, and why a host is silent."""
    told = f"password={PASSWORD}"
    topology = {"switches": [{"guid": "0x1", "description": told, "ports": 40}]}
    silent = {"gpu-1": Unanswered("gpu-1", f"mount: {told} is wrong", "look")}
    head = facts_of("head", topology=topology, cpu={"model": told})
    store_facts(session, Round({"head": head}, silent))
    kept = [json.dumps(e.data) for e in session.journal.entries("facts", "topology", "unanswered")]
    assert len(kept) == 3
    assert all("password=***" in text for text in kept)
    assert not any(PASSWORD in text for text in kept)
    assert known_facts(session, Round({}, {}))["head"].cpu.model == "password=***"
