"""Puts files, directories and links into the wanted state: compared first, replaced whole."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator

from ansible_collections.appliance.host.plugins.module_utils.outcome import (
    Problem,
    os_reason,
    telling_line,
)
from ansible_collections.appliance.host.plugins.module_utils.places import (
    content,
    created,
    open_folder,
    removed,
    status,
)

MOST_STATED = 4096
"""Bytes of a .sha256 that are read: a digest and a name."""


@dataclass(frozen=True)
class Wanted:
    """A file as it should be; ``validate`` is a command, with %s for the file's path."""

    path: str
    data: bytes
    mode: int = 0o644
    owner: str = "root"
    group: str = "root"
    validate: str = ""
    secret: bool = False


@contextmanager
def about(path: str, *but: type[OSError]) -> Iterator[None]:
    """Turn a failed system call into one line about ``path``, ``but`` these."""
    try:
        yield
    except but:
        raise
    except OSError as error:
        raise Problem(f"{path}: {os_reason(error)}") from error


def mode_of(text: str, path: str) -> int:
    """An octal mode as YAML carries it ("0644")."""
    try:
        return int(text, 8)
    except ValueError:
        raise Problem(f'{path}: mode {text!r} is not octal, write it as "0644"') from None


def uid_of(owner: str, path: str, check: bool = False) -> int | None:
    """The user's id; None in check mode for a user who is yet to be made."""
    try:
        return int(owner) if owner.isdigit() else pwd.getpwnam(owner).pw_uid
    except KeyError:
        if check:
            return None
        raise Problem(f"{path}: owner {owner} is not a user of this host") from None


def gid_of(group: str, path: str, check: bool = False) -> int | None:
    """The group's id; None in check mode for a group that is yet to be made."""
    try:
        return int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
    except KeyError:
        if check:
            return None
        raise Problem(f"{path}: group {group} is not a group of this host") from None


def read(path: str) -> bytes | None:
    """Content of a regular file; None when there is none."""
    parent, name = os.path.split(path)
    with about(path):
        try:
            with open_folder(parent) as at:
                return content(name, at)
        except (FileNotFoundError, NotADirectoryError):
            return None


def sha256(path: str) -> str:
    """Digest of a file of any size. Raises OSError."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            found.update(piece)
    return found.hexdigest()


def stated_sha256(path: str) -> str:
    """The digest in the file beside it, as sha256sum and other programs write one; empty for what begins with none. Raises OSError."""
    with open(path + ".sha256", "rb") as file:
        words = file.read(MOST_STATED).decode("ascii", "replace").split()
    return words[0].lower() if words else ""


def attributes_differ(
    path: str, mode: int, owner: str, group: str, check: bool = False
) -> list[str]:
    """Which of mode, owner and group are not as wanted, as "mode 0600 -> 0644"."""
    return differences(os.lstat(path), path, mode, owner, group, check)


def differences(
    now: os.stat_result, path: str, mode: int, owner: str, group: str, check: bool = False
) -> list[str]:
    """The same of what was looked at already."""
    found = []
    if stat.S_IMODE(now.st_mode) != mode:
        found.append(f"mode {stat.S_IMODE(now.st_mode):04o} -> {mode:04o}")
    if now.st_uid != uid_of(owner, path, check):
        found.append(f"owner {now.st_uid} -> {owner}")
    if now.st_gid != gid_of(group, path, check):
        found.append(f"group {now.st_gid} -> {group}")
    return found


def set_attributes(handle: int, mode: int, owner: str, group: str, path: str) -> None:
    """Give an open file its owner, then its mode (chown clears set-id bits)."""
    uid, gid = uid_of(owner, path), gid_of(group, path)
    with about(path):
        os.fchown(handle, -1 if uid is None else uid, -1 if gid is None else gid)
        os.fchmod(handle, mode)


class Staged:
    """A file written beside its final place and not yet seen by anyone."""

    def __init__(self, module: Any, wanted: Wanted, folder: str | None = None) -> None:
        self.module = module
        self.wanted = wanted
        self.backup: str | None = None
        self.is_committed = False
        path = wanted.path
        beside, self._name = os.path.split(path)
        with about(path), open_folder(folder or beside) as at:
            self._at = os.dup(at)
            self._new, handle = created(self._name, self._at)
        self.temporary = os.path.join(folder or beside, self._new)
        try:
            with about(path), os.fdopen(handle, "wb") as file:
                file.write(wanted.data)
                file.flush()
                if folder is None:
                    set_attributes(handle, wanted.mode, wanted.owner, wanted.group, path)
                os.fsync(handle)
        except BaseException:
            self.discard()
            raise

    def validate(self) -> None:
        """Run a validation that takes the staged file's path."""
        if "%s" in self.wanted.validate:
            self._judge(self.wanted.validate.replace("%s", self.temporary))

    @property
    def is_judged_in_place(self) -> bool:
        """Whether its validation reads the file where it is used."""
        return bool(self.wanted.validate) and "%s" not in self.wanted.validate

    def commit(self, revocable: bool = False) -> None:
        """Take the final place at once; a validation without %s that fails puts the old file back.

        ``revocable``: the old file stays beside it until settle() or undo().
        """
        if revocable or self.is_judged_in_place:
            self.backup = self._keep_old()
        with about(self.wanted.path):
            self._take_place(self._new)
        self.is_committed = True
        self._label()
        if self.is_judged_in_place:
            try:
                self._judge(self.wanted.validate)
            except Problem:
                self.undo()
                raise
        if not revocable:
            self.settle()

    def undo(self) -> None:
        """Put the old file back; none where there was none."""
        if not self.is_committed:
            return
        self.is_committed = False
        with about(self.wanted.path):
            if self.backup is None:
                os.unlink(self._name, dir_fd=self._at)
            else:
                self._take_place(self.backup)
                self.backup = None

    def settle(self) -> None:
        """Forget the old file."""
        if self.backup is not None:
            with about(self.wanted.path):
                os.unlink(self.backup, dir_fd=self._at)
            self.backup = None
        self.discard()

    def discard(self) -> None:
        """Forget the staged file."""
        if self._at >= 0:
            removed(self._new, self._at)
            os.close(self._at)
            self._at = -1

    def _take_place(self, name: str) -> None:
        os.replace(name, self._name, src_dir_fd=self._at, dst_dir_fd=self._at)

    def _keep_old(self) -> str | None:
        if status(self._name, self._at) is None:
            return None
        backup = self._new[: -len(".tmp")] + ".old"
        with about(self.wanted.path):
            os.link(
                self._name,
                backup,
                src_dir_fd=self._at,
                dst_dir_fd=self._at,
                follow_symlinks=False,
            )
        return backup

    def _judge(self, command: str) -> None:
        code, out, err = self.module.run_command(command, handle_exceptions=False)
        if code:
            reason = telling_line(err) or telling_line(out) or f"exit status {code}"
            reason = reason.replace(self.temporary, self.wanted.path)
            if self.wanted.secret:
                reason = f"exit status {code}"
            raise Problem(f"{self.wanted.path}: refused by `{self.wanted.validate}`: {reason}")

    def _label(self) -> None:
        if self.module.selinux_enabled():
            path = self.wanted.path
            context = self.module.selinux_default_context(path)
            self.module.set_context_if_different(path, context, False)


def make_parents(path: str) -> None:
    """Create the directories above ``path``, 0755 and the caller's."""
    with about(path), open_folder(os.path.dirname(path), make=True):
        pass
