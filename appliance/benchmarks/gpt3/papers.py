"""The papers' tables as printed, with each derived cell recalculated from its own table, and the cells that do not match."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from appliance.benchmarks.gpt3.reference import PLATFORMS, Platform, load
from appliance.benchmarks.gpt3.throughput import (
    Interval,
    cut,
    difference,
    differences,
    linear_factor,
    linear_factors,
    perfect,
)
from appliance.config import document
from appliance.models.base import Model
from appliance.models.run import Plot, Series, Table

FILE = Path(__file__).with_name("papers.yml")
NODES = (1, 2, 4)
What = Literal["tokens/s", "factor", "perfect", "difference"]
NAMES = {"factor": "linear factor", "perfect": "perfect line, tokens/s", "difference": "Difference"}
THOUSANDS = re.compile(r"\d{1,3}(,\d{3})*|\d+")


class Row(Model):
    """One row as printed, for 1, 2 and 4 nodes."""

    platform: Platform | None = None
    what: What
    printed: tuple[str, str, str]


class PaperTable(Model):
    """One model's table."""

    model: str
    rows: tuple[Row, ...]

    def rates(self, platform: str) -> tuple[float, ...]:
        """Printed tokens/s on 1, 2 and 4 nodes; empty if the table has no such row."""
        rows = (r for r in self.rows if (r.platform, r.what) == (platform, "tokens/s"))
        return tuple(number(text) for row in rows for text in row.printed)


class Paper(Model):
    """One paper."""

    title: str
    short: str
    tables: tuple[PaperTable, ...]


class Origin(Model):
    """Tokens/s that explain a misprinted cell: on one node, on its nodes, on bare metal."""

    one: int | None = None
    many: int | None = None
    bare: int | None = None


class Misprint(Model):
    """A cell that does not match its own table."""

    model_config = ConfigDict(populate_by_name=True)

    paper: str
    model: str
    platform: Platform | None = None
    what: What
    nodes: int
    origin: Origin | None = Field(default=None, alias="from")
    why: str = ""

    @property
    def cell(self) -> tuple[str, str, str | None, str, int]:
        """The position of the cell."""
        return self.paper, self.model, self.platform, self.what, self.nodes

    def said(self) -> str:
        """The explanation in words."""
        if self.origin is None:
            return self.why
        used = [f"{n:,}" for n in (self.origin.bare, self.origin.many, self.origin.one) if n]
        return f"from {' and '.join(used)}"


class Papers(Model):
    """The content of papers.yml. ``cause``: the common cause of most misprints."""

    version: Literal[1]
    papers: tuple[Paper, ...]
    cause: str
    misprints: tuple[Misprint, ...]


class Deviation(Model):
    """A printed cell, and its value by the papers' own formulas."""

    paper: str
    model: str
    platform: Platform | None
    what: What
    nodes: int
    printed: str
    follows: str

    @property
    def cell(self) -> tuple[str, str, str | None, str, int]:
        """The position of the cell."""
        return self.paper, self.model, self.platform, self.what, self.nodes


@cache
def papers() -> Papers:
    """Returns the tables that are included in the program."""
    return Papers.model_validate(document.read(FILE).data)


def number(printed: str) -> float:
    """Parses a printed number, ignoring commas."""
    return float(printed.replace(",", "").rstrip("%"))


def deviations() -> tuple[Deviation, ...]:
    """Returns every derived cell that does not match its own table, with truncated rates and factors and rounded differences."""
    return tuple(
        found
        for paper in papers().papers
        for table in paper.tables
        for row in table.rows
        for found in _of_row(paper.short, table, row)
    )


def reckoned(what: What, nodes: int, one: float, many: float, bare: float, decimals: int) -> str:
    """Formats a derived cell as the papers print it, with the given number of decimals."""
    if what == "perfect":
        return f"{perfect(one, nodes):,.0f}"
    if what == "factor":
        return f"{cut(linear_factor(many, one), decimals):.{decimals}f}"
    return f"{difference(bare, many):.{decimals}f}%"


def _of_row(paper: str, table: PaperTable, row: Row) -> Iterator[Deviation]:
    if row.what == "tokens/s":
        return
    rates = table.rates(row.platform or "kubernetes")
    bares = table.rates("bare-metal") or rates
    for nodes, printed, many, bare in zip(NODES, row.printed, rates, bares, strict=True):
        if not _follows(row.what, printed, nodes, (rates[0], many, bare)):
            decimals = len(printed.rstrip("%").partition(".")[2])
            follows = reckoned(row.what, nodes, rates[0], many, bare, decimals)
            yield Deviation(
                paper=paper,
                model=table.model,
                platform=row.platform,
                what=row.what,
                nodes=nodes,
                printed=printed,
                follows=follows,
            )


def _follows(what: What, printed: str, nodes: int, rates: tuple[float, float, float]) -> bool:
    """Printed rates are truncated: each represents all values up to the next whole number."""
    one, many, bare = (Interval(rate, rate + 1) for rate in rates)
    decimals = len(printed.rstrip("%").partition(".")[2])
    value = number(printed)
    if what == "perfect":
        return value == perfect(rates[0], nodes) and bool(THOUSANDS.fullmatch(printed))
    if what == "factor":
        if nodes == 1:
            return value == 1
        low, high = linear_factors(many, one)
        return cut(low, decimals) <= value <= cut(high, decimals)
    low, high = differences(bare, many)
    return round(low, decimals) <= value <= round(high, decimals)


def tables() -> tuple[Table, ...]:
    """Returns both papers' tables in their layout with their four plots, then the misprints."""
    made = [_table(paper, table) for paper in papers().papers for table in paper.tables]
    return (*made, _misprints())


def _table(paper: Paper, table: PaperTable) -> Table:
    title = load().models[table.model].title
    marked = {d.cell for d in deviations()}
    rows = []
    for row in table.rows:
        name = NAMES.get(row.what, "")
        if row.what == "tokens/s" and row.platform:
            name = f"{PLATFORMS[row.platform]}: tokens/s"
        cells = (
            text + (" *" if (paper.short, table.model, row.platform, row.what, n) in marked else "")
            for n, text in zip(NODES, row.printed, strict=True)
        )
        rows.append((name, *cells))
    return Table(
        title=f"GPT-3 {title}, as printed in the {paper.short}",
        columns=("", *(f"{n} node{'s' * (n > 1)} / {n * 8} GPUs" for n in NODES)),
        rows=tuple(rows),
        note=f"{paper.title}. *: does not match the tokens/s of its own table.",
        plot=_plot(title, paper, table),
    )


def _plot(title: str, paper: Paper, table: PaperTable) -> Plot:
    series: list[Series] = []
    for platform, name in PLATFORMS.items():
        if rates := table.rates(platform):
            points = tuple((float(n), rate) for n, rate in zip(NODES, rates, strict=True))
            ideal = tuple((float(n), perfect(rates[0], n)) for n in NODES)
            series.append(Series(label=name, points=points, kind="reference"))
            series.append(Series(label=f"{name}, perfect", points=ideal, kind="ideal"))
    return Plot(
        title=f"GPT-3 {title}, {paper.short}",
        x_label="nodes",
        y_label="tokens/s",
        series=tuple(series),
    )


def _misprints() -> Table:
    known = {misprint.cell: misprint for misprint in papers().misprints}
    rows = []
    for found in deviations():
        where = f"{found.paper}, {load().models[found.model].title}, {found.nodes}n"
        what = " ".join(filter(None, (NAMES[found.what].partition(",")[0], found.platform)))
        misprint = known.get(found.cell)
        rows.append(
            (where, what, found.printed, found.follows, misprint.said() if misprint else "")
        )
    return Table(
        title="Misprints of the papers",
        columns=("Where", "Cell", "Printed", "By its table", "Why"),
        rows=tuple(rows),
        note=papers().cause,
    )
