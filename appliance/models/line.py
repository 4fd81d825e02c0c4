"""The type of text of others that people will read."""

from sys import intern
from typing import Annotated

from pydantic import AfterValidator

from appliance.text import LONGEST, one_line, shortened

SHORT = 32
"""Characters of a text that hosts may well share: "active", "1980 MHz"; serial numbers and UUIDs are nobody else's."""


def line(text: str) -> str:
    """A text as people may read it."""
    # Of the 800 texts in the facts of a host nearly all are clean, and most of those are said by every host.
    if len(text) <= SHORT and text.isprintable():
        return intern(str(text))
    return text if len(text) <= LONGEST and text.isprintable() else shortened(one_line(text))


Line = Annotated[str, AfterValidator(line)]
"""A text for people, wherever it comes from; it is cleaned, never refused."""
