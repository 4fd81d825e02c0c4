"""Fake ansible, as several test modules use it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from appliance.adapters.ansible import HostPlay, Play, TaskEvent
from appliance.engine.look.gather import Unanswered
from appliance.engine.run import prove, stage_run
from appliance.models.facts import HostFacts
from tests.support.facts import facts_of

Follow = Callable[[TaskEvent], None]


class FakeAnsible:
    """Plays that succeed, except for (playbook, host) pairs that fail with a message.

    ``at_work`` is called when all hosts but the slow ones are through.
    """

    def __init__(self) -> None:
        self.failures: dict[tuple[str, str], str] = {}
        self.unreachable: set[tuple[str, str]] = set()
        self.slow: set[tuple[str, str]] = set()
        self.at_work: Callable[[str], None] = lambda name: None
        self.played: list[tuple[str, tuple[str, ...]]] = []
        self.variables: dict[tuple[str, str], Mapping[str, object]] = {}
        self.connections: dict[str, Path | None] = {}

    def __call__(
        self,
        request: Play,
        on_event: Follow,
        on_through: Callable[[HostPlay], None],
        cancelled: Callable[[], bool],
    ) -> dict[str, HostPlay]:
        name = request.playbook.stem
        self.played.append((name, tuple(request.hosts)))
        self.connections[name] = request.connections
        self.variables |= {(name, host): given for host, given in request.hosts.items()}
        plays = {host: self._host(name, host) for host in request.hosts}
        for host, play in plays.items():
            if play.finished and (name, host) not in self.slow:
                on_through(play)
        self.at_work(name)
        return plays

    def _host(self, name: str, host: str) -> HostPlay:
        play = HostPlay(host, tasks=3, changes=1, finished=True, resources={("file", "/etc/x"): {}})
        if (name, host) in self.unreachable:
            play.unreachable, play.failed_task, play.finished = True, "t", False
        elif said := self.failures.get((name, host)):
            play.failed_task, play.message, play.finished = "write", said, False
        return play


@pytest.fixture
def ansible(monkeypatch: pytest.MonkeyPatch) -> FakeAnsible:
    fake = FakeAnsible()
    monkeypatch.setattr(stage_run, "play", fake)
    monkeypatch.setattr(prove, "ask", answer)
    monkeypatch.setattr(stage_run, "ask", answer)
    return fake


def answer(remote: object, host: str, request: Mapping[str, object]) -> HostFacts | Unanswered:
    return facts_of(host, resources=request.get("resources", ()))
