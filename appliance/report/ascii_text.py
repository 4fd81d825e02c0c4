"""Replacements for characters that an encoding lacks."""

from codecs import register_error
from io import TextIOWrapper
from typing import TextIO

_PLAIN = str.maketrans({"✓": "+", "✗": "x", "·": "|", "→": "->", "…": "...", "▸": ">"})


def ascii_text(text: str) -> str:
    """Return ``text`` for ASCII terminals; a character without a replacement becomes a question mark."""
    return text.translate(_PLAIN).encode("ascii", "replace").decode("ascii")


def readable(stream: TextIO) -> TextIO:
    """Make ``stream`` write a replacement for every character that its encoding lacks."""
    register_error("appliance", _stand_in)
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="appliance")
    return stream


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return ascii_text(error.object[error.start : error.end]), error.end
