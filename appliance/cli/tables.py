"""Prints benchmark tables on a terminal."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table as RichTable

from appliance.hidden import hidden
from appliance.models.result import Value
from appliance.models.run import Table


def print_tables(console: Console, tables: Iterable[Table]) -> None:
    """Prints each table with its title above and its note below; first column and text left, numbers right."""
    for table in hidden(tuple(tables)):
        shown = RichTable(box=None, pad_edge=False, header_style="bold")
        for index, column in enumerate(table.columns):
            words = any(_is_words(row[index]) for row in table.rows)
            shown.add_column(column, justify="left" if words or not index else "right")
        for row in table.rows:
            shown.add_row(*map(_cell, row))
        console.print(f"\n{table.title}", style="bold", highlight=False)
        console.print(shown)
        if table.note:
            console.print(table.note, style="dim", highlight=False)
    console.print()


def _is_words(value: Value) -> bool:
    return isinstance(value, str) and " " in value and value[:1].isalpha()


def _cell(value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
