"""Which package versions are of a release."""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem


def numbers(version: str) -> tuple[int, ...]:
    """1.35.2 of "1.35.2-1.1", "0:1.35.2-1" and "v1.35.2"."""
    plain = re.split(r"[-~+]", version.rpartition(":")[2].lstrip("v"))[0]
    return tuple(int(part) for part in plain.split(".") if part.isdigit())


def is_of(version: str, release: str) -> bool:
    """Whether a package's version is of a release, be that one minor or one patch release."""
    wanted = numbers(release)
    return numbers(version)[: len(wanted)] == wanted


def newest(versions: Iterable[str], release: str) -> str:
    """The newest package of a release; empty for none."""
    return max((v for v in versions if is_of(v, release)), key=numbers, default="")


def chosen(tools: Any, releases: Mapping[str, str]) -> dict[str, str]:
    """The exact version of each: the installed one where it is of the release, else the newest on offer. Raises Problem."""
    found = {name: str(tools.version(name)) for name in releases}
    lacking = {n: release for n, release in releases.items() if not is_of(found[n], release)}
    if not lacking:
        return found
    offered = tools.offered(list(lacking))
    if any(not newest(offered.get(name, []), release) for name, release in lacking.items()):
        tools.refresh()
        offered = tools.offered(list(lacking))
    for name, release in lacking.items():
        found[name] = newest(offered.get(name, []), release)
        if not found[name]:
            there = ", ".join(list(dict.fromkeys(offered.get(name, [])))[:6]) or "none"
            raise Problem(
                f"no repository of this host offers {name} {release} (there is {there}): name one that does in"
                " section repositories, or another release"
            )
    return found
