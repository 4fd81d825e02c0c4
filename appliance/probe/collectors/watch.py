"""The last result of the host's own watch for a scheduler; none if the program is not installed.

For a drained host the watch runs again, because a deployment repairs faster than the watch's interval.
"""

from __future__ import annotations

import json
import os
import time

from appliance.probe import files
from appliance.probe.command import ended
from appliance.probe.lines import lines_of
from appliance.probe.problems import DENIED, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.probe.ask import Ask

WAITS = "/run/appliance/watch.waits"
"""File of a look that gave up because another one was running."""
SECONDS = 25.0
"""Timeout; longer than a program of the site may take."""
FIT, UNFIT = 0, 1
"""Exit codes of ``appliance-watch look``."""


def last(ask: Ask, area: str, program: str, state: str) -> dict[str, Any] | None:
    """The last result, from the file ``state``. Raises Unreadable."""
    if not files.exists(ask.path(program)):
        return None
    said, waited, holder = files.text(ask.path(state)), *_waits(ask)
    if not said and holder:
        raise Unreadable(f"the first check of the host's watch has not finished (process {holder})")
    if not said:
        raise Unreadable("the host's watch has not run since the host started")
    try:
        seen = json.loads(said)
        causes = [{key: c[key] for key in ("check", "part", "cause")} for c in seen["causes"]]
        found: dict[str, Any] = {"age_s": round(time.time() - seen["time"], 1), "causes": causes}
        # An earlier version of the program calls the state after its only scheduler.
        found.update(state=seen["state"] if "state" in seen else seen["slurm"])
        found.update(gaps=seen["gaps"], returns=seen.get("returns"))
        found["held_by"] = holder if waited > seen["time"] else None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unreadable(state + " cannot be read") from None
    may_return = found["state"] == "out" and found["returns"]
    return {**found, "fit": _fit(ask, area, program) if may_return else None}


def _waits(ask: Ask) -> tuple[float, int | None]:
    """Return when a look last gave up waiting for another one, and that one's process."""
    try:
        said = json.loads(files.text(ask.path(WAITS)) or "{}")
        return float(said.get("time", 0)), int(said["process"]) if said.get("process") else None
    except (ValueError, TypeError, AttributeError):
        return 0.0, None


def _fit(ask: Ask, area: str, program: str) -> bool | None:
    """Return whether the host's watch judges it fit now; None if unknown."""
    if os.geteuid():
        ask.problem(area, "needs root to run the host's own watch", DENIED)
        return None
    try:
        status, out, err = ended([ask.path(program), "look"], SECONDS)
    except Unreadable as error:
        ask.problem(area, error)
        return None
    if status not in {FIT, UNFIT}:
        said = lines_of((err or out).strip())
        name = program.rpartition("/")[2]
        ask.problem(area, f"{name} look: {said[-1] if said else status}")
        return None
    return status == FIT
