"""The rules file of role observe, and the page that its runbook links open."""

import json
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby

from appliance.alerts.alert import Alert

HEAD = (
    "# Managed by appliance; changes are overwritten. Put your own rules into another file of this folder.\n"
    "# Written by make published from appliance/alerts.\n"
    "---\n"
)
RUNBOOK = "{{ $externalURL }}/user/checks.html#"
"""Prometheus itself serves the page, so that the link works without internet access."""


def rules(alerts: Iterable[Alert]) -> str:
    """The file in Prometheus's format; strings as in JSON, which is valid YAML."""
    groups = [_group(area, tuple(of)) for area, of in groupby(alerts, lambda alert: alert.area)]
    return f"{HEAD}groups:\n{''.join(groups)}"


def _group(area: str, alerts: Sequence[Alert]) -> str:
    return f"  - name: appliance-{area}\n    rules:\n" + "\n".join(map(_rule, alerts))


def _rule(alert: Alert) -> str:
    lines = (
        f"      - alert: {alert.name}",
        f"        expr: {_text(alert.bounded)}",
        f"        for: {alert.minutes}m",
        "        labels:",
        f"          severity: {alert.severity}",
        f"          area: {alert.area}",
        "        annotations:",
        f"          summary: {_text(alert.summary)}",
        f"          remedy: {_text(alert.remedy)}",
        f"          explained_by: {_text(f'appliance explain {alert.check}')}",
        f"          runbook_url: {_text(RUNBOOK + alert.check)}",
    )
    return "".join(f"{line}\n" for line in lines)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Checks and their usual causes</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:46em;margin:2em auto;padding:0 1em}}
section{{border-top:1px solid #ccc;padding:.5em 0}}:target{{background:#fff3c4}}code{{background:#eee;padding:0 .2em}}</style>
</head><body><h1>Checks and their usual causes</h1>
<p>Written by appliance. <code>appliance health</code> runs all checks now and shows the remedy of each finding.</p>
{sections}
</body></html>
"""


def runbook(entries: Iterable[tuple[str, str, str, str]], alerts: Sequence[Alert]) -> str:
    """The page of checks with an anchor for each; ``entries`` are id, title, explanation and limit."""
    return PAGE.format(sections="\n".join(_section(entry, alerts) for entry in entries))


def _section(entry: tuple[str, str, str, str], alerts: Sequence[Alert]) -> str:
    check, title, explain, limit = (escape(cell) for cell in entry)
    own = [
        f"<li><b>{escape(a.name)}</b>: {escape(a.remedy)}</li>" for a in alerts if a.check == check
    ]
    listed = f"<ul>{''.join(own)}</ul>" if own else ""
    return (
        f'<section id="{check}"><h2>{title} <code>{check}</code></h2><p>{explain}</p><p>Limit: {limit}.</p>'
        f"<p>Now: <code>appliance health --check {check}</code></p>{listed}</section>"
    )
