"""What every part of the installer needs: programs, and the one way to say no."""

import subprocess  # noqa: TID251 - the ramdisk has nothing of this program


class Refused(Exception):
    """The host cannot be installed. ``remedy``: what a person does about it."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy


def run(*command: str, given: str | None = None) -> str:
    """What a program prints. Raises Refused with its last words."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()
        last = words[-1] if words else "it says nothing"
        raise Refused(f"{command[0]} ended with {done.returncode}: {last}")
    return done.stdout
