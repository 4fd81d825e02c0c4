"""Whose the files of this machine are: who may write the site's files, or a folder above them, is root on its hosts.

Each step of a path is judged, links and what they lead to included. What is judged good stays so: nobody else may write there.
"""

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TextIO

from appliance.errors import ConfigError

LINKS = 40
"""As the kernel follows; a path with more of them leads in a circle."""
PEOPLE = 1000
"""The first number of a person's account (login.defs, UID_MIN)."""
GROUP, OTHERS = stat.S_IWGRP, stat.S_IWOTH
NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class Untrusted(ConfigError):
    """Somebody else could have written, or could write, what the program is about to use."""


def require(path: Path) -> None:
    """Raises Untrusted unless only root and who runs this program may write the path, and each folder and link on its way.

    What does not exist is judged by the folders above it, in which nobody else may make it.
    """
    steps = _Steps(path)
    for step, state in steps:
        _require_owner(step, state)
        # What is no file is refused by whoever opens it; a device may be written by all, and holds nothing.
        if stat.S_ISDIR(state.st_mode) or stat.S_ISREG(state.st_mode):
            _require_closed(step, state, is_on_way=steps.goes_on)


def require_all(*paths: Path) -> None:
    """The same of several, of which many lie in one folder: the way there is judged once."""
    judged: set[Path] = set()
    for path in paths:
        place = path.absolute()
        if place.parent not in judged or ".." in place.parts:
            require(place)
            if place.parent.is_dir() and not place.parent.stat().st_mode & stat.S_ISVTX:
                judged.add(place.parent)
        else:
            _require_last(place)


def _require_last(path: Path) -> None:
    try:
        state = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISREG(state.st_mode):
        _require_owner(path, state)
        _require_closed(path, state, is_on_way=False)
    else:
        require(path)


def require_file(path: Path) -> None:
    """Of a file in a folder that was judged: that it is one, has no other name, and nobody else may write it.

    One that is not there, or may not be looked at, is none of anybody's.
    """
    try:
        state = path.lstat()
    except OSError:
        return
    if stat.S_ISDIR(state.st_mode):
        # Nobody can open it as a file.
        return
    if not stat.S_ISREG(state.st_mode):
        raise Untrusted(
            f"{path} is {_kind(state)}, and no file", f"look at it, then: rm {_quoted(path)}"
        )
    if state.st_nlink > 1:
        raise Untrusted(
            f"{path} has another name elsewhere (a hard link), by which others may write it",
            f"look at it, then: cp -p {_quoted(path)} {_quoted(path)}.new && mv {_quoted(path)}.new {_quoted(path)}",
        )
    _require_owner(path, state)
    _require_closed(path, state, is_on_way=False)


def open_own(path: Path) -> TextIO:
    """A file of the program's own for reading and writing, made where it is not there. Raises OSError or Untrusted."""
    require_file(path)
    number = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o600)
    return os.fdopen(number, "r+", encoding="utf-8")


def write_anew(path: Path, text: str, mode: int = 0o644) -> None:
    """Puts a file with this text in the path's place, whole or not at all; what lies in its way is not written to."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    number = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, mode)
    with os.fdopen(number, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)


class _Steps(Iterator[tuple[Path, os.stat_result]]):
    """Every folder, link and file on the way to a path, outermost first, as the kernel goes; it ends with what is not there.

    ``goes_on``: whether something follows the step that was given last, and exists.
    """

    def __init__(self, path: Path) -> None:
        self._left = list(reversed(path.absolute().parts))
        self._at = Path()
        self._links = 0

    @property
    def goes_on(self) -> bool:
        return any(name != ".." for name in self._left) and os.path.lexists(
            self._at / self._left[-1]
        )

    def __next__(self) -> tuple[Path, os.stat_result]:
        if not self._left:
            raise StopIteration
        name = self._left.pop()
        # The folder's own "..": links on the way are resolved by then, so that it is the one above.
        here = self._at.parent if name == ".." else self._at / name
        try:
            state = here.lstat()
            target = here.readlink() if stat.S_ISLNK(state.st_mode) else None
        except (FileNotFoundError, NotADirectoryError):
            raise StopIteration from None
        except OSError as error:
            raise ConfigError(
                f"{here} cannot be read ({error.strerror})", "check its owner and mode"
            ) from None
        if target is not None:
            self._links += 1
            if self._links > LINKS:
                raise ConfigError(f"{here} is a link that leads in a circle", "remove it")
            self._left += reversed(target.parts)
        else:
            self._at = here
        return here, state


def _require_owner(path: Path, state: os.stat_result) -> None:
    if state.st_uid not in trusted():
        whose = _user(state.st_uid)
        takes = "chown -h" if stat.S_ISLNK(state.st_mode) else "chown"
        raise Untrusted(
            f"{path} belongs to {whose}, who could change what this program does as {_user(os.geteuid())}",
            f"look at it, then: {takes} {_user(os.geteuid())} {_quoted(path)}",
        )


def _require_closed(path: Path, state: os.stat_result, *, is_on_way: bool) -> None:
    mode = state.st_mode
    is_shared = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
    if is_shared and is_on_way:
        return
    if is_shared and mode & (OTHERS | GROUP):
        raise Untrusted(
            f"{path} is a folder in which other users make files, so nothing in it is sure to be yours",
            "keep the site, and what it names, in a folder of your own",
        )
    if mode & OTHERS:
        raise Untrusted(
            f"{path} can be written by every user of this machine",
            f"look at it, then: chmod o-w {_quoted(path)}",
        )
    if mode & GROUP:
        if others := strangers_of(state.st_gid, trusted()):
            raise Untrusted(
                f"{path} can be written by {others}",
                f"look at it, then: chmod g-w {_quoted(path)}",
            )
        if _has_list(path):
            raise Untrusted(
                f"{path} can be written by those of its access list",
                f"look at it (getfacl), then: setfacl -b {_quoted(path)} && chmod g-w {_quoted(path)}",
            )


def trusted() -> frozenset[int]:
    """Root, who runs this program, and who called it by sudo."""
    me = os.geteuid()
    caller = os.environ.get("SUDO_UID", "")
    by_sudo = {int(caller)} if me == 0 and caller.isascii() and caller.isdigit() else set()
    return frozenset({0, me, *by_sudo})


@cache
def strangers_of(gid: int, known: frozenset[int]) -> str:
    """Who may write what the group may write, in words; "" where the group is the own one of somebody ``known``, and nobody else is in it.

    A network's directory need not list whose main group one is, hence the name: that of its user.
    """
    mine = {uid: name for uid in known if (name := _name(uid))}
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return f"group {gid}"
    others = sorted({*group.gr_mem, *_with_main_group(gid)} - set(mine.values()))
    if others:
        return (
            f"group {group.gr_name} ({', '.join(others[:3])}{', ...' if len(others) > 3 else ''})"
        )
    return "" if group.gr_name in mine.values() or gid == 0 else f"group {group.gr_name}"


def _with_main_group(gid: int) -> Iterator[str]:
    """Users of this main group. RHEL gives root's to sync, shutdown, halt and operator, which run no program of anybody's."""
    for user in pwd.getpwall():
        if user.pw_gid == gid and (gid or user.pw_uid >= PEOPLE):
            yield user.pw_name


def _has_list(path: Path) -> bool:
    """Whether the group's bits are the mask of a POSIX access list, in which others may stand."""
    try:
        return "system.posix_acl_access" in os.listxattr(path, follow_symlinks=False)
    except OSError:
        return False


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _user(uid: int) -> str:
    return _name(uid) or str(uid)


def _kind(state: os.stat_result) -> str:
    names = {
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
    }
    return names.get(stat.S_IFMT(state.st_mode), "a device")


def _quoted(path: Path) -> str:
    return shlex.quote(os.fspath(path))
