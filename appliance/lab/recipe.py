"""The content of a rack's image."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from appliance.config import document
from appliance.config.finding import InvalidConfig
from appliance.provision.sources import Sources, digest

DISTRIBUTION, VERSION = "Debian", "12"
BASE_PACKAGES = (
    "ca-certificates",
    "dbus",
    "ibsim-utils",
    "iproute2",
    "iputils-ping",
    # PyTorch's matrix products are twenty times as fast as with the reference BLAS.
    "libopenblas0-pthread",
    "nftables",
    "openssh-server",
    "procps",
    "python3",
    "python3-apt",
    "python3-torch",
    "sudo",
    "systemd",
    "systemd-sysv",
    # Every real machine has it; installed on each host it would build its hardware database there each time.
    "udev",
)
LIB_FOLDER = "usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Recipe:
    """All that decides the content of the base image."""

    sources: Sources
    packages: tuple[str, ...] = BASE_PACKAGES
    edition: int = 2

    @property
    def digest(self) -> str:
        return digest(json.dumps(asdict(self), sort_keys=True))


def role_packages(
    roles_dir: Path, distribution: str = DISTRIBUTION, version: str = VERSION
) -> dict[str, tuple[str, ...]]:
    """By role, the packages in its vars: keys ending in ``_packages`` of main and the system's files."""
    found: dict[str, tuple[str, ...]] = {}
    for role in sorted(roles_dir.glob("*/vars")):
        merged: dict[str, list[str]] = {}
        for name in ("main", distribution, f"{distribution}-{version}"):
            file = role / f"{name}.yml"
            for key, value in _variables(file).items():
                if key.endswith("_packages") and isinstance(value, list):
                    merged[key] = [item for item in value if _is_plain(item)]
        packages = dict.fromkeys(item for items in merged.values() for item in items)
        if packages:
            found[role.parent.name] = tuple(packages)
    return found


def _variables(file: Path) -> dict[str, object]:
    """A vars file's content; one that is missing, empty or wrong has no packages to offer."""
    with suppress(InvalidConfig):
        content = document.read(file).data
        if isinstance(content, dict):
            return content
    return {}


def _is_plain(item: object) -> bool:
    """A package name, not a template Ansible would fill in."""
    return isinstance(item, str) and "{{" not in item and not item.startswith(("/", "http"))
