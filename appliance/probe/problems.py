"""Reasons of failed reads: missing, not permitted, not answered."""

from __future__ import annotations

import errno

FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Folders in which programs are searched; an ordinary user's PATH lacks the sbin ones."""

DENIED, UNANSWERED, IO_ERROR, MISMATCH = "denied", "unanswered", "io_error", "version_mismatch"
"""Kinds of problems: permission denied, no answer from the fabric, disk errors, versions of driver and library differ."""


class Unreadable(Exception):
    """An existing area could not be read; the text is one line for the user."""

    kind = ""


class Absent(Unreadable):
    """A program is not installed."""


class Late(Unreadable):
    """A program did not answer in time."""


class Denied(Unreadable):
    """The login user lacks permission to read it."""

    kind = DENIED


def surprise(what: str, error: Exception) -> str:
    """Return one line about an unexpected exception, caused for example by a user's text."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{what} failed on unexpected data on this host and returns no facts ({said}); check for unusual names and texts there"


def kind_of(error: OSError) -> str:
    """Return the kind of problem of an OS error; "" if it has none."""
    if isinstance(error, PermissionError):
        return DENIED
    return IO_ERROR if error.errno == errno.EIO else ""
