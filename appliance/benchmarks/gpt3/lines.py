"""Reads a log of any size as lines, in constant memory: the lines that a terminal would show, with their numbers."""

import re
from collections.abc import Iterator
from functools import partial

from appliance.benchmarks.gpt3.once import CHUNK, Once

ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
LONGEST = 1 << 20
"""Bytes of a line that are read. No program prints a step after them."""
BAR = b" ["
"""In a progress bar, separates the step from the part that is redrawn."""


def blocks(file: Once) -> Iterator[tuple[bytes, bool]]:
    """Yields whole lines, and False for a last line that was not written completely."""
    rest = b""
    for chunk in iter(partial(file.read, CHUNK), b""):
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        if not end:
            rest = (rest + chunk)[: LONGEST + 1]
            continue
        block = rest + chunk[:end]
        rest = chunk[end:][: LONGEST + 1]
        yield _shown(block), True
    if rest:
        yield _shown(rest), False


def segments(
    line: int, block: bytes, marks: tuple[bytes, ...], bar: bytes
) -> Iterator[tuple[int, bytes]]:
    """Yields the text between line ends and carriage returns of a block, for lines that contain one of ``marks``.

    If a progress bar with ``bar`` is redrawn for one step, only the last text counts.
    """
    for number, text in _marked(line, block, marks):
        if b"\r" not in text:
            yield number, text
            continue
        for segment in _last_drawn(text.split(b"\r"), bar):
            yield number, segment


def _marked(line: int, block: bytes, marks: tuple[bytes, ...]) -> list[tuple[int, bytes]]:
    numbered = enumerate(block.split(b"\n"), line)
    if len(marks) == 1:
        (mark,) = marks
        return [(number, text) for number, text in numbered if mark in text]
    return [(number, text) for number, text in numbered if any(mark in text for mark in marks)]


def _last_drawn(drawn: list[bytes], bar: bytes) -> Iterator[bytes]:
    before = last = b""
    for segment in drawn:
        head = segment[: segment.find(BAR) + 1]
        if last and (head != before or not head or bar not in segment):
            yield last
        before, last = head, segment
    yield last


def _shown(block: bytes) -> bytes:
    return ANSI.sub(b"", block) if b"\x1b" in block else block
