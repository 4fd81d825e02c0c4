"""systemd units in one call."""

from __future__ import annotations

import time

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.lines import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from appliance.probe.ask import Facts

SHOWN = (
    "--property=LoadState,ActiveState,SubState,UnitFileState,"
    "FragmentPath,DropInPaths,NeedDaemonReload,MainPID,ControlGroup,"
    "NRestarts,ActiveEnterTimestampMonotonic"
)
GROUPS = "/sys/fs/cgroup"
HELD = "suspended"
"""In place of "active" where the main process was stopped by a signal, or the unit's control group is frozen: systemd goes on calling it active."""
RESTARTING = "restarting"
"""In place of "active" where systemd restarted a service that ended, less than SETTLED ago: many daemons wait before they end. Also in appliance/stages/units.py."""
SETTLED = 30.0
"""Seconds. Own choice: slurmd waits 20 s for a device of gres.conf."""
CHANGED_BY_HAND = ("/etc/", "/run/")
"""Where administrators and programs put unit files (systemd.unit(5)); others are their packages' own."""
ABSENT = {"load": "not-found", "active": "inactive", "sub": "dead", "enabled": ""}
OFFLINE = {"load": "offline", "active": "unknown", "sub": "", "enabled": ""}
"""Where systemd does not run nothing is known of units."""


def collect(ask: Ask, known: dict[str, dict[str, str]]) -> Facts:
    """The area ``units``."""
    return {"units": {name: _told(known[name]) for name in ask.units}}


def _told(unit: dict[str, str]) -> dict[str, str]:
    """A unit as checks see it. Receipts go on comparing systemd's own state."""
    shown = {key: unit[key] for key in ABSENT}
    if unit["active"] == "active" and unit.get("restarted"):
        shown.update(active=RESTARTING, sub=unit["restarted"])
    return shown


def query(ask: Ask, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """State of units by the requested name. Raises Unreadable."""
    asked = sorted(set(names))
    if not files.exists(ask.path("/run/systemd/system")):
        return {name: dict(OFFLINE) for name in asked}
    states = {name: dict(ABSENT) for name in asked if not _has_state(name)}
    shown = [name for name in asked if name not in states]
    if shown:
        said = ask.systemctl("show", SHOWN, "--", *shown)
        states.update(parse(shown, said, lambda pid, group: _held(ask, pid, group)))
    return states


def _held(ask: Ask, pid: str, group: str) -> str:
    """By what its main process is kept from running: a signal or the freezer; empty where by nothing."""
    if "frozen 1" in lines_of(files.text(ask.path(f"{GROUPS}{group}/cgroup.events"))):
        return "frozen"
    state = files.text(ask.path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1]
    return "stopped by a signal" if state == ["T"] else ""


def _has_state(name: str) -> bool:
    """One invalid name, a pattern or a template would break the whole call."""
    plain = name.isascii() and name.translate(str.maketrans("", "", ":-_.\\@")).isalnum()
    return plain and "@." not in name and not name.endswith("@")


def parse(
    names: list[str], said: str, held: Callable[[str, str], str] = lambda pid, group: ""
) -> dict[str, dict[str, str]]:
    """The blocks of ``systemctl show``, which come in the order of the names, an empty line between."""
    states = {}
    blocks = said.strip("\n").split("\n\n")
    for name, block in zip(names, blocks):  # noqa: B905 - zip(strict=) is Python 3.10's
        shown = dict(line.partition("=")[::2] for line in lines_of(block))
        active, sub = shown.get("ActiveState", ""), shown.get("SubState", "")
        if active == "active" and shown.get("MainPID", "0") != "0":
            by = held(shown["MainPID"], shown.get("ControlGroup", ""))
            active, sub = (HELD, by) if by else (active, sub)
        states[name] = {
            "load": shown.get("LoadState", ""),
            "active": active,
            "sub": sub,
            "enabled": shown.get("UnitFileState", ""),
            "definition": definition(shown),
            "stale": shown.get("NeedDaemonReload", ""),
            "restarted": _restarted(shown, time.monotonic()),
        }
    return states


def _restarted(shown: dict[str, str], now: float) -> str:
    """How often systemd restarted a service by itself, if the last time was a moment ago; ``now``: s since the boot."""
    count, since = shown.get("NRestarts", ""), shown.get("ActiveEnterTimestampMonotonic", "")
    if not count.isdigit() or not since.isdigit() or not int(count):
        return ""
    age = now - int(since) / 1e6
    if not 0 <= age < SETTLED:
        return ""
    times = "once" if int(count) == 1 else f"{int(count)} times"
    return f"it ended, and systemd restarted it {times}, {age:.0f} s ago the last time"


def definition(shown: dict[str, str]) -> str:
    """The unit file and drop-ins systemd has loaded, but for those of packages; one after the other."""
    paths = [shown.get("FragmentPath", ""), *sorted(shown.get("DropInPaths", "").split())]
    return " ".join(path for path in paths if path.startswith(CHANGED_BY_HAND))
