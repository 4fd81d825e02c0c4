"""Files that a person names: read up to a size, and only where they are files."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

LARGEST = 1_000_000


class NoFile(OSError):
    """A device, pipe, socket or folder: one never ends, another waits for a writer."""


class TooLarge(Exception):
    """More than was asked for. No OSError: the file can be read."""


@contextmanager
def opened(file: Path) -> Iterator[BufferedReader]:
    """A regular file, open for reading. Raises OSError (``NoFile``); never waits."""
    number = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise NoFile(errno.EINVAL, "it is no file", str(file))
    with os.fdopen(number, "rb") as content:
        yield content


def read_bytes(file: Path, most: int = LARGEST) -> bytes:
    """A regular file of at most ``most`` bytes. Raises OSError (``NoFile``), TooLarge."""
    with opened(file) as content:
        found = content.read(most + 1)
    if len(found) > most:
        raise TooLarge(str(file))
    return found
