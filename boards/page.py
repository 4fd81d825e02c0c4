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

*Critical*: jobs fail now or will fail soon. *Warning*: check it during the day. The remedy is in the alert itself and
in the description of its check.

| alert | severity | message | after | check |
|---|---|---|---|---|"""

HEAD = """# Boards and alerts

<!-- Written by make published; changes here are undone. -->

Stage `observe` installs six dashboards for Grafana and alert rules for Prometheus. The dashboards are built with
Grafana's foundation SDK from `boards/`, the rules from `appliance/alerts`. `make published` writes both, and this page.

- **Alerts** contain the fault, the remedy, the check that explains it, and a `runbook_url`. The URL is a page of all
  checks that Prometheus on the first control host serves at `http://127.0.0.1:9090/user/checks.html`. It works without
  Internet access, [through ssh](operations.md#access-to-prometheus). Every rule is tested with `promtool`, with its fault and
  without (`tests/integration/test_alerts.py`).
- **Dashboards** are in `/usr/local/share/appliance/boards` on the first control host, with data source and provider below
  `/etc/grafana/provisioning`. **They have not been tested in Grafana**, which Debian does not package. The tests show that the
  query of every panel returns series from the rack's Prometheus (`tests/integration/test_boards.py`). For the others, the reason
  is given below. No dashboard has been viewed in a browser.
- **Queue, account and job metrics** of Slurm come from `slurm_metrics.py`, which a timer runs every 30 seconds on the first
  control host. A past job stays visible as long as Prometheus keeps samples (`observe.retention_days`).
- **Metrics of a cluster** that the site created, and of KAI, are scraped with a certificate of Prometheus
  ([day two](kubernetes.md#day-two)).
- **Checks on the dashboards**: on the control machine, run `appliance health --format prometheus` from a timer. Copy its output
  as `appliance.prom` to `/var/lib/prometheus/node-exporter` on the first control host. The series are listed below.
- **GPU metrics** come from NVIDIA's dcgm-exporter. The default file of its package omits five fields that alerts and
  panels need (memory errors, pending row remaps, temperature, NVLink errors). Role `gpu` installs its own file,
  `/etc/dcgm-exporter/appliance.csv`. Fields and unit are those of dcgm-exporter's repository (2026-11); it was not tested
  with a GPU. If dcgm-exporter's release does not know a field, the exporter does not start: `appliance health` reports it
  (`gpu.services`), and checks memory, rows, temperature and NVLinks through the driver.

## Series of the checks
The output of `appliance health --format prometheus` grows with the number of faults, not with the size of the site. If seven to
eight results per host did not pass, 1,000 hosts of 46 results each give about 1.6 MB. Values of passed results are in `--json`
and in reports.

| series | labels | meaning |
|---|---|---|
| `appliance_check_results` | `site`, `id`, `simulated`, `status` | number of results of a check with each status, including 0 |
| `appliance_host_results` | `site`, `host`, `status` | the same for each host |
| `appliance_check_status` | `site`, `id`, `target`, `simulated`, `status` | 1 for each result that did not pass; it ends when the result passes |
| `appliance_check_value`, `appliance_check_limit` | `site`, `id`, `target`, `simulated`, `unit` | value and limit of such a result, if the value is a number |
| `appliance_verdict` | `site`, `verdict` | 1 for the current verdict, 0 for the others |
| `appliance_checked_timestamp_seconds` | `site` | time of the checks |

The states are `pass`, `warn`, `fail`, `error`, `skip` and `not_assessed`. If a result is unknown because of another
failure, such as all results of a host that does not answer, it is counted but has no series. The failure has one.

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
