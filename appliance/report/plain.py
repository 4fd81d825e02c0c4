"""Stand-ins for signs that an encoding lacks."""

from codecs import register_error
from io import TextIOWrapper
from typing import TextIO

_PLAIN = str.maketrans({"✓": "+", "✗": "x", "·": "|", "→": "->", "…": "...", "▸": ">"})


def ascii_text(text: str) -> str:
    """``text`` for terminals that know ASCII alone; what has no stand-in becomes a question mark."""
    return text.translate(_PLAIN).encode("ascii", "replace").decode("ascii")


def readable(stream: TextIO) -> TextIO:
    """``stream``, from now on writing a stand-in for every sign its encoding lacks."""
    register_error("appliance", _stand_in)
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="appliance")
    return stream


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return ascii_text(error.object[error.start : error.end]), error.end
