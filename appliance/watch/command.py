"""The command line of the program on a GPU host."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time

from appliance.stages.slurm import ids as slurm_ids
from appliance.watch import lock, programs, rules, verdict
from appliance.watch.acts import act
from appliance.watch.cluster import Cluster
from appliance.watch.facts import gpus, taken
from appliance.watch.scontrol import Slurm
from appliance.watch.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from appliance.watch.node import Door
    from appliance.watch.place import Place
    from appliance.watch.verdict import Cause

USUAL = "appliance-watch"
SETTINGS = {
    USUAL: "/etc/appliance/watch.json",
    "appliance-node-watch": "/etc/appliance/node-watch.json",
}
"""The program has a name for each scheduler, and by it its settings."""
JOB_GPUS, NUMBER = "SLURM_JOB_GPUS", re.compile("[0-9]+")
"""GPUs of the job, by number; Slurm sets it for prolog and epilog, users cannot."""
FREED_S, PAUSE_S = 0.8, 0.2
FIT, UNFIT, REFUSED, OUT = 0, 1, 2, 9
"""OUT is a distinct number: a crash in a prolog must not look like a drained host."""
EXAMPLES = """\
examples:
  %(prog)s look     judge this host and print what is wrong; changes nothing
  %(prog)s act      the same, and drain an unfit host, within the limit; Slurm or a timer runs it every minute
  %(prog)s resume   the same, and resume a host that drained itself if it is fit, also after a fault of a GPU
  %(prog)s epilog   after a job of Slurm, also what it left on its GPUs; drains an unfit host within the limit
  %(prog)s prolog   the same before a job of Slurm; exit code 9 if the host is drained, so that the job runs elsewhere
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it: 0 fit, 1 unfit, 2 the request is invalid; prolog: 9 if the host accepts no jobs, else 0."""
    called = os.path.basename(sys.argv[0])  # noqa: PTH119 - pathlib costs 15 ms
    name = called if called in SETTINGS else USUAL
    parser = argparse.ArgumentParser(
        name,
        description="Checks whether this host is fit for work, and drains it in its scheduler if it is not.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=("look", "act", "resume", "prolog", "epilog"))
    usual = "settings (default: %(default)s)"
    parser.add_argument("--file", default=SETTINGS[name], help=usual)
    asked = parser.parse_args(arguments)
    os.umask(0o022)
    prolog = asked.verb == "prolog"
    given = settings(asked.file)
    if isinstance(given, str):
        # A missing configuration does not drain the host; check slurm.watch reports it.
        sys.stderr.write(f"{name}: {given}\n")
        return FIT if prolog or asked.verb == "epilog" else REFUSED
    if asked.verb == "look":
        return _say(look(given))
    if asked.verb == "epilog":
        return _epilog(given)
    try:
        with lock.alone():
            seen = act(given, look(given), door(given), asked.verb)
    except lock.Busy as error:
        sys.stderr.write(f"{name}: {error}\n")
        return _left(verdict.last(door(given).place).get("state", "")) if prolog else REFUSED
    return _left(seen.state) if prolog else _say(seen)


def door(given: dict[str, Any]) -> Door:
    """Return the scheduler that gives this host work."""
    if given.get("scheduler") == "kubernetes":
        return Cluster(given["node"], end_minutes=given.get("end_pods_after_minutes") or 0)
    return Slurm(given["node"])


def _left(state: str) -> int:
    """Return the prolog's exit code by this state of the host."""
    return OUT if state == verdict.OUT else FIT


def settings(file: str) -> dict[str, Any] | str:
    """Return the role's settings, or why they are unavailable."""
    try:
        with open(file, encoding="utf-8") as opened:  # noqa: PTH123
            given = json.load(opened)
    except OSError as error:
        return f"{file}: {error.strerror}"
    except ValueError:
        return f"{file} is no JSON"
    if not isinstance(given, dict) or given.get("version") != 1:
        return f"{file} is not of version 1"
    return given


def _epilog(given: dict[str, Any]) -> int:
    """Always 0: Slurm drains a host whose epilog fails, without any limit. The site's programs are not run for a fit host."""
    expects, numbers = given.get("expects"), NUMBER.findall(os.environ.get(JOB_GPUS, ""))
    if not expects:
        return FIT
    facts = taken()
    if not [*rules.causes(facts, expects), *_stays(facts, set(numbers), expects)]:
        return FIT
    try:
        with lock.alone():
            _say(act(given, _judged(given, facts, set(numbers)), door(given)))
    except lock.Busy as error:
        sys.stderr.write(f"epilog: {error}\n")
    return FIT


def _stays(facts: dict[str, Any], numbers: set[str], expects: dict[str, Any]) -> list[Cause]:
    """What stays on GPUs; the driver needs a moment to free the memory of a process that was killed."""
    until = time.monotonic() + FREED_S
    left = list(rules.leftovers(facts, numbers, expects))
    while left and time.monotonic() < until:
        time.sleep(PAUSE_S)
        facts["gpus"] = gpus() or facts["gpus"]
        left = list(rules.leftovers(facts, numbers, expects))
    return left


def _suspected(place: Place) -> set[str]:
    """GPUs on which the last run found what a job had left; none on a host that may have given them to another job since."""
    last = verdict.last(place)
    causes = last.get("causes", ()) if last.get("state") == verdict.OUT else ()
    parts = (one["part"] for one in causes if one["check"] == slurm_ids.IDLE_GPUS)
    return {part.rpartition(" ")[2] for part in parts}


def look(given: dict[str, Any]) -> Verdict:
    """Return all causes, those of the site's programs last."""
    if not given.get("expects"):
        return Verdict(list(programs.causes(door(given).place)), [])
    return _judged(given, taken(), set())


def _judged(given: dict[str, Any], facts: dict[str, Any], numbers: set[str]) -> Verdict:
    """The same by these facts. ``numbers``: GPUs whose job has ended."""
    expects, place = given["expects"], door(given).place
    left = rules.leftovers(facts, _suspected(place) | numbers, expects)
    found = [*rules.causes(facts, expects), *left]
    found += [*rules.kept(facts, found, verdict.last(place)), *programs.causes(place)]
    seen = Verdict(found, rules.gaps(facts))
    seen.blind = dict(facts.get("errors", {}))
    seen.xids = rules.xids(facts, expects)
    return seen


def _say(seen: Verdict) -> int:
    for line in (*map(str, seen.causes), *seen.gaps):
        sys.stdout.write(line + "\n")
    return UNFIT if seen.causes else FIT
