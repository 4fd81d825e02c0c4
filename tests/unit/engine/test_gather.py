"""Asking hosts: one round trip each, whatever is asked; a host that does not answer is a value."""

from collections.abc import Sequence

from appliance.adapters.process import Completed
from appliance.engine.gather import gather
from appliance.engine.requests import request_for
from appliance.engine.session import Session
from tests.facts import facts_of
from tests.unit.engine.conftest import hosts, recorder, session
from tests.unit.engine.world import FakeHosts

__all__ = ["hosts", "recorder", "session"]


def test_everything_is_asked_in_one_round_trip(session: Session, hosts: FakeHosts) -> None:
    def answer(host: str, argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, facts_of(host).model_dump_json(), "")

    hosts.answer = answer
    names = [host.name for host in session.site.hosts]
    found = gather(hosts, {name: request_for(session, name) for name in names})
    assert sorted(call[0] for call in hosts.calls) == sorted(names)
    assert list(found.facts) == names


def test_an_answer_that_makes_no_sense_is_a_host_without_one(
    session: Session, hosts: FakeHosts
) -> None:
    hosts.answer = lambda host, argv: Completed(tuple(argv), 0, f"{host}?", "")
    found = gather(hosts, {"gpu-1": {}})
    assert found.facts == {}
    assert "cannot be read" in found.unanswered["gpu-1"].cause
