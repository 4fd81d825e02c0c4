"""Boards as Grafana's JSON, made with Grafana's own foundation SDK."""

from collections.abc import Iterable

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from boards.panel import Board, Kind, Panel, Query, Variable

SOURCE = DataSourceRef(type_val="prometheus", uid="appliance")
"""The data source role observe provisions."""
HEIGHT = {Kind.LINES: 8, Kind.NUMBER: 4, Kind.TABLE: 9}
LETTERS = "ABCDEFGH"

AnyPanel = timeseries.Panel | stat.Panel | table.Panel


def board_json(board: Board) -> str:
    """The file Grafana reads; the same board gives the same text."""
    made = (
        dashboard.Dashboard(f"Appliance: {board.title}")
        .uid(f"appliance-{board.name}")
        .description(board.purpose)
        .tags(["appliance"])
        .readonly()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .refresh("30s")
        .time(board.since, "now")
        .timezone("browser")
    )
    for variable in board.variables:
        made = made.with_variable(_variable(variable))
    for panel in board.panels:
        made = made.with_panel(_panel(panel))
    return str(JSONEncoder(sort_keys=True, indent=1).encode(made.build())) + "\n"


def kustomization(boards: Iterable[Board]) -> str:
    """The file with which kubectl kustomize makes a ConfigMap of each board, as the sidecar of Grafana's chart finds it."""
    lines = ["apiVersion: kustomize.config.k8s.io/v1beta1", "kind: Kustomization"]
    lines += ["generatorOptions:", "  disableNameSuffixHash: true", "  labels:"]
    lines += ['    grafana_dashboard: "1"', "configMapGenerator:"]
    for board in boards:
        lines += [f"  - name: appliance-{board.name}", f"    files: [{board.name}.json]"]
    return "\n".join(lines) + "\n"


def _variable(variable: Variable) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(variable.name)
        .label(variable.label)
        .datasource(SOURCE)
        .query(variable.query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _panel(panel: Panel) -> AnyPanel:
    made = _drawn(panel)
    made = made.title(panel.title).datasource(SOURCE).unit(panel.unit)
    made = made.span(panel.width).height(HEIGHT[panel.kind])
    if panel.needs:
        made = made.description(f"Needs {panel.needs}.")
    for letter, query in zip(LETTERS, panel.queries, strict=False):
        made = made.with_target(_target(letter, query, panel.kind))
    return made


def _drawn(panel: Panel) -> AnyPanel:
    if panel.kind is Kind.NUMBER:
        return stat.Panel()
    if panel.kind is Kind.TABLE:
        return table.Panel()
    legend = (
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(LegendDisplayMode.TABLE)
        .placement(LegendPlacement.BOTTOM)
        .calcs(["lastNotNull", "max"])
    )
    return timeseries.Panel().legend(legend).fill_opacity(8)


def _target(letter: str, query: Query, kind: Kind) -> prometheus.Dataquery:
    made = prometheus.Dataquery().ref_id(letter).expr(query.expr).legend_format(query.legend)
    if kind is Kind.TABLE:
        return made.instant().format(PromQueryFormat.TABLE)
    return made
