"""Places that others can change: reached step by step, without following a link of theirs, and worked on by descriptors.

A path is only as good as every folder in it. Between a look at a path and the work on it, whoever can write to one of these folders
can put a link there (renameat2(2) swaps two names at once), and root's work lands where the link leads.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from contextlib import contextmanager, suppress
from typing import Iterator

from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Needs no right to read: root is nobody on many file servers, and a home is closed to nobody."""
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Never waits for a pipe's writer, nor for whoever holds a lease (fcntl(2))."""
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
LINKS = 40
MOST = 64 << 20
"""Bytes that are copied of a file from one file system to another."""
ASIDE = "before-appliance"


@contextmanager
def open_folder(path: str, make: bool = False, owner: int | None = None) -> Iterator[int]:
    """A descriptor of the folder for ``dir_fd``. Raises Problem, FileNotFoundError, or NotADirectoryError.

    Links are followed where root alone, or whoever this runs as, can put them. ``make``: what is missing, 0755.
    ``owner``: whose it may be in a folder that everybody can write to; otherwise only root's or the runner's own.
    """
    handle = _opened(path, make, owner)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def inside(name: str, at: int) -> Iterator[int]:
    """A descriptor of a folder in the folder ``at``, never over a link. Raises FileNotFoundError or NotADirectoryError."""
    handle = os.open(name, FOLDER, dir_fd=at)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def as_user(entry: pwd.struct_passwd) -> Iterator[None]:
    """The kernel judges all that is done on files as if that user did it; the process itself stays out of the user's reach.

    The real user stays root, so no signal and no debugger of the user's gets to it.
    """
    if os.geteuid() != 0 or entry.pw_uid == 0:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    try:
        os.setgroups(os.getgrouplist(entry.pw_name, entry.pw_gid))
        os.setegid(entry.pw_gid)
        os.seteuid(entry.pw_uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def status(name: str, at: int) -> os.stat_result | None:
    """What ``name`` is in the folder ``at``, a link itself; None where there is nothing."""
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return None


def content(name: str, at: int, most: int = -1) -> bytes | None:
    """Of a regular file in the folder ``at``, ``most`` bytes of it; None where there is none. Raises OSError."""
    found = status(name, at)
    if found is None or not stat.S_ISREG(found.st_mode):
        return None
    try:
        handle = os.open(name, READ, dir_fd=at)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(handle).st_mode) else None


def let_owner_in(at: int) -> None:
    """Gives the owner of the folder ``at`` all rights to it, as the owner may."""
    found = os.fstat(at)
    if found.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        # By name: fchmod(2) takes no descriptor that was opened for names alone, and without rights there is no other.
        os.chmod(f"/proc/self/fd/{at}", stat.S_IMODE(found.st_mode) | stat.S_IRWXU)


def created(name: str, at: int) -> tuple[str, int]:
    """A new file in the folder ``at`` that nobody else can open, to be renamed to ``name``: its own name and its descriptor."""
    while True:
        new = f".{name}.{os.urandom(6).hex()}.tmp"
        with suppress(FileExistsError):
            return new, os.open(new, NEW, 0o600, dir_fd=at)


def removed(name: str, at: int) -> None:
    """Takes a file or link out of the folder ``at``, where it is there."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=at)


def set_aside(name: str, at: int) -> str:
    """Gives whatever is there another name in its folder, which needs no right to it; the new name."""
    new = f"{name}.{ASIDE}"
    if status(new, at) is not None:
        new = f"{new}-{os.urandom(6).hex()}"
    os.rename(name, new, src_dir_fd=at, dst_dir_fd=at)
    return new


def moved(name: str, at: int, to: int) -> None:
    """A file or link from the folder ``at`` to the folder ``to``, also where that is on another file system."""
    try:
        os.rename(name, name, src_dir_fd=at, dst_dir_fd=to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copied(name, at, to)
        os.unlink(name, dir_fd=at)


def linked(name: str, at: int, target: str) -> None:
    """A link of that name in the folder ``at``, in the place of a link or file."""
    new = f".{name}.{os.urandom(6).hex()}.tmp"
    os.symlink(target, new, dir_fd=at)
    try:
        os.replace(new, name, src_dir_fd=at, dst_dir_fd=at)
    finally:
        removed(new, at)


@contextmanager
def opened(at: int) -> Iterator[int]:
    """The folder ``at`` with the right to change its owner and mode, which a descriptor for names does not have."""
    handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
    try:
        yield handle
    finally:
        os.close(handle)


def is_closed(found: os.stat_result) -> bool:
    """Whether root alone, or whoever this runs as, can put something into the folder."""
    writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid in {0, os.geteuid()} and not writable


def _copied(name: str, at: int, to: int) -> None:
    """As root's own and closed: what is read may have come there since it was looked at."""
    if stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
        os.symlink(os.readlink(name, dir_fd=at), name, dir_fd=to)
        return
    data = content(name, at, MOST + 1) or b""
    if len(data) > MOST:
        raise Problem(f"{name}: is larger than {MOST >> 20} MiB, look at it and remove it by hand")
    with os.fdopen(os.open(name, NEW, 0o600, dir_fd=to), "wb") as file:
        file.write(data)


def _opened(path: str, make: bool, owner: int | None) -> int:
    at, left, links = os.open("/", FOLDER), path.split("/")[::-1], 0
    try:
        while left:
            name = left.pop()
            if name in {"", "."}:
                continue
            target = _target(name, at, path)
            if target is None:
                inner = _step(name, at, path, make, owner)
            else:
                links += 1
                if links > LINKS:
                    raise Problem(f"{path}: leads through too many links")
                left += target.split("/")[::-1]
                inner = os.open("/" if target.startswith("/") else ".", FOLDER, dir_fd=at)
            os.close(at)
            at = inner
    except BaseException:
        os.close(at)
        raise
    return at


def _target(name: str, at: int, path: str) -> str | None:
    """Where a link leads that is as good as the folder it lies in; None where it is none. Raises Problem."""
    found = status(name, at)
    if found is None or not stat.S_ISLNK(found.st_mode):
        return None
    if not is_closed(os.fstat(at)):
        raise Problem(f"{path}: leads over {name}, a link in a folder that others can write to; remove the link, or close the folder to them")  # fmt: skip
    return os.readlink(name, dir_fd=at)


def _step(name: str, at: int, path: str, make: bool, owner: int | None) -> int:
    try:
        inner = os.open(name, FOLDER, dir_fd=at)
    except FileNotFoundError:
        if not make:
            raise
        return _made(name, at, path)
    found = os.fstat(inner)
    if os.fstat(at).st_mode & stat.S_IWOTH and found.st_uid not in {0, os.geteuid(), owner}:
        os.close(inner)
        raise Problem(
            f"{path}: {name} belongs to number {found.st_uid}, who could make it there first, for everybody can write to its folder; "
            "look what lies in it, then remove it or give it to root"
        )
    return inner


def _made(name: str, at: int, path: str) -> int:
    os.mkdir(name, 0o755, dir_fd=at)
    # In a folder without the sticky bit it may be another by now.
    inner = _step(name, at, path, False, None)
    with opened(inner) as handle:
        os.fchmod(handle, 0o755)
    return inner
