"""The command line of the program on a GPU host."""

from __future__ import annotations

import argparse
import json
import os
import sys

from appliance.watch import lock, programs, rules, verdict
from appliance.watch.acts import act
from appliance.watch.facts import taken
from appliance.watch.scontrol import Slurm
from appliance.watch.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SETTINGS = "/etc/appliance/watch.json"
FIT, UNFIT, REFUSED, OUT = 0, 1, 2, 9
"""OUT is a distinct number: a crash in a prolog must not look like a drained host."""
EXAMPLES = """\
examples:
  appliance-watch look           judge this host and say what is wrong; changes nothing
  appliance-watch act            the same, and take the host out of Slurm, within the bound; what Slurm runs every minute
  appliance-watch prolog         the same before a job; ends with 9 where the host is out, so that the job goes elsewhere
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it: 0 fit, 1 unfit, 2 the request is invalid; prolog: 9 if the host accepts no jobs, else 0."""
    parser = argparse.ArgumentParser(
        "appliance-watch",
        description="Judges this host for the scheduler that gives it work.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=("look", "act", "prolog"))
    parser.add_argument("--file", default=SETTINGS, help="settings (default: %(default)s)")
    asked = parser.parse_args(arguments)
    os.umask(0o022)
    given = settings(asked.file)
    if isinstance(given, str):
        # A missing configuration does not drain the host; check slurm.watch reports it.
        sys.stderr.write(f"appliance-watch: {given}\n")
        return FIT if asked.verb == "prolog" else REFUSED
    if asked.verb == "look":
        return _say(look(given))
    try:
        with lock.alone():
            seen = act(given, look(given), Slurm(given["node"]))
    except lock.Busy as error:
        sys.stderr.write(f"appliance-watch: {error}\n")
        return _left() if asked.verb == "prolog" else REFUSED
    return _left(seen.slurm) if asked.verb == "prolog" else _say(seen)


def _left(slurm: str | None = None) -> int:
    """Return the prolog's exit code by this verdict, or by the previous one if there is none."""
    known = verdict.last().get("slurm") if slurm is None else slurm
    return OUT if known == verdict.OUT else FIT


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
    expects = given.get("expects")
    if not expects:
        return Verdict(list(programs.causes()), [])
    facts = taken()
    seen = Verdict([*rules.causes(facts, expects), *programs.causes()], rules.gaps(facts))
    seen.xids = rules.xids(facts, expects)
    return seen


def _say(seen: Verdict) -> int:
    for line in (*map(str, seen.causes), *seen.gaps):
        sys.stdout.write(line + "\n")
    return UNFIT if seen.causes else FIT
