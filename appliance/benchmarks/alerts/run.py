"""Sends one test alert to each receiver of the site, and reports the response."""

import json
import secrets
from importlib.resources import files

from appliance.adapters.remote import Remote
from appliance.benchmarks.benchmark import Outcome
from appliance.checks.check import View, failed, not_assessed, passed
from appliance.errors import ApplianceError, ConnectionFailed
from appliance.models.result import CLUSTER, Judgement, Place, place
from appliance.models.site import Role
from appliance.stages.observe.site import Receiver

CHECK = "alerts.delivery"
PATIENCE = 20.0
"""Seconds to the first attempt; the trial's route waits for no others."""
TIMEOUT = PATIENCE + 30
DEPLOY = "appliance deploy --stage observe"
NONE = "observe.receivers is empty"
HOW = "add observe: {receivers: [{name: oncall, email: oncall@example.com}]} and mail, as docs/operations.md shows"


def run(view: View, remote: Remote) -> Outcome:
    """A verdict for each receiver."""
    receivers = view.site.observe.receivers
    if not receivers:
        return Outcome(results=(not_assessed(CLUSTER, NONE, fix=HOW).of(CHECK),))
    server = view.site.with_role(Role.CONTROL)[0].name
    return Outcome(
        results=tuple(_delivery(remote, server, view.site.name, r).of(CHECK) for r in receivers)
    )


def _delivery(remote: Remote, server: str, site: str, receiver: Receiver) -> Judgement:
    at = place(CLUSTER, f"to {receiver.name}")
    kind = "email" if receiver.email else "webhook" if receiver.webhook else "slack"
    words = (receiver.name, kind, site, secrets.token_hex(8), str(PATIENCE))
    program = files(__package__).joinpath("send.py").read_bytes()
    try:
        done = remote.run(server, ("python3", "-IS", "-", *words), input=program, timeout=TIMEOUT)
    except ConnectionFailed as error:
        return not_assessed(at, error.message)
    except ApplianceError as error:
        return failed(at, error.message, f"on {server}: systemctl status prometheus-alertmanager")
    return _judged(at, kind, server, done.stdout, done.stderr)


def _judged(at: Place, kind: str, server: str, output: str, errors: str) -> Judgement:
    try:
        said = json.loads(output)
        state, why = said["state"], str(said.get("why", ""))
    except (ValueError, KeyError, TypeError):
        last = (errors.strip().splitlines() or ["it printed nothing"])[-1]
        return not_assessed(at, f"the test alert could not be sent from {server}: {last}")
    if state == "delivered":
        return passed(at, float(said["seconds"]), unit="s", evidence=f"taken by {kind}")
    if state == "silent":
        return failed(at, why, f"{DEPLOY}; then on {server}: journalctl -u prometheus-alertmanager")
    fix = f"fix that, or its address in observe.receivers, then {DEPLOY}; then: appliance validate alerts"
    return failed(at, f"test alert not delivered: {why}", fix)
