"""docs/boards.md: every panel with its query, and what each that the rack cannot feed needs."""

import re
from collections.abc import Iterable

from appliance.alerts import ALERTS
from appliance.alerts.alert import Alert
from boards.panel import Board, Panel

PAGE = "docs/boards.md"
LABEL = re.compile(r"\{\{ \$(?:labels\.(\w+)|value)[^}]*\}\}")
ALERT_HEAD = """
## Alerts

*Critical*: jobs fail, or will soon. *Warning*: somebody should look during the day. What to do stands in the alert itself, and under its check.

| alert | severity | says | after | check |
|---|---|---|---|---|"""

HEAD = """# Boards and alerts

<!-- Written by make published; changes here are undone. -->

Six boards for Grafana and the alert rules of Prometheus come with stage `observe`. The boards are made with Grafana's own
foundation SDK from `boards/` and the rules from `appliance/alerts`; `make published` writes
both, and this page.

- **Alerts** name what is wrong, what to do, the check that explains it, and a `runbook_url`: the page of all checks, which
  Prometheus on the first control host serves itself at `http://127.0.0.1:9090/user/checks.html`, so that it works without
  internet, [through ssh](operations.md#who-may-ask). Every rule is tested with `promtool`, with its fault and without (`tests/integration/test_alerts.py`).
- **Boards** lie on the first control host in `/usr/local/share/appliance/boards`, with data source and provider below
  `/etc/grafana/provisioning`. **Grafana itself never ran here**: Debian does not package it. What has been shown is that
  the query of every panel returns series from the rack's Prometheus, or that it does not for the reason given below
  (`tests/integration/test_boards.py`); no board has been looked at in a browser.
- **Queue, account and job metrics** of Slurm come from `slurm_metrics.py`, which a timer runs every 30 seconds on the first
  control host. A past job stays visible as long as Prometheus keeps samples (`observe.retention_days`).
- **Metrics of a cluster** that the site made, and of KAI, are asked for with a certificate of Prometheus's own ([day two](kubernetes.md#day-two)).
- **Checks on the boards**: on the machine that deploys, run `appliance health --format prometheus` by a timer and put what
  it prints as `appliance.prom` into `/var/lib/prometheus/node-exporter` of the first control host. Its series are below.
- **GPU metrics** are those of NVIDIA's dcgm-exporter. Its package's own file leaves out five fields that alerts and panels rest on (memory errors, rows that wait, heat, NVLinks' errors).
  Role `gpu` gives it a file of its own, `/etc/dcgm-exporter/appliance.csv`. Fields and unit are as in dcgm-exporter's repository (2026-11); no GPU has been seen with it. A field that its
  release does not know keeps the exporter from starting: `appliance health` says so (`gpu.services`), and judges memory, rows, heat and NVLinks by the driver itself.

## Series of the checks
What `appliance health --format prometheus` prints follows what is wrong, not the size of the site: 1,000 hosts of 46 results each
give about 1.6 MB with seven to eight results a host that did not pass. Values of what passed are in `--json` and in reports.

| series | labels | says |
|---|---|---|
| `appliance_check_results` | `site`, `id`, `simulated`, `status` | how many results of a check have each status; every status is there, as 0 too |
| `appliance_host_results` | `site`, `host`, `status` | the same of each host |
| `appliance_check_status` | `site`, `id`, `target`, `simulated`, `status` | 1 for each result that did not pass; it ends when the result passes |
| `appliance_check_value`, `appliance_check_limit` | `site`, `id`, `target`, `simulated`, `unit` | value and limit of such a result, where the value is a number |
| `appliance_verdict` | `site`, `verdict` | 1 for the verdict that holds, 0 for the others |
| `appliance_checked_timestamp_seconds` | `site` | when the checks were made |

The states are `pass`, `warn`, `fail`, `error`, `skip` and `not_assessed`. A result that is not known because of another failure,
as all of a silent host, is counted and has no series of its own: that failure has.

## Panels the rack cannot feed

| board | panel | needs |
|---|---|---|
"""


def page(boards: Iterable[Board]) -> str:
    """The whole page."""
    listed = tuple(boards)
    unfed = [
        f"| {board.name} | {panel.title} | {panel.needs} |"
        for board in listed
        for panel in board.panels
        if panel.needs
    ]
    return HEAD + "\n".join((*unfed, *map(_board, listed), ALERT_HEAD, *map(_alert, ALERTS))) + "\n"


def _alert(alert: Alert) -> str:
    said = LABEL.sub(lambda found: f"*{found[1] or 'value'}*", alert.summary).replace("|", "\\|")
    named = f"[`{alert.check}`](checks.md#{alert.check})"
    check = "the one it names" if LABEL.search(alert.check) else named
    return f"| {alert.name} | {alert.severity} | {said} | {alert.minutes} min | {check} |"


def _board(board: Board) -> str:
    rows = (f"| {panel.title} | {_queries(panel)} |" for panel in board.panels)
    head = f"\n## {board.title}\n\n{board.purpose}\n\n| panel | queries |\n|---|---|"
    return "\n".join((head, *rows))


def _queries(panel: Panel) -> str:
    return "<br>".join(f"`{query.expr}`".replace("|", "\\|") for query in panel.queries)
