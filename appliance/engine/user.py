"""Who runs the program, by name where there is one."""

import getpass
import os


def user_name() -> str:
    """The user's name; the number of one that this machine has no name for, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"
