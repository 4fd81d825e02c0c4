"""Reads the kernel's mount table (proc(5), mountinfo). Users choose names in it, such as a pod's volume or a disk's label."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

TABLE = "/proc/self/mountinfo"
ESCAPED = re.compile(rb"\\([0-7]{3})")
"""Escapes of blank, tab, newline, number sign and backslash (mangle_path in the kernel); other bytes are not escaped."""
WORDS, AFTER = 6, 3
"""Number of fields of a line before the optional ones, and after the dash."""


class Row:
    """One line. Bytes that are not UTF-8 are kept as in file names (surrogateescape)."""

    def __init__(self, head: list[bytes], tail: list[bytes]) -> None:
        self.device = _text(head[2])
        self.at = _text(_plain(head[4]))
        self.options = _text(head[5]).split(",")
        self.type = _text(_plain(tail[0]))
        self.source = _text(_plain(tail[1]))
        self.of_all = _text(tail[2]).split(",")
        """Options of the file system, wherever it is mounted."""


def rows(table: bytes) -> tuple[list[Row], int]:
    """Return valid lines in order, and the number of invalid ones."""
    found, odd = [], 0
    for line in table.split(b"\n"):
        before, _, after = line.partition(b" - ")
        head, tail = before.split(b" "), after.split(b" ")
        if len(head) >= WORDS and len(tail) >= AFTER and head[4].startswith(b"/"):
            found.append(Row(head, tail))
        elif line:
            odd += 1
    return found, odd


def _plain(word: bytes) -> bytes:
    return ESCAPED.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), word)


def _text(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")
