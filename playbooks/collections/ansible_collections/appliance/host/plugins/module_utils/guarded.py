"""Files of an offline source: used only where nobody but root can change them, or what stands above them."""

from __future__ import annotations

import os
import stat

from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem, os_reason

OPEN = stat.S_IWGRP | stat.S_IWOTH
MOST_LINKS = 40
"""As many as the kernel follows."""


def guarded(path: str) -> None:
    """Raises Problem where somebody else can change the file, exchange it, or a folder above it.

    What is missing is guarded by the folders above it.
    """
    left, at, links = path.split("/")[::-1], "/", 0
    _judge(at, path, last=False)
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        at = os.path.join(at, name)
        try:
            target = os.readlink(at) if os.path.islink(at) else ""
            _judge(at, path, last=not any(left))
        except FileNotFoundError:
            return
        except OSError as error:
            raise Problem(f"{at}: {os_reason(error)}") from None
        if target:
            links += 1
            if links > MOST_LINKS:
                raise Problem(f"{path}: too many symbolic links")
            left += target.split("/")[::-1]
            at = "/" if target.startswith("/") else os.path.dirname(at)


def guarded_below(folder: str) -> None:
    """The same of a folder and of all it holds, and of all that is linked to: a package manager opens what an index names, links or not."""
    guarded(folder)
    left: list[str] = [folder]
    seen: set[tuple[int, int]] = set()
    while left:
        at = left.pop()
        try:
            if os.path.islink(at):
                guarded(at)
                if os.path.lexists(os.path.realpath(at)):
                    left.append(os.path.realpath(at))
                continue
            _judge(at, at, last=True)
            now = os.lstat(at)
            if stat.S_ISDIR(now.st_mode) and (now.st_dev, now.st_ino) not in seen:
                seen.add((now.st_dev, now.st_ino))
                left += [os.path.join(at, name) for name in os.listdir(at)]
        except OSError as error:
            raise Problem(f"{at}: {os_reason(error)}") from None


def _judge(at: str, path: str, last: bool) -> None:
    """A folder with the sticky bit keeps what is root's in it, but anybody adds to it: it may stand above only."""
    now = os.lstat(at)
    link = stat.S_ISLNK(now.st_mode)
    kind = stat.S_IFMT(now.st_mode)
    if now.st_uid not in (0, os.geteuid()):
        raise _open(path, at, f"belongs to user {now.st_uid}", "chown -R root:root")
    sticky = stat.S_ISDIR(now.st_mode) and now.st_mode & stat.S_ISVTX and not last
    if not link and now.st_mode & OPEN and not sticky:
        raise _open(path, at, f"has the mode {stat.S_IMODE(now.st_mode):04o}", "chmod -R go-w")
    if last and not link and kind not in (stat.S_IFREG, stat.S_IFDIR):
        raise Problem(f"{path} is no file and no folder: copy the offline source again")


def _open(path: str, at: str, why: str, remedy: str) -> Problem:
    where = "it" if at == path else at
    return Problem(
        f"{path} is not used: {where} {why}, so that others than root can change what root installs; {remedy} {at}"
    )
