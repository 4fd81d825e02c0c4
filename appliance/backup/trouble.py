"""What goes wrong, each in one line."""

from __future__ import annotations


class Trouble(Exception):
    """Nothing further was done. ``kind``: what failed, one of those below."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


TARGET, DATA, TOOL, ARCHIVE = "target", "data", "tool", "archive"
"""The target, the data of this host, a program that is missing, a damaged backup."""
REFUSED, NEW = "refused", "new"
"""A restore that would harm; a backup that would follow those of a lost disk."""
