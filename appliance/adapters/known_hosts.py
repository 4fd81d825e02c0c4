"""Pinned host keys: known_hosts is read once for all hosts, and a connection gets only its own host's keys."""

import threading
from pathlib import Path

from paramiko import PKey, SSHException  # noqa: TID251 - this module is part of the door
from paramiko.hostkeys import HostKeyEntry, HostKeys, InvalidHostKey  # noqa: TID251 - the same door


class UnreadableKey(ValueError):
    """A line of known_hosts that contains no valid host key; its text names the line."""


class KnownHosts:
    """The keys that a known_hosts file pins. Thread-safe; a file replaced meanwhile is read again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] = ()
        self._unreadable: UnreadableKey | None = None
        self._keys: list[PKey] = []
        self._plain: dict[str, list[int]] = {}
        self._hashed: list[tuple[str, int]] = []

    def keys(self, name: str) -> tuple[PKey, ...]:
        """The keys of one host, by its name in known_hosts; the first of each type. Raises OSError or UnreadableKey."""
        with self._lock:
            self._read()
            if self._unreadable:
                raise UnreadableKey(*self._unreadable.args)
            hashed = [number for hidden, number in self._hashed if _hides(hidden, name)]
            numbers = sorted({*self._plain.get(name, ()), *hashed})
            keys = [self._keys[number] for number in numbers]
        found: dict[str, PKey] = {}
        for key in keys:
            found.setdefault(key.get_name(), key)
        return tuple(found.values())

    def _read(self) -> None:
        state = self._file.stat()
        seen = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
        if seen == self._seen:
            return
        text = self._file.read_text(encoding="utf-8", errors="replace")
        entries: list[HostKeyEntry] = []
        self._unreadable = None
        try:
            entries = _entries(text)
        except UnreadableKey as error:
            self._unreadable = error
        self._keys, self._plain, self._hashed = [e.key for e in entries], {}, []
        for number, entry in enumerate(entries):
            # sshd(8): a line that negates a name does not apply to it.
            out = {name[1:] for name in entry.hostnames if name.startswith("!")}
            for name in entry.hostnames:
                if name in out:
                    continue
                if name.startswith("|1|"):
                    self._hashed.append((name, number))
                else:
                    self._plain.setdefault(name, []).append(number)
        self._seen = seen


def _entries(text: str) -> list[HostKeyEntry]:
    found: list[HostKeyEntry] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        try:
            entry = HostKeyEntry.from_line(words, number)
        except (InvalidHostKey, ValueError, OverflowError):
            raise UnreadableKey(f"line {number} is not a valid host key") from None
        except SSHException:
            continue
        if entry is not None:
            found.append(entry)
    return found


def _hides(hidden: str, name: str) -> bool:
    try:
        return HostKeys.hash_host(name, hidden) == hidden
    except (AssertionError, ValueError, IndexError):
        return False
