"""Before a wheel or an editable install is made: what roles and installed users need, and is in no repository."""

import subprocess  # noqa: TID251 - the program is not installed yet
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DATA = "appliance/_data"
"""Where the program finds its data in an installation (appliance/config/data.py)."""
FOLDERS = ("playbooks", "roles", "profiles", "docs/schema")
LOCK = ("requirements.lock", "appliance.lock")
"""The lock in the checkout, and in the wheel."""
LEFT_OUT = ("molecule", "__pycache__", "ruff.toml")
"""Names that no installation needs; neither does one need those that begin with a dot."""


class Build(BuildHookInterface):  # type: ignore[type-arg]
    """Writes schemas, manual pages, boards and alert rules to where a checkout has them, and adds data to the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Run by hatchling; the packages that this needs are named in pyproject.toml."""
        subprocess.run(
            (sys.executable, "-m", "tools.published", "built"), cwd=self.root, check=True
        )
        if version == "standard":
            build_data["force_include"].update(_data(Path(self.root)))


def _data(root: Path) -> Iterator[tuple[str, str]]:
    """Each file of the checkout that is data of the program, and its path in the wheel."""
    for file in (found for folder in FOLDERS for found in sorted((root / folder).rglob("*"))):
        path = file.relative_to(root)
        if file.is_file() and not any(_is_left_out(part) for part in path.parts):
            yield str(file), f"{DATA}/{path}"
    yield str(root / LOCK[0]), f"{DATA}/{LOCK[1]}"


def _is_left_out(name: str) -> bool:
    return name in LEFT_OUT or name.startswith(".")
