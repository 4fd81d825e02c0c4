"""Parses output of measuring programs at once, or refuses it in one line. Truncated, unexpected or implausible output is not a measurement."""

import re
from math import isfinite
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from appliance.adapters.json_answers import parsed
from appliance.text import quoted, shortened

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
"""Numbers as C prints them. Python's float also accepts 1_000 and digits of every script."""
Rate = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]


class Unread(ValueError):
    """Output that is not the regular result of the program; one line gives the reason."""


class Foreign(BaseModel):
    """A part of another program's document; unused keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


Made = TypeVar("Made", bound=Foreign)


def document(kind: type[Made], text: str) -> Made:
    """Returns the JSON document within ``text``, after any earlier output of a program or its loader. Raises Unread."""
    begin = text.find("{")
    if begin < 0:
        raise Unread(
            f"it printed no JSON: {quoted(text.strip()[:80])}" if text.strip() else "no output"
        )
    try:
        found = parsed(text[begin:])
    except ValueError as error:
        raise Unread(shortened(str(error), 200)) from None
    return shaped(kind, found)


def shaped(kind: type[Made], found: object) -> Made:
    """``found`` as a ``kind``. Raises Unread with the first place that does not fit."""
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise Unread(shortened(f"{where}: {first['msg']}", 200)) from None


def number(word: str, what: str) -> float:
    """A number of zero and more. Raises Unread for anything else, nan and inf among it."""
    try:
        found = float(word)
        if isfinite(found) and not NUMBER.fullmatch(word.strip(" \t")):
            raise ValueError
    except ValueError:
        raise Unread(f"{what} is no number: {quoted(word)}") from None
    if not 0 <= found <= 1e18:
        raise Unread(f"{what} cannot be {quoted(word)}")
    return found
