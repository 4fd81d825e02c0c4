"""Acts on a verdict: drains the host in its scheduler, keeps it, or resumes it, and logs every change."""

from __future__ import annotations

import syslog
import time

from appliance.watch import verdict
from appliance.watch.bound import take_out
from appliance.watch.hardware import BY_OPERATORS
from appliance.watch.marks import Marks
from appliance.watch.node import Silent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.watch.node import Door, Node
    from appliance.watch.verdict import Verdict


def act(given: dict[str, Any], seen: Verdict, door: Door, *, repaired: bool = False) -> Verdict:
    """Carry out the verdict in the scheduler, and store it for others.

    ``repaired``: resume a fit host that this program drained at once, whatever it was drained for.
    """
    syslog.openlog("appliance-watch", 0, syslog.LOG_DAEMON)
    before = verdict.last(door.place)
    changed = bool(before.get("causes")) != bool(seen.causes)
    since = time.time() if changed or not before else float(before.get("since", time.time()))
    seen.waived = _still(before.get("waived", {}), seen)
    try:
        if seen.causes:
            _take_out(given, seen, door, before)
        elif repaired or before.get("causes", True) or before.get("ours"):
            minutes = given.get("return_after_minutes") or 0
            waited = minutes > 0 and time.time() - since >= 60 * minutes
            _look_back(seen, door, repaired=repaired, waited=waited)
    except Silent as error:
        seen.state = verdict.SILENT if seen.causes else verdict.LEFT
        seen.ours, seen.returns = bool(before.get("ours")), bool(before.get("returns"))
        seen.gaps.append(_unreported(door, error))
    _report(seen, door, since, before)
    verdict.keep(door.place, seen, since, given.get("textfiles", ""))
    if changed or before.get("state", "") != seen.state:
        _log(seen)
    return seen


def _take_out(given: dict[str, Any], seen: Verdict, door: Door, before: dict[str, Any]) -> None:
    """A host that an operator resumed stays resumed until a new fault is found."""
    marks = Marks(before.get("marks"))
    seen.marks = marks.kept
    mine = door.nodes()[door.name]
    if before.get("ours") and not mine.is_out:
        seen.waived.update(dict.fromkeys((c["key"] for c in before["causes"]), time.time()))
    fresh = [cause for cause in seen.causes if cause.key not in seen.waived]
    if fresh or mine.is_out:
        first = verdict.Verdict(fresh or seen.causes, [])
        mine = take_out(door, first.reason, given["most_out"], marks=marks)
        seen.marks, seen.gaps = marks.kept, [*seen.gaps, *marks.gaps]
        for gap in set(marks.gaps) - set(before.get("gaps", ())):
            syslog.syslog(syslog.LOG_WARNING, gap)
    else:
        door.withdraw(mine)
    _whose(seen, door, mine)
    seen.state = verdict.OUT if mine.is_out else verdict.OVER if fresh else verdict.LEFT


def _still(waived: dict[str, float], seen: Verdict) -> dict[str, float]:
    """What an operator accepted, while it lasts; an event only until it occurs again."""
    now = time.time()
    standing = {c.key: now - c.age if c.age is not None else 0.0 for c in seen.causes}
    return {key: at for key, at in waived.items() if standing.get(key, at + 1.0) < at}


def _look_back(seen: Verdict, door: Door, *, repaired: bool, waited: bool) -> None:
    """Resume a fit host that this program drained, once it was fit for long enough and if its fault may end by itself."""
    mine = door.nodes()[door.name]
    door.withdraw(mine)
    _whose(seen, door, mine)
    if not mine.is_ours:
        return
    if repaired or (seen.returns and waited):
        door.resume()
        seen.ours = seen.returns = False
    else:
        seen.state = verdict.OUT


def _whose(seen: Verdict, door: Door, mine: Node) -> None:
    seen.ours = mine.is_ours
    seen.returns = mine.is_ours and may_return(door.cause_of(mine))


def may_return(check: str) -> bool:
    """Return whether a host drained for this check may resume by itself; of several causes, the first is the gravest."""
    return bool(check) and check not in BY_OPERATORS


def _report(seen: Verdict, door: Door, since: float, before: dict[str, Any]) -> None:
    try:
        seen.reported = door.report(seen, since, before.get("reported") or {})
    except Silent as error:
        if (gap := _unreported(door, error)) not in seen.gaps:
            seen.gaps.append(gap)


def _unreported(door: Door, error: Silent) -> str:
    return f"{door.place.scheduler} did not get this verdict: {error}"


def _log(seen: Verdict) -> None:
    """Write one line in the system's log for each change."""
    done = {
        verdict.OUT: "gets no new work",
        verdict.OVER: "keeps its work: as many hosts as the site allows are out already",
        verdict.SILENT: "could not be taken out: its scheduler does not answer",
        verdict.LEFT: "keeps its work: an operator resumed it despite this",
    }[seen.state]
    if seen.causes:
        syslog.syslog(syslog.LOG_ERR, f"unfit, {done}: {seen.reason}")
    else:
        syslog.syslog(syslog.LOG_NOTICE, "fit" + ", still out" * (seen.state == verdict.OUT))
