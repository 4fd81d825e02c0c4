"""The type of text of others that people will read."""

from typing import Annotated

from pydantic import AfterValidator

from appliance.text import LONGEST, one_line, shortened


def line(text: str) -> str:
    """A text as people may read it."""
    # Of the 800 texts in the facts of a host nearly all are clean: those are spared two calls.
    return text if len(text) <= LONGEST and text.isprintable() else shortened(one_line(text))


Line = Annotated[str, AfterValidator(line)]
"""A text for people, wherever it comes from; it is cleaned, never refused."""
