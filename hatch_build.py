"""Before a wheel or an editable install is made: what roles and installed users need, and is in no repository."""

import subprocess  # noqa: TID251 - the program is not installed yet
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Build(BuildHookInterface):  # type: ignore[type-arg]
    """Writes schemas, manual pages, boards and alert rules to where a checkout has them, too."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Run by hatchling; the packages that this needs are named in pyproject.toml."""
        subprocess.run(
            (sys.executable, "-m", "tools.published", "built"), cwd=self.root, check=True
        )
