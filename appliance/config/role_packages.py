"""The packages that roles can install, by system."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from appliance.config import document
from appliance.config.finding import InvalidConfig

Lists = dict[str, tuple[str, ...]]
FAMILY = "Debian"
"""Distributions derived from it use its file where they have none."""


def package_lists(roles_dir: Path, distribution: str, version: str) -> dict[str, Lists]:
    """By role, the lists of packages in its vars: keys ending in ``_packages`` of main and the system's files.

    A key that holds several lists by kind is ``key:kind``.
    """
    found: dict[str, Lists] = {}
    for role in sorted(roles_dir.glob("*/vars")):
        merged: Lists = {}
        for key, value in system_variables(role, distribution, version).items():
            if key.endswith("_packages"):
                merged |= dict(_lists(key, value))
        if any(merged.values()):
            found[role.parent.name] = merged
    return found


def system_variables(role: Path, distribution: str, version: str) -> dict[str, object]:
    """The vars of a role for a system, from its folder ``vars``."""
    own = distribution if (role / f"{distribution}.yml").exists() else FAMILY
    names = ("main", own, f"{distribution}-{version}")
    return {k: v for name in names for k, v in _variables(role / f"{name}.yml").items()}


def _variables(file: Path) -> dict[str, object]:
    """A vars file's content; one that is missing, empty or wrong has no packages to offer."""
    with suppress(InvalidConfig):
        content = document.read(file).data
        if isinstance(content, dict):
            return content
    return {}


def _lists(key: str, value: object) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(value, list):
        yield key, tuple(item for item in value if _is_plain(item))
    elif isinstance(value, dict):
        for kind, names in value.items():
            if isinstance(names, list):
                yield f"{key}:{kind}", tuple(item for item in names if _is_plain(item))


def _is_plain(item: object) -> bool:
    """A package name, not a template Ansible would fill in."""
    return isinstance(item, str) and "{{" not in item and not item.startswith(("/", "http"))
