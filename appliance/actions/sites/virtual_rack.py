"""The site of the virtual rack. Its code is a distribution of its own, appliance-lab, which may be missing."""

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType

from appliance.errors import LabMissing


def is_installed() -> bool:
    """Whether this machine can raise a virtual rack."""
    return _spec() is not None


def site() -> Path | None:
    """The folder of the embedded rack's site; None without such a rack."""
    spec = _spec()
    found = spec.load(spec.EMBEDDED) if spec else None
    return Path(found.site_dir) if found else None


def is_its_site(folder: Path) -> bool:
    """Whether ``folder`` is the site of the embedded rack, by whatever path."""
    spec = _spec()
    if spec is None:
        return False
    its = Path(spec.folder_of(spec.EMBEDDED)) / "site"
    return os.path.realpath(folder) == os.path.realpath(its)


def maker() -> ModuleType:
    """The module that raises racks, imported only when needed. Raises LabMissing."""
    if not is_installed():
        raise LabMissing
    return import_module("appliance.lab.rack")


def _spec() -> ModuleType | None:
    try:
        return import_module("appliance.lab.spec")
    except ModuleNotFoundError as error:
        if error.name in LabMissing.MODULES:
            return None
        raise
