"""The journal keeps what it was told, and the site is held by one run at a time."""

import json
import multiprocessing
import os
import re
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import Thread

import pytest

from appliance import journal as module
from appliance.errors import ApplianceError, LockedError
from appliance.journal import Journal, New, claim, hold

NAME = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(-\d+)?"
ROUNDS = 20


def test_entries_come_back_in_order_and_by_criteria(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append("r1", "host_done", stage="base", host="a", changes=3)
        journal.append("r1", "host_done", stage="base", host="b")
        journal.append("r2", "host_failed", stage="base", host="a", cause="full")
    with Journal(tmp_path) as journal:
        assert [e.host for e in journal.entries("host_done")] == ["a", "b"]
        last = journal.last("host_done", stage="base", host="a")
        assert last is not None
        assert last.data == {"changes": 3}
        assert journal.last("host_done", stage="slurm") is None


def test_criteria_are_words_and_no_patterns(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append("r1", "host_done", host="gpu_1")
        journal.append("r1", "hostxdone", host="gpu-1")
        journal.append("r2", "host_failed", host="gpu-1")
        assert [e.host for e in journal.entries("host_done")] == ["gpu_1"]
        assert [e.run for e in journal.entries("host_failed", "host_done")] == ["r1", "r2"]
        assert [e.kind for e in journal.entries(host="gpu_1")] == ["host_done"]
        assert [e.kind for e in journal.entries(run="r%")] == []
        assert len(list(journal.entries())) == 3


def test_a_name_that_is_no_text_is_that_of_no_entry(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append("r1", "note")
        assert not journal.knows("\udcff")
        assert list(journal.entries(run="\udcff")) == []


def test_entries_of_a_kind_are_found_by_the_index(tmp_path: Path) -> None:
    asked: list[str] = []
    with Journal(tmp_path) as journal:
        journal._db.set_trace_callback(asked.append)
        list(journal.entries("health"))
        list(journal.entries("host_done", "host_failed", stage="base", host="a"))
        list(journal.entries(run="r1"))
        journal._db.set_trace_callback(None)
        plans = [
            " ".join(row[3] for row in journal._db.execute(f"EXPLAIN QUERY PLAN {sql}"))
            for sql in asked
        ]
    by_kind, by_host, by_run = plans
    assert "entry_by_kind (kind=?)" in by_kind
    assert "entry_by_kind (kind=? AND stage=? AND host=?)" in by_host
    assert "entry_by_run (run=?)" in by_run


def test_entries_that_are_one_thing_are_kept_all_or_none(tmp_path: Path) -> None:
    good = [New("result", {"id": n}, host="a") for n in range(3)]
    with Journal(tmp_path) as journal:
        with pytest.raises(ApplianceError, match="cannot write the journal"):
            journal.append_all("r1", [*good, New("result", {}, host=object())])  # type: ignore[arg-type]
        journal.append_all("r2", good)
    with Journal(tmp_path) as journal:
        assert [(e.run, e.data["id"]) for e in journal.entries("result")] == [
            ("r2", n) for n in range(3)
        ]


def test_all_entries_of_one_thing_are_one_transaction(tmp_path: Path) -> None:
    asked: list[str] = []
    with Journal(tmp_path) as journal:
        journal._db.set_trace_callback(asked.append)
        journal.append_all("r1", [New("result", {"id": n}) for n in range(50)])
    assert sum(sql.startswith("COMMIT") for sql in asked) == 1


@pytest.mark.parametrize("sql", ["UPDATE entry SET kind = 'x'", "DELETE FROM entry"])
def test_nothing_written_can_be_altered(tmp_path: Path, sql: str) -> None:
    with Journal(tmp_path) as journal:
        journal.append("r1", "run_started")
    with (
        sqlite3.connect(tmp_path / "journal.sqlite") as db,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        db.execute(sql)
    db.close()


def _looks(journal: Journal) -> None:
    for number in range(4):
        journal.append_all(f"r{number}", [New("looked", {}), New("facts", {}, host="a")])


def _soon() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=1)


def test_facts_are_forgotten_of_runs_that_looked_and_of_no_others(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append("deployed", "facts", host="a")
        _looks(journal)
        journal.append("r0", "facts", host="b")
        journal.forget_facts(_soon() - timedelta(hours=1), 1)
        assert len(list(journal.entries("facts"))) == 6
        journal.forget_facts(_soon(), 1)
        assert [(e.run, e.host) for e in journal.entries("facts")] == [
            ("deployed", "a"), ("r3", "a"), ("r0", "b"),
        ]  # fmt: skip
        assert len(list(journal.entries("looked"))) == 4
        for kind, run in (("looked", "r0"), ("facts", "deployed")):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                journal._db.execute("DELETE FROM entry WHERE kind = ? AND run = ?", (kind, run))


def test_a_journal_that_let_nothing_go_before_lets_facts_go(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        _looks(journal)
        journal._db.executescript(
            "DROP TRIGGER entry_stays_but_facts; CREATE TRIGGER entry_stays BEFORE DELETE ON entry"
            " BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;"
        )
    with Journal(tmp_path) as journal:
        journal.forget_facts(_soon(), 1)
        assert len(list(journal.entries("facts"))) == 1


def _killed_while_forgetting(folder: Path) -> None:
    def at(sql: str) -> None:
        if sql.startswith("COMMIT"):
            os.kill(os.getpid(), signal.SIGKILL)

    journal = Journal(folder)
    journal._db.set_trace_callback(at)
    journal.forget_facts(_soon(), 1)


def test_a_run_killed_while_it_forgets_loses_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        _looks(journal)
    child = multiprocessing.get_context("spawn").Process(
        target=_killed_while_forgetting, args=(tmp_path,)
    )
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    with Journal(tmp_path) as journal:
        assert len(list(journal.entries("facts"))) == 4
        journal.forget_facts(_soon(), 1)
        assert len(list(journal.entries("facts"))) == 1


def test_journal_is_private(tmp_path: Path) -> None:
    with Journal(tmp_path / "runs") as journal:
        assert journal.path.stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "runs").stat().st_mode & 0o777 == 0o700


def test_damaged_journal_is_one_line_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_bytes(b"not a database, but long enough to look at" * 50)
    with pytest.raises(ApplianceError, match="journal cannot be used") as caught:
        Journal(tmp_path)
    assert "moved aside" in caught.value.hint


def _zeros(whole: bytes) -> bytes:
    """As a machine that lost power may leave what it had not written."""
    return whole[:8192] + bytes(len(whole) - 8192)


def _cut(whole: bytes) -> bytes:
    return whole[:-1000]


def _no_json(whole: bytes) -> bytes:
    return whole.replace(b'{"x": "', b'{"x: " ')


READS: tuple[Callable[[Journal], object], ...] = (
    lambda journal: list(journal.entries("facts")),
    lambda journal: list(journal.last_of_each("facts")),
    lambda journal: [journal.last("facts", host=f"h{i}") for i in range(100)],
)


@pytest.mark.parametrize("damage", [_zeros, _cut, _no_json])
@pytest.mark.parametrize("read", READS)
def test_damage_behind_the_head_of_a_journal_is_one_line_with_a_way_out(
    tmp_path: Path, damage: Callable[[bytes], bytes], read: Callable[[Journal], object]
) -> None:
    with Journal(tmp_path) as journal:
        journal.append_all("r", [New("facts", {"x": "y" * 500}, host=f"h{i}") for i in range(100)])
    file = tmp_path / "journal.sqlite"
    file.write_bytes(damage(file.read_bytes()))
    with Journal(tmp_path) as journal, pytest.raises(ApplianceError, match="cannot be") as caught:
        read(journal)
    assert "move it away" in caught.value.hint


@pytest.mark.parametrize("damage", [_zeros, _cut, _no_json])
def test_who_only_looks_does_so_beside_a_damaged_journal_as_without_one(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    with Journal(tmp_path) as journal:
        journal.append_all("r", [New("facts", {"x": "y" * 500}, host=f"h{i}") for i in range(100)])
    file = tmp_path / "journal.sqlite"
    file.write_bytes(damage(file.read_bytes()))
    with Journal(tmp_path, needed=False) as journal:
        assert len(list(journal.entries("facts"))) < 100
        assert "journal.sqlite: the journal cannot be" in journal.unkept
        journal.append("now", "facts", host="h1")
        assert [entry.run for entry in journal.entries("facts")] == ["now"]


def test_second_run_on_one_site_is_refused_and_names_the_first(tmp_path: Path) -> None:
    with (
        hold(tmp_path, "r1", "deploy"),
        pytest.raises(LockedError, match=rf"r1 \(deploy, process {os.getpid()}"),
        hold(tmp_path, "r2", "deploy"),
    ):
        pass
    with hold(tmp_path, "r3", "deploy") as left:
        assert left is None


def _hold_for_ever(folder: Path) -> None:
    with hold(folder, "killed", "deploy"):
        time.sleep(60)


def test_lock_of_a_killed_run_is_free_and_told(tmp_path: Path) -> None:
    child = multiprocessing.get_context("spawn").Process(target=_hold_for_ever, args=(tmp_path,))
    child.start()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        lock = tmp_path / "lock"
        if lock.exists() and lock.read_text() and json.loads(lock.read_text())["run"] == "killed":
            break
        time.sleep(0.05)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    with hold(tmp_path, "next", "deploy") as left:
        assert left == "killed"


def _claim_at_once(folder: Path, together: Barrier, names: "Queue[tuple[int, str]]") -> None:
    with Journal(folder) as journal:
        for number in range(ROUNDS):
            together.wait(60)
            with claim(journal) as name:
                names.put((number, name))
                together.wait(60)


def test_runs_that_start_at_once_have_names_of_their_own(tmp_path: Path) -> None:
    with Journal(tmp_path):
        pass
    context = multiprocessing.get_context("spawn")
    together, names = context.Barrier(2), context.Queue()
    children = [
        context.Process(target=_claim_at_once, args=(tmp_path, together, names)) for _ in range(2)
    ]
    for child in children:
        child.start()
    found = [names.get(timeout=90) for _ in range(2 * ROUNDS)]
    for child in children:
        child.join()
    assert len(set(found)) == 2 * ROUNDS
    assert all(re.fullmatch(NAME, name) for _, name in found)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_name_in_the_journal_or_with_a_folder_is_not_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "datetime", Standing)
    with Journal(tmp_path) as journal:
        with claim(journal) as written:
            journal.append(written, "facts", host="a")
        with claim(journal) as kept:
            (tmp_path / kept / "report.json").touch()
        with claim(journal) as idle:
            assert (tmp_path / idle).stat().st_mode & 0o777 == 0o700
        with claim(journal) as last:
            pass
    first = "2026-11-22T20-15-00"
    assert [written, kept, idle, last] == [first, f"{first}-2", f"{first}-3", f"{first}-3"]
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [kept]


class Standing(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "Standing":
        return cls(2026, 11, 22, 20, 15, tzinfo=tz)


def test_the_newest_entry_until_a_time_is_found(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append("r", "facts", host="a", number=1)
        written = journal.last("facts", host="a")
        assert written is not None
        assert journal.last("facts", host="a", until=written.time) == written
        assert journal.last("facts", host="a", until=written.time - timedelta(seconds=1)) is None


def test_a_folder_that_cannot_hold_runs_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(ApplianceError, match="runs cannot be kept here") as raised:
        Journal(tmp_path / "runs")
    assert raised.value.hint
    with (
        pytest.raises(ApplianceError, match="runs cannot be kept here"),
        hold(tmp_path / "runs", "r", "x"),
    ):
        pass
    (tmp_path / "site" / "lock").mkdir(parents=True)
    with (
        pytest.raises(ApplianceError, match="lock: runs cannot"),
        hold(tmp_path / "site", "r", "x"),
    ):
        pass


@pytest.mark.parametrize("note", ['{"run": "r0", "ver', "[]", "\x00\x00", "[" * 100_000])
def test_a_note_that_was_cut_off_does_not_keep_the_site_from_its_next_run(
    note: str, tmp_path: Path
) -> None:
    (tmp_path / "lock").write_text(note)
    with hold(tmp_path, "r1", "deploy") as left:
        assert left is None


def test_one_that_is_not_needed_serves_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal(tmp_path / "runs") as journal:
        journal.append("r1", "health", check="a.b")

    def refuse(path: Path) -> sqlite3.Connection:
        raise ApplianceError(f"{path}: the journal cannot be used: read-only")

    monkeypatch.setattr(module, "_on_disk", refuse)
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: (_ for _ in ()).throw(OSError(30, "ro")))
    with pytest.raises(ApplianceError, match="read-only"):
        Journal(tmp_path / "runs")
    with Journal(tmp_path / "runs", needed=False) as journal, claim(journal) as run:
        assert re.fullmatch(NAME, run)
        journal.append(run, "health", check="c.d")
        assert [e.data["check"] for e in journal.entries("health")] == ["a.b", "c.d"]
        assert "read-only" in journal.unkept
    monkeypatch.undo()
    with Journal(tmp_path / "runs") as journal:
        assert [e.data["check"] for e in journal.entries("health")] == ["a.b"]


def test_a_disk_that_fills_up_ends_only_what_has_to_be_kept(tmp_path: Path) -> None:
    for needed in (True, False):
        with Journal(tmp_path / str(needed), needed=needed) as journal:
            pages = journal._db.execute("PRAGMA page_count").fetchone()[0]
            journal._db.execute(f"PRAGMA max_page_count = {pages}")
            if needed:
                with pytest.raises(ApplianceError, match="cannot write the journal"):
                    journal.append("r1", "x", text="x" * 100_000)
            else:
                journal.append("r1", "x", text="x" * 100_000)
                assert "disk is full" in journal.unkept


def test_a_run_that_ends_at_a_damaged_journal_leaves_no_folder(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append_all("r", [New("facts", {"x": "y" * 500}, host=f"h{i}") for i in range(100)])
    file = tmp_path / "journal.sqlite"
    file.write_bytes(_zeros(file.read_bytes()))
    with (
        Journal(tmp_path) as journal,
        pytest.raises(ApplianceError, match="cannot be read"),
        claim(journal),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def _closed_while_threads_write(folder: Path) -> None:
    def write(journal: Journal) -> None:
        with suppress(ApplianceError):
            while True:
                journal.append("r", "k")

    for _ in range(ROUNDS):
        journal = Journal(folder, of_trials=True)
        threads = [Thread(target=write, args=(journal,), daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.002)
        journal.close()
        for thread in threads:
            thread.join()


def test_it_is_closed_while_threads_still_write(tmp_path: Path) -> None:
    """In a process of its own: this would be a fault of memory, not an exception."""
    process = multiprocessing.Process(target=_closed_while_threads_write, args=(tmp_path,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
