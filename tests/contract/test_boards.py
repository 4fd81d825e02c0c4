"""Boards: the board library makes of them what they say, and each query uses what its board offers."""

import json
import re

import pytest

from appliance.alerts import ALERTS
from appliance.config import data
from appliance.limits.usage import METRICS
from boards import BOARDS
from boards.page import page
from boards.panel import Board
from boards.render import board_json

BUILT_IN = {"__rate_interval", "__range", "1"}
each_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)


@each_board
def test_a_board_has_every_panel_and_query_it_was_given(board: Board) -> None:
    made = json.loads(board_json(board))
    assert [panel["title"] for panel in made["panels"]] == [p.title for p in board.panels]
    queries = [target["expr"] for panel in made["panels"] for target in panel["targets"]]
    assert queries == [query.expr for panel in board.panels for query in panel.queries]
    assert {panel["datasource"]["uid"] for panel in made["panels"]} == {"appliance"}


def test_role_gpu_has_its_exporter_export_every_field_that_is_used() -> None:
    file = data.root() / "roles/gpu/files/etc/dcgm-exporter/appliance.csv"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    fields = [[part.strip() for part in line.split(",")] for line in lines]
    assert {(len(field), field[1]) for field in fields} == {(3, "gauge"), (3, "counter")}
    named = [field[0] for field in fields]
    assert len(set(named)) == len(named)
    queries = [q.expr for board in BOARDS for panel in board.panels for q in panel.queries]
    used = re.findall(r"DCGM_FI_\w+", " ".join([*queries, *(a.expr for a in ALERTS), *METRICS]))
    assert len(set(used)) > 15
    assert set(used) <= set(named)


@each_board
def test_queries_use_only_variables_of_their_board(board: Board) -> None:
    known = {variable.name for variable in board.variables} | BUILT_IN
    used = {
        name
        for panel in board.panels
        for query in panel.queries
        for name in re.findall(r"\$(\w+)", query.expr)
    }
    assert used <= known
    assert {variable.name for variable in board.variables} <= used


@each_board
def test_panels_of_a_board_bear_different_titles(board: Board) -> None:
    titles = [panel.title for panel in board.panels]
    assert len(set(titles)) == len(titles)


def test_every_panel_the_rack_cannot_feed_is_on_the_page_with_its_reason() -> None:
    text = page(BOARDS)
    for board in BOARDS:
        for panel in board.panels:
            listed = f"| {board.name} | {panel.title} | {panel.needs} |" in text
            assert listed == (panel.needs is not None)


KAI = {
    "kai_e2e_scheduling_latency_milliseconds": "gauge",
    "kai_pod_group_evicted_pods_total": "counter",
    "kai_queue_allocated_gpus": "gauge",
    "kai_queue_deserved_gpus": "gauge",
    "kai_queue_fair_share_gpu": "gauge",
    "kai_queue_gpu_usage": "gauge",
}
"""As the sources of v0.14.7, v0.16.8 and v0.17.0 have them. No rack feeds these panels, so that nothing else would show it."""


@each_board
def test_kais_metrics_are_asked_for_as_what_they_are(board: Board) -> None:
    for query in (q for panel in board.panels for q in panel.queries):
        for name in re.findall(r"\bkai_\w+", query.expr):
            assert name in KAI, query.expr
            assert ("increase(" in query.expr) == (KAI[name] == "counter"), query.expr
