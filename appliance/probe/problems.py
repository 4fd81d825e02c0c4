"""Reasons of failed reads: missing, not permitted, not answered."""

from __future__ import annotations

import errno

FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where programs are looked for; a plain user's own PATH lacks the sbin ones."""

DENIED, UNANSWERED, IO_ERROR, MISMATCH = "denied", "unanswered", "io_error", "version_mismatch"
"""Kinds of problems: the login user may not, nobody answers a query of the fabric, a disk gives errors, driver and library differ."""


class Unreadable(Exception):
    """An area that is there could not be read; the text is one line for the user."""

    kind = ""


class Absent(Unreadable):
    """A program is not installed."""


class Late(Unreadable):
    """A program did not answer in time."""


class Denied(Unreadable):
    """The login user may not read it."""

    kind = DENIED


def surprise(what: str, error: Exception) -> str:
    """One line on what met something that nobody foresaw, a text of a user's for example."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{what} failed on unexpected data on this host and returns no facts ({said}); check for unusual names and texts there"


def kind_of(error: OSError) -> str:
    """The kind of problem an error of the system is; "" where nothing hangs on it."""
    if isinstance(error, PermissionError):
        return DENIED
    return IO_ERROR if error.errno == errno.EIO else ""
