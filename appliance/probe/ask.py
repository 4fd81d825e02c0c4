"""The request to the probe, and its access to the host: paths, programs, problems."""

from __future__ import annotations

import os
import threading

from appliance.probe import files
from appliance.probe.problems import FOLDERS, Absent, Late

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Facts = dict[str, Any]

MARKER = "/etc/appliance/simulated.json"
SYSTEMCTL_S = (5.0, 10.0)
"""Timeouts of systemctl in seconds: first call, and repetition."""
SLOW_S = 15.0
"""The longest timeout, in seconds, that a slow host's programs may get."""


class Refused(Exception):
    """The request itself cannot be answered."""


class Ask:
    """One request. ``root`` is the prefix of every path, so that a recorded tree can replace the host."""

    def __init__(self, request: object, root: str = "") -> None:
        if not isinstance(request, dict):
            raise Refused("the request must be a JSON object")
        self.root = root
        self.areas = _texts(request, "areas") if request.get("areas") is not None else None
        self.units = _texts(request, "units")
        self.packages = _texts(request, "packages")
        self.sysctl = _texts(request, "sysctl")
        self.users = _texts(request, "users")
        self.partitions = _texts(request, "partitions")
        self.people = _texts(request, "people")
        self.admins = _texts(request, "admins")
        self.resources = _resources(request)
        self.owned = _lists(request, "owned")
        self.keys = _lists(request, "keys")
        self.submissions = _submissions(request)
        self.numbers = _lists(request, "numbers")
        self.peers = _peers(request)
        self.kernel_log = _lists(request, "kernel_log")
        self.offer = _lists(request, "offer")
        self.deep = request.get("deep") is True
        self.patience = 500.0
        self.slowness = 1.0
        self.rack: list[str] = []
        self.errors: dict[str, str] = {}
        self.problems: list[dict[str, str]] = []
        self.simulated: list[str] = []
        self.sys = root + "/sys"
        self.kmsg = "/dev/kmsg"
        self.nvme = ""
        self._lock = threading.Lock()
        self._read_marker()

    def path(self, at: str) -> str:
        """Return where an absolute path of the host is found."""
        return self.root + at

    def problem(self, area: str, said: str | Exception, kind: str = "", at: str = "") -> None:
        """Record why (a part of) an area could not be read: ``at`` this path; an exception contains its kind."""
        line = self.remark(area, said, kind, at)
        with self._lock:
            known = self.errors.get(area)
            self.errors[area] = known + "; " + line if known else line

    def remark(self, area: str, said: str | Exception, kind: str = "", at: str = "") -> str:
        """Return the same line for an area that stores it as a fact of its own."""
        line = " ".join(str(said).split())[:300]
        known = kind or getattr(said, "kind", "")
        if known or at:
            with self._lock:
                self.problems.append({"area": area, "text": line, "kind": known, "at": at})
        return line

    def tool(self, name: str) -> str:
        """Return the full path of a program. Raises Absent."""
        for folder in FOLDERS:
            path = self.root + folder + "/" + name
            if os.access(path, os.X_OK):
                return path
        raise Absent(name + ": not installed")

    def has(self, name: str) -> bool:
        """Return whether a program is installed."""
        try:
            return bool(self.tool(name))
        except Absent:
            return False

    def run(self, argv: Sequence[str], timeout: float = 5.0, ok: Sequence[int] = (0,)) -> str:
        """Return the output of a program (see command.run); a slow host gets more time. Raises Absent or Unreadable."""
        from appliance.probe import command

        return command.run([self.tool(argv[0]), *argv[1:]], self.scaled(timeout), ok)

    def scaled(self, timeout: float) -> float:
        """Return the seconds that this host gets for what a fast one does within ``timeout``."""
        return max(timeout, min(timeout * self.slowness, SLOW_S))

    def systemctl(self, *words: str) -> str:
        """The output of systemctl. It is called twice: systemd does not answer while it reloads its units, which takes seconds on a busy host.

        Raises Absent or Unreadable.
        """
        first, last = SYSTEMCTL_S
        try:
            return self.run(["systemctl", *words], first)
        except Late:
            return self.run(["systemctl", *words], last)

    def _read_marker(self) -> None:
        """Read whether the hardware of this host is simulated. A broken marker does not count as a missing one."""
        import json

        try:
            marker = json.loads(files.read(self.path(MARKER)))
            self.simulated = _texts(marker, "areas")
            self.rack = _texts(marker, "files")
            self.sys = self.root + str(marker.get("sysfs") or "/sys")
            self.kmsg = str(marker.get("kmsg") or "/dev/kmsg")
            self.nvme = str(marker.get("nvme") or "")
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, ValueError, AttributeError, Refused) as error:
            self.simulated = ["unknown"]
            self.problem("simulated", MARKER + " cannot be read: " + str(error))


class Once:
    """A value that several areas share. The first that needs it computes it; if that fails, it fails for all."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: list[Any] = []

    def get(self) -> Any:
        """Return the value. Raises what its computation raised."""
        with self._lock:
            if not self._made:
                try:
                    self._made = [self._make(), None]
                except Exception as error:  # noqa: BLE001 - met by all that need it, each in its own words
                    self._made = [None, error]
        if self._made[1] is not None:
            raise self._made[1]
        return self._made[0]


def _texts(request: dict[str, Any], key: str) -> list[str]:
    value = request.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise Refused('"' + key + '" must be a list of names')
    return value


def _lists(request: dict[str, Any], key: str) -> dict[str, list[str]]:
    value = request.get(key) or {}
    if not isinstance(value, dict):
        raise Refused('"' + key + '" must be an object of lists')
    return {str(name): _texts(value, name) for name in value}


def _submissions(request: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    """By namespace the user, the group and the pod."""
    value = request.get("submissions") or {}
    try:
        found = {
            str(space): (str(user), str(group), str(pod))
            for space, (user, group, pod) in value.items()
        }
    except (TypeError, ValueError, AttributeError):
        raise Refused('"submissions" must be an object of [user, group, pod]') from None
    if any(not word.isprintable() for space, one in found.items() for word in (space, *one)):
        raise Refused('"submissions" must be printable')
    return found


def _peers(request: dict[str, Any]) -> list[dict[str, Any]]:
    value = request.get("peers") or []
    try:
        return [
            {
                "name": str(item["name"]),
                "address": str(item["address"]),
                "own": item.get("own") is True,
                "ports": [int(port) for port in item["ports"]],
            }
            for item in value
        ]
    except (TypeError, KeyError, ValueError, AttributeError):
        raise Refused('"peers" must be a list of {"name", "address", "ports"}') from None


def _resources(request: dict[str, Any]) -> list[tuple[str, str]]:
    value = request.get("resources") or []
    try:
        return [(str(item["kind"]), str(item["name"])) for item in value]
    except (TypeError, KeyError):
        raise Refused('"resources" must be a list of {"kind", "name"}') from None
