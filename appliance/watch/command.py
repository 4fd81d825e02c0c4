"""The command line of the program on a GPU host."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import time

from appliance.watch import programs, verdict
from appliance.watch.bound import Outcome, take_out
from appliance.watch.scontrol import Silent, Slurm
from appliance.watch.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SETTINGS = "/etc/appliance/watch.json"
LOCK = "/run/appliance/watch.lock"
FIT, UNFIT, REFUSED, OUT = 0, 1, 2, 9
"""OUT is a number of its own: a program that ends badly in a prolog must not look like a host that is out."""
EXAMPLES = """\
examples:
  appliance-watch look           judge this host and say what is wrong; changes nothing
  appliance-watch act            the same, and take the host out of Slurm, within the bound; what Slurm runs every minute
  appliance-watch prolog         the same before a job; ends with 9 where the host is out, so that the job goes elsewhere
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it: 0 fit, 1 unfit, 2 the request cannot be carried out; prolog: 9 where the host takes no jobs, else 0."""
    parser = argparse.ArgumentParser(
        "appliance-watch",
        description="Judges this host for the scheduler that gives it work.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=("look", "act", "prolog"))
    parser.add_argument("--file", default=SETTINGS, help="settings (default: %(default)s)")
    asked = parser.parse_args(arguments)
    given = settings(asked.file)
    if isinstance(given, str):
        # A host is not taken from work because its watch is not set up; the check slurm.watch tells of it.
        sys.stderr.write(f"appliance-watch: {given}\n")
        return FIT if asked.verb == "prolog" else REFUSED
    if asked.verb == "look":
        return _say(look(given))
    with open(_made(LOCK), "w", encoding="utf-8") as lock:  # noqa: PTH123 - pathlib costs 15 ms
        fcntl.flock(lock, fcntl.LOCK_EX)
        seen = act(given, look(given), Slurm(given["node"]))
    if asked.verb == "prolog":
        return OUT if seen.slurm == verdict.OUT else FIT
    return _say(seen)


def settings(file: str) -> dict[str, Any] | str:
    """What the role wrote, or why it cannot be had."""
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
    """All causes; what a program of the site finds comes last."""
    del given
    return Verdict(list(programs.causes()))


def act(given: dict[str, Any], seen: Verdict, slurm: Slurm) -> Verdict:
    """Does what the verdict asks for in Slurm, and leaves it for others to read."""
    before = verdict.last()
    if seen.causes:
        try:
            out = take_out(slurm, seen.reason, given["most_out"]) is Outcome.OUT
            seen.slurm = verdict.OUT if out else verdict.OVER
        except Silent as error:
            seen.slurm = verdict.SILENT
            seen.gaps.append(f"Slurm was not told: {error}")
    elif before.get("causes", True):
        try:
            mine = slurm.nodes()[slurm.name]
            slurm.withdraw(mine)
        except Silent as error:
            seen.gaps.append(f"Slurm was not asked: {error}")
    changed = bool(before.get("causes")) != bool(seen.causes)
    since = time.time() if changed or not before else float(before.get("since", time.time()))
    verdict.keep(seen, since, given.get("textfiles", ""))
    if changed or before.get("slurm", "") != seen.slurm:
        _log(seen)
    return seen


def _log(seen: Verdict) -> None:
    """One line in the system's log for each change."""
    import syslog

    syslog.openlog("appliance-watch", 0, syslog.LOG_DAEMON)
    if not seen.causes:
        syslog.syslog(syslog.LOG_NOTICE, "fit for work")
        return
    done = {
        verdict.OUT: "takes no jobs",
        verdict.OVER: "keeps its jobs: as many hosts as the site allows are out already",
        verdict.SILENT: "could not be taken out: Slurm's controller does not answer",
    }.get(seen.slurm, "")
    syslog.syslog(syslog.LOG_ERR, f"unfit, {done}: {seen.reason}")


def _say(seen: Verdict) -> int:
    for line in (*map(str, seen.causes), *seen.gaps):
        sys.stdout.write(line + "\n")
    return UNFIT if seen.causes else FIT


def _made(path: str) -> str:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120
    return path
