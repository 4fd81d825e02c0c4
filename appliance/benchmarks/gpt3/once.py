"""Reads a log once, together with its digest: a file that still grows gives one consistent result."""

import hashlib
from functools import partial
from typing import BinaryIO

CHUNK = 1 << 18
"""Bytes read at a time."""


class Once:
    """The unread rest of a file; ``size``: bytes read until now."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size = 0

    def read(self, size: int) -> bytes:
        """Returns at most so many of the next bytes; empty at the end."""
        data = self._file.read(size)
        self._digest.update(data)
        self.size += len(data)
        return data

    def sha256(self) -> str:
        """Digest of all bytes, including those that were not requested."""
        for _ in iter(partial(self.read, CHUNK), b""):
            pass
        return self._digest.hexdigest()
