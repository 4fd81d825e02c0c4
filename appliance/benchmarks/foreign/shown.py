"""The data of another program's result that is kept and shown, for any program."""

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Literal

from appliance.benchmarks.benchmark import Raw
from appliance.config import document as documents
from appliance.errors import ConfigError
from appliance.models.base import Model
from appliance.models.line import Line
from appliance.models.run import Table
from appliance.text import one_line, shortened

Row = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class ForeignReport:
    """``name``: its name in the record; ``of``: the program and its document, for people; ``raw``: the file that is kept with its digest."""

    name: str
    of: str
    counts: str
    began: datetime
    dated_by: str
    raw: tuple[Raw, ...]
    table: Table


class Ours(Model):
    """The check, gate or page that covers an item here; ``why``: the difference."""

    by: Line
    why: Line


UNKNOWN = Ours(by="", why="an item that this program does not know")


class _Mapped(Model):
    version: Literal[1]
    items: dict[Line, Ours]


@cache
def mapped(name: str) -> dict[str, Ours]:
    """The mapping of that program's items, in the order of its file: by key, or by pattern of a name."""
    file = Path(__file__).with_name(f"{name}.yml")
    return dict(_Mapped.model_validate(documents.read(file).data).items)


def table(title: str, rows: tuple[Row, ...], word: str) -> Table:
    """``word``: whose it is, and of when."""
    return Table(
        title=title,
        columns=("it says", "of", "observed", "here", "because"),
        rows=rows,
        note=f"result of another program: {word}; it closes no gate",
    )


def refuse_future(file: Path, began: datetime, now: datetime) -> None:
    """Raises ConfigError for an audit that starts in the future."""
    if began > now:
        raise ConfigError(
            f"{file} is of the future ({began:%Y-%m-%d %H:%M %Z})",
            "synchronize the clocks of both machines, and create it again",
        )


def clean(text: str) -> str:
    """The text of a table cell."""
    return shortened(one_line(text), 160)
