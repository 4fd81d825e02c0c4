"""What goes wrong, each in one line."""

from __future__ import annotations


class Trouble(Exception):
    """Nothing further was done. ``kind``: what failed, as in ``KINDS``."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


TARGET, DATA, TOOL, ARCHIVE, REFUSED = "target", "data", "tool", "archive", "refused"
"""The target, the data of this host, a program that is missing, a damaged backup, a restore that would harm."""
