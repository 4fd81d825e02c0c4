"""Package updates of a host (apt). This file is sent to a host and runs there alone, with its request as argument.

Before the first change, a copy of each old package is kept: a mirror removes versions that it has replaced.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess  # noqa: TID251 - runs on the host
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Answer = dict[str, Any]

FOLDER = Path("/var/lib/appliance/updates")
ARCHIVES = Path("/var/cache/apt/archives")
RECORD = "record.json"
RECORDS_KEPT = 3
MOST = 5000
"""Packages of one update: more than a full installation has to change."""
NAME = re.compile(r"[a-z0-9][a-z0-9+.-]{0,127}(:[a-z0-9]{1,16})?")
VERSION = re.compile(r"[A-Za-z0-9.+:~-]{1,128}")
RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,63}")
INSTALLS = re.compile(r"Inst (\S+)(?: \[([^]]+)\])? \((\S+) ([^)]*?)(?: \[[^]]*\])?\)")
REMOVES = re.compile(r"Remv (\S+)")
KERNEL = re.compile(r"linux-(image|headers|modules)-")
DELETED = re.compile(r"(?:\S+ +){5}/(usr|lib|lib64|bin|sbin)/.* \(deleted\)$")
"""The sixth field of a line is the path; a user may have a folder with a blank in its name (proc(5))."""
DAEMONS = (range(1000), range(60000, 65000))
"""Numbers of accounts that packages create (login.defs, UID_MIN; Debian policy 9.2.2)."""
FAILED = re.compile(r"dpkg: error processing (?:package|archive) (\S+)")
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    "DEBIAN_FRONTEND": "noninteractive",
    # Ubuntu's needrestart restarts daemons of jobs that still run.
    "NEEDRESTART_SUSPEND": "1",
}
INSTALL = (
    "apt-get",
    "--yes",
    "--no-install-recommends",
    "--option=Dpkg::Options::=--force-confdef",
    "--option=Dpkg::Options::=--force-confold",
    "--option=DPkg::Lock::Timeout=300",
)


LOOK = "appliance health --check base"
OTHER_MANAGER = "update it by its own package manager, then: appliance node reboot"
STAGES = "change its release in site.yml first, or choose with --security"
BACK, BACK_ALONE = "appliance update back", "appliance update back, on this host alone"
REPACK = "install dpkg-repack on the host; nothing was updated there"
PLAN = "appliance update plan"
INTERRUPTED = "on the host: dpkg --configure -a, then apt-get --fix-broken install"
HINTS = frozenset({LOOK, OTHER_MANAGER, STAGES, BACK, BACK_ALONE, REPACK, PLAN, INTERRUPTED})
"""The control machine shows no other remedy of a host: operators type them."""


class Problem(Exception):
    """Why it cannot be done; ``hint``: what to do."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


def answer(request: Answer, folder: Path = FOLDER) -> Answer:
    """The answer to ``plan``, ``apply``, ``settle``, ``back`` or ``records``. Raises Problem."""
    if not shutil.which("apt-get", path=ENVIRONMENT["PATH"]):
        raise Problem(
            "its packages are not apt's: updates in waves know apt only",
            OTHER_MANAGER,
        )
    if request["do"] == "records":
        return {"back": bool(_records(folder, undone=False))}
    if request["do"] == "plan":
        return _plan(request, folder)
    if request["do"] == "apply":
        return _apply(request, folder)
    if request["do"] == "settle":
        # After an update whose operator's program was killed: packages may be half-installed, a reboot may be due.
        _ran("dpkg", "--configure", "-a", hint=BACK)
        return {"changed": 0, "reboot": _why_reboot([], [])}
    return _back(folder)


def _plan(request: Answer, folder: Path) -> Answer:
    """What apt would change now. ``held``: packages that a stage manages, which stay."""
    _ran("apt-get", "update", "--quiet=2", "--error-on=any", hint=LOOK)
    found = _simulated("upgrade", "--with-new-pkgs")[0]
    held = [re.compile(pattern) for pattern in request["held"]]
    chosen = [
        one
        for one in found
        if not _is_held(one["name"], held) and (one["security"] or not request["security"])
    ]
    if chosen:
        found_for_them, removed = _simulated("install", *map(_wanted, chosen))
        others = [one["name"] for one in found_for_them if _is_held(one["name"], held)]
        if removed or others:
            raise Problem(
                "updates need a change of "
                + ", ".join([*others, *removed][:3])
                + ", which a stage of the deployment manages",
                STAGES,
            )
        chosen = found_for_them
    return {
        "updates": chosen[:MOST],
        "held": [one["name"] for one in found if _is_held(one["name"], held)][:MOST],
        "back": bool(_records(folder, undone=False)),
    }


def _is_held(name: str, held: Sequence[re.Pattern[str]]) -> bool:
    return any(pattern.search(name) for pattern in held)


def _wanted(one: Answer) -> str:
    return f"{one['name']}={one['new']}"


def _simulated(*words: str) -> tuple[list[Answer], list[str]]:
    """What apt would install, and remove."""
    text = _ran(
        *("apt-get", "--simulate", "--option=Debug::NoLocking=true", *words), hint=INTERRUPTED
    )
    found = [
        {
            "name": match.group(1),
            "old": match.group(2) or "",
            "new": match.group(3),
            "security": "security" in match.group(4).lower(),
        }
        for match in map(INSTALLS.match, text.splitlines())
        if match
    ]
    return found, [match.group(1) for match in map(REMOVES.match, text.splitlines()) if match]


def _apply(request: Answer, folder: Path) -> Answer:
    updates = [_checked(one) for one in request["updates"]]
    if not RUN.fullmatch(request["run"]):
        raise Problem("the name of the run is invalid")
    # What an update that was killed left half-installed.
    _ran("dpkg", "--configure", "-a", hint=BACK)
    place = _kept(updates, folder / request["run"])
    before = stale_programs()
    _write(place, {"updates": updates, "undone": False})
    _ran(
        *INSTALL,
        "install",
        *map(_wanted, updates),
        hint=BACK_ALONE,
    )
    now = _versions(complete=True)
    if late := [one["name"] for one in updates if now.get(_plain(one["name"])) != one["new"]]:
        raise Problem("apt ended well, but these were not updated: " + ", ".join(late[:3]))
    _pruned(folder)
    return {"changed": len(updates), "reboot": _why_reboot(updates, before)}


def _checked(one: Answer) -> Answer:
    name, old, new = one["name"], one["old"], one["new"]
    if not NAME.fullmatch(name) or not VERSION.fullmatch(new):
        raise Problem("a name or version of a package is invalid")
    if old and not VERSION.fullmatch(old):
        raise Problem("a version of a package is invalid")
    return {"name": name, "old": old, "new": new}


def _plain(name: str) -> str:
    return name.partition(":")[0]


def _kept(updates: Sequence[Answer], place: Path) -> Path:
    """Copy the old packages into a new folder; an incomplete one has no record, and is removed."""
    place.parent.mkdir(0o700, parents=True, exist_ok=True)
    if place.is_dir() and not (place / RECORD).exists():
        shutil.rmtree(place)
    place.mkdir(0o700)
    for one in updates:
        if one["old"]:
            _keep(one["name"], one["old"], place)
    return place


def _keep(name: str, old: str, place: Path) -> None:
    # apt writes the colon of an epoch as %3a.
    for file in ARCHIVES.glob(_plain(name) + "_" + old.replace(":", "%3a") + "_*.deb"):
        shutil.copy(file, place)
        return
    if not _done("apt-get", "download", "--quiet=2", name + "=" + old, cwd=place).returncode:
        return
    if not shutil.which("dpkg-repack", path=ENVIRONMENT["PATH"]):
        _done(*INSTALL, "install", "dpkg-repack")
    made = _done("dpkg-repack", name, cwd=place)
    if made.returncode:
        raise Problem(
            f"{name} {old} cannot be kept: apt's cache and mirror lack it, and dpkg-repack: {_last(made.stderr)}",
            REPACK,
        )


def _back(folder: Path) -> Answer:
    """Install the old packages of the newest update again; packages that it added are removed, except kernels."""
    records = _records(folder, undone=False)
    if not records:
        raise Problem("no update is recorded that can be undone", PLAN)
    place, record = records[-1]
    now = _versions(complete=False)
    there = _debs(place)
    words = []
    for one in record["updates"]:
        name = _plain(one["name"])
        if now.get(name) != one["new"]:
            continue
        if not one["old"]:
            words += [] if KERNEL.match(name) else [one["name"] + "-"]
            continue
        file = there.get((name, one["old"]))
        if not file:
            raise Problem("{} has no copy of {} {}".format(place, name, one["old"]))
        words.append(file)
    before = stale_programs()
    if words:
        _ran(*INSTALL, "--allow-downgrades", "install", *words)
    record["undone"] = True
    _write(place, record)
    return {"changed": len(words), "reboot": _why_reboot(record["updates"], before)}


def _debs(place: Path) -> dict[tuple[str, str], str]:
    """Files by package and version, as the packages themselves say."""
    found = {}
    for file in place.glob("*.deb"):
        said = _ran("dpkg-deb", "--show", "--showformat=${Package} ${Version}", str(file)).split()
        if len(said) == 2:
            found[said[0], said[1]] = str(file)
    return found


def _records(folder: Path, *, undone: bool) -> list[tuple[Path, Answer]]:
    """Records with their folders, the oldest first; ``undone``: also those of updates that were undone."""
    read = [
        (file.parent, json.loads(file.read_text("utf-8"))) for file in folder.glob("*/" + RECORD)
    ]
    found = [(place, record) for place, record in read if undone or not record["undone"]]
    return sorted(found, key=lambda one: one[1]["at"])


def _write(place: Path, record: Answer) -> None:
    """Replace the record in one step. ``at`` is kept from the first writing."""
    record.setdefault("at", time.time())
    new = place / (RECORD + ".new")
    with new.open("w", encoding="utf-8") as opened:
        json.dump(record, opened)
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(place / RECORD)


def _pruned(folder: Path) -> None:
    for place, _ in _records(folder, undone=True)[:-RECORDS_KEPT]:
        shutil.rmtree(place)


def _versions(*, complete: bool) -> dict[str, str]:
    """Versions of packages; ``complete``: only of those that are configured, not of failed ones."""
    text = _ran("dpkg-query", "--show", "--showformat=${Package} ${Version} ${db:Status-Abbrev}\n")
    lines = (line.split() for line in text.splitlines())
    return {
        line[0]: line[1]
        for line in lines
        if len(line) == 3 and (line[2] == "ii" or (not complete and line[2] not in {"rc", "un"}))
    }


def _why_reboot(updates: Sequence[Answer], before: Sequence[str]) -> list[str]:
    """Reasons for a reboot: a new kernel, a package that asks for it, programs whose files were replaced now."""
    why = []
    if any(KERNEL.match(one["name"]) for one in updates):
        why.append("a new kernel")
    if Path("/run/reboot-required").exists():
        why.append("a package asks for it (/run/reboot-required)")
    if stale := [name for name in stale_programs() if name not in before]:
        why.append("programs use replaced files: " + ", ".join(stale[:3]))
    return why


def stale_programs(proc: Path = Path("/proc")) -> list[str]:
    """Names of running programs that map a deleted file of the system: they still run its old version.

    Only those of root and system accounts: a user's program must not restart a host.
    """
    found = set()
    for maps in proc.glob("[0-9]*/maps"):
        try:
            owner = maps.parent.stat().st_uid
            if owner != os.geteuid() and not any(owner in numbers for numbers in DAEMONS):
                continue
            with maps.open(encoding="utf-8", errors="replace") as file:
                is_stale = any(map(DELETED.match, file))
            if is_stale:
                name = maps.with_name("comm").read_text("utf-8", "replace").strip()
                found.add(re.sub(r"[^\w.:/-]", "?", name)[:32])
        except OSError:  # It has ended.
            continue
    return sorted(found)


def _ran(*argv: str, hint: str = "") -> str:
    done = _done(*argv)
    if done.returncode:
        raise Problem(" ".join(argv[:2]) + ": " + _last(done.stdout + "\n" + done.stderr), hint)
    return done.stdout


def _done(*argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            env=ENVIRONMENT,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        return subprocess.CompletedProcess(argv, 127, "", str(error))


def _last(text: str) -> str:
    """The package that dpkg failed on and why, else the first error of apt, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line, following in zip(lines, [*lines[1:], ""]):  # noqa: B905 - strict came with Python 3.10
        if match := FAILED.match(line):
            return f"{match.group(1)}: {following}"[:300]
    errors = [line for line in lines if line.startswith(("E:", "Err:"))]
    return (errors or lines[-1:] or ["it failed without a message"])[0][:300]


def main() -> None:
    """Print the answer to the request in the arguments, as JSON."""
    try:
        said = answer(json.loads(sys.argv[1]))
    except Problem as problem:
        said = {"error": str(problem), "hint": problem.hint}
    except (OSError, ValueError, KeyError) as error:
        said = {"error": f"{type(error).__name__}: {error}", "hint": ""}
    print(json.dumps(said))  # noqa: T201


if __name__ == "__main__":
    main()
