"""Hosts against checks: the worst status of each pair; hosts with equal columns share one."""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.models.result import CheckResult, Status
from appliance.models.run import RunRecord
from appliance.report.findings import worst
from appliance.report.formatting import fold
from appliance.report.symbols import STATUS
from appliance.text import plural

CLUSTER = "cluster"


@dataclass(frozen=True)
class Cell:
    """One square: ``status`` "" if the check does not concern the host."""

    status: str
    mark: str
    word: str
    parts: str = ""


@dataclass(frozen=True)
class Row:
    """One check over all columns."""

    id: str
    anchor: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Area:
    """The checks of one area, such as ``gpu``."""

    name: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Matrix:
    """``columns`` are folded hosts; ``tall``: names are upright; ``silent``: hosts that did not answer."""

    columns: tuple[str, ...]
    areas: tuple[Area, ...]
    silent: tuple[str, ...] = ()
    tall: bool = False

    @property
    def is_large(self) -> bool:
        """Whether it needs a page of its own on paper; the one of a log-only run has a few rows."""
        return sum(len(area.rows) for area in self.areas) > _FEW


Column = tuple[Cell, ...]
_WIDE = 16
_FEW = 12
EMPTY = Cell("", "", "does not apply")


def matrix(record: RunRecord) -> Matrix:
    """Return the heat map of ``record``."""
    targets = _targets(record)
    ids = check_ids(record)
    by_pair: dict[tuple[str, str], list[CheckResult]] = {}
    for result in record.results:
        by_pair.setdefault((result.id, result.host or CLUSTER), []).append(result)
    grid = {t: tuple(_cell(by_pair.get((i, t), ())) for i in ids) for t in targets}
    columns = _columns(grid)
    rows = [
        Row(check, anchor(ids, check), tuple(cells[index] for _, cells in columns))
        for index, check in enumerate(ids)
    ]
    labels = tuple(label for label, _ in columns)
    silent = tuple(h.name for h in record.hosts if h.unreachable)
    tall = sum(max(6, len(label)) + 2 for label in labels) > 90
    return Matrix(labels, _areas(rows), silent, tall)


def check_ids(record: RunRecord) -> list[str]:
    """Return every check of the run once, grouped by area in the order of appearance."""
    ids = list(dict.fromkeys(result.id for result in record.results))
    areas = list(dict.fromkeys(map(area, ids)))
    return sorted(ids, key=lambda check: areas.index(area(check)))


def area(check: str) -> str:
    """``gpu`` of ``gpu.ecc``."""
    return check.partition(".")[0]


def anchor(ids: Sequence[str], check: str) -> str:
    """Return the anchor of a check in the page."""
    return f"check-{ids.index(check) + 1}"


def _targets(record: RunRecord) -> list[str]:
    judged = [result.host or CLUSTER for result in record.results]
    listed = [host.name for host in record.hosts]
    seen = dict.fromkeys([*listed, *(t for t in judged if t != CLUSTER)])
    return [*seen, *([CLUSTER] if CLUSTER in judged else [])]


def _cell(results: Sequence[CheckResult]) -> Cell:
    status = worst(results)
    if status is None:
        return EMPTY
    sign = STATUS[status]
    alike = sum(1 for result in results if result.status is status)
    some = len(results) > 1 and status is not Status.PASS
    parts = f"{alike}/{len(results)}" if some else ""
    return Cell(status.value, sign.mark, _word(sign.word, alike, len(results)), parts)


def _word(word: str, alike: int, total: int) -> str:
    return word if total == 1 else f"{word}: {alike} of {plural(total, 'part')}"


def _columns(grid: dict[str, Column]) -> list[tuple[str, Column]]:
    """Return columns with their headings; hosts with equal columns share one if a page is too narrow."""
    if len(grid) <= _WIDE:
        return list(grid.items())
    shared: dict[Column, list[str]] = {}
    for target, cells in grid.items():
        shared.setdefault(cells, []).append(target)
    return [(fold(targets), cells) for cells, targets in shared.items()]


def _areas(rows: Sequence[Row]) -> tuple[Area, ...]:
    names = dict.fromkeys(area(row.id) for row in rows)
    return tuple(Area(name, tuple(r for r in rows if area(r.id) == name)) for name in names)
