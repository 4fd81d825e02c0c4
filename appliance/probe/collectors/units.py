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
"""Replaces "active" if the main process was stopped by a signal or the unit's control group is frozen; systemd still reports "active"."""
RESTARTING = "restarting"
"""Replaces "active" if systemd restarted a failed service less than SETTLED ago: many daemons fail only after a while. Also in appliance/stages/units.py."""
SETTLED = 30.0
"""Seconds. Own choice: slurmd waits 20 s for a device of gres.conf."""
CHANGED_BY_HAND = ("/etc/", "/run/")
"""Where administrators and programs put unit files (systemd.unit(5)); packages use other folders."""
ABSENT = {"load": "not-found", "active": "inactive", "sub": "dead", "enabled": ""}
OFFLINE = {"load": "offline", "active": "unknown", "sub": "", "enabled": ""}
"""Problem reported if systemd does not run, because units are unknown then."""


def collect(ask: Ask, known: dict[str, dict[str, str]]) -> Facts:
    """The area ``units``."""
    return {"units": {name: _told(known[name]) for name in ask.units}}


def _told(unit: dict[str, str]) -> dict[str, str]:
    """Return a unit as checks see it. Receipts compare systemd's own state."""
    shown = {key: unit[key] for key in ABSENT}
    if unit["active"] == "active" and unit.get("restarted"):
        shown.update(active=RESTARTING, sub=unit["restarted"])
    return shown


def query(ask: Ask, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the state of units by the requested name. Raises Unreadable."""
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
    """Return what keeps its main process from running: a signal or the freezer; empty if nothing does."""
    if "frozen 1" in lines_of(files.text(ask.path(f"{GROUPS}{group}/cgroup.events"))):
        return "frozen"
    state = files.text(ask.path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1]
    return "stopped by a signal" if state == ["T"] else ""


def _has_state(name: str) -> bool:
    """Return whether systemd can report on this name: a single invalid name, pattern or template breaks the whole call."""
    plain = name.isascii() and name.translate(str.maketrans("", "", ":-_.\\@")).isalnum()
    return plain and "@." not in name and not name.endswith("@")


def parse(
    names: list[str], said: str, held: Callable[[str, str], str] = lambda pid, group: ""
) -> dict[str, dict[str, str]]:
    """Parse the blocks of ``systemctl show``, in the order of the names, separated by empty lines."""
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
    """Return how often systemd restarted a service, if the last restart was recent; ``now``: s since the boot."""
    count, since = shown.get("NRestarts", ""), shown.get("ActiveEnterTimestampMonotonic", "")
    if not count.isdigit() or not since.isdigit() or not int(count):
        return ""
    age = now - int(since) / 1e6
    if not 0 <= age < SETTLED:
        return ""
    times = "once" if int(count) == 1 else f"{int(count)} times"
    return f"it ended, and systemd restarted it {times}, {age:.0f} s ago the last time"


def definition(shown: dict[str, str]) -> str:
    """Return the text of the loaded unit file and drop-ins, except those of packages."""
    paths = [shown.get("FragmentPath", ""), *sorted(shown.get("DropInPaths", "").split())]
    return " ".join(path for path in paths if path.startswith(CHANGED_BY_HAND))
