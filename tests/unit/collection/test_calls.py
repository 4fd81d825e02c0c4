"""Calls of one role on one host: an abandoned one ends, and the next one waits for it."""

import fcntl
import json
import os
import socket
import subprocess  # noqa: TID251 - a call whose reader dies must be held by its handle
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.collection_host import PLUGINS, Host, Run
from tests.unit.collection.test_apply import runs

COLLECTIONS = Path(__file__).parents[3] / "playbooks/collections"
Plugin = Callable[[str], ModuleType]


@pytest.fixture
def held(locks: Path) -> Iterator[int]:
    """An earlier call of role base, process 7."""
    locks.mkdir(mode=0o700)
    lock = os.open(locks / "base.lock", os.O_RDWR | os.O_CREAT)
    os.write(lock, b"7")
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield lock
    os.close(lock)


@pytest.fixture
def reader(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """What reads the answer, until it is closed."""
    theirs, ours = socket.socketpair()
    with theirs, ours:
        monkeypatch.setattr(plugin("module_utils.calls"), "OUTPUT", ours.fileno())
        yield theirs


def call(run: Run, *entries: dict[str, Any], role: str = "base", **flags: Any) -> dict[str, Any]:
    return run("apply", resources=json.dumps(entries), role=role, **flags)


def abandoned(plugin: Plugin, *entries: dict[str, Any]) -> None:
    """A call that ends without an answer."""
    from ansible.module_utils.testing import patch_module_args

    given = {"resources": json.dumps(entries), "role": "base"}
    with patch_module_args(given), pytest.raises(SystemExit) as ended:
        plugin("modules.apply").main()
    assert ended.value.code == 1


@pytest.mark.usefixtures("held")
def test_a_call_that_an_earlier_one_blocks_changes_nothing_and_names_it(
    run: Run, host: Host, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin("module_utils.calls"), "LONGEST_S", 0.3)
    answer = call(run, runs("a", "one"))
    assert answer["failed"]
    assert "an earlier call of role base (process 7)" in answer["msg"]
    assert host.calls == []


def test_a_call_goes_on_once_the_earlier_one_has_ended(
    run: Run, host: Host, held: int, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.answer("one", (0, "", ""))
    pauses: list[list[str]] = []

    def pause(_: float) -> None:
        pauses.append(list(host.calls))
        fcntl.flock(held, fcntl.LOCK_UN)

    monkeypatch.setattr(plugin("module_utils.calls").time, "sleep", pause)
    assert not call(run, runs("a", "one")).get("failed")
    assert (pauses, host.calls) == ([[]], ["one"])


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("flags", [{"role": "gpu"}, {"check": True}])
def test_another_role_and_a_dry_run_wait_for_nothing(
    run: Run, host: Host, flags: dict[str, Any]
) -> None:
    host.answer("one", (0, "", ""))
    assert not call(run, runs("a", "one", looks=True), **flags).get("failed")
    assert host.calls == ["one"]


def test_a_call_without_a_reader_ends_after_its_current_entry(
    host: Host, plugin: Plugin, reader: socket.socket
) -> None:
    host.answer("one", (0, "", ""))
    host.answer("two", (0, "", ""))
    _at(host, "two", reader.close)
    abandoned(plugin, runs("a", "one"), runs("b", "two"), runs("c", "three"))
    assert host.calls == ["one", "two"]


def test_what_waits_for_a_change_that_was_made_is_not_left_out(
    host: Host, plugin: Plugin, reader: socket.socket
) -> None:
    for name in ("one", "two", "three"):
        host.answer(name, (0, "", ""))
    _at(host, "one", reader.close)
    wanted = runs("c", "three", after_change=["a"])
    abandoned(
        plugin, runs("a", "one", changes="always"), runs("b", "two"), wanted, runs("d", "four")
    )
    assert host.calls == ["one", "two", "three"]


@pytest.mark.usefixtures("held")
def test_a_call_that_lost_its_reader_while_it_waited_changes_nothing(
    host: Host, plugin: Plugin, reader: socket.socket
) -> None:
    reader.close()
    abandoned(plugin, runs("a", "one"))
    assert host.calls == []


def _at(host: Host, start: str, what: Callable[[], object]) -> None:
    """Has something happen while a command runs."""
    once = type(host).__call__

    class Happening(Host):
        def __call__(self, _module: object, argv: Any, **_: Any) -> tuple[int, str, str]:
            answer = once(self, _module, argv)
            if self.calls[-1] == start:
                what()
            return answer

    host.__class__ = Happening


WHOLE = f"""
import sys
from importlib import import_module
from ansible.module_utils.testing import patch_module_args
calls = import_module("{PLUGINS}.module_utils.calls")
calls.LOCKS = sys.argv[1]
with patch_module_args({{"resources": sys.argv[2], "role": "base"}}):
    import_module("{PLUGINS}.modules.apply").main()
"""
"""A module in a process of its own, as sshd starts it."""


def _started(locks: Path, entries: list[dict[str, Any]], output: int) -> "subprocess.Popen[bytes]":
    argv = (sys.executable, "-c", WHOLE, str(locks), json.dumps(entries))
    env = {**os.environ, "PYTHONPATH": str(COLLECTIONS)}
    return subprocess.Popen(argv, stdout=output, stderr=subprocess.DEVNULL, env=env)


def test_of_two_calls_the_second_begins_when_the_first_which_lost_its_reader_has_ended(
    tmp_path: Path,
) -> None:
    """With real processes, pipes and locks: as a killed deployment and the next one meet on a host."""
    said = tmp_path / "said"

    def entries(name: str) -> list[dict[str, Any]]:
        begins = f"echo {name} begins >> {said}; sleep 1; echo {name} ends >> {said}"
        more = f"echo {name} goes on >> {said}"
        return [runs("a", "sh", "-c", begins), runs("b", "sh", "-c", more)]

    reads, writes = os.pipe()
    with _started(tmp_path / "locks", entries("first"), writes) as first:
        os.close(writes)
        end = time.monotonic() + 30
        while not said.exists():
            assert first.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        with _started(tmp_path / "locks", entries("second"), subprocess.PIPE) as second:
            os.close(reads)
            answer = json.loads(second.communicate(timeout=60)[0])
        assert first.wait(60) == 1
    assert not answer.get("failed")
    lines = ["first begins", "first ends", "second begins", "second ends", "second goes on"]
    assert said.read_text().splitlines() == lines
    assert list((tmp_path / "locks").iterdir()) == []


def test_calls_that_wait_work_one_after_the_other_though_each_removes_the_lock_file(
    tmp_path: Path,
) -> None:
    said = tmp_path / "said"
    works = f"echo begins >> {said}; sleep 0.05; echo ends >> {said}"
    entries = [runs("a", "sh", "-c", works)]
    started = [_started(tmp_path / "locks", entries, subprocess.PIPE) for _ in range(6)]
    for one in started:
        with one:
            assert not json.loads(one.communicate(timeout=60)[0]).get("failed")
    assert said.read_text().splitlines() == ["begins", "ends"] * len(started)
    assert list((tmp_path / "locks").iterdir()) == []
