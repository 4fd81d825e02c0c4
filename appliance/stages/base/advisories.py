"""Which versions of software have no known vulnerabilities, as dated data."""

import re
from datetime import date
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, get_args

from appliance.config.tables import load
from appliance.models.base import Model
from appliance.probe.versions import is_newer
from appliance.stages.base.site import Advised, Advisory

FILE = Path(__file__).with_name("advisories.yml")
DRIVER, KERNEL = "nvidia-driver", "kernel"
PACKAGES = tuple(of for of in get_args(Advised) if of not in {DRIVER, KERNEL})
"""Packages that hosts report. Docker's containerd.io has no row, because its version does not show its runc."""
RELEASE = re.compile(r"(\d{1,5})\.(\d{1,5})\.(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
NUMBERS = re.compile(r"\d{1,9}(\.\d{1,9})*", re.ASCII)
OWN = re.compile(r"[+~-]")
"""End of the upstream version in a distribution's version."""


class Advisories(Model):
    """The rows shipped with the program."""

    version: Literal[1]
    rows: tuple[Advisory, ...]


@cache
def advisories() -> tuple[Advisory, ...]:
    """The program's own rows."""
    return load(FILE, Advisories).rows


def newest(rows: tuple[Advisory, ...], of: str, system: str) -> Advisory | None:
    """The row for this part that was reviewed last; on a tie, the site's row."""
    own = [row for row in rows if row.of == of and row.system in {"", system}]
    return max(reversed(own), key=lambda row: row.looked, default=None)


def age(row: Advisory, today: str) -> int | None:
    """Days since the review; None if the host's date is unknown."""
    try:
        return (date.fromisoformat(today) - date.fromisoformat(row.looked)).days
    except ValueError:
        return None


def is_fixed(row: Advisory, version: str) -> bool | None:
    """Whether a version has the fixes of a row; None if the row does not cover it."""
    if row.of == KERNEL:
        return _kernel(row.fixed, version)
    if row.system:
        return _of_distribution(row.fixed, version, row.system.startswith("rhel"))
    return _of_maker(row.fixed, version)


def _kernel(fixed: tuple[str, ...], version: str) -> bool | None:
    """Whether two versions are of one series, such as 6.1.0-40 and 6.1.0-56, or 6.12.99 and 6.12.118."""
    for one in fixed:
        wanted, found = _release(one), _release(version)[: len(_release(one))]
        if wanted and found[:-1] == wanted[:-1]:
            return found >= wanted
    return None


@lru_cache(256)
def _release(text: str) -> tuple[int, ...]:
    match = RELEASE.match(text)
    return tuple(int(part) for part in match.groups() if part) if match else ()


def _of_maker(fixed: tuple[str, ...], version: str) -> bool | None:
    """Whether a version is at least the newest, or the fixed one of its branch."""
    match = NUMBERS.match(version.rpartition(":")[2])
    if match is None:
        return None
    found = _numbers(match[0])
    known = [_numbers(one) for one in fixed]
    return found >= max(known) or any(found[0] == one[0] and found >= one for one in known)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _of_distribution(fixed: tuple[str, ...], version: str, rpm: bool) -> bool | None:
    """Compare in the package manager's order. A newer upstream version than the archive's is from another source."""
    for one in fixed:
        if _upstream(version) == _upstream(one):
            return not is_newer(one, version, rpm=rpm)
    is_behind = all(is_newer(one, version, rpm=rpm) for one in fixed)
    return False if is_behind else None


def _upstream(version: str) -> str:
    return OWN.split(version, maxsplit=1)[0]
