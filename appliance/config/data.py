"""Where playbooks, roles and profiles are: next to the package in a checkout, inside it in a wheel."""

from pathlib import Path

from appliance.errors import ApplianceError

PACKAGE = Path(__file__).resolve().parent.parent
FOLDERS = ("playbooks", "roles", "profiles")
BUILT = "roles/observe/files/without-slurm/appliance.yml"
"""The file that roles need of what is built and in no repository (make setup)."""


def root() -> Path:
    """The folder that contains ``playbooks``, ``roles`` and ``profiles``.

    Raises FileNotFoundError if the program was installed without them (a broken wheel, not a user's mistake).
    """
    for candidate in (PACKAGE / "_data", PACKAGE.parent):
        if all((candidate / folder).is_dir() for folder in FOLDERS):
            return candidate
    raise FileNotFoundError(f"{', '.join(FOLDERS)} are missing in {PACKAGE}/_data and next to it")


def profiles() -> Path:
    """The folder of the profiles shipped with the program."""
    return root() / "profiles"


def built_root() -> Path:
    """The same, for code that copies files from there to hosts. Raises ApplianceError in a checkout that was not built."""
    found = root()
    if not (found / BUILT).is_file():
        raise ApplianceError(f"{found / BUILT} is missing", "run: make setup")
    return found
