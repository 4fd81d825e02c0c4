"""Reads files named by a user: regular files only, up to a size."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

LARGEST = 1_000_000


class NoFile(OSError):
    """A device, pipe, socket or folder: it could be endless, or block until a writer opens it."""


class TooLarge(Exception):
    """Larger than the limit. Not an OSError: the file can be read."""


@contextmanager
def opened(file: Path) -> Iterator[BufferedReader]:
    """Opens a regular file for reading. Raises OSError (``NoFile``); never blocks."""
    number = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise NoFile(errno.EINVAL, "it is not a regular file", str(file))
    with os.fdopen(number, "rb") as content:
        yield content


def read_bytes(file: Path, most: int = LARGEST) -> bytes:
    """Reads a regular file of at most ``most`` bytes. Raises OSError (``NoFile``), TooLarge."""
    with opened(file) as content:
        found = content.read(most + 1)
    if len(found) > most:
        raise TooLarge(str(file))
    return found
