"""The published tables of serving, as data with their source; doubtful cells are marked and never a limit."""

from functools import cache
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from appliance.config import document
from appliance.models.base import Model
from appliance.models.run import Table

FILE = Path(__file__).with_name("reference.yml")


class Row(Model):
    """``doubtful``: positions of cells that may not be measured values; ``doubt``: the reason, or the error of the label."""

    at: str
    cells: tuple[float | str | None, ...]
    doubtful: tuple[int, ...] = ()
    doubt: str = ""


class Published(Model):
    """One table; ``row``: what its rows are."""

    number: int = Field(ge=1)
    title: str
    row: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"row {row.at} has {len(row.cells)} cells")
            if row.doubtful and not row.doubt:
                raise ValueError(f"row {row.at} is doubtful, but gives no reason")
        return self


class Reference(Model):
    """All of reference.yml."""

    version: Literal[1]
    source: str
    machine: str
    tables: tuple[Published, ...]


@cache
def load() -> Reference:
    """The figures that come with the program."""
    return Reference.model_validate(document.read(FILE).data)


def tables() -> tuple[Table, ...]:
    """The values as printed, with "?" after each doubtful cell and the reasons below."""
    known = load()
    return tuple(_table(known, one) for one in known.tables)


def _table(known: Reference, one: Published) -> Table:
    doubts = [f"{one.row} {row.at}: {row.doubt}" for row in one.rows if row.doubt]
    note = f"{known.source}; {known.machine}."
    return Table(
        title=f"Table {one.number}: {one.title}",
        columns=(one.row, *one.columns),
        rows=tuple(
            (row.at, *map(_cell, range(len(row.cells)), [row] * len(row.cells))) for row in one.rows
        ),
        note=" ".join([note, *(f"{doubt}." for doubt in doubts)]),
    )


def _cell(position: int, row: Row) -> str:
    value = row.cells[position]
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return f"{text} ?".strip() if position in row.doubtful else text or "-"
