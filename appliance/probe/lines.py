"""Splits text from the kernel, programs and users into lines, at newlines only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AnyStr


def lines_of(text: AnyStr) -> list[AnyStr]:
    """Return the lines without their newlines.

    str.splitlines also ends a line at a carriage return, a form feed, U+0085 or U+2028: who may put these into a name or a
    remark would write lines of their own.
    """
    end = "\n" if isinstance(text, str) else b"\n"
    found = text.split(end)
    return found if found[-1] else found[:-1]
