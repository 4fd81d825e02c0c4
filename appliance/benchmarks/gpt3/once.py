"""A log that is read once, with the digest of what was read: a file that still grows is not another one a moment later."""

import hashlib
from functools import partial
from typing import BinaryIO

CHUNK = 1 << 18
"""Bytes that are read at a time."""


class Once:
    """What is left of a file; ``size``: bytes read so far."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size = 0

    def read(self, size: int) -> bytes:
        """At most so many of the next bytes; none at the end."""
        data = self._file.read(size)
        self._digest.update(data)
        self.size += len(data)
        return data

    def sha256(self) -> str:
        """Of all bytes, those included that nobody wanted to read."""
        for _ in iter(partial(self.read, CHUNK), b""):
            pass
        return self._digest.hexdigest()
