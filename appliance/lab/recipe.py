"""What goes into a rack's image, and where this machine gets Debian from."""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from appliance.adapters.process import run
from appliance.config import document
from appliance.config.finding import InvalidConfig
from appliance.errors import ConfigError
from appliance.lab.building import Progress

DISTRIBUTION, VERSION, CODENAME = "Debian", "12", "bookworm"
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
INDEX_TARGETS = (
    "apt-get",
    "indextargets",
    "--format",
    "$(REPO_URI)|$(RELEASE)|$(CODENAME)|$(COMPONENT)|$(ORIGIN)",
    "Created-By: Packages",
)
CARRIED_APT = ("Acquire::http", "Acquire::https", "Acquire::ftp", "Acquire::Check-")


@dataclass(frozen=True)
class Sources:
    """Where this machine gets Debian from: one-line sources, apt settings, certificates by file name."""

    lines: tuple[str, ...]
    apt_conf: str
    certificates: dict[str, str]


@dataclass(frozen=True)
class Recipe:
    """All that decides the content of the base image."""

    sources: Sources
    packages: tuple[str, ...] = BASE_PACKAGES
    edition: int = 2

    @property
    def digest(self) -> str:
        return digest(json.dumps(asdict(self), sort_keys=True))


def digest(text: str) -> str:
    """A short name for a content."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def machine_sources(progress: Progress, codename: str = CODENAME) -> Sources:
    """Read this machine's apt configuration and extra certificates. Raises ConfigError without Debian."""
    targets = run(INDEX_TARGETS).stdout
    if not targets.strip():
        # apt speaks only of archives whose lists it has, and a fresh machine has none.
        progress("fetching this machine's package lists")
        run(("apt-get", "-qq", "update"), timeout=300)
        targets = run(INDEX_TARGETS).stdout
    settings = run(("apt-config", "dump")).stdout
    folder = Path("/usr/local/share/ca-certificates")
    return Sources(
        lines=debian_lines(targets, codename),
        apt_conf="".join(
            f"{line}\n" for line in settings.splitlines() if line.startswith(CARRIED_APT)
        ),
        certificates={
            file.name: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.crt"))
        },
    )


def debian_lines(targets: str, codename: str = CODENAME) -> tuple[str, ...]:
    """One-line apt sources for a release, from the machine's own index targets."""
    lines: dict[str, None] = {}
    for target in targets.splitlines():
        uri, release, own, component, origin = target.split("|")
        if origin == "Debian":
            suite = release.replace(own.partition("-")[0], codename)
            lines[f"deb {uri} {suite} {component}"] = None
    if not lines:
        raise ConfigError(
            "the virtual rack cannot be built: apt knows no Debian archive here",
            "add Debian's archive to /etc/apt/sources.list.d and run apt-get update",
        )
    return tuple(lines)


def role_packages(
    roles_dir: Path, distribution: str = DISTRIBUTION, version: str = VERSION
) -> dict[str, tuple[str, ...]]:
    """By role, the packages its vars name: keys ending in ``_packages`` of main and the system's files."""
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
