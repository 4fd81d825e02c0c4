"""Debian sources of this machine: systems are built from them, and keep them as their own."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from appliance.adapters.process import run
from appliance.errors import ConfigError
from appliance.provision.building import Progress

RELEASES = {"12": "bookworm", "13": "trixie"}
"""Debian releases that systems are built from, with their code names."""
CODENAME = RELEASES["12"]
DEB822_FROM = 13
"""The first release whose sources are in the format of debian.sources."""
INDEX_TARGETS = (
    "apt-get",
    "indextargets",
    "--format",
    "$(REPO_URI)|$(RELEASE)|$(CODENAME)|$(COMPONENT)|$(ORIGIN)",
    "Created-By: Packages",
)
CONFINED = ("setpriv", "--pdeathsig", "KILL", "--", "unshare", "--pid", "--fork", "--kill-child")
"""A build is killed with the process that started it, and its mounts end with its namespace."""
HIDE = ("etc/ssh/ssh_host_*", "etc/machine-id", "var/lib/dbus/machine-id", "etc/hostname")
BUILDERS_TRACES = (
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
    # Caches that apt rebuilds at every start: 70 MB that every installation would write.
    "var/cache/apt/pkgcache.bin",
    "var/cache/apt/srcpkgcache.bin",
)
CARRIED_APT = ("Acquire::http", "Acquire::https", "Acquire::ftp", "Acquire::Check-")


@dataclass(frozen=True)
class Sources:
    """This machine's Debian sources: one-line sources, apt settings, certificates by file name."""

    lines: tuple[str, ...]
    apt_conf: str
    certificates: dict[str, str]


def digest(text: str) -> str:
    """A short name for a content."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def machine_sources(progress: Progress, codename: str = CODENAME) -> Sources:
    """Reads this machine's apt configuration and extra certificates. Raises ConfigError without Debian."""
    targets = run(INDEX_TARGETS).stdout
    if not targets.strip():
        # apt lists only archives whose lists it has, and a fresh machine has none.
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
            "no system can be built here: apt has no Debian archive",
            "add Debian's archive to /etc/apt/sources.list.d and run apt-get update",
        )
    return tuple(lines)


def write_sources(root: Path, sources: Sources, release: str) -> None:
    """Apt's sources, in the format of the release."""
    lines = sources.lines
    old, new = root / "etc/apt/sources.list", root / "etc/apt/sources.list.d/debian.sources"
    if int(release) < DEB822_FROM:
        old.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return
    old.unlink(missing_ok=True)
    new.parent.mkdir(parents=True, exist_ok=True)
    new.write_text("\n".join(_paragraph(line) for line in lines), encoding="utf-8")


def _paragraph(line: str) -> str:
    _, uri, suite, component = line.split()
    signed = "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    return f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: {component}\n{signed}"


def leave(root: Path, sources: Sources, release: str) -> None:
    """Apt's sources and settings, and the certificates, as on this machine; nothing else of it or of the build."""
    for name in BUILDERS_TRACES:
        (root / name).unlink(missing_ok=True)
    if sources.apt_conf:
        (root / "etc/apt/apt.conf.d/80local").write_text(sources.apt_conf, encoding="utf-8")
    write_sources(root, sources, release)
    finish(root, sources)


def finish(root: Path, sources: Sources) -> None:
    """Adds this machine's certificates; removes what each host has of its own, and downloaded packages."""
    folder = root / "usr/local/share/ca-certificates"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in sources.certificates.items():
        (folder / name).write_text(text, encoding="utf-8")
    run((*CONFINED, "chroot", str(root), "update-ca-certificates"), timeout=120)
    for pattern in (*HIDE, "var/cache/apt/archives/*.deb"):
        for file in root.glob(pattern):
            file.unlink()
    (root / "etc/machine-id").touch()
