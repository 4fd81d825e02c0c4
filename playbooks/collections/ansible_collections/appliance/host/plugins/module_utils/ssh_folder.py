"""The folder ``.ssh`` of an account: what is in it is looked at and changed as that user, who may change it at any moment."""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import contextmanager, suppress
from typing import Any, Callable, Iterator

from ansible_collections.appliance.host.plugins.module_utils.disk import about
from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem
from ansible_collections.appliance.host.plugins.module_utils.places import (
    as_user,
    content,
    created,
    inside,
    is_closed,
    let_owner_in,
    open_folder,
    opened,
    removed,
    set_aside,
    status,
)

NAME, KEYS = ".ssh", "authorized_keys"
ALL_KEYS = (KEYS, "authorized_keys2")
"""What sshd reads where AuthorizedKeysFile is as it comes (sshd_config(5))."""
MOST = 1 << 20
"""Bytes that are read of a file that may be made to have no end."""
CLOSED, PRIVATE = 0o700, 0o600
ABSENT = (FileNotFoundError, NotADirectoryError)
HIDDEN = (*ABSENT, PermissionError, BlockingIOError)
"""The last: the user holds a lease on the file, and no one opens it meanwhile (fcntl(2), F_SETLEASE)."""


class SshFolder:
    """Of one account. Raises Problem."""

    def __init__(self, module: Any, entry: pwd.struct_passwd) -> None:
        self.module = module
        self.entry = entry
        self.path = os.path.join(entry.pw_dir, NAME)
        self.file = os.path.join(self.path, KEYS)

    def keys(self) -> bytes:
        """What the file says, whatever its mode; nothing where there is none that the user can read."""
        return self._looked(lambda at: content(KEYS, at, MOST)) or b""

    def is_strange(self) -> bool:
        """Whether there is something else in its place than a folder of the user's own."""
        with about(self.path, *HIDDEN), suppress(*HIDDEN), self._home() as home:
            found = status(NAME, home)
            return found is not None and not self._is_usable(found)
        return False

    def is_as(self, keys: bytes) -> bool:
        """Whether these are the keys, and the folder and the file are the user's own and closed to others."""
        return bool(
            self._looked(lambda at: self._is_own(os.fstat(at), CLOSED) and self._is_file(keys, at))
        )

    def write(self, keys: bytes) -> list[str]:
        """Makes these the whole of the keys. What stood in the way keeps its content under another name, which is told."""
        if self._lacks_home():
            self._make_home()
        with about(self.path), self._home() as home:
            let_owner_in(home)
            aside = self._make_folder(home)
            with inside(NAME, home) as at:
                if os.fstat(at).st_uid != self.entry.pw_uid:
                    raise Problem(f"{self.path}: is not the user's own folder; look who writes to {self.entry.pw_dir}")  # fmt: skip
                with opened(at) as handle:
                    os.fchmod(handle, CLOSED)
                found = status(KEYS, at)
                if found is not None and stat.S_ISDIR(found.st_mode):
                    aside.append(f"{self.file}: set aside as {set_aside(KEYS, at)}")
                self._put(keys, at)
        return aside

    def revoke(self, look_only: bool) -> bool:
        """Takes away all by which sshd finds keys there; whether there was something. Raises OSError."""
        with suppress(*ABSENT), self._home() as home:
            if not look_only:
                let_owner_in(home)
            found = status(NAME, home)
            if found is None:
                return False
            if stat.S_ISDIR(found.st_mode):
                return self._emptied(home, look_only)
            if not look_only:
                removed(NAME, home)
            return True
        return False

    @contextmanager
    def _home(self) -> Iterator[int]:
        with as_user(self.entry), open_folder(self.entry.pw_dir) as home:
            yield home

    def _looked(self, look: Callable[[int], Any]) -> Any:
        """What ``look`` finds in the folder; None where there is none, or the user cannot read it."""
        try:
            with about(self.file, *HIDDEN), self._home() as home, inside(NAME, home) as at:
                return look(at)
        except HIDDEN:
            return None

    def _is_own(self, found: os.stat_result, mode: int) -> bool:
        return found.st_uid == self.entry.pw_uid and stat.S_IMODE(found.st_mode) == mode

    def _is_file(self, keys: bytes, at: int) -> bool:
        found = status(KEYS, at)
        if found is None or not self._is_own(found, PRIVATE):
            return False
        return content(KEYS, at, len(keys) + 1) == keys

    def _is_usable(self, found: os.stat_result) -> bool:
        rights = stat.S_IRUSR | stat.S_IXUSR
        mine = stat.S_ISDIR(found.st_mode) and found.st_uid == self.entry.pw_uid
        return mine and found.st_mode & rights == rights

    def _make_folder(self, home: int) -> list[str]:
        found = status(NAME, home)
        if found is not None and self._is_usable(found):
            return []
        aside = [] if found is None else [f"{self.path}: set aside as {set_aside(NAME, home)}"]
        os.mkdir(NAME, CLOSED, dir_fd=home)
        return aside

    def _emptied(self, home: int, look_only: bool) -> bool:
        there = False
        try:
            with inside(NAME, home) as at:
                for name in ALL_KEYS:
                    found = status(name, at)
                    there = there or found is not None
                    if found is None or look_only:
                        continue
                    if stat.S_ISDIR(found.st_mode):
                        set_aside(name, at)
                    removed(name, at)
        except PermissionError:
            # Somebody else's, or closed to its owner.
            if not look_only:
                set_aside(NAME, home)
            return True
        return there

    def _put(self, keys: bytes, at: int) -> None:
        new, handle = created(KEYS, at)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(keys)
                file.flush()
                os.fchmod(handle, PRIVATE)
                self._label(handle)
                os.fsync(handle)
            os.replace(new, KEYS, src_dir_fd=at, dst_dir_fd=at)
        finally:
            removed(new, at)

    def _label(self, handle: int) -> None:
        if self.module.selinux_enabled():
            label = ":".join(self.module.selinux_default_context(self.file) or ())
            with suppress(OSError):
                os.setxattr(handle, "security.selinux", label.encode() + b"\0")

    def _lacks_home(self) -> bool:
        try:
            with about(self.entry.pw_dir, FileNotFoundError), self._home():
                return False
        except FileNotFoundError:
            return True

    def _make_home(self) -> None:
        parent, name = os.path.split(self.entry.pw_dir.rstrip("/"))
        with about(self.entry.pw_dir), open_folder(parent, make=True) as at:
            if not is_closed(os.fstat(at)):
                raise Problem(f"{self.entry.pw_dir}: is not there, and in {parent} others could make it; make it by hand")  # fmt: skip
            os.mkdir(name, CLOSED, dir_fd=at)
            with inside(name, at) as home, opened(home) as handle:
                os.fchown(handle, self.entry.pw_uid, self.entry.pw_gid)


def authorized(text: bytes) -> set[bytes]:
    """The keys of an authorized_keys file, without their kinds, options and remarks."""
    lines = (line.split() for line in lines_of(text) if not line.lstrip().startswith(b"#"))
    return {word for words in lines for word in words if word.startswith(b"AAAA")}
