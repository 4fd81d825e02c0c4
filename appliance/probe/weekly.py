"""The weekly run over every file, at the lowest priority: compares with the first run.

Nothing but its own record is written.
"""

from __future__ import annotations

import json
import os
import sys
import time

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.collectors import receipts
from appliance.probe.every_file import is_update
from appliance.probe.posture import DEEP, Posture
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

FOLDER = "/var/lib/appliance/weekly"
FIRST, LAST = FOLDER + "/first-2.json", FOLDER + "/last.json"
"""Their version: if the format changes, a host starts with a new first run."""
PATIENCE = 12 * 3600.0
"""Seconds for reading every file of every package, on a disk that jobs keep busy."""
LONGEST = 1000
"""Maximum characters of the reason why a scan was incomplete."""
MOST = 50
"""Maximum number of changes listed; further ones are counted."""


def main() -> int:
    """Scan, compare, and write the result or the reason for its absence, for check base.weekly."""
    os.makedirs(FOLDER, 0o700, exist_ok=True)  # noqa: PTH103
    began = time.time()
    result: Facts = {}
    try:
        ask = Ask({"deep": True})
        result = compared(seen(ask))
        if "posture" in ask.errors:
            result["problem"] = ask.errors["posture"][:LONGEST]
    except Exception as error:  # noqa: BLE001 - no record would be taken for a look that is yet to come
        result["problem"] = _line(error)
    now = time.time()
    _write(LAST, {"time": now, "seconds": round(now - began, 1), **result})
    return 0


def seen(ask: Ask) -> dict[str, dict[str, str]]:
    """Return kind -> name -> value, without resources of stages; kinds that could not be read are missing. Raises OSError, Unreadable."""
    ask.patience = PATIENCE
    posture = Posture(ask, receipts.load(ask)).look()
    owned = set(posture["owned"])
    return {
        kind: {n: v for n, v in posture["things"][kind].items() if not {n, f"{kind} {n}"} & owned}
        for kind in DEEP
        if kind in posture["things"]
    }


def compared(now: dict[str, dict[str, str]]) -> Facts:
    """Return the differences from the first run, which is stored."""
    try:
        then = json.loads(files.read(FIRST, 64 << 20))
    except FileNotFoundError:
        then = now
        _write(FIRST, now)
    found = [
        {"kind": kind, "name": name, "then": was.get(name, ""), "now": new.get(name, "")}
        for kind in DEEP
        if kind in now and kind in then
        for was, new in [(then[kind], now[kind])]
        for name in sorted({*was, *new})
        if was.get(name) != new.get(name)
        and not is_update(kind, was.get(name, ""), new.get(name, ""))
    ]
    return {"changes": _in_turn(found)[:MOST], "more": len(found[MOST:])}


def _in_turn(found: list[dict[str, str]]) -> list[dict[str, str]]:
    """Alternate between kinds and owners, so that an owner of many changes does not hide those of others."""
    lines: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for change in found:
        owner = (change["now"] or change["then"]).rpartition(", of ")[2]
        place = "/".join(change["name"].split("/")[:3])
        lines.setdefault((change["kind"], owner if ":" in owner else "", place), []).append(change)
    rounds = range(max(map(len, lines.values()), default=0))
    return [line[n] for n in rounds for line in lines.values() if n < len(line)]


def _line(error: Exception) -> str:
    name = "" if isinstance(error, (OSError, ValueError, Unreadable)) else type(error).__name__
    return " ".join(f"{name} {error}".split())[:LONGEST]


def _write(path: str, what: object) -> None:
    """Write atomically and readable by root alone: the content describes files that others cannot read."""
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(what, file)
    os.replace(path + ".new", path)  # noqa: PTH105


if __name__ == "__main__":
    sys.exit(main())
