"""Shared by every part of the installer: programs, and the error for refusals."""

import subprocess  # noqa: TID251 - the ramdisk has nothing of this program


class Refused(Exception):
    """The host cannot be installed. ``remedy``: what the operator can do."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy


def run(*command: str, given: str | None = None) -> str:
    """The output of a program. Raises Refused with its last line."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()
        last = words[-1] if words else "without a message"
        raise Refused(f"{command[0]} ended with {done.returncode}: {last}")
    return done.stdout
