"""The content of a rack's image."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from appliance.config.role_packages import package_lists
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
    found = {}
    for role, lists in package_lists(roles_dir, distribution, version).items():
        names = [n for key, items in lists.items() if ":" not in key for n in items]
        if names:
            found[role] = tuple(dict.fromkeys(names))
    return found
