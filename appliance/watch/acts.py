"""Acts on a verdict: drains the host in its scheduler, keeps it, or resumes it, and logs every change."""

from __future__ import annotations

import syslog
import time

from appliance.stages.fabric import ids as fabric_ids
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


PASSING = frozenset({fabric_ids.PORTS, fabric_ids.STATE, fabric_ids.ACTIVE, fabric_ids.RATE})
"""A link that trains again is down for seconds: these faults must be there in two runs."""
PASSING_S = 20.0
DAY_S, MOST_OUTS = 86400.0, 3
"""A host that was out this often within a day stays out: its fault only seems to end."""


def act(given: dict[str, Any], seen: Verdict, door: Door, verb: str = "act") -> Verdict:
    """Carry out the verdict in the scheduler, and store it for others.

    ``verb``: ``resume`` resumes a fit host that this program drained at once, whatever it was drained for. ``resume`` and
    ``prolog`` judge faults that may pass at once, too.
    """
    syslog.openlog("appliance-watch", 0, syslog.LOG_DAEMON)
    before, repaired = verdict.last(door.place), verb == "resume"
    if verb not in {"resume", "prolog"}:
        _wait_for_passing(seen, before)
    seen.outs = [at for at in before.get("outs", ()) if abs(time.time() - at) < DAY_S]
    seen.until = float(before.get("until", 0.0))
    found = bool(before.get("causes"))
    changed = (found or bool(before.get("young"))) != (bool(seen.causes) or bool(seen.young))
    since = time.time() if changed or not before else float(before.get("since", time.time()))
    seen.waived = _still(before.get("waived", {}), seen)
    try:
        if seen.causes:
            _take_out(given, seen, door, before)
        elif not seen.young and (repaired or before.get("causes", True) or before.get("ours")):
            minutes = given.get("return_after_minutes") or 0
            waited = minutes > 0 and time.time() - since >= 60 * minutes
            ours = bool(before.get("ours"))
            _look_back(seen, door, repaired=repaired, waited=waited, ours=ours)
        elif seen.young and before.get("state") == verdict.OUT:
            seen.state = verdict.OUT
            seen.ours, seen.returns = bool(before.get("ours")), bool(before.get("returns"))
    except Silent as error:
        seen.state = verdict.SILENT if seen.causes else verdict.LEFT
        seen.ours, seen.returns = bool(before.get("ours")), bool(before.get("returns"))
        seen.gaps.append(_unreported(door, error))
    _report(seen, door, since, before)
    verdict.keep(door.place, seen, since, given.get("textfiles", ""))
    if found != bool(seen.causes) or before.get("state", "") != seen.state:
        _log(seen)
    return seen


def _wait_for_passing(seen: Verdict, before: dict[str, Any]) -> None:
    """Leave out faults that may pass until a later run finds them again."""
    now, known = time.time(), before.get("young", {})
    passing = [cause for cause in seen.causes if cause.check in PASSING]
    seen.young = {cause.key: min(now, float(known.get(cause.key, now))) for cause in passing}
    fresh = [cause for cause in passing if now - seen.young[cause.key] < PASSING_S]
    seen.causes = [cause for cause in seen.causes if cause not in fresh]
    seen.gaps = [*seen.gaps, *(f"seen once so far: {cause}" for cause in fresh)]


def _take_out(given: dict[str, Any], seen: Verdict, door: Door, before: dict[str, Any]) -> None:
    """A host that an operator resumed stays resumed until a new fault is found."""
    marks = Marks(before.get("marks"))
    seen.marks = marks.kept
    mine = door.nodes()[door.name]
    was_out = mine.is_out
    if before.get("ours") and not was_out:
        seen.outs = []
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
    if mine.is_ours and not was_out:
        seen.outs.append(round(time.time(), 1))
        seen.until = door.announce_end(mine)
    _whose(seen, door, mine)
    seen.state = verdict.OUT if mine.is_out else verdict.OVER if fresh else verdict.LEFT
    if mine.is_ours and time.monotonic() >= seen.until:
        door.end_work(mine, seen)


def _still(waived: dict[str, float], seen: Verdict) -> dict[str, float]:
    """What an operator accepted, while it lasts; an event only until it occurs again."""
    now = time.time()
    standing = {c.key: now - c.age if c.age is not None else 0.0 for c in seen.causes}
    return {key: at for key, at in waived.items() if standing.get(key, at + 1.0) < at}


def _look_back(seen: Verdict, door: Door, *, repaired: bool, waited: bool, ours: bool) -> None:
    """Resume a fit host that this program drained, once it was fit for long enough and if its fault may end by itself.

    ``ours``: this program drained it before; if it is no longer drained, an operator or a deployment has resumed it.
    """
    mine = door.nodes()[door.name]
    door.withdraw(mine)
    _whose(seen, door, mine)
    if not mine.is_ours:
        seen.outs = [] if ours and not mine.is_out else seen.outs
        return
    if repaired or (seen.returns and waited):
        door.resume()
        seen.ours = seen.returns = False
        seen.outs = [] if repaired else seen.outs
    else:
        seen.state = verdict.OUT


def _whose(seen: Verdict, door: Door, mine: Node) -> None:
    seen.ours = mine.is_ours
    seldom = len(seen.outs) < MOST_OUTS
    seen.returns = mine.is_ours and seldom and may_return(door.cause_of(mine))


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
