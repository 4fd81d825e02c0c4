"""Runs on the host of Alertmanager: sends one test alert to one receiver, and prints the result. Standard library only.

Arguments: receiver, kind of its integration, name of the site, token, seconds to wait. Prints a JSON object: ``state`` is
delivered, failed or silent; ``why``; ``seconds``.
"""

from __future__ import annotations

import json
import re
import subprocess  # noqa: TID251 - stands alone on the host
import sys
import time
import urllib.parse
import urllib.request

ALERTMANAGER = "http://127.0.0.1:9093"
UNIT = "prometheus-alertmanager.service"
METRIC = re.compile(
    r'^alertmanager_notification_requests(_failed)?_total\{[^}]*integration="([a-z]+)"[^}]*\} ([0-9.e+]+)$',
    re.MULTILINE,
)
REASONS = (
    r'receiver={name} .*?\berr="((?:[^"\\]|\\.)*)"',
    r'err="{name}/[a-z]+\[\d+\]: ((?:[^"\\]|\\.)*)"',
)
"""Alertmanager's log messages for an attempt that it repeats, and for one that it abandons."""
ADDRESS = re.compile(r'\\?"?https?://[^\s"\\]+\\?"?')
"""Anyone who knows the address of a webhook can post to it."""
POLL, GRACE = 0.3, 0.7
"""s; the second between a count and the journal's line of the same attempt."""


def asked(path: str, body: bytes | None = None) -> str:
    """Returns Alertmanager's answer. Raises OSError."""
    request = urllib.request.Request(
        ALERTMANAGER + path, body, {"Content-Type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=5) as answer:
        return str(answer.read().decode("utf-8"))


def taken(kind: str) -> float:
    """Messages that some receiver of this integration took: what fails for another one meanwhile does not count."""
    found = [(m[1], float(m[3])) for m in METRIC.finditer(asked("/metrics")) if m[2] == kind]
    return sum(-value if failed else value for failed, value in found)


def held_back(receiver: str, token: str) -> str:
    """The reason why the test alert cannot reach its receiver; "" if nothing prevents it."""
    wanted = urllib.parse.quote(f'trial="{token}"')
    found = json.loads(asked(f"/api/v2/alerts?filter={wanted}"))
    if not any(to["name"] == receiver for alert in found for to in alert["receivers"]):
        return "Alertmanager does not route it to this receiver"
    if all(alert["status"]["state"] == "suppressed" for alert in found):
        return "a silence or another alert suppresses it"
    return ""


def reason(receiver: str, since: float) -> str:
    """The reason of the last failed attempt, from Alertmanager's journal and without secret addresses; "" if none failed."""
    argv = ["journalctl", "--unit", UNIT, "--output", "cat", "--quiet", f"--since=@{int(since)}"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=20).stdout
    name = re.escape(receiver)
    found = [why for form in REASONS for why in re.findall(form.format(name=name), said)]
    return ADDRESS.sub("its address", found[-1].replace('\\"', '"')) if found else ""


def main() -> dict[str, object]:
    """Send, and wait until it is taken or refused."""
    receiver, kind, site, token, patience = sys.argv[1:]
    began = time.time()
    labels = {
        "alertname": "ApplianceTrial",
        "receiver": receiver,
        "trial": token,
        "site": site,
        "severity": "critical",
    }
    told = {
        "summary": f"Test alert of site {site}: nothing is wrong",
        "remedy": "No action is needed. It was sent by: appliance validate alerts",
    }
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began + 60))
    alert = {"labels": labels, "annotations": told, "endsAt": ends}
    try:
        before = taken(kind)
        asked("/api/v2/alerts", json.dumps([alert]).encode())
        while time.time() < began + float(patience):
            is_taken = taken(kind) > before
            time.sleep(GRACE if is_taken else POLL)
            if why := reason(receiver, began):
                return {"state": "failed", "why": why}
            if why := held_back(receiver, token):
                return {"state": "silent", "why": why}
            if is_taken:
                return {"state": "delivered", "seconds": round(time.time() - began, 1)}
    except OSError as error:
        return {"state": "silent", "why": f"Alertmanager does not answer: {error}"}
    return {"state": "silent", "why": "Alertmanager made no attempt in time"}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main()) + "\n")
