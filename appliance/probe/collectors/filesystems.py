"""Mounted file systems that hold data, and the way to read the mount table."""

from __future__ import annotations

import itertools
import os
import re
import stat
import threading

from appliance.probe import files, places
from appliance.probe.ask import Ask
from appliance.probe.mounts import TABLE, Row, rows
from appliance.probe.problems import kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from appliance.probe.ask import Facts

LOCAL = frozenset(
    [
        "ext2",
        "ext3",
        "ext4",
        "xfs",
        "btrfs",
        "zfs",
        "f2fs",
        "vfat",
        "exfat",
        "bcachefs",
        "reiserfs",
        "jfs",
        "overlay",
    ]
)
REMOTE = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "ceph",
        "lustre",
        "gpfs",
        "beegfs",
        "wekafs",
        "glusterfs",
        "afs",
        "9p",
        "virtiofs",
    ]
)
MANY = ("/var/lib/kubelet/", "/var/lib/docker/", "/var/lib/containerd/", "/run/", "/snap/")
"""Container runtimes have hundreds of mounts below these; none of them holds data."""
RESTRICTING = frozenset({"ro", "noexec", "nosuid", "nodev"})
"""Restrictions of a mount in addition to those of its file system (mount(8))."""
FOR_PEOPLE = re.compile(r"user_id=[1-9]")
"""fuse(4): mounted by a user, whose program may never answer."""
CREDENTIALS = re.compile(r"//[^/@\s]{1,500}@")
"""Credentials, as in http://user:password@host/share."""
FULL = 10
"""Percent of free space; below it, the largest content is sought."""
GROWING = (
    *("/scratch", "/home", "/srv", "/tmp", "/var/tmp", "/var/log", "/var/crash"),
    *("/var/lib/systemd/coredump", "/root", "/opt"),
)
"""Folders below the root in which users and logs accumulate files, in the order of the search."""
LOOKED_AT = 6000
"""Maximum number of files and folders read on a full file system."""
PATIENCE = 2.0
"""Seconds a network file system has to answer."""


class Mount:
    """The fields of a line of mountinfo."""

    def __init__(self, row: Row) -> None:
        self.at, self.device = row.at, row.device
        self.type, self.source = row.type, without_password(row.source)
        self.flags = sorted(RESTRICTING.intersection(row.options))
        self.read_only = "ro" in row.options or "ro" in row.of_all
        self.of_people = any(map(FOR_PEOPLE.match, row.of_all))
        # A kernel that meets errors turns the file system, and leaves the mount as it was asked for.
        self.turned = "rw" in row.options and "ro" in row.of_all

    @property
    def remote(self) -> bool:
        """Return whether a server may delay the answer."""
        return self.type in REMOTE or self.type.startswith("fuse.")


def without_password(source: str) -> str:
    """Return the source of a file system without user name and password."""
    return CREDENTIALS.sub("//***@", source)


def mounts(ask: Ask) -> dict[str, Mount]:
    """Return mounts by mount point; if several share one, the last, which hides the others."""
    return _table(ask)[0]


def _table(ask: Ask) -> tuple[dict[str, Mount], int]:
    """The same, and the number of invalid lines."""
    found, odd = rows(files.data(ask.path(TABLE)))
    return {mount.at: mount for mount in map(Mount, found)}, odd


def collect(ask: Ask) -> Facts:
    """The area ``filesystems``. One that does not answer is omitted and listed in the errors."""
    found = []
    table, odd = _table(ask)
    if odd:
        lines = "1 line that names" if odd == 1 else f"{odd} lines that name"
        ask.problem("filesystems", f"{TABLE} has {lines} no mount")
    for mount in wanted(table):
        try:
            at = ask.path(mount.at)
            measured = _patiently(at) if mount.remote else os.statvfs(at)
        except OSError as error:
            why = f"{mount.at}: {error.strerror}"
            ask.problem("filesystems", why, kind_of(error), mount.at)
            continue
        if measured is None:
            why = f"{mount.at} does not answer within {PATIENCE:g} s"
            ask.problem("filesystems", why, at=mount.at)
        elif measured.f_blocks or mount.remote:
            said = _filesystem(mount, measured)
            if not mount.remote and measured.f_bavail * 100 < measured.f_blocks * FULL:
                said["largest"] = _largest(ask, mount.at, frozenset(table))
            found.append(said)
    return {"filesystems": found}


def wanted(table: dict[str, Mount]) -> list[Mount]:
    """Return mounts that hold data, by mount point."""
    root = table["/"].device if "/" in table else ""
    return [table[at] for at in sorted(table) if _holds_data(table[at], root)]


def _holds_data(mount: Mount, root: str) -> bool:
    """Return whether a mount holds data: an overlay only as root of a container host or a bind mount of it, a user's mount never."""
    if (
        mount.of_people
        or mount.at.startswith(MANY)
        or (mount.type == "overlay" and mount.device != root)
    ):
        return False
    return mount.remote or mount.type in LOCAL


def _patiently(at: str) -> os.statvfs_result | None:
    answer: list[os.statvfs_result | OSError] = []
    waiter = threading.Thread(target=lambda: answer.append(_statvfs(at)), daemon=True)
    waiter.start()
    waiter.join(PATIENCE)
    if answer and isinstance(answer[0], OSError):
        raise answer[0]
    return answer[0] if answer else None  # type: ignore[return-value]


def _largest(ask: Ask, at: str, mounted: frozenset[str] = frozenset()) -> str:
    """Largest content of a full file system: bytes, owner's number and path, separated by spaces.

    It is a folder unless one file holds half of it. No link is followed, and no other file system is entered.
    """
    files_of: dict[str, tuple[int, str, int]] = {}
    sums: dict[str, int] = {}
    owners: dict[str, int] = {}
    left = LOOKED_AT
    tops = GROWING if at == "/" else (at,)
    for top in tops:
        pending = [(top, "")]
        while pending and left > 0:
            folder, under = pending.pop(0)
            for name, here in _entries(ask.path(folder), folder, mounted):
                left -= 1
                path = f"{folder.rstrip('/')}/{name}"
                holder = under or path
                owners.setdefault(holder, here.st_uid)
                if stat.S_ISDIR(here.st_mode):
                    pending.append((path, holder))
                    continue
                size = here.st_blocks * 512
                sums[holder] = sums.get(holder, 0) + size
                files_of[holder] = max(files_of.get(holder, (0, "", 0)), (size, path, here.st_uid))
    if not sums:
        return ""
    holder = max(sums, key=lambda name: sums[name])
    size, path, uid = files_of[holder]
    if size * 2 < sums[holder]:
        size, path, uid = sums[holder], holder, owners[holder]
    return f"{size} {uid} {path}"


def _entries(
    path: str, folder: str, mounted: frozenset[str]
) -> Iterator[tuple[str, os.stat_result]]:
    """Names in a folder with their status. A mount point is left out: a user's file system may never answer (fuse(4))."""
    try:
        held = places.folder(path)
    except OSError:
        return
    try:
        with os.scandir(held) as found:
            for entry in itertools.islice(found, LOOKED_AT):
                if f"{folder.rstrip('/')}/{entry.name}" in mounted:
                    continue
                try:
                    yield entry.name, entry.stat(follow_symlinks=False)
                except OSError:
                    continue
    finally:
        os.close(held)


def _statvfs(at: str) -> os.statvfs_result | OSError:
    try:
        return os.statvfs(at)
    except OSError as error:
        return error


def _filesystem(mount: Mount, measured: os.statvfs_result) -> dict[str, object]:
    return {
        "at": mount.at,
        "source": mount.source,
        "type": mount.type,
        "size": measured.f_blocks * measured.f_frsize,
        "free": measured.f_bavail * measured.f_frsize,
        "inodes_free": measured.f_favail,
        "read_only": mount.read_only,
        "turned": mount.turned,
    }
