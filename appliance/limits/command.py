"""The command line of the program on a control host."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import TYPE_CHECKING

from appliance.limits import tell, token
from appliance.limits.api import Api
from appliance.limits.keeper import Keeper
from appliance.limits.lease import Lease
from appliance.limits.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SETTINGS = "/etc/appliance/limits.json"
ROUND_S = 30.0
WAIT_S = 5.0
"""Seconds between two checks for an account that does not exist yet; no request is sent for it."""
BAD, REFUSED = 1, 2
EXAMPLES = """\
examples:
  appliance-limits run           keep the limits, round after round; what the unit starts
  appliance-limits show          what the last round saw
  appliance-limits token         make the program's own kubeconfig anew where that is due (root)

who is over a limit:             journalctl -u appliance-limits
to take a workload out:          kubectl annotate namespace NAMESPACE appliance/limits-exempt=NAME
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it: 0 success, 1 the last round had errors, 2 the request is invalid."""
    parser = argparse.ArgumentParser(
        "appliance-limits",
        description="Ends interactive work at its time limit, and work whose GPUs are idle; has MIG instances made for pods that wait for one.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=("run", "show", "token"))
    parser.add_argument("--file", default=SETTINGS, help="settings (default: %(default)s)")
    asked = parser.parse_args(arguments)
    try:
        if asked.verb == "token":
            sys.stdout.write(token.renew() + "\n")
            return 0
        if asked.verb == "show":
            return _show()
        run(settings(asked.file))
    except Trouble as error:
        sys.stderr.write(f"appliance-limits: {error}\n")
        return REFUSED
    except KeyboardInterrupt:
        pass
    return 0


def settings(file: str) -> dict[str, Any]:
    """Return the role's settings. Raises Trouble."""
    try:
        with open(file, encoding="utf-8") as opened:  # noqa: PTH123
            given = json.load(opened)
    except OSError as error:
        raise Trouble(f"{file}: {error.strerror}") from None
    except ValueError:
        raise Trouble(f"{file} is no JSON") from None
    wanted = {"version", "identity", "prometheus", "dry_run", "textfiles"}
    if not isinstance(given, dict) or set(given) != wanted or given["version"] != 1:
        raise Trouble(f"{file} is not of version 1 with the keys {', '.join(sorted(wanted))}")
    return given


def _show() -> int:
    try:
        with open(tell.STATE, encoding="utf-8") as opened:  # noqa: PTH123
            seen = json.load(opened)
    except OSError as error:
        raise Trouble(
            f"{tell.STATE}: {error.strerror}; systemctl status appliance-limits"
        ) from None
    sys.stdout.write(json.dumps(seen, indent=1, sort_keys=True) + "\n")
    return BAD if seen["problem"] else 0


def run(given: dict[str, Any]) -> None:
    """Run rounds until it is stopped."""
    keeper = Keeper(Lease(given["identity"]), given["prometheus"], dry_run=given["dry_run"])
    journal = tell.Journal()
    success = 0.0
    while True:
        began = time.monotonic()
        seen = look(keeper, token.FILE)
        journal.say("round", seen["problem"] or seen["waits"])
        success = time.time() if not seen["problem"] else success
        leave(seen, keeper, success, given["textfiles"])
        pause = WAIT_S if seen["waits"] else ROUND_S
        time.sleep(max(1.0, pause - (time.monotonic() - began)))


def look(keeper: Keeper, kubeconfig: str) -> dict[str, Any]:
    """Run one round, and report its errors."""
    problem = waits = ""
    try:
        if os.path.exists(kubeconfig):  # noqa: PTH110
            api = Api(kubeconfig)
            try:
                keeper.round(api)
            finally:
                api.close()
        else:
            keeper.seen, waits = (
                {},
                "waits for appliance queue apply: the service account does not exist yet",
            )
    except Trouble as error:
        problem = str(error)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        # An unexpected answer of a server must not stop the program: the next round tries again.
        problem = f"an answer is invalid ({type(error).__name__}: {error})"
    return {**keeper.seen, "problem": problem, "waits": waits, "taken": time.time()}


def leave(seen: dict[str, Any], keeper: Keeper, success: float, textfiles: str) -> None:
    """Write state for checks, and metrics for Prometheus. A file that cannot be written is reported; the round counts."""
    unknown = {f'unknown{{limit="{k}"}}': v for k, v in (seen.get("unknown") or {}).items()}
    ended = {f'ended_total{{limit="{k}"}}': v for k, v in keeper.totals.items()}
    values = {
        "round_timestamp_seconds": seen["taken"],
        "success_timestamp_seconds": success,
        "leader": float(bool(seen.get("leader"))),
        "pods": seen.get("pods") or 0,
        "stuck": seen.get("stuck", 0),
        **unknown,
        **ended,
    }
    try:
        tell.state(seen)
        tell.metrics(values, textfiles)
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}\n")
