"""What a host is besides its stages: accounts, keys, programs with rights, sockets, packages, units; to be compared with another day.

Names and values are words for people; a value that cannot be told in a line is the beginning of a digest.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat

from appliance.probe import files
from appliance.probe.accounts import Accounts
from appliance.probe.keys import fingerprints
from appliance.probe.sockets import listening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from appliance.probe.ask import Ask, Facts

    Things = dict[str, str]

DEEP = ("setuid file", "file capability")
"""What costs a look at every file."""
DPKG = "/var/lib/dpkg/status"
INSTALLED = re.compile(
    r"^Package: (\S+)\nStatus: \S+ \S+ installed\n(?:(?!\n).*\n)*?Version: (\S+)$", re.M
)
KEY_FILES = ("authorized_keys", "authorized_keys2")
SUDOERS = ("/etc/sudoers", "/etc/sudoers.d/")
SOURCES = (
    *("/etc/apt/sources.list", "/etc/apt/sources.list.d/", "/etc/apt/trusted.gpg.d/"),
    *("/etc/apt/keyrings/", "/etc/yum.repos.d/"),
)
CRON = (
    *("/etc/crontab", "/etc/cron.d/", "/etc/cron.hourly/", "/etc/cron.daily/", "/etc/cron.weekly/"),
    *("/etc/cron.monthly/", "/var/spool/cron/crontabs/", "/var/spool/cron/"),
)
UNITS = "/etc/systemd/system"
OWN_KINDS = {
    **{"file": "", "link": "", "user": "account ", "group": "account group "},
    **{"package": "package ", "unit": "unit "},
}
"""Resources of receipts that are judged by their own checks, and how they are named here."""
PRIVILEGED = stat.S_ISUID | stat.S_ISGID
CAPABILITY = "security.capability"
MOST = 4_000
"""Things of a kind that are told; a host that has more lies, or is no appliance."""


class Posture:
    """One look; each kind by itself, so that one that cannot be read costs no other."""

    def __init__(self, ask: Ask, receipts: dict[str, Facts]) -> None:
        self._ask = ask
        self._receipts = receipts
        self._accounts = Accounts(ask)

    def look(self) -> Facts:
        """Kind -> name -> value, and what stages own of it."""
        looks: dict[str, Callable[[], Iterator[tuple[str, str]]]] = {
            "account": self._people,
            "key": self._keys,
            "sudoers file": lambda: self._files(SUDOERS),
            "package source": lambda: self._files(SOURCES),
            "package": self._packages,
            "cron file": lambda: self._files(CRON),
            "unit": self._enabled,
            "unit file": lambda: self._files((UNITS + "/",)),
            "socket": lambda: listening(self._ask),
            "module": self._modules,
        }
        found: dict[str, Things] = {}
        for kind, look in looks.items():
            try:
                found[kind] = dict(_first(look()))
            except OSError as error:
                self._ask.problem("posture", f"{kind}: {error.strerror}: {error.filename}")
        if self._ask.deep:
            found.update(self._privileged())
        return {"things": found, "owned": sorted(self._owned())}

    def _owned(self) -> Iterator[str]:
        for receipt in self._receipts.values():
            for state in receipt.get("resources", ()):
                if state["kind"] in OWN_KINDS:
                    yield OWN_KINDS[state["kind"]] + state["name"]

    def _people(self) -> Iterator[tuple[str, str]]:
        for name, row in self._accounts.users.items():
            groups = [
                g for g, fields in self._accounts.groups.items() if name in fields[3].split(",")
            ]
            words = [f"uid {row[2]}", f"gid {row[3]}", f"shell {row[6]}", f"home {row[5]}"]
            words += [f"groups {' '.join(sorted(groups))}"] if groups else []
            yield name, ", ".join([*words, f"password {self._accounts.password(name)}"])
        for name, fields in self._accounts.groups.items():
            # Those of a directory; a local account tells its groups itself.
            far = sorted(set(fields[3].split(",")) - {""} - set(self._accounts.users))
            if far:
                yield f"group {name}", "members " + " ".join(far)

    def _keys(self) -> Iterator[tuple[str, str]]:
        for name, row in self._accounts.users.items():
            for file in KEY_FILES:
                try:
                    said = files.read(self._ask.path(f"{row[5]}/.ssh/{file}"))
                except OSError:
                    continue
                for key, told in fingerprints(said):
                    yield f"{key or told} of {name}", told.replace(key, "").strip() or "no remark"

    def _files(self, places: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for place in places:
            names = files.names(self._ask.path(place)) if place.endswith("/") else [""]
            for path in (place + name for name in names):
                value = self._file(path)
                if value:
                    yield path, value

    def _file(self, path: str) -> str:
        at = self._ask.path(path)
        try:
            found = os.lstat(at)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        if stat.S_ISLNK(found.st_mode):
            return "link to " + (files.link(at) or "")
        if not stat.S_ISREG(found.st_mode):
            return ""
        digest = hashlib.sha256(files.data(at)).hexdigest()[:12]
        owner = self._accounts.owner(found.st_uid)
        return f"content {digest}, mode {stat.S_IMODE(found.st_mode):04o}, of {owner}"

    def _packages(self) -> Iterator[tuple[str, str]]:
        if files.exists(self._ask.path(DPKG)):
            yield from INSTALLED.findall(files.read(self._ask.path(DPKG), 64 << 20))
        elif self._ask.has("rpm"):
            for line in self._ask.run(
                ["rpm", "-qa", "--qf", "%{NAME} %{EVR}\n"], 10.0
            ).splitlines():
                name, _, version = line.partition(" ")
                yield name, version

    def _enabled(self) -> Iterator[tuple[str, str]]:
        """What some unit or target wants by a link of /etc, as systemctl enable makes them."""
        wanted: dict[str, list[str]] = {}
        for folder in files.names(self._ask.path(UNITS)):
            by, dot, kind = folder.rpartition(".")
            if dot and kind in {"wants", "requires"}:
                for name in files.names(self._ask.path(f"{UNITS}/{folder}")):
                    wanted.setdefault(name, []).append(by)
        for name, by_all in wanted.items():
            yield name, "wanted by " + " ".join(sorted(by_all))

    def _modules(self) -> Iterator[tuple[str, str]]:
        """Those that no distribution signed or brought: taint flags O and E (kernel.org, tainted-kernels). A container has none of its own."""
        for line in files.text(self._ask.path("/proc/modules")).splitlines():
            words = line.split()
            flags = words[-1] if words[-1].startswith("(") else ""
            if set(flags) & set("OE") and not self._is_container():
                yield words[0], "flags " + flags.strip("()")

    def _is_container(self) -> bool:
        return files.exists(self._ask.path("/run/systemd/container"))

    def _privileged(self) -> dict[str, Things]:
        """Programs that run with more rights than who starts them, on file systems of the host's own."""
        found: dict[str, Things] = {kind: {} for kind in DEEP}
        root = self._ask.path("/")
        device = os.lstat(root).st_dev
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders if _device(folder + "/" + f) == device]
            for name in names:
                path = os.path.join(folder, name)  # noqa: PTH118 - pathlib costs 15 ms of CPU
                self._one(path, found)
        return found

    def _one(self, path: str, found: dict[str, Things]) -> None:
        try:
            mode = os.lstat(path)
        except OSError:
            return
        if not stat.S_ISREG(mode.st_mode) or not mode.st_mode & 0o111:
            return
        told = path[len(self._ask.root) :]
        if mode.st_mode & PRIVILEGED and len(found["setuid file"]) < MOST:
            who = f"of {self._accounts.owner(mode.st_uid)}:{self._accounts.group(mode.st_gid)}"
            found["setuid file"][told] = f"mode {stat.S_IMODE(mode.st_mode):04o}, {who}"
        try:
            value = os.getxattr(path, CAPABILITY, follow_symlinks=False)
        except OSError:
            return
        if len(found["file capability"]) < MOST:
            found["file capability"][told] = value.hex()


def collect(ask: Ask, receipts: dict[str, Any]) -> Facts:
    """The area ``posture``."""
    return {"posture": Posture(ask, receipts).look()}


def _first(pairs: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for _, pair in zip(range(MOST), pairs):  # noqa: B905 - zip(strict=) is Python 3.10's
        yield pair


def _device(path: str) -> int:
    try:
        found = os.lstat(path)
    except OSError:
        return -1
    return -1 if stat.S_ISLNK(found.st_mode) else found.st_dev
