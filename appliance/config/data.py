"""Where playbooks, roles and profiles lie: beside the package in a checkout, inside it in a wheel."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
FOLDERS = ("playbooks", "roles", "profiles")


def root() -> Path:
    """The folder that holds ``playbooks``, ``roles`` and ``profiles``.

    Raises FileNotFoundError where the program was installed without them (a broken wheel, not a user's mistake).
    """
    for candidate in (PACKAGE / "_data", PACKAGE.parent):
        if all((candidate / folder).is_dir() for folder in FOLDERS):
            return candidate
    raise FileNotFoundError(f"{', '.join(FOLDERS)} lie neither in {PACKAGE}/_data nor beside it")


def profiles() -> Path:
    """The folder of the profiles that come with the program."""
    return root() / "profiles"
