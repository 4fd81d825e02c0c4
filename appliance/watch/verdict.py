"""The result of a run, and where it is stored: for the probe, the exporter's metrics, and the next run."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.watch.place import Place

OUT, OVER, SILENT, LEFT = "out", "over", "silent", ""
"""The host gets no new work, or gets it because of the bound, or its scheduler does not answer; nothing was done."""


class Cause:
    """One thing that makes the host unfit: the check that reports the same, one line, the part; ``age`` of an event, in s.

    ``known``: the key that an earlier run gave it.
    """

    def __init__(
        self, check: str, cause: str, part: str = "", age: float | None = None, known: str = ""
    ) -> None:
        self.check, self.cause, self.part, self.age = check, cause, part, age
        self._known = known

    def __str__(self) -> str:
        """Its text in a reason."""
        return " ".join(filter(None, [self.check, self.part + ":" * bool(self.part), self.cause]))

    @property
    def key(self) -> str:
        """Its constant part from one run to the next; of an event, its text."""
        event = f" {self.cause}" if self.age is not None else ""
        return self._known or f"{self.check} {self.part}" + event


class Verdict:
    """``causes``: why the host is unfit; ``gaps``: what could not be judged, which drains no host.

    ``state``: what the scheduler does with it; ``ours``: this program drained it; ``returns``: for a fault that ends by itself.
    ``waived``: causes with which an operator resumed it, by key, with the time. ``marks``: as kept by marks.Marks.
    ``blind``: areas of facts that could not be read, with the reason. ``young``: when each fault that may pass within seconds was
    first found, by key. ``outs``: when this program took the host out, within a day. ``until``: when the time of its pods ends,
    by the clock since the boot; 0 if unknown.
    ``xids``: GPU and code of fatal messages in the kernel log. ``reported``: as returned by Door.report.
    """

    def __init__(self, causes: list[Cause], gaps: list[str]) -> None:
        self.causes, self.gaps = causes, gaps
        self.state, self.ours, self.returns = LEFT, False, False
        self.waived: dict[str, float] = {}
        self.marks: dict[str, Any] = {}
        self.blind: dict[str, str] = {}
        self.young: dict[str, float] = {}
        self.outs: list[float] = []
        self.until = 0.0
        self.xids: list[tuple[str, int]] = []
        self.reported: Any = None

    @property
    def reason(self) -> str:
        """Return the first cause, and how many more there are."""
        more = len(self.causes) - 1
        return str(self.causes[0])[:200] + (f" (and {more} more)" if more > 0 else "")


def last(place: Place) -> dict[str, Any]:
    """Return the verdict of the last run since the host's boot; empty if there is none."""
    try:
        with open(place.last, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs 15 ms
            said = json.load(file)
    except (OSError, ValueError):
        return {}
    if not isinstance(said, dict) or said.get("version") != 1:
        return {}
    # An earlier version of the program calls the state after its only scheduler.
    return {"state": said.get("slurm", LEFT), **said}


def keep(place: Place, verdict: Verdict, since: float, textfiles: str = "") -> None:
    """Store it; ``since``: the time since which it is unfit or fit, in s since the epoch."""
    causes = [
        {"check": c.check, "part": c.part, "cause": c.cause, "key": c.key} for c in verdict.causes
    ]
    said = {
        "version": 1,
        "time": round(time.time(), 1),
        "since": round(since, 1),
        "causes": causes,
        "gaps": verdict.gaps,
        "state": verdict.state,
        "ours": verdict.ours,
        "returns": verdict.returns,
        "waived": verdict.waived,
        "marks": verdict.marks,
        "young": verdict.young,
        "outs": verdict.outs,
        "until": verdict.until,
        "reported": verdict.reported,
    }
    os.makedirs(os.path.dirname(place.last), mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120
    write(place.last, json.dumps(said) + "\n")
    if textfiles and os.path.isdir(textfiles):  # noqa: PTH112
        # The folder belongs to another service; the exporter's own alert reports faults of it.
        with suppress(OSError):
            write(os.path.join(textfiles, place.metrics), metrics(place, verdict))  # noqa: PTH118


def metrics(place: Place, verdict: Verdict) -> str:
    """Write metrics for the node exporter, which adds the time of writing."""
    kept = int(bool(verdict.causes) and verdict.state in {OVER, SILENT})
    by = f'scheduler="{place.scheduler.lower()}"'
    return (
        "# HELP appliance_watch_unfit The host's own watch finds it unfit for work.\n"
        "# TYPE appliance_watch_unfit gauge\n"
        f"appliance_watch_unfit{{{by}}} {int(bool(verdict.causes))}\n"
        "# HELP appliance_watch_kept It is unfit, and its scheduler gives it work all the same.\n"
        "# TYPE appliance_watch_kept gauge\n"
        f"appliance_watch_kept{{{by}}} {kept}\n"
        "# HELP appliance_watch_xid A message of this code in the kernel log fails the GPU.\n"
        "# TYPE appliance_watch_xid gauge\n"
        + "".join(
            f'appliance_watch_xid{{{by},gpu="{part.replace("GPU ", "", 1)}",code="{code}"}} 1\n'
            for part, code in verdict.xids
        )
    )


def write(path: str, text: str) -> None:
    """Write atomically: a reader sees the old or the new content. Always a new file, whatever has that name already."""
    new = path + ".new"
    with suppress(FileNotFoundError):
        os.unlink(new)  # noqa: PTH108
    made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with open(made, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
    os.replace(new, path)  # noqa: PTH105
