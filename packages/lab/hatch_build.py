"""The virtual rack depends on the program of the same version."""

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class SameVersion(MetadataHookInterface):
    """Names the dependency, whose version is read from the program."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Run by hatchling, with the version already in ``metadata``."""
        metadata["dependencies"] = [f"appliance=={metadata['version']}"]
