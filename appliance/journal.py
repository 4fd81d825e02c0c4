"""The run journal: append-only, per site, in SQLite; what a run did survives whatever happens to the run.

Facts alone may be forgotten, and of runs that only looked: they say so by an entry ``looked``.
"""

import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Self, TextIO
from urllib.parse import quote

from appliance.errors import ApplianceError, LockedError
from appliance.ownership import NO_LINK, open_own, require_file

SCHEMA = """
CREATE TABLE IF NOT EXISTS entry (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  time TEXT NOT NULL, run TEXT NOT NULL, kind TEXT NOT NULL,
  stage TEXT NOT NULL DEFAULT '', host TEXT NOT NULL DEFAULT '', data TEXT NOT NULL DEFAULT '{}');
CREATE INDEX IF NOT EXISTS entry_by_kind ON entry (kind, stage, host, seq);
CREATE INDEX IF NOT EXISTS entry_by_run ON entry (run);
CREATE TRIGGER IF NOT EXISTS entry_is_final BEFORE UPDATE ON entry
  BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
DROP TRIGGER IF EXISTS entry_stays;
CREATE TRIGGER IF NOT EXISTS entry_stays_but_facts BEFORE DELETE ON entry
  WHEN OLD.kind <> 'facts' OR NOT EXISTS (SELECT 1 FROM entry WHERE run = OLD.run AND kind = 'looked')
  BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
"""
FINAL = """
CREATE TRIGGER entry_is_final BEFORE UPDATE ON entry
  BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
"""


FORGET = """
DELETE FROM entry WHERE seq IN (
  SELECT seq FROM (
    SELECT seq, run, row_number() OVER (PARTITION BY host ORDER BY seq DESC) AS place
    FROM entry WHERE kind = 'facts' AND time <= ?)
  WHERE place > ? AND run IN (SELECT run FROM entry WHERE kind = 'looked'))
"""

DAMAGED = (
    "restore a copy of it; or move it away together with its -wal and -shm files: "
    "history and evidence then start empty, and hosts keep their receipts"
)


@dataclass(frozen=True)
class Entry:
    """One line of the journal; ``data`` depends on ``kind``."""

    seq: int
    time: datetime
    run: str
    kind: str
    stage: str
    host: str
    data: dict[str, object]


@dataclass(frozen=True)
class New:
    """An entry that is to be added."""

    kind: str
    data: Mapping[str, object]
    stage: str = ""
    host: str = ""


class Journal:
    """Appends and reads entries. Every append is on the disk when it returns. Thread-safe.

    One that is not ``needed`` serves without a place to write to, and with a damaged file as with none: ``unkept`` says
    then why its entries are lost, and ``is_forsaken`` whether what was written before is not known either.
    One ``of_trials`` exists only in memory: its folder is never read.
    """

    def __init__(self, folder: Path, *, needed: bool = True, of_trials: bool = False) -> None:
        self.path = folder / "journal.sqlite"
        self.needed = needed
        self.unkept = ""
        self.is_forsaken = False
        self._lock = threading.Lock()
        if not of_trials:
            _require_own(self.path)
        try:
            self._db = _empty() if of_trials else _on_disk(self.path)
        except ApplianceError as error:
            if needed:
                raise
            self.unkept = error.message
            self._db = _in_memory(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; what is being written is written first, and what comes later raises ApplianceError.

        Threads may still be at work where a run ends at once. Closed while one of them writes, sqlite3 of Python 3.11
        reads memory that is gone, and the process ends by SIGSEGV.
        """
        with self._lock:
            self._db.close()

    def append(
        self, run: str, kind: str, *, stage: str = "", host: str = "", **data: object
    ) -> None:
        """Adds one entry, durably."""
        self.append_all(run, [New(kind, data, stage, host)])

    def append_all(self, run: str, entries: Iterable["New"]) -> None:
        """Adds entries durably and atomically, such as all entries of a report."""
        time = _written(datetime.now(UTC))
        rows = [
            (time, run, e.kind, e.stage, e.host, json.dumps(e.data, default=str, sort_keys=True))
            for e in entries
        ]
        with self._writing():
            self._db.executemany(
                "INSERT INTO entry (time, run, kind, stage, host, data) VALUES (?,?,?,?,?,?)",
                rows,
            )

    def restore(self, entries: Iterable[Entry]) -> None:
        """Adds entries of another journal with their numbers and times. Raises ApplianceError if a number is taken."""
        rows = [
            (e.seq, _written(e.time), e.run, e.kind, e.stage, e.host, json.dumps(e.data))
            for e in entries
        ]
        with self._writing():
            self._db.executemany("INSERT INTO entry VALUES (?,?,?,?,?,?,?)", rows)

    def forget_facts(self, until: datetime, keep: int) -> None:
        """Removes facts written until then by runs that only looked, but the newest ``keep`` of each host."""
        with self._writing():
            self._db.execute(FORGET, (_written(until), keep))

    def retell(self, version: int, kinds: Sequence[str], said: Callable[[str, Any], object]) -> int:
        """Once for each ``version`` of what is kept: entries of these kinds are what ``said`` makes of kind and data; how many became others.

        For what should never have been written, and for nothing else. What another run keeps busy is left to the next one.
        """
        try:
            with self._lock:
                if self._db.execute("PRAGMA user_version").fetchone()[0] >= version:
                    return 0
                self._db.execute("PRAGMA secure_delete = ON")
                with _transaction(self._db):
                    changed = self._retold(kinds, said)
                    self._db.execute(f"PRAGMA user_version = {int(version)}")
                # The log before it holds the old text, too.
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                return changed
        except sqlite3.Error:
            return 0

    def _retold(self, kinds: Sequence[str], said: Callable[[str, Any], object]) -> int:
        self._db.execute("DROP TRIGGER entry_is_final")
        of_kinds = ",".join("?" * len(kinds))
        query = f"SELECT seq, kind, data FROM entry WHERE kind IN ({of_kinds})"
        changed = []
        for seq, kind, data in self._db.execute(query, kinds):
            # One that another version wrote in another form is told nobody: its readers refuse it.
            with suppress(LookupError, TypeError, ValueError, AttributeError, RecursionError):
                was = json.loads(data)
                now = said(kind, was)
                if now is not was and now != was:
                    changed.append((json.dumps(now, default=str, sort_keys=True), seq))
        self._db.executemany("UPDATE entry SET data = ? WHERE seq = ?", changed)
        self._db.execute(FINAL)
        return len(changed)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with self._lock, _transaction(self._db):
                yield
        except sqlite3.Error as error:
            damaged = type(error) is sqlite3.DatabaseError
            self.lose(
                ApplianceError(
                    f"{self.path}: cannot write the journal: {error}",
                    DAMAGED if damaged else "free disk space on the control machine",
                )
            )

    def lose(self, error: ApplianceError) -> None:
        """Raises ``error``, or where the journal is not needed remembers it."""
        if self.needed:
            raise error
        self.unkept = self.unkept or error.message

    def entries(
        self, *kinds: str, run: str = "", stage: str = "", host: str = ""
    ) -> Iterator[Entry]:
        """Entries of these kinds, oldest first; empty criteria match everything."""
        of_kinds = [f"kind IN ({','.join('?' * len(kinds))})"] if kinds else []
        clauses, values = _criteria(stage=stage, host=host, run=run)
        where = " AND ".join([*of_kinds, *clauses]) or "TRUE"
        yield from self._entries(f"WHERE {where} ORDER BY seq", (*kinds, *values))

    def knows(self, run: str) -> bool:
        """Whether a run of this name has written anything."""
        return bool(self._read("SELECT 1 FROM entry WHERE run = ? LIMIT 1", (run,)))

    def last(
        self,
        kind: str,
        *,
        stage: str = "",
        host: str = "",
        run: str = "",
        until: datetime | None = None,
        seq: int | None = None,
    ) -> Entry | None:
        """The newest entry of a kind, no later than ``until`` by its clock or ``seq`` by its number.

        Empty criteria match everything.
        """
        clauses, found = _criteria(kind=kind, stage=stage, host=host, run=run)
        values: list[str | int] = [*found]
        if until:
            clauses.append("time <= ?")
            values.append(_written(until))
        if seq is not None:
            clauses.append("seq <= ?")
            values.append(seq)
        criteria = f"WHERE {' AND '.join(clauses)} ORDER BY seq DESC LIMIT 1"
        return next(self._entries(criteria, values), None)

    def first_after(self, time: datetime) -> int | None:
        """The number of the first entry that is dated later than ``time``; None where none is.

        Whatever has a greater number was written after that time, however far a clock was set back meanwhile.
        """
        found = self._read("SELECT min(seq) FROM entry WHERE time > ?", (_written(time),))
        return next((row[0] for row in found), None)

    def last_of_each(self, *kinds: str) -> Iterator[Entry]:
        """Of each stage on each host the newest entry of any of these kinds."""
        of_kinds = ",".join("?" * len(kinds))
        newest = f"SELECT max(seq) FROM entry WHERE kind IN ({of_kinds}) GROUP BY stage, host"
        yield from self._entries(f"WHERE seq IN ({newest})", kinds)

    def _entries(self, criteria: str, values: Sequence[object]) -> Iterator[Entry]:
        columns = "seq, time, run, kind, stage, host, data"
        for row in self._read(f"SELECT {columns} FROM entry {criteria}", values):
            try:
                entry = _entry(row)
            except (ValueError, TypeError, RecursionError) as error:
                self._forsake(error)
                return
            yield entry

    def _read(self, query: str, values: Sequence[object]) -> list[Any]:
        """Rows; none from a damaged file if the journal is optional. Raises ApplianceError if it is required."""
        try:
            with self._lock:
                return self._db.execute(query, values).fetchall()
        except UnicodeEncodeError:
            # Half a character, as of a name that is no UTF-8: nothing is kept under such a one.
            return []
        except sqlite3.Error as error:
            self._forsake(error)
            return []

    def _forsake(self, error: Exception) -> None:
        """Nothing more is read or kept of a damaged file: what is missing could be what matters."""
        self.lose(ApplianceError(f"{self.path}: the journal cannot be read: {error}", DAMAGED))
        self.is_forsaken = True
        with self._lock:
            self._db.close()
            self._db = _empty()


def _written(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


def _criteria(**wanted: str) -> tuple[list[str], list[str]]:
    """Columns that must have a value, and the values; what is empty is not asked for."""
    given = {column: value for column, value in wanted.items() if value}
    return [f"{column} = ?" for column in given], list(given.values())


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # What failed may have ended it already.
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


def _require_own(path: Path) -> None:
    """Raises Untrusted for a link, or a file that others may write, where SQLite would read or write."""
    for end in ("", "-wal", "-shm", "-journal"):
        require_file(path.with_name(path.name + end))


def _on_disk(path: Path) -> sqlite3.Connection:
    _make(path.parent)
    try:
        open_own(path).close()
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.executescript(SCHEMA)
        # Sound in itself, the file may yet be another user's, or its disk full or read-only.
        db.execute("BEGIN IMMEDIATE")
        db.execute("ROLLBACK")
    except (sqlite3.Error, OSError) as error:
        raise ApplianceError(
            f"{path}: the journal cannot be used: {error}",
            "free disk space or correct the folder's permissions; a damaged file can be moved aside",
        ) from error
    return db


def _in_memory(path: Path) -> sqlite3.Connection:
    """A journal that ends with this process, with what can be read of the one on the disk."""
    db = _empty()
    # Of a read-only disk SQLite reads a file with a write-ahead log only as one that nobody changes.
    with suppress(sqlite3.Error), closing(_read_only(path)) as known:
        known.backup(db)
    db.executescript(SCHEMA)
    return db


def _empty() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    db.executescript(SCHEMA)
    return db


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.fspath(path))}?mode=ro&immutable=1", uri=True)


def _entry(row: tuple[int, str, str, str, str, str, str]) -> Entry:
    seq, time, run, kind, stage, host, data = row
    return Entry(seq, datetime.fromisoformat(time), run, kind, stage, host, json.loads(data))


@contextmanager
def claim(journal: Journal) -> Iterator[str]:
    """A unique name for a run, which sorts by time; its folder is removed if it stays empty."""
    folder = journal.path.parent
    try:
        name = _claimed(folder, journal)
    except ApplianceError as error:
        journal.lose(error)
        name = _stamp()
    try:
        yield name
    finally:
        # One with something in it stays.
        with suppress(OSError):
            (folder / name).rmdir()


def _claimed(folder: Path, journal: Journal) -> str:
    stamp = name = _stamp()
    further = count(2)
    while not _is_free(folder / name, journal):
        name = f"{stamp}-{next(further)}"
    return name


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")


def _is_free(folder: Path, journal: Journal) -> bool:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    except OSError as error:
        raise _unusable(folder, error) from error
    free = False
    try:
        # A run of this very second may be through: it kept nothing but what it wrote into the journal.
        free = not journal.knows(folder.name)
    finally:
        if not free:
            folder.rmdir()
    return free


@contextmanager
def hold(folder: Path, run: str, verb: str) -> Iterator[str | None]:
    """Holds the site for one run; yields the id of a run that ended without saying so, if there was one.

    The kernel drops the lock with the process, so a lock can be left only as a note in the file, never as a lock.
    """
    _make(folder)
    with _lock_file(folder) as file:
        note = _note(file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LockedError(
                f"this site is being worked on by run {note.get('run', '?')} ({note.get('verb', '?')}, "
                f"process {note.get('pid', '?')} since {note.get('since', '?')})",
                "wait for it, or stop that process; the lock goes with it",
            ) from error
        mine = {
            "run": run,
            "verb": verb,
            "pid": str(os.getpid()),
            "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        _write(file, json.dumps(mine))
        try:
            yield note.get("run")
        finally:
            _write(file, "")


def holder(folder: Path) -> dict[str, str]:
    """The note of the run that holds the site now: run, verb, pid and since; empty if no process holds it.

    It takes no lock, not even for a moment: a run that starts then would be refused. Raises Untrusted.
    """
    path = folder / "lock"
    require_file(path)
    try:
        number = os.open(path, os.O_RDONLY | NO_LINK)
    except OSError:
        return {}
    with os.fdopen(number, encoding="utf-8", errors="replace") as file:
        note = {key: str(value) for key, value in _note(file).items()}
    return note if _is_locking(note.get("pid", "")) else {}


def _is_locking(pid: str) -> bool:
    """Whether the process holds an exclusive lock, as the kernel lists it: a note of a killed run remains."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    return any(line.split()[1:5] == ["FLOCK", "ADVISORY", "WRITE", pid] for line in lines)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from error


def _lock_file(folder: Path) -> TextIO:
    try:
        return open_own(folder / "lock")
    except OSError as error:
        raise _unusable(folder / "lock", error) from error


def _unusable(path: Path, error: OSError) -> ApplianceError:
    return ApplianceError(
        f"{path}: runs cannot be kept here: {error.strerror}",
        "correct the owner and mode of the folder, or work as the user it belongs to",
    )


def _note(file: TextIO) -> dict[str, str]:
    """The holder's note; an incomplete one, such as after a full disk, counts as none."""
    file.seek(0)
    try:
        note = json.loads(file.read() or "{}")
    except (ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def _write(file: TextIO, text: str) -> None:
    file.seek(0)
    file.truncate(0)
    file.write(text)
    file.flush()
