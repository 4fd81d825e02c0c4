"""What systemd knows of units, and why one did not start."""

from __future__ import annotations

import glob
import os
import re
import time
from dataclasses import dataclass
from typing import Any, Iterator, Sequence

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem, last_line

PROPERTIES = (
    "Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "NeedDaemonReload", "Type",
    "Result", "ConditionResult", "ActiveEnterTimestampMonotonic", "ExecMainStatus",
    "FragmentPath", "DropInPaths",
)  # fmt: skip
PLACES = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
"""Where roles and packages put unit files, first wins (systemd.unit(5))."""
SUFFIXES = (
    ".service",
    ".socket",
    ".timer",
    ".mount",
    ".target",
    ".path",
    ".slice",
    ".automount",
    ".swap",
    ".scope",
)


@dataclass(frozen=True)
class State:
    """One unit as ``systemctl show`` gives it."""

    load: str
    active: str
    sub: str
    file: str
    stale: bool
    type: str
    result: str
    condition: bool
    since: float
    status: str
    fragment: str = ""
    drop_ins: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether there is such a unit."""
        return self.load not in {"not-found", ""}

    @property
    def enabled(self) -> bool:
        """Started at boot, or started by what needs it."""
        return self.file in {"enabled", "static", "alias", "indirect", "generated", "transient", ""}

    @property
    def running(self) -> bool:
        """Active, or about to be."""
        return self.active in {"active", "reloading", "activating"} and self.sub != "auto-restart"

    @property
    def stopped(self) -> bool:
        """Neither active nor about to be; a service that systemd will start again is."""
        return self.active not in {"active", "reloading", "activating"}


def full_name(name: str) -> str:
    """The unit's name with its suffix; "chrony" is a service."""
    return name if name.endswith(SUFFIXES) else f"{name}.service"


def booted() -> bool:
    """Whether systemd runs this host (not so while an image is being made)."""
    return os.path.isdir("/run/systemd/system")


MOST_LINES = 50
"""Of the journal: a start that fails says why within so many."""
LIMITED = "start-limit-hit"
"""The result of a unit that failed too often to be started again."""
TELLING = (
    re.compile(r"\b(?:fatal|panic)\b", re.I),
    re.compile(r"\berror\b|already in use|permission denied|no such file", re.I),
)
"""What tells the cause, in this order. The last line often tells only that the program ends."""
TAKEN = re.compile(r":(?P<port>[0-9]{1,5})\b.*address already in use", re.I)
HOLDER = re.compile(r'users:\(\("(?P<program>[^"]{1,64})"')


def telling_line(text: str) -> str:
    """The first line of the gravest kind, else the last line."""
    lines = [line for line in lines_of(text) if line.strip()]
    for kind in TELLING:
        if found := next((line for line in lines if kind.search(line)), ""):
            return last_line(found)
    return last_line(text)


class Systemctl:
    """The door to systemd."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def show(self, names: Sequence[str]) -> list[State]:
        """States of ``names``, in that order."""
        code, out, err = self.run("show", "-p", ",".join(PROPERTIES), "--", *names)
        blocks = out.strip().split("\n\n")
        if code or len(blocks) != len(names):
            raise Problem(f"systemctl show {' '.join(names)}: {last_line(err) or 'no answer'}")
        return [_state(block) for block in blocks]

    def do(self, verb: str, name: str) -> None:
        """Run one verb on a unit. Raises Problem with the unit's own last words."""
        began = time.time()
        code, out, err = self.run(verb, name)
        if code:
            raise Problem(self.complaint(verb, name, began, err or out))

    def reload(self) -> None:
        """Have systemd read its units anew. Raises Problem."""
        code, out, err = self.run("daemon-reload")
        if code:
            said = last_line(err or out) or "no reason given"
            raise Problem(f"systemd does not read its units anew: {said}")

    def complaint(self, verb: str, name: str, began: float, said: str) -> str:
        """One line on why ``verb`` failed: the most telling line of that unit since ``began``."""
        state = self.show([name])[0]
        words = self._words(name, began, state.result)
        if not words:
            telling = [line for line in lines_of(said) if "journalctl" not in line]
            words = last_line("\n".join(telling)) or "no reason given"
        status = f" with status {state.status}" if state.status not in {"", "0"} else ""
        result = f" ({state.result}{status})" if state.result not in {"", "success"} else ""
        return f"{name}: {verb} failed{result}: {words}{self._holder(words)}"

    def _words(self, name: str, began: float, result: str) -> str:
        """What the unit's own processes said, else what systemd says of it. One that systemd refuses to start again spoke before."""
        since, own = f"--since=@{int(began)}", f"_SYSTEMD_UNIT={name}"
        asked = [
            (since, own),
            *([("--boot", own)] if result == LIMITED else []),
            (since, "-u", name),
        ]
        for match in asked:
            base = ["journalctl", "--no-pager", "-q", "-o", "cat", "-n", str(MOST_LINES)]
            code, out, _ = self.module.run_command([*base, *match], environ_update={"LC_ALL": "C"})
            if not code and (words := telling_line(out)):
                return words
        return ""

    def _holder(self, words: str) -> str:
        """Who holds the port that a unit could not have."""
        taken = TAKEN.search(words)
        if taken is None:
            return ""
        port = taken["port"]
        code, out, _ = self.module.run_command(["ss", "-Hlntup", f"sport = :{port}"])
        held = HOLDER.search(out) if not code else None
        return f" (port {port} is held by {held['program']})" if held else ""

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run systemctl."""
        answer: tuple[int, str, str] = self.module.run_command(
            ["systemctl", "--no-pager", "--no-ask-password", *words],
            environ_update={"LC_ALL": "C", "SYSTEMD_COLORS": "0"},
        )
        return answer


def started_at(state: State) -> float:
    """When the unit became active, in s since the epoch; 0 when never."""
    if not state.since:
        return 0.0
    return time.time() - (time.clock_gettime(time.CLOCK_MONOTONIC) - state.since)


def outdated(name: str, state: State) -> bool:
    """Whether systemd has not loaded what its files say about a unit.

    NeedDaemonReload speaks of the files that were loaded and of the directories known since the last reload:
    a drop-in in a new directory and a unit file that now hides another are missed (seen with systemd 252).
    """
    return state.known and (state.stale or _hidden(name, state) or _new_drop_in(name, state))


def _hidden(name: str, state: State) -> bool:
    folder = os.path.dirname(state.fragment)
    if folder not in PLACES:
        return False
    before = [os.path.join(place, name) for place in PLACES[: PLACES.index(folder)]]
    found = [path for path in before if os.path.exists(path)]
    return any(os.path.realpath(path) != os.path.realpath(state.fragment) for path in found)


def _new_drop_in(name: str, state: State) -> bool:
    if state.load != "loaded":
        return False
    loaded = {os.path.basename(path): path for path in state.drop_ins}
    wanted: dict[str, str] = {}
    for path in _drop_ins(name):
        wanted.setdefault(os.path.basename(path), path)
    return any(
        os.path.realpath(path) not in {os.path.realpath(loaded.get(file, "/")), os.devnull}
        for file, path in wanted.items()
    )


def _drop_ins(name: str) -> Iterator[str]:
    template = re.sub(r"@.+(\.\w+)$", r"@\1", name)
    for known in dict.fromkeys((name, template)):
        for place in PLACES:
            yield from sorted(glob.glob(os.path.join(place, f"{glob.escape(known)}.d", "*.conf")))


def _state(block: str) -> State:
    values = dict(line.split("=", 1) for line in lines_of(block) if "=" in line)
    return State(
        load=values.get("LoadState", ""),
        active=values.get("ActiveState", ""),
        sub=values.get("SubState", ""),
        file=values.get("UnitFileState", ""),
        stale=values.get("NeedDaemonReload") == "yes",
        type=values.get("Type", ""),
        result=values.get("Result", ""),
        condition=values.get("ConditionResult", "yes") == "yes",
        since=int(values.get("ActiveEnterTimestampMonotonic") or 0) / 1e6,
        status=values.get("ExecMainStatus", ""),
        fragment=values.get("FragmentPath", ""),
        drop_ins=tuple(values.get("DropInPaths", "").split()),
    )
