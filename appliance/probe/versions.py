"""Compares two versions by the package manager's rule, without a process for each package."""

from __future__ import annotations

import re
from itertools import zip_longest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Part = tuple[Any, ...]

DPKG_PART = re.compile(r"(\D*)(\d*)")
RPM_PART = re.compile(r"\d+|[a-zA-Z]+|~|\^")
DPKG_END: Part = ((0,), 0)
RPM_END: Part = (1,)
RPM_MARKS: dict[str, Part] = {"~": (0,), "^": (2,)}
"""A tilde sorts before the end, a caret directly after it (rpm-version(7))."""


def is_newer(version: str, than: str, *, rpm: bool) -> bool:
    """Return whether ``version`` is newer than ``than``, by epoch, version, revision."""
    parts, end = (_rpm, RPM_END) if rpm else (_dpkg, DPKG_END)
    pairs = zip(_split(version), _split(than))  # noqa: B905 # Python 3.8
    for mine, its in pairs:
        for one, other in zip_longest(parts(mine), parts(its), fillvalue=end):
            if one != other:
                return one > other
    return False


def _split(version: str) -> tuple[str, str, str]:
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, dash, revision = rest.rpartition("-")
    return epoch, upstream if dash else rest, revision if dash else ""


def _dpkg(text: str) -> list[Part]:
    """Split into alternating non-digits and digits (deb-version(7)): a tilde sorts before the end, letters before other characters."""
    return [
        ((*map(_order, letters), 0), int(digits or 0))
        for letters, digits in DPKG_PART.findall(text)
    ]


def _order(char: str) -> int:
    if char == "~":
        return -1
    return ord(char) if char.isalpha() else ord(char) + 256


def _rpm(text: str) -> list[Part]:
    """Split a version into words and numbers; numbers are newer than words."""
    return [
        RPM_MARKS.get(part) or ((4, int(part)) if part.isdigit() else (3, part))
        for part in RPM_PART.findall(text)
    ]
