"""The command line of the program on a GPU host."""

from __future__ import annotations

import argparse
import json
import os
import sys

from appliance.watch import lock, programs, rules, verdict
from appliance.watch.acts import act
from appliance.watch.cluster import Cluster
from appliance.watch.facts import taken
from appliance.watch.scontrol import Slurm
from appliance.watch.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from appliance.watch.node import Door

USUAL = "appliance-watch"
SETTINGS = {
    USUAL: "/etc/appliance/watch.json",
    "appliance-node-watch": "/etc/appliance/node-watch.json",
}
"""The program has a name for each scheduler, and by it its settings."""
FIT, UNFIT, REFUSED, OUT = 0, 1, 2, 9
"""OUT is a distinct number: a crash in a prolog must not look like a drained host."""
DOORS = {"slurm": Slurm, "kubernetes": Cluster}
EXAMPLES = """\
examples:
  %(prog)s look     judge this host and print what is wrong; changes nothing
  %(prog)s act      the same, and drain an unfit host, within the limit; Slurm or a timer runs it every minute
  %(prog)s resume   the same, and resume a host that drained itself if it is fit, also after a fault of a GPU
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
    parser.add_argument("verb", choices=("look", "act", "resume", "prolog"))
    usual = "settings (default: %(default)s)"
    parser.add_argument("--file", default=SETTINGS[name], help=usual)
    asked = parser.parse_args(arguments)
    os.umask(0o022)
    prolog = asked.verb == "prolog"
    given = settings(asked.file)
    if isinstance(given, str):
        # A missing configuration does not drain the host; check slurm.watch reports it.
        sys.stderr.write(f"{name}: {given}\n")
        return FIT if prolog else REFUSED
    if asked.verb == "look":
        return _say(look(given))
    try:
        with lock.alone():
            seen = act(given, look(given), door(given), repaired=asked.verb == "resume")
    except lock.Busy as error:
        sys.stderr.write(f"{name}: {error}\n")
        return _left(verdict.last(door(given).place).get("state", "")) if prolog else REFUSED
    return _left(seen.state) if prolog else _say(seen)


def door(given: dict[str, Any]) -> Door:
    """Return the scheduler that gives this host work."""
    chosen: Door = DOORS[given.get("scheduler", "slurm")](given["node"])
    return chosen


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


def look(given: dict[str, Any]) -> Verdict:
    """Return all causes, those of the site's programs last."""
    expects, place = given.get("expects"), door(given).place
    if not expects:
        return Verdict(list(programs.causes(place)), [])
    facts = taken()
    seen = Verdict([*rules.causes(facts, expects), *programs.causes(place)], rules.gaps(facts))
    seen.xids = rules.xids(facts, expects)
    return seen


def _say(seen: Verdict) -> int:
    for line in (*map(str, seen.causes), *seen.gaps):
        sys.stdout.write(line + "\n")
    return UNFIT if seen.causes else FIT
