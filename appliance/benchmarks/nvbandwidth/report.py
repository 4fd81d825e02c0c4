"""The output of ``nvbandwidth --json`` (0.5, 0.7 and newer): a typed matrix per testcase, or a refusal in one line.

0.5 and 0.7 do not list the GPUs, 0.8 does. 0.6 prints nothing, older ones have no JSON. A testcase that did not finish
is listed as running, sometimes twice. Corrupted copies are reported before or within the document.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from appliance.benchmarks.reading import Foreign, Unread, document, number
from appliance.text import one_line, quoted, shortened

MOST = 64
"""GPUs of a host, and so rows and columns; no host has more."""
TEXT = 300
UNIT = "(GB/s)"
NO_VALUE = "N/A"
CORRUPT = ("Invalid value when checking the pattern", "h_errorFlag")
"""Messages about data that arrived corrupted: 0.5 within the document, later ones before it."""
DEVICE = re.compile(r"(\d{1,3}): .*\(([0-9a-fA-F]{8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\): \(.*\)")

Row = Annotated[tuple[Annotated[str, Field(max_length=64)] | float, ...], Field(max_length=MOST)]
Device = Annotated[str, Field(max_length=512)]


class Word(StrEnum):
    """End states of a testcase, the worst first. ``unknown``: a state of a later release, which is not a pass."""

    ERROR = "error"
    RUNNING = "running"
    UNKNOWN = "unknown"
    WAIVED = "waived"
    PASSED = "passed"


class Testcase(Foreign):
    """One testcase; without a matrix if it did not finish."""

    name: str = Field(max_length=128)
    status: str = Field(max_length=64)
    bandwidth_description: str = Field(default="", max_length=256)
    bandwidth_matrix: tuple[Row, ...] | None = Field(default=None, max_length=4 * MOST)
    error: str | None = Field(default=None, max_length=4096)


class Body(Foreign):
    """The content of the root element."""

    version: str = Field(default="", max_length=64)
    error: str | None = Field(default=None, max_length=4096)
    devices: tuple[Device, ...] | None = Field(
        default=None, alias="GPU Device list", max_length=MOST
    )
    testcases: tuple[Testcase, ...] | None = Field(default=None, max_length=256)


class Document(Foreign):
    """The document itself."""

    nvbandwidth: Body


@dataclass(frozen=True)
class Matrix:
    """A testcase: GB/s by row and column, None if nothing was measured; ``said``: its error."""

    word: Word
    rows: tuple[tuple[float | None, ...], ...] = ()
    said: str = ""


@dataclass(frozen=True)
class Report:
    """``gpus``: bus addresses without their function, in the order of the matrices; empty if the release does not list them."""

    version: str
    cases: Mapping[str, Matrix]
    gpus: tuple[str, ...]
    error: str


def corrupted(output: str) -> bool:
    """Whether it reports corrupted data."""
    return any(words in output for words in CORRUPT)


def read(output: str) -> Report:
    """Raises Unread if there is no document, if its matrices have different shapes, or if a value is not a number."""
    body = document(Document, output).nvbandwidth
    cases: dict[str, Matrix] = {}
    for one in body.testcases or ():
        found = _matrix(one)
        known = cases.get(one.name)
        if known and known.word is found.word is Word.PASSED:
            raise Unread(f"{quoted(one.name)} occurs twice: two runs in one document")
        if known is None or _rank(found) < _rank(known):
            cases[one.name] = found
    return Report(
        shortened(one_line(body.version), 40),
        cases,
        _gpus(body.devices or ()),
        shortened(one_line(body.error or ""), TEXT),
    )


def _rank(matrix: Matrix) -> int:
    return list(Word).index(matrix.word)


def _matrix(one: Testcase) -> Matrix:
    word = next((w for w in Word if w == one.status.strip().lower()), Word.UNKNOWN)
    said = shortened(one_line(one.error or ""), TEXT)
    if word is not Word.PASSED:
        return Matrix(word, (), said or (one_line(one.status) if word is Word.UNKNOWN else ""))
    name = shortened(one_line(one.name), 60)
    if said:
        raise Unread(f"{name} passed, but reports an error: {said}")
    if not one.bandwidth_description.rstrip().endswith(UNIT):
        raise Unread(f"{name} is not in GB/s: {quoted(one.bandwidth_description)}")
    rows = tuple(
        tuple(_value(cell, f"{name}, row {y}, column {x}") for x, cell in enumerate(row))
        for y, row in enumerate(one.bandwidth_matrix or ())
    )
    if not rows or not rows[0] or len({len(row) for row in rows}) > 1:
        raise Unread(f"the matrix of {name} is incomplete")
    return Matrix(word, rows)


def _value(cell: str | float, what: str) -> float | None:
    if isinstance(cell, str) and cell.strip() == NO_VALUE:
        return None
    return number(str(cell), what)


def _gpus(devices: tuple[str, ...]) -> tuple[str, ...]:
    found = []
    for at, said in enumerate(devices):
        match = DEVICE.fullmatch(one_line(said))
        if match is None or int(match[1]) != at:
            raise Unread(f"its list of GPUs cannot be read: {quoted(said)}")
        found.append(match[2].lower())
    if len(set(found)) < len(found):
        raise Unread("it lists a GPU twice")
    return tuple(found)
