"""What is measured, installed or brought to the cluster is so under the notes that a deployment takes, and by one run of a machine."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from ipaddress import IPv4Address
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from appliance.actions.acceptance import accept
from appliance.actions.benchmarks import validate
from appliance.actions.provisioning import bare_machine, provision
from appliance.actions.sites.opening import Target
from appliance.adapters import ssh
from appliance.adapters.process import Completed
from appliance.engine.look.gather import Round
from appliance.engine.run.lease import LeaseHeld, leased
from appliance.engine.session import Session
from appliance.journal import hold
from appliance.probe import lease as on_host
from appliance.stages.queues import changes
from tests.support.engine_session import hosts, recorder, session
from tests.support.lease_rack import ALL, Rack, mine, rack, theirs
from tests.support.queue_world import World, world

__all__ = ["hosts", "mine", "rack", "recorder", "session", "theirs", "world"]


class Reached(Exception):
    """What the hosts are held for has begun."""


class Hosts:
    """In place of SshRemote: each host keeps its note in a folder."""

    folder: Path

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, host: str, argv: Sequence[str], **_: object) -> Completed:
        """See Remote."""
        told = on_host.answer(json.loads(argv[-1]), str(self.folder / host))
        return Completed(tuple(argv), 0, json.dumps(told), "")


def other(folder: Path, host: str, do: str) -> None:
    """Another control machine takes a host, or gives it back."""
    note = {
        "owner": "x" * 32,
        "who": "ada@hall-2",
        "run": "r-7",
        "verb": "deploy",
        "seconds": 900.0,
    }
    on_host.answer({"do": do, "over": False, "note": note}, str(folder / host))


def test_queues_are_brought_while_nobody_else_changes_the_cluster(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Hosts.folder = world.folder / "hosts"
    os.makedirs(Hosts.folder)  # noqa: PTH103
    monkeypatch.setattr(ssh, "SshRemote", Hosts)
    held: list[str] = []
    bring = changes.apply

    def seen(*given: Any) -> int:
        held.extend(f.parent.name for f in Hosts.folder.glob("*/lease") if f.read_text())
        return bring(*given)

    monkeypatch.setattr(changes, "apply", seen)
    other(Hosts.folder, "head", "take")
    assert world.run(monkeypatch, "apply", "--yes") == 2
    assert "head is being changed by ada@hall-2" in capsys.readouterr().err
    assert not held
    assert not [asked for asked in world.api.seen if asked[0] == "PATCH"]
    other(Hosts.folder, "head", "release")
    assert world.run(monkeypatch, "apply", "--yes") == 0
    assert held == ["head"]
    assert not (Hosts.folder / "head/lease").read_text()


def test_queues_are_not_brought_beside_a_deployment_of_this_machine(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold(world.folder / "runs", "r-1", "deploy"):
        assert world.run(monkeypatch, "apply", "--yes") == 1
    assert "worked on by run r-1 (deploy" in capsys.readouterr().err
    assert not [asked for asked in world.api.seen if asked[0] == "PATCH"]


@contextmanager
def opened(given: Session) -> Iterator[Session]:
    with hold(given.runs, given.run, given.verb):
        yield given


def measuring(monkeypatch: pytest.MonkeyPatch, given: Session, rack: Rack, held: list[str]) -> None:
    """Validate and accept come as far as their first benchmark."""

    def begun(*_: object) -> None:
        held.extend(host for host in ALL if rack.note(host))
        raise Reached

    for verb in (validate, accept):
        monkeypatch.setattr(verb, "take_facts", lambda *_, **__: Round({}, {}))
    monkeypatch.setattr(validate, "run_benchmarks", begun)
    monkeypatch.setattr(accept, "_measure", begun)
    monkeypatch.setattr(validate, "open_session", lambda *_, **words: _asked(given, words))
    monkeypatch.setattr(accept, "open_session", lambda *_, **words: _asked(given, words))


def _asked(given: Session, words: dict[str, object]) -> Any:
    assert words.get("alone")
    return opened(given)


VERBS: dict[str, Callable[[], object]] = {
    "validate": lambda: validate.validate(Target(), ("fio",), cast(Any, None)),
    "accept": lambda: accept.accept(Target(), cast(Any, None)),
}


@pytest.mark.parametrize("verb", VERBS)
def test_hosts_are_measured_while_nobody_else_changes_them(
    verb: str, mine: Session, theirs: Session, rack: Rack, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[str] = []
    measuring(monkeypatch, mine, rack, held)
    with leased(theirs, ("gpu-2",)), pytest.raises(LeaseHeld, match="gpu-2 is being changed"):
        VERBS[verb]()
    assert not held
    assert mine.journal.last("run_finished")
    with pytest.raises(Reached):
        VERBS[verb]()
    assert held == list(ALL)
    assert not any(map(rack.note, ALL))


def test_a_server_is_asked_without_holding_hosts(
    mine: Session, rack: Rack, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[str] = []
    measuring(monkeypatch, mine, rack, held)
    monkeypatch.setattr(validate, "open_session", lambda *_, **__: nullcontext(mine))
    with pytest.raises(Reached):
        validate.validate(Target(), ("serving",), cast(Any, None))
    assert not held


def test_machines_are_installed_while_nobody_else_changes_the_control_hosts(
    mine: Session, theirs: Session, rack: Rack, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[str] = []
    here = SimpleNamespace(address=IPv4Address("10.1.0.1"), port=0)

    def install(*_: object) -> None:
        held.extend(host for host in ALL if rack.note(host))
        raise Reached

    monkeypatch.setattr(provision, "_options", lambda _: here)
    monkeypatch.setattr(provision, "BootServer", lambda *_: nullcontext())
    monkeypatch.setattr(bare_machine, "install", install)
    image, limits = SimpleNamespace(path=str), SimpleNamespace(deadlines=0, waiting=0, patience=0)
    known = {"gpu-1": SimpleNamespace(address="10.1.9.11")}
    given = cast(Any, (mine, image, "key", known, frozenset(), limits))
    with leased(theirs, ("head",)), pytest.raises(LeaseHeld, match="head is being changed"):
        provision._side_by_side(*given)
    assert not held
    with pytest.raises(Reached):
        provision._side_by_side(*given)
    assert held == ["head"]
    assert not any(map(rack.note, ALL))
