"""Prometheus queries, as several test modules use it."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from appliance.config import data
from tools.published import BOARD_FILES

STANDS_FOR = {"$__rate_interval": "1m", "$__range": "1h"}


def queries() -> Iterator[tuple[str, str, str]]:
    """Board, panel and query of the files as they are shipped, every choice set to "all"."""
    for file in sorted((data.root() / BOARD_FILES).glob("*.json")):
        board = json.loads(file.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                expr = target["expr"]
                for name, value in STANDS_FOR.items():
                    expr = expr.replace(name, value)
                yield file.stem, panel["title"], re.sub(r"\$(?!\d)\w+", ".*", expr)


class Prometheus:
    """The rack's, by its API at the end of a way in."""

    def __init__(self, url: str) -> None:
        self._base = f"{url}/api/v1/query?"
        self._opener = build_opener(ProxyHandler({}))

    def series(self, expr: str) -> list[Any]:
        with self._opener.open(self._base + urlencode({"query": expr}), timeout=20) as answer:
            said = json.load(answer)
        assert said["status"] == "success", expr
        found: list[Any] = said["data"]["result"]
        return found
