"""What a look came to, and where it is kept: for the probe, for the exporter's metrics, for the next look."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LAST = "/run/appliance/watch.json"
METRICS = "appliance_watch.prom"
OUT, OVER, SILENT, LEFT = "out", "over", "silent", ""
"""For Slurm the host takes no jobs, takes jobs because of the bound, its controller does not answer; nothing was done."""


class Cause:
    """One thing that makes the host unfit: the check that tells the same, one line, the part; ``age`` of an event, in s."""

    def __init__(self, check: str, cause: str, part: str = "", age: float | None = None) -> None:
        self.check, self.cause, self.part, self.age = check, cause, part, age

    def __str__(self) -> str:
        """As it stands in a reason."""
        return " ".join(filter(None, [self.check, self.part + ":" * bool(self.part), self.cause]))

    @property
    def key(self) -> str:
        """What stays the same of it from one look to the next; of an event, its words."""
        return f"{self.check} {self.part}" + (f" {self.cause}" if self.age is not None else "")


class Verdict:
    """``causes``: why the host is unfit; ``gaps``: what could not be judged, which takes no host out.

    ``slurm``: how Slurm has it; ``ours``: it is out by this program; ``returns``: and for a fault that ends by itself;
    ``waived``: causes with which a person gave it back, by key, with the time. ``marks``: as marks.Marks keeps them.
    """

    def __init__(self, causes: list[Cause], gaps: list[str]) -> None:
        self.causes, self.gaps = causes, gaps
        self.slurm, self.ours, self.returns = LEFT, False, False
        self.waived: dict[str, float] = {}
        self.marks: dict[str, Any] = {}

    @property
    def reason(self) -> str:
        """The first cause, and how many more there are."""
        more = len(self.causes) - 1
        return str(self.causes[0])[:200] + (f" (and {more} more)" if more > 0 else "")


def last() -> dict[str, Any]:
    """What the look before this one left since the host started; nothing where there was none."""
    try:
        with open(LAST, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs 15 ms
            said = json.load(file)
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) and said.get("version") == 1 else {}


def keep(verdict: Verdict, since: float, textfiles: str = "") -> None:
    """Leave it for others to read; ``since``: unfit or fit from then on, in s of the epoch."""
    causes = [
        {"check": c.check, "part": c.part, "cause": c.cause, "key": c.key} for c in verdict.causes
    ]
    said = {
        "version": 1,
        "time": round(time.time(), 1),
        "since": round(since, 1),
        "causes": causes,
        "gaps": verdict.gaps,
        "slurm": verdict.slurm,
        "ours": verdict.ours,
        "returns": verdict.returns,
        "waived": verdict.waived,
        "marks": verdict.marks,
    }
    os.makedirs(os.path.dirname(LAST), mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120
    write(LAST, json.dumps(said) + "\n")
    if textfiles and os.path.isdir(textfiles):  # noqa: PTH112
        # The folder belongs to another service; what is wrong with it is told by the exporter's own alert.
        with suppress(OSError):
            write(os.path.join(textfiles, METRICS), metrics(verdict))  # noqa: PTH118


def metrics(verdict: Verdict) -> str:
    """For the node exporter, which adds when the file was written."""
    kept = int(bool(verdict.causes) and verdict.slurm in {OVER, SILENT})
    return (
        "# HELP appliance_watch_unfit The host's own watch finds it unfit for work.\n"
        "# TYPE appliance_watch_unfit gauge\n"
        f"appliance_watch_unfit {int(bool(verdict.causes))}\n"
        "# HELP appliance_watch_kept It is unfit, and Slurm gives it jobs all the same.\n"
        "# TYPE appliance_watch_kept gauge\n"
        f"appliance_watch_kept {kept}\n"
    )


def write(path: str, text: str) -> None:
    """In one step: a reader meets the old or the new. Always into a file of its own, whatever has that name already."""
    new = path + ".new"
    with suppress(FileNotFoundError):
        os.unlink(new)  # noqa: PTH108
    made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with open(made, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
    os.replace(new, path)  # noqa: PTH105
