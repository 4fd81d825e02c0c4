"""The driver's packages: which versions there are, and all of them moved from one version to another."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ansible_collections.appliance.host.plugins.module_utils.apt import Apt
from ansible_collections.appliance.host.plugins.module_utils.disk import Staged, Wanted, read
from ansible_collections.appliance.host.plugins.module_utils.dnf import Dnf
from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

PREFERENCES = "/etc/apt/preferences.d/appliance-nvidia-driver"
NAMES = "*nvidia* libcuda* libnv* cuda-drivers*"
"""What comes in the driver's own version. apt picks the newest of each unless all of them are pinned."""

REFRESH = ("apt-get", "-q", "update")
ALONE = ("-o", "APT::Get::List-Cleanup=0", "-o", "Dir::Etc::sourceparts=-", "-o", "APT::Update::Error-Mode=any", "-o")  # fmt: skip
"""One source's lists, or a failure: by itself apt-get ends with 0 where nothing could be fetched (apt 2.6.1)."""


def upstream(version: str) -> str:
    """The driver's version of a package's: "580.95.05" of "3:580.95.05-1.el9"."""
    return re.split(r"[-~+]", version.rpartition(":")[2])[0]


def of_release(version: str, release: str) -> bool:
    """Whether "580.95.05-1" is of "580", or is exactly "580.95.05"."""
    parts, wanted = upstream(version).split("."), release.split(".")
    return parts[: len(wanted)] == wanted


def order(version: str) -> tuple[int, ...]:
    """How driver versions compare."""
    return tuple(int(part) for part in re.findall(r"\d+", upstream(version)))


def choose(
    entries: Sequence[Sequence[str]],
    offered: Mapping[str, Sequence[str]],
    release: str,
    pins: Mapping[str, str],
) -> dict[str, str]:
    """Of each entry one name with its version: the newest driver of the release that all entries are offered in.

    Of several builds of one driver the pinned one, else the first on offer, which is the newest.
    """
    per_entry = [
        {
            upstream(version): (name, version)
            for name in reversed(entry)
            for version in _wanted_last(offered.get(name, ()), pins.get(name))
            if of_release(version, release)
        }
        for entry in entries
    ]
    common = set(per_entry[0]).intersection(*per_entry[1:]) if per_entry else set()
    if not common:
        return {}
    newest = max(common, key=order)
    return dict(found[newest] for found in per_entry)


def _wanted_last(offered: Sequence[str], pin: str | None) -> list[str]:
    """From the oldest build to the newest, and behind them the pinned one."""
    others = [version for version in reversed(offered) if version != pin]
    return others + [version for version in offered if version == pin]


def preferences(wanted: Mapping[str, str]) -> bytes:
    """What keeps every part of the driver in the version of these packages."""
    version = upstream(next(iter(wanted.values())))
    return (
        "# Written by appliance, stage gpu: all parts of the driver in one version.\n"
        f"Package: {NAMES}\nPin: version {version}*\nPin-Priority: 1001\n"
    ).encode()


class AptDriver:
    """Debian and Ubuntu."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.apt = Apt(module)

    def read(self) -> None:
        """Take stock, after mending what an interrupted installation left."""
        self.apt.read()
        self.apt.mend()

    def version(self, name: str) -> str:
        """Of an installed package, else ""."""
        return self.apt.version(name)

    def held(self, wanted: Mapping[str, str]) -> bool:
        """Whether nobody else may change them."""
        found = [self.apt.installed.get(name) for name in wanted]
        return read(PREFERENCES) == preferences(wanted) and all(
            f and f.desired == "h" for f in found
        )

    def refresh(self, source: str) -> None:
        """Fetch the lists of one source, or all where none is named. An unsigned one is refused."""
        argv = [*REFRESH, *ALONE, f"Dir::Etc::sourcelist={source}"] if source else [*REFRESH]
        code, out, err = self.apt.patiently(argv)
        errors = [line[3:] for line in lines_of(out + err) if line.startswith("E: ")]
        if code or errors:
            raise Problem(" ".join(errors) or "apt-get update failed")

    def offered(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Versions by name."""
        return self.apt.offered(names)

    def move(self, wanted: Mapping[str, str]) -> None:
        """Install these versions, whatever was there, and let nobody else change them."""
        self._prefer(wanted)
        self.apt.apply([f"{name}={version}" for name, version in wanted.items()], [])
        self.apt.hold(sorted(wanted))

    def hold(self, wanted: Mapping[str, str]) -> None:
        """Against unattended upgrades, and against a person's apt-get upgrade."""
        self._prefer(wanted)
        self.apt.hold(sorted(wanted))

    def _prefer(self, wanted: Mapping[str, str]) -> None:
        Staged(self.module, Wanted(PREFERENCES, preferences(wanted))).commit()


class DnfDriver:
    """The RHEL family. The repository's file excludes the driver's packages, which holds them; here that is lifted."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.dnf = Dnf(module)

    def read(self) -> None:
        """Take stock."""
        self.dnf.read()

    def version(self, name: str) -> str:
        """Of an installed package, else ""."""
        return self.dnf.version(name)

    def held(self, wanted: Mapping[str, str]) -> bool:
        """By the repository's file."""
        return True

    def refresh(self, source: str) -> None:
        """Fetch the lists; gpgcheck and repo_gpgcheck refuse what is not signed."""
        self.dnf.refresh()

    def offered(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Versions by name."""
        return self.dnf.offered(names)

    def move(self, wanted: Mapping[str, str]) -> None:
        """Install these versions, whatever was there."""
        new = [f"{n}-{v}" for n, v in wanted.items() if order(v) >= order(self.version(n) or "0")]
        old = [f"{n}-{v}" for n, v in wanted.items() if order(v) < order(self.version(n) or "0")]
        for verb, names in (("downgrade", old), ("install", new)):
            if names:
                code, out, err = self._run(
                    ["dnf", "-y", "-q", "--disableexcludes=all", verb, *names]
                )
                if code:
                    raise Problem(" ".join((err or out).split()[:60]))
        self.read()

    def hold(self, wanted: Mapping[str, str]) -> None:
        """Nothing: the repository's file does."""

    def _run(self, argv: list[str]) -> tuple[int, str, str]:
        answer: tuple[int, str, str] = self.module.run_command(
            argv, environ_update={"LC_ALL": "C.UTF-8"}
        )
        return answer
