"""An installation of a release: whether the packages around the program are those of its lock."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "_data" / "appliance.lock"
"""In a wheel only. A checkout follows its own lock (make setup)."""
SHOWN = 5
"""Packages that are named, at most."""
SUPPORTED_ANSIBLE = (2, 20)
"""The oldest line of ansible-core with updates. Those of 2.19 ended in November 2026; 2.20 needs Python 3.12."""


def remarks() -> list[str]:
    """What a user of this installation has to know, each in one line; none in a checkout."""
    differing = differences()
    found = []
    if differing:
        named = ", ".join(differing[:SHOWN])
        more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        found.append(
            f"packages differ from the lock of this release: {named}{more}; install the release again from its folder: "
            "pip install --require-hashes -r appliance.lock"
        )
    if LOCK.is_file() and (ansible := _installed("ansible-core")) and _is_old(ansible):
        found.append(
            f"ansible-core {ansible} no longer gets updates; newer versions need Python 3.12 or newer, such as on Debian 13"
        )
    return found


def differences() -> list[str]:
    """Each package that is missing, or has another version than the lock. Without a lock: none."""
    if not LOCK.is_file():
        return []
    # A tenth of a start, and only verbs that change something ask.
    from packaging.requirements import Requirement

    found = []
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        if not line[:1].isalnum():
            continue
        wanted = Requirement(line.rstrip(" \\"))
        if wanted.marker and not wanted.marker.evaluate():
            continue
        have = _installed(wanted.name)
        if have is None:
            found.append(f"{wanted.name} is missing")
        elif not wanted.specifier.contains(have, prereleases=True):
            found.append(f"{wanted.name} {have} instead of {str(wanted.specifier).lstrip('=')}")
    return found


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _is_old(ansible: str) -> bool:
    return tuple(int(part) for part in ansible.split(".")[:2]) < SUPPORTED_ANSIBLE
