"""Versions of packages: all that are asked for in one call of dpkg-query or rpm."""

from __future__ import annotations

import re

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*(:[a-z0-9]+)?$")
"""Anything else is no package's name, and would spoil the whole call or match as a pattern."""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from appliance.probe.ask import Facts

DPKG = "${Package}\\t${Architecture}\\t${db:Status-Status}\\t${Version}\\n"
RPM = "%{NAME}\\t%{ARCH}\\tinstalled\\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n"


def collect(ask: Ask, known: dict[str, tuple[str, str]]) -> Facts:
    """The area ``packages``: those of the asked ones that are fully installed."""
    versions = {name: known.get(name, ("", "")) for name in ask.packages}
    return {
        "packages": {name: v for name, (status, v) in versions.items() if status == "installed"}
    }


def query(ask: Ask, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Status and version by name; a package nobody ever installed is left out. Raises Unreadable.

    Status is dpkg's word: installed, config-files, half-configured, unpacked ...
    """
    asked = sorted({name for name in names if NAME.match(name)})
    if not asked:
        return {}
    if files.exists(ask.path("/var/lib/dpkg/status")):
        # 1: some of them are unknown; the rest is printed all the same.
        return parse(ask.run(["dpkg-query", "-W", "-f", DPKG, "--", *asked], 10.0, (0, 1)), asked)
    if not ask.has("rpm"):
        raise Unreadable("neither dpkg nor rpm is on this host")
    # Ends with the number of unknown packages, each of which has a line of its own.
    said = ask.run(["rpm", "-q", "--qf", RPM, "--", *asked], 10.0, range(256))
    if len(said.splitlines()) < len(asked):
        raise Unreadable("rpm: its database cannot be read")
    return parse(said, asked)


def parse(said: str, asked: list[str]) -> dict[str, tuple[str, str]]:
    """The lines of the query; of several versions of one package (RPM kernels) the last installed."""
    found: dict[str, tuple[str, str]] = {}
    for line in said.splitlines():
        fields = line.split("\t")
        if len(fields) != 4 or fields[2] == "not-installed":
            continue
        name, arch, status, version = fields
        for key in (name, f"{name}:{arch}", f"{name}.{arch}"):
            if key in asked and (status == "installed" or key not in found):
                found[key] = (status, version)
    return found
