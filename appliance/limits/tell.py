"""Output of the program: events of workloads, lines in the journal, metrics and its state in files."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from appliance.limits.api import Api
    from appliance.limits.pods import Owner

NAME = "appliance-limits"
STATE = "/run/appliance-limits/state.json"
METRICS = "appliance_limits.prom"
HELP = {
    "round_timestamp_seconds": ("gauge", "End of the last round"),
    "success_timestamp_seconds": ("gauge", "End of the last round without an error"),
    "leader": ("gauge", "1: this host acts, 0: another one does"),
    "pods": ("gauge", "Pods in the projects' namespaces that have not ended"),
    "unknown": (
        "gauge",
        "Workloads not judged because data is missing, by limit",
    ),
    "stuck": ("gauge", "Workloads that were ended but still exist"),
    "ended_total": ("counter", "Workloads ended, by limit"),
}


class Journal:
    """One line for each change: an unchanged message is not repeated."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        self._spoken: set[str] = set()

    def say(self, subject: str, words: str) -> None:
        """Write the message if it is new; "" ends a problem."""
        self._spoken.add(subject)
        if self._said.get(subject, "") == words:
            return
        self._said[subject] = words
        sys.stderr.write(f"{shown(subject)}: {shown(words) or 'well again'}\n")

    def keep(self, subjects: set[str]) -> None:
        """Forget the messages of all subjects without a message since the last call."""
        left = subjects | self._spoken
        self._said = {key: said for key, said in self._said.items() if key in left}
        self._spoken = set()


def shown(text: str) -> str:
    """Return the text on one line, without control characters, because hosts and members choose a part of it."""
    return "".join(c if c.isprintable() else " " for c in text)


def event(api: Api, about: Owner, reason: str, words: str) -> None:
    """Create an event, which kubectl describe shows. Raises Trouble."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: UP017 - Python 3.8
    made = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{about.name[:40]}.limits-", "namespace": about.namespace},
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        },
        "type": "Warning",
        "reason": reason,
        "message": words[:1000],
        "source": {"component": NAME},
        "reportingComponent": NAME,
        "reportingInstance": os.uname().nodename,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    api.create(f"/api/v1/namespaces/{about.namespace}/events", made)


def state(document: Mapping[str, Any], file: str = STATE) -> None:
    """Write the state for checks."""
    _write(file, json.dumps(document, sort_keys=True) + "\n")


def metrics(values: Mapping[str, float], folder: str) -> None:
    """Write metrics for the node exporter; keys may contain labels."""
    lines = []
    for name, (kind, words) in HELP.items():
        lines += [
            f"# HELP appliance_limits_{name} {words}",
            f"# TYPE appliance_limits_{name} {kind}",
        ]
        lines += [
            f"appliance_limits_{k} {v:.0f}"
            for k, v in values.items()
            if k.partition("{")[0] == name
        ]
    _write(os.path.join(folder, METRICS), "".join(line + "\n" for line in lines))  # noqa: PTH118


def _write(file: str, text: str) -> None:
    """Write a new file and rename it, because other users may write to the folder of metrics."""
    new = file + ".new"
    with suppress(FileNotFoundError):
        os.unlink(new)  # noqa: PTH108
    made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with open(made, "w", encoding="utf-8") as opened:  # noqa: PTH123
        opened.write(text)
        os.fchmod(made, 0o644)
    os.replace(new, file)  # noqa: PTH105
