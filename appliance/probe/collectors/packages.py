"""Versions of packages and their holds, in one call of dpkg-query or rpm."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.lines import lines_of
from appliance.probe.problems import Unreadable

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*(:[a-z0-9]+)?$")
"""Other text is not a package name, and would break the call or match as a pattern."""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from appliance.probe.ask import Facts

    Package = tuple[str, str, bool]

DPKG = "${Package}\\t${Architecture}\\t${db:Status-Status}\\t${Version}\\t${db:Status-Want}\\n"
RPM = "%{NAME}\\t%{ARCH}\\tinstalled\\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n"
SOURCES = "/etc/yum.repos.d"
EXCLUDED = re.compile(r"^excludepkgs=(.*)$", re.M)
HOLD = "hold"


def is_dpkg(ask: Ask) -> bool:
    """Return whether this host uses dpkg."""
    return files.exists(ask.path("/var/lib/dpkg/status"))


def collect(ask: Ask, known: dict[str, Package]) -> Facts:
    """The area ``packages``: the requested ones that are fully installed."""
    found = {name: known[name] for name in ask.packages if name in known}
    return {"packages": {name: p[1] for name, p in found.items() if p[0] == "installed"}}


def query(ask: Ask, names: Iterable[str]) -> dict[str, Package]:
    """Status, version and hold by name, without packages that were never installed. Raises Unreadable.

    Status as in dpkg: installed, config-files, half-configured, unpacked ...
    """
    asked = sorted({name for name in names if NAME.match(name)})
    if not asked:
        return {}
    if is_dpkg(ask):
        # 1: some of them are unknown; the rest is printed all the same.
        return parse(ask.run(["dpkg-query", "-W", "-f", DPKG, "--", *asked], 10.0, (0, 1)), asked)
    if not ask.has("rpm"):
        raise Unreadable("neither dpkg nor rpm is on this host")
    # Ends with the number of unknown packages, each of which has a line of its own.
    said = ask.run(["rpm", "-q", "--qf", RPM, "--", *asked], 10.0, range(256))
    if len(lines_of(said)) < len(asked):
        raise Unreadable("rpm: its database cannot be read")
    held = _excluded(ask)
    return {
        name: (status, version, any(fnmatchcase(name, pattern) for pattern in held))
        for name, (status, version, _) in parse(said, asked).items()
    }


def _excluded(ask: Ask) -> list[str]:
    """Return packages that a stage's own repository file excludes from upgrades."""
    ours = [f for f in files.names(ask.path(SOURCES)) if f.startswith("appliance-")]
    texts = (files.read(ask.path(f"{SOURCES}/{name}")) for name in ours)
    return [p for text in texts for line in EXCLUDED.findall(text) for p in line.split(",")]


def parse(said: str, asked: list[str]) -> dict[str, Package]:
    """Parse the lines of the query; of several versions of a package (RPM kernels), the last installed counts."""
    found: dict[str, Package] = {}
    for line in lines_of(said):
        fields = line.split("\t")
        if len(fields) not in {4, 5} or fields[2] == "not-installed":
            continue
        name, arch, status, version, *want = fields
        for key in (name, f"{name}:{arch}", f"{name}.{arch}"):
            if key in asked and (status == "installed" or key not in found):
                found[key] = (status, version, want == [HOLD])
    return found
