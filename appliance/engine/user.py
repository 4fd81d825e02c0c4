"""The user who runs the program, by name if there is one."""

import getpass
import os
import socket


def user_name() -> str:
    """Return the user's name; the user id if this machine has no name for it, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


def operator() -> str:
    """Return who changes a site: the user, or who called sudo, and the machine."""
    return f"{os.environ.get('SUDO_USER') or user_name()}@{socket.gethostname()}"
