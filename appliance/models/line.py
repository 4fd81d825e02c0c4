"""The type of external text that people will read."""

from sys import intern
from typing import Annotated

from pydantic import AfterValidator

from appliance.text import LONGEST, one_line, shortened

SHORT = 32
"""Characters of a text that hosts may share: "active", "1980 MHz"; longer ones such as serial numbers and UUIDs are unique."""


def line(text: str) -> str:
    """A text that is safe to display."""
    # Of the 800 texts in the facts of a host nearly all are clean, and most of those are equal on every host.
    if len(text) <= SHORT and text.isprintable():
        return intern(str(text))
    return text if len(text) <= LONGEST and text.isprintable() else shortened(one_line(text))


Line = Annotated[str, AfterValidator(line)]
"""A text for people from any source; it is sanitized, never refused."""
