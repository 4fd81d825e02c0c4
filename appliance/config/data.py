"""Where playbooks, roles and profiles lie: beside the package in a checkout, inside it in a wheel."""

from pathlib import Path

from appliance.errors import ApplianceError

PACKAGE = Path(__file__).resolve().parent.parent
FOLDERS = ("playbooks", "roles", "profiles")
BUILT = "roles/observe/files/etc/prometheus/rules/appliance.yml"
"""Of what is built and in no repository (make setup), the file that roles cannot do without."""


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


def built_root() -> Path:
    """The same, for who gives hosts what lies there. Raises ApplianceError in a checkout where nothing was built yet."""
    found = root()
    if not (found / BUILT).is_file():
        raise ApplianceError(f"{found / BUILT} is missing", "run: make setup")
    return found
