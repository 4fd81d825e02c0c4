"""Packages through rpm and dnf."""

from __future__ import annotations

import re
from typing import Any, Sequence

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import (
    Problem,
    full_file_systems,
    out_of_space,
)

FORMAT = r"%{NAME}\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\n"
NOT_KNOWN = re.compile(
    r"No match for argument|Unable to find a match|Status code: 404|Cannot download"
)
OPTIONS = (
    "-y",
    "--setopt=install_weak_deps=False",
    "--setopt=clean_requirements_on_remove=False",
)
OFFERED = "%{name} %{epoch}:%{version}-%{release}\n"
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "NEEDRESTART_SUSPEND": "1"}


class Dnf:
    """The package tools of the RHEL family; dnf itself waits for another one's lock."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.changed = False
        self.versions: dict[str, set[str]] = {}
        self.providers: dict[str, str] = {}
        self.pinned: set[str] = set()

    def read(self) -> None:
        """Take stock of all packages with one query."""
        code, out, err = self._run(["rpm", "-qa", "--qf", FORMAT])
        if code:
            raise Problem(f"rpm: {reason_of(err or out)}")
        self.versions = {}
        for line in lines_of(out):
            name, version = line.split("\t")
            self.versions.setdefault(name, set()).add(version)

    def mend(self) -> None:
        """Nothing: rpm's database is transactional."""

    def missing(self, names: Sequence[str], pins: dict[str, str]) -> list[str]:
        """What dnf must be asked for, pins as name-version."""
        plain = [name for name in names if name not in pins and not self.real_name(name)]
        pinned = [f"{n}-{v}" for n, v in pins.items() if v not in self.versions.get(n, ())]
        self.pinned = set(pinned)
        return plain + pinned

    def unwanted(self, names: Sequence[str]) -> list[str]:
        """Which of ``names`` are installed."""
        return [name for name in names if name in self.versions]

    def real_name(self, name: str) -> str:
        """The installed package that is or provides ``name``; empty when none."""
        if name in self.versions:
            return name
        if name not in self.providers:
            # One of several kernels' packages is named with its version, which is no capability.
            asked = (["rpm", "-q", *how, name, "--qf", FORMAT] for how in (["--whatprovides"], []))
            answers = (self._run(argv) for argv in asked)
            found = (out.split("\t")[0] for code, out, _ in answers if not code)
            self.providers[name] = next(found, "")
        return self.providers[name]

    def version(self, name: str) -> str:
        """The installed version with its epoch; of several kernels the last in order."""
        return max(self.versions.get(name, {""}))

    def is_held(self, name: str) -> bool:
        """No: what the file of its repository excludes comes with its release."""
        return False

    def is_behind(self, name: str, version: str) -> bool:
        """Whether it is missing or older than ``version``, in rpm's own order."""
        found = self.version(name)
        if not found or found == version:
            return not found
        lua = f'%{{lua: print(rpm.vercmp("{found}", "{version}"))}}'
        code, out, err = self._run(["rpm", "--eval", lua])
        if code:
            raise Problem(f"rpm: {reason_of(err or out)}")
        return out.strip() == "-1"

    def apply(self, wanted: list[str], unwanted: list[str], *, purge: bool = False) -> None:
        """Install, then remove."""
        if wanted:
            self._transact("install", wanted, "installing")
        if unwanted:
            self._transact("remove", unwanted, "removing")
        self.providers = {}
        if not self.module.check_mode:
            self.read()

    def keep(self, names: Sequence[str]) -> None:
        """Nothing: the file of their repository excludes them from upgrades."""

    def refresh(self) -> None:
        """Fetch the package lists; in check mode they stay as they are."""
        if self.module.check_mode:
            return
        code, out, err = self._run(["dnf", "-q", "-y", "makecache", "--refresh"])
        if code:
            raise Problem(f"refreshing the package lists: {reason_of(err or out)}")

    def offered(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Versions by name, the newest first, whatever is excluded from upgrades."""
        form = ["--disableexcludes=all", "repoquery", "--showduplicates", "--qf", OFFERED]
        code, out, err = self._run(["dnf", "-q", *form, *names])
        if code:
            raise Problem(f"asking for versions of {', '.join(names)}: {reason_of(err or out)}")
        found: dict[str, list[str]] = {}
        for line in reversed(lines_of(out)):
            name, _, version = line.partition(" ")
            if version:
                found.setdefault(name, []).append(version.removeprefix("0:"))
        return found

    def _transact(self, verb: str, names: list[str], doing: str) -> None:
        self.changed = True
        # What a repository's file excludes is had by its version only.
        lifted = ["--disableexcludes=all"] if self.pinned.intersection(names) else []
        argv = ["dnf", *OPTIONS, *lifted, verb, *names]
        if self.module.check_mode:
            argv.insert(1, "--setopt=tsflags=test")
        code, out, err = self._run(argv)
        if code and NOT_KNOWN.search(out + err):
            code, out, err = self._run([argv[0], "--refresh", *argv[1:]])
        if code and out_of_space(out + err):
            full = full_file_systems() or "/"
            raise Problem(f"{doing} {' '.join(names)}: no space left on device ({full})")
        if code:
            raise Problem(f"{doing} {' '.join(names)}: {reason_of(out + err)}")

    def _run(self, argv: list[str]) -> tuple[int, str, str]:
        answer: tuple[int, str, str] = self.module.run_command(argv, environ_update=ENVIRONMENT)
        return answer


def reason_of(text: str) -> str:
    """The one line of dnf's output that says why."""
    lines = [line.strip() for line in lines_of(text) if line.strip()]
    missing = [
        line.rsplit(":", 1)[1].strip()
        for line in lines
        if line.startswith("No match for argument:")
    ]
    if missing:
        return f"{', '.join(missing)} is in no repository of this host"
    errors = [line for line in lines if re.match(r"(Error|error|Problem|- )", line)]
    telling = [line for line in errors if line not in {"Error:", "Error"}]
    return (telling or lines or ["no reason given"])[0]
