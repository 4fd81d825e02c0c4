"""Runs on the host of Alertmanager: hands it one trial alert for one receiver, and prints how it went. Standard library only.

Arguments: receiver, kind of its integration, name of the site, token, seconds to wait. Prints a JSON object: ``state`` is
delivered, failed or silent; ``why``; ``seconds``.
"""

from __future__ import annotations

import json
import re
import subprocess  # noqa: TID251 - stands alone on the host
import sys
import time
import urllib.request

ALERTMANAGER = "http://127.0.0.1:9093"
UNIT = "prometheus-alertmanager.service"
METRIC = re.compile(
    r'^alertmanager_notification_requests(_failed)?_total\{[^}]*integration="([a-z]+)"[^}]*\} ([0-9.e+]+)$',
    re.MULTILINE,
)
REASON = re.compile(r'receiver=(\S+) .*?\berr="((?:[^"\\]|\\.)*)"')
ADDRESS = re.compile(r'\\?"?https?://[^\s"\\]+\\?"?')
"""Who knows the address of a webhook can post there."""


def asked(path: str, body: bytes | None = None) -> str:
    """What Alertmanager answers. Raises OSError."""
    request = urllib.request.Request(
        ALERTMANAGER + path, body, {"Content-Type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=5) as answer:
        return str(answer.read().decode("utf-8"))


def counted(kind: str) -> list[float]:
    """Attempts by this integration, and how many of them failed."""
    found = [(bool(m[1]), float(m[3])) for m in METRIC.finditer(asked("/metrics")) if m[2] == kind]
    return [sum(value for failed, value in found if failed is of) for of in (False, True)]


def reason(receiver: str, since: int) -> str:
    """What Alertmanager's journal says of its last attempt, without addresses that are secret."""
    argv = ["journalctl", "--unit", UNIT, "--output", "cat", "--quiet", f"--since=@{since}"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=20).stdout
    found = [m[2] for m in REASON.finditer(said) if m[1] == receiver]
    return (
        ADDRESS.sub("its address", found[-1].replace('\\"', '"'))
        if found
        else "it does not say why"
    )


def main() -> dict[str, object]:
    """Send, wait for the first attempt, and tell it from a failed one."""
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
        "summary": f"A trial of site {site}: nothing is wrong",
        "remedy": "None is needed. It was sent by: appliance validate alerts",
    }
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began + 60))
    try:
        attempts, failures = counted(kind)
        asked(
            "/api/v2/alerts",
            json.dumps([{"labels": labels, "annotations": told, "endsAt": ends}]).encode(),
        )
        while (now := counted(kind))[0] == attempts and time.time() < began + float(patience):
            time.sleep(0.2)
        now = counted(kind)
    except OSError as error:
        return {"state": "silent", "why": f"Alertmanager does not answer: {error}"}
    if now[0] == attempts:
        return {"state": "silent", "why": "Alertmanager made no attempt in time"}
    if now[1] > failures:
        return {"state": "failed", "why": reason(receiver, int(began))}
    return {"state": "delivered", "seconds": round(time.time() - began, 1)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main()) + "\n")
