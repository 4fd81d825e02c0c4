"""Puts files, directories and links into the wanted state: compared first, replaced whole."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import stat
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator

from ansible_collections.appliance.host.plugins.module_utils.outcome import (
    Problem,
    os_reason,
    telling_line,
)


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
def about(path: str) -> Iterator[None]:
    """Turn a failed system call into one line about ``path``."""
    try:
        yield
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
    with about(path):
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                return None
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None


def sha256(path: str) -> str:
    """Digest of a file of any size. Raises OSError."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            found.update(piece)
    return found.hexdigest()


def attributes_differ(
    path: str, mode: int, owner: str, group: str, check: bool = False
) -> list[str]:
    """Which of mode, owner and group are not as wanted, as "mode 0600 -> 0644"."""
    now = os.lstat(path)
    found = []
    if stat.S_IMODE(now.st_mode) != mode:
        found.append(f"mode {stat.S_IMODE(now.st_mode):04o} -> {mode:04o}")
    if now.st_uid != uid_of(owner, path, check):
        found.append(f"owner {now.st_uid} -> {owner}")
    if now.st_gid != gid_of(group, path, check):
        found.append(f"group {now.st_gid} -> {group}")
    return found


def set_attributes(target: int | str, mode: int, owner: str, group: str, path: str) -> None:
    """Give an open or named file its owner, then its mode (chown clears set-id bits)."""
    uid, gid = uid_of(owner, path), gid_of(group, path)
    with about(path):
        os.chown(target, -1 if uid is None else uid, -1 if gid is None else gid)
        os.chmod(target, mode)


class Staged:
    """A file written beside its final place and not yet seen by anyone."""

    def __init__(self, module: Any, wanted: Wanted, folder: str | None = None) -> None:
        self.module = module
        self.wanted = wanted
        path = wanted.path
        with about(path):
            handle, self.temporary = tempfile.mkstemp(
                prefix=f".{os.path.basename(path)}.",
                suffix=".tmp",
                dir=folder or os.path.dirname(path),
            )
        try:
            with about(path), os.fdopen(handle, "wb") as file:
                file.write(wanted.data)
                file.flush()
                os.fsync(file.fileno())
            if folder is None:
                set_attributes(self.temporary, wanted.mode, wanted.owner, wanted.group, path)
        except BaseException:
            self.discard()
            raise

    def validate(self) -> None:
        """Run a validation that takes the staged file's path."""
        if "%s" in self.wanted.validate:
            self._judge(self.wanted.validate.replace("%s", self.temporary))

    def commit(self) -> None:
        """Take the final place at once; a validation without %s that fails puts the old file back."""
        path = self.wanted.path
        judged_in_place = self.wanted.validate and "%s" not in self.wanted.validate
        backup = self._keep_old() if judged_in_place else None
        with about(path):
            os.replace(self.temporary, path)
        self._label()
        if judged_in_place:
            self._judge_in_place(backup)

    def discard(self) -> None:
        """Forget the staged file."""
        if os.path.lexists(self.temporary):
            os.unlink(self.temporary)

    def _judge_in_place(self, backup: str | None) -> None:
        try:
            self._judge(self.wanted.validate)
        except Problem:
            if backup is None:
                os.unlink(self.wanted.path)
            else:
                os.replace(backup, self.wanted.path)
            raise
        if backup is not None:
            os.unlink(backup)

    def _keep_old(self) -> str | None:
        if not os.path.lexists(self.wanted.path):
            return None
        backup = self.temporary[: -len(".tmp")] + ".old"
        with about(self.wanted.path):
            os.link(self.wanted.path, backup, follow_symlinks=False)
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
    with about(path):
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            make_parents(parent)
            os.mkdir(parent, 0o755)
            os.chmod(parent, 0o755)
