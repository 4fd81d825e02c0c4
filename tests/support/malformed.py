"""Malformed sites and profiles: what a case in tests/data/malformed changes of the sound file, and what must be said of it.

A case begins with the expected findings as YAML. After ``--- site.yml`` or ``--- profile.yml`` come its changes of that
file in the folder: lines to add (``+``), to remove (``-``), and lines around them (`` ``), parted by ``@@`` where
others lie between. After ``--- whole site.yml`` comes all of the file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml  # noqa: TID251 - expectations of tests

FOLDER = Path(__file__).parents[1] / "data/malformed"
CUT, WHOLE, OTHERS = "--- ", "whole ", "@@"
NAMES = sorted(file.stem for file in FOLDER.glob("*.txt"))


@dataclass(frozen=True)
class Case:
    """A file that is to be refused. ``expected``: ``findings``, and by ``setup`` what lies beside it."""

    kind: str
    text: str
    expected: dict[str, Any]

    def write(self, folder: Path) -> Path:
        """Write the file, byte by byte, into a folder."""
        file = folder / self.kind
        file.write_bytes(self.text.encode("utf-8", "surrogateescape"))
        return file


def case(name: str) -> Case:
    """A case by its name."""
    text = (FOLDER / f"{name}.txt").read_bytes().decode("utf-8", "surrogateescape")
    head, _, rest = f"\n{text}".partition(f"\n{CUT}")
    title, _, body = rest.partition("\n")
    expected = yaml.safe_load(head)
    kind = title.removeprefix(WHOLE)
    if title.startswith(WHOLE):
        return Case(kind, body, expected)
    return Case(kind, changed((FOLDER / kind).read_text(), body), expected)


def changed(text: str, change: str) -> str:
    """A text with a change. Raises ValueError where the lines of one are not there, or more than once."""
    lines, made, at = text.split("\n"), list[str](), 0
    for hunk in _hunks(change):
        before = [line[1:] for line in hunk if line[0] in " -"]
        last = len(lines) - len(before)
        places = [n for n in range(at, last + 1) if lines[n : n + len(before)] == before]
        if len(places) != 1:
            raise ValueError(f"these lines are there {len(places)} times: {before}")
        made += lines[at : places[0]] + [line[1:] for line in hunk if line[0] in " +"]
        at = places[0] + len(before)
    return "\n".join(made + lines[at:])


def _hunks(change: str) -> Iterator[list[str]]:
    lines = change.removesuffix("\n").split("\n") if change else []
    for apart, hunk in groupby(lines, key=lambda line: line == OTHERS):
        if not apart:
            # An editor may have taken the blank of an empty line.
            yield [line or " " for line in hunk]
