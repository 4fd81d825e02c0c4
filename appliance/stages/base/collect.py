"""Unmanaged files in places of the stages, from no stage, package or rack; and privileged accounts.

A file of a package counts as managed while it is unchanged.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from fnmatch import fnmatchcase

from appliance.probe import files, places
from appliance.probe.accounts import Accounts
from appliance.probe.ask import Ask
from appliance.probe.keys import BYTES, fingerprints
from appliance.probe.lines import lines_of
from appliance.probe.outline import outline
from appliance.probe.rights import excessive, like_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from appliance.probe.ask import Facts

MOST = 40
"""Maximum number of findings listed; further ones are counted."""
WIDTH = 100
ROOM = 1 << 16
"""Maximum bytes read of an unmanaged file."""
REMARK = re.compile(r"#(?!\d|include)")
"""Comment in sudoers(5): "#1001" is a uid, and "#include" reads another file."""
DPKG = "/var/lib/dpkg/status"
UCF = "/var/lib/ucf/hashfile"
CONFFILE = re.compile(r"^ (/\S+) ([0-9a-f]{32})", re.M)
HASHED = re.compile(r"^([0-9a-f]{32})  (/\S+)$", re.M)
UNTRUSTED = re.compile(r"trusted *= *yes|allow-insecure *= *yes|^Trusted: *yes", re.I)
LEFT_BY_UPDATES = (".dpkg-old", ".dpkg-dist", ".dpkg-new", ".ucf-dist", ".ucf-old", ".rpmsave")
UNIT_FOLDERS = ("/etc/systemd/system", "/run/systemd/system")
SCHEDULED = ("/var/spool/cron/crontabs", "/var/spool/cron", "/var/lib/systemd/linger")
"""Folders in which a file's name is the user whose work it runs."""
AT_JOBS = ("/var/spool/cron/atjobs", "/var/spool/at")


def collect(ask: Ask, receipts: dict[str, Facts]) -> Facts:
    """The area ``foreign``; stages without a receipt own nothing yet."""
    if not receipts:
        return {}
    found = Look(ask, receipts).findings()
    rest = len(found) - MOST
    more = {"kind": "more", "at": f"{rest} more", "owner": "", "modified": 0}
    return {"foreign": [*found[:MOST], *([more] if rest > 0 else [])]}


class Look:
    """One reading of all owned places."""

    def __init__(self, ask: Ask, receipts: dict[str, Facts]) -> None:
        self._ask = ask
        left = [state for receipt in receipts.values() for state in receipt.get("resources", ())]
        self._own = {s["name"] for s in left if s["kind"] in {"file", "link"}} | set(ask.rack)
        self._units = [state["name"] for state in left if state["kind"] == "unit"]
        wanted = [p for stage, each in ask.owned.items() if stage in receipts for p in each]
        self._places = [p for p in wanted if p[0] not in "!=@"]
        self._free = {p[1:] for p in wanted if p[0] == "@"}
        self._not_ours = [p[1:] for p in wanted if p[0] == "!"]
        self._verified = [p[1:] for p in wanted if p[0] == "="]
        self._accounts = Accounts(ask)
        self._packaged = self._packages_files()

    def findings(self) -> list[Facts]:
        """Return all findings, sorted by path."""
        found = [self._foreign(path) for path in sorted(self._candidates())]
        found += [self._changed(path) for path in sorted(set(_matching(self._ask, self._verified)))]
        listed = [entry for entry in found if entry]
        return [*self._root_like(), *self._keys(), *self._sources(), *listed]

    def _candidates(self) -> set[str]:
        found = set(_matching(self._ask, [*self._places, *self._drop_ins()])) - self._own
        return {
            path
            for path in found
            if not path.endswith(LEFT_BY_UPDATES)
            and not any(fnmatchcase(path, pattern) for pattern in self._not_ours)
            and not self._is_free(path)
        }

    def _is_free(self, path: str) -> bool:
        """Return whether it is work of users without a login: crontabs, at(1) jobs, lingering services."""
        folder, _, name = path.rpartition("/")
        if not self._free or folder not in (*SCHEDULED, *AT_JOBS):
            return False
        try:
            found = places.status(self._ask.path(path))
        except FileNotFoundError:  # done since
            return True
        except places.Untrusted:
            return False
        # crontab(1) leaves a file tmp.XXXXXX there while it reads, and where it is killed; cron(8) runs nothing of it.
        is_called = folder in SCHEDULED and (name in self._free or name in self._accounts.users)
        owner = name if is_called else self._accounts.owner(found.st_uid)
        return stat.S_ISREG(found.st_mode) and owner in self._free

    def _drop_ins(self) -> Iterator[str]:
        for unit in self._units:
            template = re.sub(r"@.+(\.\w+)$", r"@\1", unit)
            for folder in UNIT_FOLDERS:
                yield folder + "/" + unit
                yield from (f"{folder}/{name}.d/*.conf" for name in {unit, template})

    def _foreign(self, path: str) -> Facts | None:
        if path in self._packaged:
            return self._changed(path)
        try:
            found = places.status(self._ask.path(path))
        except (FileNotFoundError, NotADirectoryError):  # gone since
            return None
        except places.Untrusted as error:
            # No kind that a deployment moves away: its way is not root's.
            return _unread(path, str(error.strerror), "folder")
        if path.startswith(UNIT_FOLDERS) and stat.S_ISLNK(found.st_mode):
            return None  # an alias or a mask, which the unit's own state tells
        kind = "link" if stat.S_ISLNK(found.st_mode) else "file"
        kind = "folder" if stat.S_ISDIR(found.st_mode) else kind
        return None if self._of_a_package(path) else self._entry(kind, path, found)

    def _changed(self, path: str) -> Facts | None:
        brought = self._packaged.get(path)
        if brought is None or path in self._own:
            return None
        content = files.data(self._ask.path(path))
        if hashlib.md5(content).hexdigest() in brought:
            return None
        return self._entry("changed", path, places.status(self._ask.path(path)))

    def _entry(self, kind: str, path: str, found: os.stat_result) -> Facts:
        said = [files.link(self._ask.path(path)) or ""] if kind == "link" else []
        if kind in {"file", "changed"} and stat.S_ISREG(found.st_mode):
            content = files.data(self._ask.path(path), ROOM + 1)
            lines = _telling(content.decode("utf-8", "replace"))
            # What was not read says something, too.
            lines += [""] if len(content) > ROOM else []
            said = [outline(lines[0]), *lines[1:]] if lines else []
        return {
            "kind": kind,
            "at": path,
            "owner": self._accounts.owner(found.st_uid),
            "modified": round(found.st_mtime),
            "line": (said or [""])[0][:WIDTH],
            "lines": len(said),
        }

    def _packages_files(self) -> dict[str, set[str]]:
        """Return path -> the digests in its package."""
        known: dict[str, set[str]] = {}
        for path, digest in CONFFILE.findall(_text(self._ask, DPKG)):
            known.setdefault(path, set()).add(digest)
        for digest, path in HASHED.findall(_text(self._ask, UCF)):
            known.setdefault(path, set()).add(digest)
        return known

    def _of_a_package(self, path: str) -> bool:
        """Return whether a package contains the file; slow, so only for files in no list of configuration files."""
        ask = self._ask
        if files.exists(ask.path(DPKG)):
            return bool(ask.run(["dpkg-query", "-S", path], ok=(0, 1)))
        return "is not owned" not in ask.run(["rpm", "-qf", path], ok=(0, 1))

    def _root_like(self) -> Iterator[Facts]:
        for name, what in like_root(self._accounts):
            row = self._accounts.users[name]
            yield _account("account", name, f"{what}: {row[5]}, {row[6]}")
        for kind, name, which in excessive(self._accounts):
            yield _account(kind, name, which)

    def _keys(self) -> Iterator[Facts]:
        for home, known in self._ask.keys.items():
            for name in ("authorized_keys", "authorized_keys2"):
                path = f"{home}/.ssh/{name}"
                try:
                    found = places.status(self._ask.path(path), follow=True)
                    said = files.read(self._ask.path(path), BYTES + 1)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except places.Untrusted as error:
                    yield _unread(path, str(error.strerror))
                    continue
                if len(said) > BYTES:
                    yield _unread(path, "too long")
                for key, told, end in fingerprints(said):
                    if key not in known:
                        yield {**self._entry("key", path, found), "line": told[:WIDTH], "end": end}

    def _sources(self) -> Iterator[Facts]:
        path = "/etc/apt/sources.list"
        if path not in self._own and files.exists(self._ask.path(path)):
            for line in lines_of(files.read(self._ask.path(path))):
                if UNTRUSTED.search(line.partition("#")[0]):
                    found = places.status(self._ask.path(path))
                    yield {**self._entry("line", path, found), "line": outline(line)[:WIDTH]}


def _unread(path: str, why: str, kind: str = "key") -> Facts:
    """Note files behind a link, or changed files of a package."""
    said = {"line": f"not read: {why}"[:WIDTH], "lines": 1}
    return {"kind": kind, "at": path, "owner": "", "modified": 0, **said}


def _account(kind: str, name: str, line: str) -> Facts:
    return {"kind": kind, "at": name, "owner": "root", "modified": 0, "line": line[:WIDTH]}


def _matching(ask: Ask, patterns: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        folder, _, name = pattern.rpartition("/")
        if "*" not in name:
            if _may_be_there(ask.path(pattern)):
                yield pattern
            continue
        try:
            names = files.listing(ask.path(folder))
        except (FileNotFoundError, NotADirectoryError):
            continue
        yield from (f"{folder}/{found}" for found in names if fnmatchcase(found, name))


def _may_be_there(path: str) -> bool:
    """Return whether something may be there, also if a user prevents reading."""
    try:
        return files.exists(path)
    except places.Untrusted:
        return True


def _telling(text: str) -> list[str]:
    """Return the significant lines: without blank lines, comments, interpreter and sections; all lines if none remains."""
    lines = [line.strip() for line in lines_of(text) if line.strip()]
    told = [line for line in lines if not REMARK.match(line) and line[0] + line[-1] != "[]"]
    return told or lines


def _text(ask: Ask, path: str) -> str:
    return files.read(ask.path(path), 64 << 20) if files.exists(ask.path(path)) else ""
