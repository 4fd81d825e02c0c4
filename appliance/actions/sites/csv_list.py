"""Machines and cables from CSV files, such as a spreadsheet writes."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from appliance.actions.sites.machine_list import ListedHost, MachineList, Row, listed
from appliance.config.bounded_files import TooLarge, read_bytes
from appliance.config.finding import Finding, InvalidConfig
from appliance.errors import ConfigError
from appliance.stages.fabric.site import Cable

LARGEST = 32 << 20
"""Bytes of one file: 100,000 cables."""
HOST_COLUMNS = tuple(field.alias or name for name, field in ListedHost.model_fields.items())
CABLE_COLUMNS = tuple(Cable.model_fields)
NEEDED = {HOST_COLUMNS: {"name", "roles", "address"}, CABLE_COLUMNS: set(CABLE_COLUMNS)}


def read(files: Sequence[Path]) -> MachineList:
    """The machines and cables of these files. The first line of a file names its columns.

    Raises ConfigError for a file that cannot be read, and InvalidConfig with a finding for each unusable row.
    """
    hosts: list[Row] = []
    cables: list[Row] = []
    for file in files:
        columns, rows = _table(file)
        (hosts if columns is HOST_COLUMNS else cables).extend(rows)
    return listed(files[0], hosts, cables)


def _table(file: Path) -> tuple[tuple[str, ...], list[Row]]:
    text = _text(file)
    # Spreadsheets of many countries separate with semicolons, as the comma is their decimal point.
    first = text.partition("\n")[0]
    lines = csv.reader(io.StringIO(text), delimiter=";" if ";" in first else ",", strict=True)
    try:
        heading = [cell.strip().lower().replace(" ", "_") for cell in next(lines, [])]
        columns = _columns(file, heading)
        return columns, list(_rows(file, heading, lines))
    except csv.Error as error:
        raise InvalidConfig(
            [Finding(file, lines.line_num, "", f"it is not CSV: {error}", "save it as CSV again")]
        ) from None


def _text(file: Path) -> str:
    try:
        return read_bytes(file, LARGEST).decode("utf-8-sig")
    except TooLarge:
        raise ConfigError(f"{file} is larger than {LARGEST >> 20} MiB", "split it") from None
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read ({error.strerror})", "check its path, owner and mode"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8", "save it as CSV in UTF-8") from None


def _columns(file: Path, heading: Sequence[str]) -> tuple[str, ...]:
    """The kind of table that the heading names. Raises InvalidConfig for unknown, repeated and missing columns."""
    columns = CABLE_COLUMNS if {"hca", "switch"} & set(heading) else HOST_COLUMNS
    known = ", ".join(columns)
    found = [
        Finding(file, 1, name or "-", "is an unknown column", f"columns are {known}")
        for name in heading
        if name not in columns
    ]
    found += [
        Finding(file, 1, name, "this column is there twice", "keep one")
        for name in columns
        if heading.count(name) > 1
    ]
    found += [
        Finding(file, 1, name, "this column is missing", f"columns are {known}")
        for name in columns
        if name in NEEDED[columns] and name not in heading
    ]
    if found:
        raise InvalidConfig(found)
    return columns


def _rows(file: Path, heading: Sequence[str], lines: Iterator[list[str]]) -> Iterator[Row]:
    for cells in lines:
        number = lines.line_num  # type: ignore[attr-defined]  # of csv.reader, whose type has no public name
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) > len(heading):
            found = f"it has {len(cells)} cells, the first line {len(heading)}"
            raise InvalidConfig(
                [Finding(file, number, "", found, "put cells with a separator in quotes")]
            )
        values = {name: cell.strip() for name, cell in zip(heading, cells, strict=False)}
        yield Row(file, number, values)
