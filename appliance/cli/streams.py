"""Standard streams for verbs: a write error is remembered, and never ends a run."""

import errno
import os
import select
import sys
from io import BufferedWriter, FileIO, RawIOBase, TextIOWrapper
from typing import TYPE_CHECKING, TextIO

from appliance.report.ascii_text import readable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Kept(RawIOBase):
    """A file descriptor whose errors are kept instead of raised; after the first error, nothing more is written.

    Waits for a pipe or terminal that another program has made non-blocking.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.lost: OSError | None = None

    def fileno(self) -> int:
        return self.number

    def isatty(self) -> bool:
        return os.isatty(self.number)

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        content = memoryview(data).cast("B")
        while self.lost is None:
            try:
                return os.write(self.number, content)
            except BlockingIOError:
                select.select([], [self.number], [])
            except OSError as error:
                self.lost = error
        return len(content)


def steady(stream: TextIO) -> TextIO:
    """``stream`` for a verb, with replacements for characters its encoding lacks; a stream without a file is only recoded."""
    buffer = getattr(stream, "buffer", None)
    # Under PYTHONUNBUFFERED the buffer is the file itself.
    if not isinstance(stream, TextIOWrapper) or not isinstance(
        getattr(buffer, "raw", buffer), FileIO
    ):
        return readable(stream)
    stream.flush()
    kept = TextIOWrapper(
        BufferedWriter(_Kept(stream.fileno())),
        encoding=stream.encoding,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    return readable(kept)


def loss(stream: TextIO) -> OSError | None:
    """Why output was lost. None if nothing was, or if the reader of a pipe has exited, such as ``head``."""
    stream.flush()
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    lost = raw.lost if isinstance(raw, _Kept) else None
    return None if lost and lost.errno == errno.EPIPE else lost


def settle() -> None:
    """Makes both output streams of the program steady."""
    sys.stdout, sys.stderr = steady(sys.stdout), steady(sys.stderr)
