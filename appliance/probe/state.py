"""State of managed resources: for each kind, the fields that show a change."""

from __future__ import annotations

import hashlib
import os
import stat

from appliance.probe import files, places
from appliance.probe.accounts import Accounts
from appliance.probe.ask import Ask, Once
from appliance.probe.collectors import filesystems, packages, sysctl, units
from appliance.probe.in_force import sshd_options, table
from appliance.probe.lines import lines_of
from appliance.probe.problems import Unreadable, surprise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from appliance.probe.ask import Facts

    Resource = tuple[str, str]

TYPES = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "directory"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISBLK, "block device"),
    (stat.S_ISCHR, "character device"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISSOCK, "socket"),
)


class Observer:
    """Reads resources; packages and units are queried once for all areas and receipts."""

    def __init__(self, ask: Ask, resources: Iterable[Resource]) -> None:
        listed = list(resources)
        names = {
            kind: [name for its, name in listed if its == kind] for kind in ("package", "unit")
        }
        self._ask = ask
        self.denied: set[tuple[str, str]] = set()
        self.packages = Once(lambda: packages.query(ask, [*ask.packages, *names["package"]]))
        self.units = Once(lambda: units.query(ask, [*ask.units, *names["unit"]]))
        self._mounts = Once(lambda: filesystems.mounts(ask))
        self._accounts = Once(lambda: Accounts(ask))
        self._sshd = Once(lambda: sshd_options(ask))
        self._looks: dict[str, Callable[[str], Facts]] = {
            "file": self._file,
            "directory": self._directory,
            "home": self._home,
            "link": self._link,
            "absent": lambda name: {"exists": files.exists(ask.path(name))},
            "package": self._package,
            "unit": self._unit,
            "sysctl": lambda name: {"value": sysctl.parameter(ask, name)},
            "mount": self._mount,
            "user": lambda name: self._accounts.get().user_state(name),
            "group": lambda name: self._accounts.get().group_state(name),
            "module": self._module,
            "nftables": lambda name: table(ask, name),
            "sshd": lambda name: {"value": self._sshd.get().get(name, "")},
            "keyword": self._keyword,
        }

    def look(self, kind: str, name: str) -> Facts:
        """Return the state of one resource. If it cannot be read, there is only ``error``, one line, and ``withheld`` if a user other than root prevents it."""
        state: Facts = {"kind": kind, "name": name}
        look = self._looks.get(kind)
        if look is None:
            return {**state, "error": f'this probe does not support resource kind "{kind}"'}
        try:
            return {**state, **look(name)}
        except PermissionError:
            self.denied.add((kind, name))
            return {**state, "error": "needs root"}
        except places.Untrusted as error:
            return {**state, "error": str(error), "withheld": str(error.strerror)}
        except (OSError, ValueError, Unreadable) as error:
            return {**state, "error": str(error)}
        except Exception as error:  # noqa: BLE001 - a surprise in one resource must not cost the others
            return {**state, "error": surprise(f"{kind} {name}", error)}

    def _file(self, name: str) -> Facts:
        path = self._ask.path(name)
        found = self._stat(path)
        if found is None or not stat.S_ISREG(found.st_mode):
            return {"type": type_of(found)}
        state = {"sha256": digest(path), **self._access(found), "size": found.st_size}
        target = files.link(path)
        return state if target is None else {**state, "target": target}

    def _directory(self, name: str) -> Facts:
        path = self._ask.path(name)
        try:
            found = self._stat(path)
        except places.Untrusted:
            # A folder that was taken from the account it belongs to: root's, in a place of that account.
            found = places.entry(path)
            if not stat.S_ISDIR(found.st_mode):
                raise
        if found is None or not stat.S_ISDIR(found.st_mode):
            return {"type": type_of(found)}
        return self._access(found)

    def _home(self, name: str) -> Facts:
        """Return the owner of a home; the owner decides about its mode."""
        return {key: v for key, v in self._directory(name).items() if key in {"owner", "type"}}

    def _link(self, name: str) -> Facts:
        path = self._ask.path(name)
        target = files.link(path)
        return {"type": type_of(self._stat(path))} if target is None else {"target": target}

    def _stat(self, path: str) -> os.stat_result | None:
        try:
            return places.status(path, follow=True)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _access(self, found: os.stat_result) -> Facts:
        accounts: Accounts = self._accounts.get()
        return {
            "mode": format(stat.S_IMODE(found.st_mode), "04o"),
            "owner": accounts.owner(found.st_uid),
            "group": accounts.group(found.st_gid),
        }

    def _package(self, name: str) -> Facts:
        status, version, held = self.packages.get().get(name, ("", "", False))
        if status == "installed":
            rpm = {} if packages.is_dpkg(self._ask) else {"by": "rpm"}
            return {"version": version, "held": held, **rpm}
        partly = {"status": status} if status not in {"", "config-files"} else {}
        return {"version": None, **partly}

    def _unit(self, name: str) -> Facts:
        unit = self.units.get()[name]
        if unit["load"] == "offline":
            raise Unreadable("systemd does not run here")
        wanted = ("active", "enabled", "load", "definition", "stale")
        return {key: unit[key] for key in wanted if key in unit}

    def _mount(self, name: str) -> Facts:
        mount = self._mounts.get().get(name)
        if mount is None:
            return {"mounted": False}
        return {
            "mounted": True,
            "source": mount.source,
            "type": mount.type,
            "flags": mount.flags,
        }

    def _keyword(self, name: str) -> Facts:
        """Return all lines with the keyword, because programs differ in which line counts."""
        path, _, word = name.partition(" ")
        at = self._ask.path(path)
        lines = lines_of(files.read(at)) if files.exists(at) else []
        found = [line.split(None, 1)[1:] for line in lines if line.split(None, 1)[:1] == [word]]
        return {"value": ", ".join("".join(rest).strip() for rest in found)}

    def _module(self, name: str) -> Facts:
        return {"loaded": files.exists(self._ask.path("/sys/module/" + name.replace("-", "_")))}


def type_of(found: os.stat_result | None) -> str:
    """Return the type of what exists; "missing" for nothing."""
    if found is None:
        return "missing"
    return next((word for is_type, word in TYPES if is_type(found.st_mode)), "unknown")


def digest(path: str) -> str:
    """Return the SHA-256 of a file; of one that is not root's, up to ``files.LIMIT`` bytes, because it may be sparse. Raises OSError."""
    total = hashlib.sha256()
    fd = places.opened(path)
    try:
        left = None if os.fstat(fd).st_uid in {0, os.geteuid()} else files.LIMIT
        for piece in iter(lambda: os.read(fd, 1 << 20), b""):
            total.update(piece)
            left = left if left is None else left - len(piece)
            if left is not None and left < 0:
                raise places.Untrusted(f"longer than {files.LIMIT} bytes", path)
    finally:
        os.close(fd)
    return total.hexdigest()
