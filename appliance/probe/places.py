"""Opens files below directories that users can write to: component by component, each checked.

Nothing is opened by its whole name. A component is first held by a descriptor that reads nothing (O_PATH), so that neither
a device nor a pipe is ever opened, and nothing can be exchanged between the judgement and the reading.

Root's links are followed where root alone can write. In a place of somebody else no link is followed, no other file system
is entered, and nothing is read that its owner could not have read: a hard link to root's file gives nothing away.
"""

from __future__ import annotations

import errno
import os
import re
import stat

from appliance.probe.mounts import TABLE, rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

HOLD = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
KERNEL = ("/proc/", "/sys/")
"""File systems in which users cannot create files."""
ELSEWHERE = re.compile(r"^/proc/[^/]+/(task/[^/]+/)?(root|cwd|exe|fd/[^/]+|map_files/[^/]+)(/|$)")
"""Kernel links that lead to a process's open files, not to the path they show (proc(5))."""
ROOT, SHARED = 0, -1
"""Who can write to a folder: root alone, or everybody; any other number is a uid."""
HOPS = 40
"""Maximum number of links in a path, as in the kernel (path_resolution(7))."""
MOUNTS = TABLE


class Untrusted(OSError):
    """The file is not read, because a user other than root may have placed it; ``strerror`` describes it."""

    def __init__(self, what: str, path: str) -> None:
        super().__init__(errno.ELOOP, what, path)


class Way:
    """A walk from the root directory, and the owner of the place it has reached. ``of``: an owner trusted in addition to root."""

    def __init__(self, path: str, of: int | None = None) -> None:
        self._path = path
        self._ours = {0, os.geteuid()}
        self._of = of
        self._is_theirs = False
        self._owner: int | None = None
        self._group = -1
        self._device = -1
        self._hops = 0
        self._fd = -1
        self._here: os.stat_result
        self._begin("/" if path.startswith("/") else ".")

    def end(self, *, follow: bool = True) -> int:
        """Return a descriptor (O_PATH) of the path, which the caller closes. Raises OSError."""
        try:
            return self._walk(follow)
        finally:
            os.close(self._fd)

    @property
    def is_roots(self) -> bool:
        """Return whether the path had no link and only root can write to its last folder."""
        is_whole = self._path.startswith("/") and "/../" not in self._path and not self._hops
        return is_whole and not self._is_theirs and not is_shared(self._here)

    def _begin(self, at: str) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = os.open(at, HOLD | os.O_DIRECTORY)
        self._here = os.fstat(self._fd)

    def _walk(self, follow: bool) -> int:
        names = _names(self._path)
        while names:
            name = names.pop()
            held = self._held(name, is_last=not names)
            try:
                found = os.fstat(held)
                if stat.S_ISLNK(found.st_mode) and (names or follow):
                    self._followed(held, found, names)
                    continue
                self._judge(found)
                if not names:
                    held, done = -1, held
                    return done
                if not stat.S_ISDIR(found.st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._path)
                held, self._fd = self._fd, held
                self._here = found
            finally:
                if held >= 0:
                    os.close(held)
        return os.dup(self._fd)

    def _held(self, name: str, *, is_last: bool) -> int:
        try:
            if not is_last:
                try:
                    # Without this flag a folder that is mounted on demand stays what it is before (open(2), O_PATH).
                    return os.open(name, HOLD | os.O_DIRECTORY, dir_fd=self._fd)
                except NotADirectoryError:
                    pass
            return os.open(name, HOLD, dir_fd=self._fd)
        except OSError as error:
            error.filename = self._path
            raise

    def _followed(self, held: int, found: os.stat_result, names: list[str]) -> None:
        """Follow a link that only root can have placed."""
        if self._is_theirs or found.st_uid not in self._ours or is_shared(self._here):
            raise Untrusted("a symbolic link, not followed", self._path)
        self._hops += 1
        if self._hops > HOPS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)
        target = os.readlink("", dir_fd=held)
        names.extend(_names(target))
        if target.startswith("/"):
            self._begin("/")

    def _judge(self, found: os.stat_result) -> None:
        """Determine the owner of the place from here on; refuse a file that its owner may not have placed there."""
        if not self._is_theirs and self._is_settled(found):
            return
        is_own = found.st_uid in self._ours
        if not is_own and (self._owner is None or self._here.st_mode & stat.S_ISVTX):
            self._owner, self._group = found.st_uid, found.st_gid
            if self._of not in {None, found.st_uid}:
                raise Untrusted("in a place of another account", self._path)
        if not self._is_theirs:
            self._is_theirs, self._device = True, found.st_dev
        # Of an overlay (overlayfs, "Inode properties") files tell the device of their layer; nobody mounts on a file but root and fuse(4).
        if stat.S_ISDIR(found.st_mode) and found.st_dev != self._device:
            raise Untrusted("on a file system of its own", self._path)
        if not is_own and found.st_uid != self._owner:
            raise Untrusted("of another account", self._path)
        if is_own and stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            raise Untrusted("root's, by a hard link", self._path)
        if is_own and found.st_uid != self._owner and not self._is_open(found):
            raise Untrusted("root's, and closed to the owner of its folder", self._path)

    def _is_settled(self, found: os.stat_result) -> bool:
        """Return whether only root can have placed it: in a folder with the sticky bit, others cannot replace it but can link to it."""
        if found.st_uid not in self._ours:
            return False
        if not is_shared(self._here):
            return True
        is_one = stat.S_ISDIR(found.st_mode) or found.st_nlink == 1
        is_sticky = self._here.st_mode & stat.S_ISVTX and self._here.st_uid in self._ours
        return bool(is_sticky and is_one)

    def _is_open(self, found: os.stat_result) -> bool:
        """Return whether the owner of the place could read the file; an owner other than root reads only files of his own."""
        if found.st_uid:
            return True
        bit = 0o1 if stat.S_ISDIR(found.st_mode) else 0o4
        by_group = found.st_gid == self._group and found.st_mode & (bit << 3)
        return bool(found.st_mode & bit or by_group)


def opened(path: str, of: int | None = None) -> int:
    """Return a descriptor of a regular file, for reading. Raises OSError, or Untrusted if it may not be read."""
    if _is_kernels(path):
        return os.open(_own(path), READ)
    held = _reached(path, of)
    try:
        mode = os.fstat(held).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            raise Untrusted("no regular file", path)
        try:
            return os.open(f"/proc/self/fd/{held}", READ)
        except BlockingIOError:
            # Its owner may hold a lease and take it again as often as the kernel breaks it (fcntl(2), F_SETLEASE).
            raise Untrusted("held by a lease of its owner", path) from None
    finally:
        os.close(held)


def listed(path: str, of: int | None = None) -> list[str]:
    """Sorted names in a folder. Raises OSError."""
    if _is_kernels(path):
        return sorted(os.listdir(_own(path, "/")))  # noqa: PTH208
    held = folder(path, of)
    try:
        return sorted(os.listdir(held))  # noqa: PTH208
    finally:
        os.close(held)


def folder(path: str, of: int | None = None) -> int:
    """Return a descriptor of a folder, for listing it. Raises OSError."""
    held = _reached(path, of)
    try:
        return os.open(".", READ | os.O_DIRECTORY, dir_fd=held)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(held)


def status(path: str, of: int | None = None, *, follow: bool = False) -> os.stat_result:
    """Return the status of a path, of a link itself. Raises OSError."""
    if _is_kernels(path):
        return os.stat(path, follow_symlinks=follow)  # noqa: PTH116
    held = _reached(path, of, follow=follow)
    try:
        return os.fstat(held)
    finally:
        os.close(held)


def entry(path: str) -> os.stat_result:
    """Return the status of a name in its folder, of a link itself. The file is not opened, so it may be unreadable to others. Raises OSError."""
    above, _, name = path.rstrip("/").rpartition("/")
    held = folder(above or "/")
    try:
        return os.stat(name, dir_fd=held, follow_symlinks=False)
    finally:
        os.close(held)


def target(path: str) -> str:
    """Return the target of a symbolic link. Raises OSError."""
    if _is_kernels(path):
        return os.readlink(path)  # noqa: PTH115
    held = _reached(path, follow=False)
    try:
        return os.readlink("", dir_fd=held)
    finally:
        os.close(held)


def _reached(path: str, of: int | None = None, *, follow: bool = True) -> int:
    path = path.rstrip("/") or "/"
    held = _at_once(path, follow=follow)
    if held >= 0:
        return held
    mounted = of_people()
    if mounted and any(path == at or path.startswith(at + "/") for at in mounted):
        raise Untrusted("on a file system of its own", path)
    way = Way(path, of)
    held = way.end(follow=follow)
    if way.is_roots:
        _ROOTS.add(path.rpartition("/")[0])
    return held


_ROOTS: set[str] = set()
"""Folders already known to be writable, with all parents, by root alone: later walks start there."""


def _at_once(path: str, *, follow: bool) -> int:
    """As ``_reached``; -1 if every component must be checked."""
    if path.rpartition("/")[0] not in _ROOTS:
        return -1
    held = os.open(path, HOLD)
    found = os.fstat(held)
    if found.st_uid not in {0, os.geteuid()} or (follow and stat.S_ISLNK(found.st_mode)):
        os.close(held)
        return -1
    return held


def of_people() -> tuple[str, ...]:
    """Return mount points served by users' programs (fuse(4)), which may never answer."""
    if not _PEOPLE:
        _PEOPLE.append(tuple(_served()))
    return _PEOPLE[0]


_PEOPLE: list[tuple[str, ...]] = []


def _served() -> list[str]:
    try:
        with open(MOUNTS, "rb") as file:  # noqa: PTH123
            found, _ = rows(file.read())
    except OSError:
        return []
    return [row.at for row in found if row.type.startswith("fuse") and _is_of_people(row.of_all)]


def _is_of_people(options: list[str]) -> bool:
    """Return whether a user other than root mounted it (fuse(4))."""
    return any(one.startswith("user_id=") for one in options) and "user_id=0" not in options


def _is_kernels(path: str) -> bool:
    """Return whether the path lies in a file system of the kernel; unusual spellings are walked instead."""
    return path.startswith(KERNEL) and not any(odd in path for odd in ("//", "/./", "/../"))


def _own(path: str, more: str = "") -> str:
    if ELSEWHERE.match(path + more) and not (more and path.rpartition("/")[2] == "fd"):
        raise Untrusted("what a process has open", path)
    return path


def _names(path: str) -> list[str]:
    """Return the components in reverse order."""
    return [name for name in reversed(path.split("/")) if name not in {"", "."}]


def is_shared(found: os.stat_result) -> bool:
    """Return whether users other than root can write to a folder; the group bits include its access list."""
    by_group = found.st_mode & 0o020 and found.st_gid not in {0, os.getegid()}
    return bool(found.st_uid not in {0, os.geteuid()} or found.st_mode & 0o002 or by_group)
