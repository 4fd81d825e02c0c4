"""The loop of MIG on demand on a host, with changes in the journal and a report for the probe."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from appliance.mig import clients
from appliance.mig.layout import Refused
from appliance.mig.node import KUBECONFIG, Node
from appliance.mig.server import Clock, Server
from appliance.probe import files
from appliance.probe.nvml import Failure

if TYPE_CHECKING:
    from typing import Any

    from appliance.mig.demand import Policy

ROUND_S = 15.0
FOLDER = clients.RUN + "/appliance-mig"
REPORT = FOLDER + "/demand.json"
ENDS = {signal.SIGTERM, signal.SIGINT}
NOBODY = "waits for this host to join a cluster"


def serve(policy: Policy) -> None:
    """Run rounds until it is stopped; a change in progress is then ended cleanly."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    clock = Clock(ended=lambda: bool(signal.sigpending() & ENDS))
    server = Server(policy, Node(policy.node), clock)
    said = ""
    while True:
        report = look(server)
        news = str(report["problem"] or report["waits"])
        if news != said:
            sys.stderr.write(f"{news or 'well again'}\n")
            said = news
        try:
            leave(report)
        except OSError as error:
            sys.stderr.write(f"{error.filename}: {error.strerror}\n")
        if signal.sigtimedwait(ENDS, ROUND_S):
            return


def look(server: Server) -> dict[str, Any]:
    """Run one round, whatever its result is."""
    if not files.exists(KUBECONFIG):
        return {"problem": "", "waits": NOBODY, "taken_at": time.time()}
    report: dict[str, Any] = {"problem": ""}
    try:
        report = server.round()
    except (Refused, Failure) as error:
        report = {"problem": str(error)}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        # An unexpected answer of the API must not stop the program: the next round tries again.
        report = {"problem": f"an answer is invalid ({type(error).__name__}: {error})"}
    return {"waits": "", **report, "taken_at": time.time()}


def leave(report: dict[str, Any]) -> None:
    """Write the report where the probe reads it."""
    os.makedirs(FOLDER, exist_ok=True)  # noqa: PTH103
    with open(REPORT + ".new", "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(json.dumps(report, sort_keys=True) + "\n")
    os.replace(REPORT + ".new", REPORT)  # noqa: PTH105
