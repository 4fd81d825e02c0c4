"""A log of any size as lines, in constant memory: what a terminal would show of it, with the numbers of its lines."""

import re
from collections.abc import Iterator
from functools import partial

from appliance.benchmarks.gpt3.once import CHUNK, Once

ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
LONGEST = 1 << 20
"""Bytes of a line that are read; no program prints a step behind them."""
BAR = b" ["
"""Stands in a progress bar behind its step and before what is redrawn."""


def blocks(file: Once) -> Iterator[tuple[bytes, bool]]:
    """Some whole lines, and False for a last one that was not written to its end."""
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
    """What stands between the line ends and carriage returns of a block, where one of ``marks`` is in the line.

    Of a progress bar with ``bar`` in it that is redrawn for one step the last one counts.
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
