"""The last result of the host's own watch; none if the program is not installed.

For a drained host the watch runs again, because a deployment repairs faster than the watch's interval.
"""

from __future__ import annotations

import json
import os
import time

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.command import ended
from appliance.probe.lines import lines_of
from appliance.probe.problems import DENIED, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.probe.ask import Facts

PROGRAM = "/usr/local/sbin/appliance-watch"
STATE = "/run/appliance/watch.json"
WAITS = "/run/appliance/watch.waits"
"""Left by a look that another one did not let begin."""
SECONDS = 25.0
"""Longer than a program of the site may take."""
FIT, UNFIT = 0, 1
"""What ``appliance-watch look`` ends with."""


def collect(ask: Ask) -> Facts:
    """The area ``watch``."""
    if not files.exists(ask.path(PROGRAM)):
        return {"watch": None}
    said, waited, holder = files.text(ask.path(STATE)), *_waits(ask)
    if not said and holder:
        raise Unreadable(f"the first check of the host's watch has not finished (process {holder})")
    if not said:
        raise Unreadable("the host's watch has not run since the host started")
    try:
        seen = json.loads(said)
        causes = [{key: c[key] for key in ("check", "part", "cause")} for c in seen["causes"]]
        found: dict[str, Any] = {"age_s": round(time.time() - seen["time"], 1), "causes": causes}
        found.update(slurm=seen["slurm"], gaps=seen["gaps"], returns=seen.get("returns"))
        found["held_by"] = holder if waited > seen["time"] else None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unreadable(STATE + " cannot be read") from None
    mended = found["slurm"] == "out" and found["returns"]
    return {"watch": {**found, "fit": _fit(ask) if mended else None}}


def _waits(ask: Ask) -> tuple[float, int | None]:
    """When a look last gave up waiting for another one, and the process of that."""
    try:
        said = json.loads(files.text(ask.path(WAITS)) or "{}")
        return float(said.get("time", 0)), int(said["process"]) if said.get("process") else None
    except (ValueError, TypeError, AttributeError):
        return 0.0, None


def _fit(ask: Ask) -> bool | None:
    """Whether the host is fit now by its own watch; None if unknown."""
    if os.geteuid():
        ask.problem("watch", "needs root to run the host's own watch", DENIED)
        return None
    try:
        status, out, err = ended([ask.path(PROGRAM), "look"], SECONDS)
    except Unreadable as error:
        ask.problem("watch", error)
        return None
    if status not in {FIT, UNFIT}:
        said = lines_of((err or out).strip())
        ask.problem("watch", f"appliance-watch look: {said[-1] if said else status}")
        return None
    return status == FIT
