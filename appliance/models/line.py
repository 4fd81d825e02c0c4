"""The type of text of others that people will read."""

from typing import Annotated

from pydantic import AfterValidator

from appliance.text import one_line, shortened


def _line(text: str) -> str:
    return shortened(one_line(text))


Line = Annotated[str, AfterValidator(_line)]
"""A text for people, wherever it comes from; it is cleaned, never refused."""
