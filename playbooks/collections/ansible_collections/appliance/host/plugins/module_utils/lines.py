"""Lines of what the kernel, programs and users write: a newline ends one, and nothing else does."""

from __future__ import annotations

from typing import AnyStr


def lines_of(text: AnyStr) -> list[AnyStr]:
    """Without their newlines.

    str.splitlines also ends a line at a carriage return, a form feed, U+0085 or U+2028: who may put these into a name or a
    remark would write lines of their own.
    """
    end = "\n" if isinstance(text, str) else b"\n"
    found = text.split(end)
    return found if found[-1] else found[:-1]
