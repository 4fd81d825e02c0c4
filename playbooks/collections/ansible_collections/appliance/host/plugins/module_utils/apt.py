"""Packages through dpkg-query and apt-get."""

from __future__ import annotations

import fcntl
import glob
import os
import re
import time
from dataclasses import dataclass
from typing import Any, Sequence

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import (
    Problem,
    full_file_systems,
    out_of_space,
)

LOCK_SECONDS = 300
FORMAT = r"${Package}\t${db:Status-Abbrev}\t${Version}\t${Provides}\n"
SETTLED = {"n", "i", "c"}
NOT_KNOWN = re.compile(
    r"Unable to locate package|has no installation candidate|was not found|404 +Not Found|"
    r"Couldn't find any package|Failed to fetch|Hash Sum mismatch"
)
# Not "Unable to lock" or "Could not open lock file": so it is on a full or broken disk, where waiting helps nobody.
# dpkg's own words come from apt-mark, which waits for nobody: stages work side by side on one host.
BUSY = re.compile(
    r"Could not get lock|is another process using it|lock was locked by another process", re.I
)
# apt-get and apt-cache make the cache of the lists anew under no lock: of two at once, one finds its new file gone.
LOST_RACE = re.compile(r"Problem (?:renaming|unlinking) the file \S*pkgcache\.bin.*\(2: ")
COUNTS = re.compile(
    r"(\d+) upgraded, (\d+) newly installed, (?:(\d+) reinstalled, )?(?:(\d+) downgraded, )?(\d+) to remove"
)
OPTIONS = (
    "-y",
    "-q",
    "--no-install-recommends",
    "-o", "Dpkg::Options::=--force-confdef",
    "-o", "Dpkg::Options::=--force-confold",
    "-o", f"DPkg::Lock::Timeout={LOCK_SECONDS}",
    "-o", "Dpkg::Use-Pty=0",
)  # fmt: skip
ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "APT_LISTCHANGES_FRONTEND": "none",
    "NEEDRESTART_SUSPEND": "1",
    "LC_ALL": "C",
    "LANGUAGE": "C",
}


@dataclass(frozen=True)
class Installed:
    """A package dpkg knows: desired action, status, error flag and version."""

    desired: str
    status: str
    error: str
    version: str

    @property
    def present(self) -> bool:
        """Unpacked and configured, or waiting only for triggers."""
        return self.status in {"i", "t", "W"} and not self.error

    @property
    def interrupted(self) -> bool:
        """Left half way by a dpkg that was stopped."""
        return self.status not in SETTLED or bool(self.error)


class Apt:
    """The package tools of Debian and Ubuntu."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.changed = False
        self.refreshed = False
        self.installed: dict[str, Installed] = {}
        self.provided: dict[str, str] = {}

    def read(self) -> None:
        """Take stock of all packages with one query."""
        code, out, err = self._run(["dpkg-query", "-W", "-f", FORMAT])
        if code:
            raise Problem(f"dpkg-query: {reason_of(err or out)}")
        self.installed, self.provided = parse(out)

    def missing(self, names: Sequence[str], pins: dict[str, str]) -> list[str]:
        """What apt-get must be asked for, pins as name=version."""
        plain = [name for name in names if name not in pins and not self.real_name(name)]
        pinned = [
            f"{name}={version}" for name, version in pins.items() if self.version(name) != version
        ]
        return plain + pinned

    def unwanted(self, names: Sequence[str]) -> list[str]:
        """Which of ``names`` are installed."""
        return [name for name in names if self.version(name)]

    def real_name(self, name: str) -> str:
        """The installed package that is or provides ``name``; empty when none."""
        if self.version(name):
            return name
        return self.provided.get(name, "")

    def version(self, name: str) -> str:
        """The installed version; empty when not installed."""
        found = self.installed.get(name)
        return found.version if found and found.present else ""

    def is_held(self, name: str) -> bool:
        """Whether it is kept from upgrades."""
        found = self.installed.get(name)
        return found is not None and found.desired == "h"

    def is_behind(self, name: str, version: str) -> bool:
        """Whether it is missing or older than ``version``."""
        found = self.version(name)
        if not found or found == version:
            return not found
        code, _, _ = self._run(["dpkg", "--compare-versions", found, "lt", version])
        return not code

    def mend(self) -> None:
        """Finish what an interrupted dpkg left, once no other one runs."""
        if not self._interrupted():
            return
        if self.module.check_mode:
            self.changed = True
            return
        _wait_for_lock("/var/lib/dpkg/lock-frontend")
        self.read()
        if not self._interrupted():
            return
        self.changed = True
        code, out, err = self.patiently(
            ["dpkg", "--force-confdef", "--force-confold", "--configure", "-a"]
        )
        if code:
            self._give_up("finishing an interrupted installation", out + err)
        self._transact(["--fix-broken", "install"], "mending an interrupted installation")
        self.read()

    def apply(self, wanted: list[str], unwanted: list[str], *, purge: bool = False) -> None:
        """Install and remove in one transaction, refreshing the lists only when that helps."""
        held = {name for name in self.installed if self.is_held(name)}
        request = ["install", *wanted, *(f"{name}-" for name in unwanted)]
        if purge:
            request.insert(0, "--purge")
        # A pin and a file say which version, be it older than the installed one.
        if any("=" in name or "/" in name for name in wanted):
            request[:0] = ["--allow-downgrades", "--allow-change-held-packages"]
        elif any(map(self.is_held, unwanted)):
            request.insert(0, "--allow-change-held-packages")
        if not lists_present():
            self.refresh()
        if self.module.check_mode:
            request.insert(0, "--simulate")
        doing = ("installing " + " ".join(wanted)) if wanted else ("removing " + " ".join(unwanted))
        self._transact(request, doing)
        if not self.module.check_mode:
            self.read()
            self._hold_again(held)

    def hold(self, names: Sequence[str]) -> None:
        """Let no upgrade of these packages happen that does not ask for it. Raises Problem."""
        code, out, err = self.patiently(["apt-mark", "hold", *names])
        if code:
            self._give_up(f"holding {' '.join(names)}", out + err)
        self.read()

    def keep(self, names: Sequence[str]) -> None:
        """The same for those that are not held yet."""
        loose = [n for n in names if self.version(n) and not self.is_held(n)]
        if not loose:
            return
        self.changed = True
        if not self.module.check_mode:
            self.hold(loose)

    def refresh(self) -> None:
        """Fetch the package lists; in check mode they stay as they are."""
        self.refreshed = True
        if self.module.check_mode:
            return
        code, out, err = self.patiently(["apt-get", "-q", "update"])
        if code:
            self._give_up("refreshing the package lists", out + err)

    def offered(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Versions by name, the newest first, as often as repositories offer them."""
        code, out, err = self.patiently(["apt-cache", "madison", *names])
        if code:
            raise Problem(f"asking for versions of {', '.join(names)}: {reason_of(out + err)}")
        found: dict[str, list[str]] = {}
        for line in lines_of(out):
            if "|" in line:
                name, version = (part.strip() for part in line.split("|")[:2])
                found.setdefault(name, []).append(version)
        return found

    def patiently(self, argv: list[str]) -> tuple[int, str, str]:
        """Code, output and errors of one of apt's or dpkg's programs, asked again while another one is in its way."""
        # DPkg::Lock::Timeout covers dpkg's lock but not the one on the package lists.
        end = time.monotonic() + LOCK_SECONDS
        while True:
            code, out, err = self._run(argv)
            again = BUSY.search(err) or LOST_RACE.search(err)
            if not code or not again or time.monotonic() > end:
                return code, out, err
            time.sleep(3)

    def _transact(self, request: list[str], doing: str) -> None:
        code, out, err = self.patiently(["apt-get", *OPTIONS, *request])
        if code and not self.refreshed and NOT_KNOWN.search(out + err):
            self.refresh()
            code, out, err = self.patiently(["apt-get", *OPTIONS, *request])
        if code:
            self._give_up(doing, out + err, [word for word in request if "=" in word])
        counts = COUNTS.search(out)
        self.changed |= any(int(count or 0) for count in (counts.groups() if counts else ()))

    def _give_up(self, doing: str, text: str, pins: Sequence[str] = ()) -> None:
        if out_of_space(text):
            raise Problem(f"{doing}: no space left on device ({full_file_systems() or '/var'})")
        for pin in pins:
            name, version = pin.split("=", 1)
            if re.search(rf"Version '{re.escape(version)}' for '{re.escape(name)}'", text):
                raise Problem(
                    f"package {name}: version {version} is in no repository of this host any more"
                    f" (there is {', '.join(self._offered(name)) or 'none'})"
                )
        raise Problem(f"{doing}: {reason_of(text)}")

    def _offered(self, name: str) -> list[str]:
        return list(dict.fromkeys(self.offered([name]).get(name, [])))

    def _hold_again(self, before: set[str]) -> None:
        lost = sorted(name for name in before if self.version(name) and not self.is_held(name))
        if lost:
            self.hold(lost)

    def _interrupted(self) -> bool:
        journal = glob.glob("/var/lib/dpkg/updates/[0-9]*")
        return bool(journal) or any(found.interrupted for found in self.installed.values())

    def _run(self, argv: list[str]) -> tuple[int, str, str]:
        answer: tuple[int, str, str] = self.module.run_command(
            argv, environ_update=ENVIRONMENT, handle_exceptions=True
        )
        return answer


def parse(text: str) -> tuple[dict[str, Installed], dict[str, str]]:
    """Packages, and virtual names with the installed package that provides each."""
    installed: dict[str, Installed] = {}
    provided: dict[str, str] = {}
    for line in lines_of(text):
        name, status, version, provides = line.split("\t")
        flags = status.ljust(3)
        found = Installed(flags[0], flags[1], flags[2].strip(), version)
        if name not in installed or found.present:
            installed[name] = found
        if found.present:
            for virtual in provides.split(","):
                provided.setdefault(virtual.split("(")[0].strip(), name)
    provided.pop("", None)
    return installed, provided


def lists_present() -> bool:
    """Whether the package lists were fetched at all."""
    return bool(glob.glob("/var/lib/apt/lists/*_Packages*"))


def reason_of(text: str) -> str:
    """The one line of dpkg's and apt's output that says why."""
    lines = [line.strip() for line in lines_of(text) if line.strip()]
    for number, line in enumerate(lines):
        if line.startswith("dpkg: error processing"):
            why = lines[number + 1] if number + 1 < len(lines) else ""
            return f"{line[len('dpkg: ') :].rstrip(':')}: {why}"
        if line.startswith("dpkg: error: "):
            return line[len("dpkg: error: ") :]
    errors = [line[3:] for line in lines if line.startswith("E: ")]
    telling = [line for line in errors if "Sub-process" not in line]
    for line in lines:
        if " : Depends: " in line or " : Conflicts: " in line or " : Breaks: " in line:
            telling.insert(0, re.sub(r"\s+", " ", line))
    return (telling or errors or lines or ["no reason given"])[0]


def _wait_for_lock(path: str) -> None:
    end = time.monotonic() + LOCK_SECONDS
    with open(path, "a") as lock:
        while True:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() > end:
                    raise Problem(
                        f"{path}: another package manager has held it for {LOCK_SECONDS} s"
                        f" (see `fuser -v {path}` on the host)"
                    ) from None
            time.sleep(2)


def available() -> bool:
    """Whether this host is of the Debian family."""
    return os.path.exists("/usr/bin/apt-get")
