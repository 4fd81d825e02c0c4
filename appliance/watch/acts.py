"""Acts on a verdict: drains the host in Slurm, keeps it, or resumes it, and logs every change."""

from __future__ import annotations

import re
import syslog
import time

from appliance.stages.base import ids as base_ids
from appliance.stages.gpu import ids as gpu_ids
from appliance.watch import verdict
from appliance.watch.bound import take_out
from appliance.watch.marks import Marks
from appliance.watch.scontrol import PREFIX, Silent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.watch.scontrol import Node, Slurm
    from appliance.watch.verdict import Verdict

BY_PERSONS = (
    *(gpu_ids.COUNT, gpu_ids.ERROR, gpu_ids.ECC, gpu_ids.REMAP, gpu_ids.XID, gpu_ids.PCIE),
    *(base_ids.MEMORY_ERRORS, base_ids.PCIE_ERRORS, base_ids.NVME),
)
"""Faults that a reboot or reset hides without fixing: an operator resumes the host, or stage slurm proves it."""
WRITTEN = re.compile(PREFIX + r"([a-z_]+\.[a-z_]+) .*\[root@[^\]]*\]$")
"""A reason as written by this program, as root, the user of slurmd; a similar one belongs to an operator."""


def act(given: dict[str, Any], seen: Verdict, slurm: Slurm) -> Verdict:
    """Carry out the verdict in Slurm, and store it for others."""
    syslog.openlog("appliance-watch", 0, syslog.LOG_DAEMON)
    before = verdict.last()
    changed = bool(before.get("causes")) != bool(seen.causes)
    since = time.time() if changed or not before else float(before.get("since", time.time()))
    seen.waived = _still(before.get("waived", {}), seen)
    try:
        if seen.causes:
            _take_out(given, seen, slurm, before)
        elif before.get("causes", True) or before.get("ours"):
            _look_back(given, seen, slurm, since)
    except Silent as error:
        seen.slurm = verdict.SILENT if seen.causes else verdict.LEFT
        seen.ours, seen.returns = bool(before.get("ours")), bool(before.get("returns"))
        seen.gaps.append(f"Slurm was not told: {error}")
    verdict.keep(seen, since, given.get("textfiles", ""))
    if changed or before.get("slurm", "") != seen.slurm:
        _log(seen)
    return seen


def _take_out(given: dict[str, Any], seen: Verdict, slurm: Slurm, before: dict[str, Any]) -> None:
    """A host that an operator resumed stays resumed until a new fault is found."""
    marks = Marks(before.get("marks"))
    seen.marks = marks.kept
    mine = slurm.nodes()[slurm.name]
    if before.get("ours") and not mine.is_out:
        seen.waived.update(dict.fromkeys((c["key"] for c in before["causes"]), time.time()))
    fresh = [cause for cause in seen.causes if cause.key not in seen.waived]
    if fresh or mine.is_out:
        first = verdict.Verdict(fresh or seen.causes, [])
        mine = take_out(slurm, first.reason, given["most_out"], marks=marks)
        seen.marks, seen.gaps = marks.kept, [*seen.gaps, *marks.gaps]
        for gap in set(marks.gaps) - set(before.get("gaps", ())):
            syslog.syslog(syslog.LOG_WARNING, gap)
    else:
        slurm.withdraw(mine)
    _whose(seen, mine)
    seen.slurm = verdict.OUT if mine.is_out else verdict.OVER if fresh else verdict.LEFT


def _still(waived: dict[str, float], seen: Verdict) -> dict[str, float]:
    """What an operator accepted, while it lasts; an event only until it occurs again."""
    now = time.time()
    standing = {c.key: now - c.age if c.age is not None else 0.0 for c in seen.causes}
    return {key: at for key, at in waived.items() if standing.get(key, at + 1.0) < at}


def _look_back(given: dict[str, Any], seen: Verdict, slurm: Slurm, since: float) -> None:
    """Resume a fit host that this program drained, once it was fit for long enough and if its fault may end by itself."""
    mine = slurm.nodes()[slurm.name]
    slurm.withdraw(mine)
    _whose(seen, mine)
    if not mine.is_ours:
        return
    minutes = given.get("return_after_minutes")
    if minutes and seen.returns and time.time() - since >= 60 * minutes:
        slurm.resume()
        seen.ours = seen.returns = False
    else:
        seen.slurm = verdict.OUT


def _whose(seen: Verdict, mine: Node) -> None:
    seen.ours = mine.is_ours
    seen.returns = mine.is_ours and may_return(mine)


def may_return(mine: Node) -> bool:
    """Return whether the reason is a fault that ends by itself; of several, the first is the gravest."""
    said = WRITTEN.match(mine.reason)
    return said is not None and said.group(1) not in BY_PERSONS


def _log(seen: Verdict) -> None:
    """Write one line in the system's log for each change."""
    done = {
        verdict.OUT: "takes no jobs",
        verdict.OVER: "keeps its jobs: as many hosts as the site allows are out already",
        verdict.SILENT: "could not be taken out: Slurm's controller does not answer",
        verdict.LEFT: "keeps its jobs: a person gave it back with this",
    }[seen.slurm]
    if seen.causes:
        syslog.syslog(syslog.LOG_ERR, f"unfit, {done}: {seen.reason}")
    else:
        syslog.syslog(syslog.LOG_NOTICE, "fit" + ", still out" * (seen.slurm == verdict.OUT))
