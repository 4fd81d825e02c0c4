"""Access to Slurm's controller: all nodes, and changes of this host's node."""

from __future__ import annotations

import os
import re
import time

from appliance.probe import files
from appliance.probe.command import run
from appliance.probe.problems import FOLDERS, Unreadable
from appliance.stages.slurm.collect.slurm import fields
from appliance.watch.node import MARK, PREFIX, Node, Silent
from appliance.watch.place import SLURM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from appliance.watch.verdict import Verdict

SECONDS = 10.0
WRITTEN = re.compile(PREFIX + r"([a-z_]+\.[a-z_]+) .*\[root@[^\]]*\]$")
"""A reason as written by this program, as root, the user of slurmd; a similar one belongs to an operator."""
CONFIGURED = re.compile(r"^NodeName=(\S+)", re.MULTILINE)
PLAIN = re.compile(r"[A-Za-z0-9._-]+\Z")


def configured(path: str = "") -> frozenset[str]:
    """The nodes of this host's slurm.conf, one per line; empty if it has ranges."""
    path = path or os.environ.get("SLURM_CONF", "/etc/slurm/slurm.conf")
    names = CONFIGURED.findall(files.text(path))
    return frozenset(names if all(map(PLAIN.match, names)) else ())


class Slurm:
    """scontrol for the node called ``name``. Every call raises Silent if the controller does not answer."""

    place = SLURM

    def __init__(self, name: str, folders: tuple[str, ...] = FOLDERS) -> None:
        self.name = name
        self._folders = folders
        self._configured = configured()

    def nodes(self) -> Mapping[str, Node]:
        """Return all nodes; Silent is raised if this one is missing.

        Anyone who may change a node can write a line break into its Extra, and so lines that look like those of
        other nodes. Such a name occurs twice, or belongs to no node: the first line of an answer about it alone
        is genuine.
        """
        found: dict[str, Node] = {}
        twice: set[str] = set()
        for name, node in _listed(self._run("--oneliner", "show", "nodes")):
            if name in found:
                twice.add(name)
            if name in self._configured or not self._configured:
                found[name] = node
        for name in sorted(twice & set(found)):
            answer = _listed(self._run("--oneliner", "show", "node", name))
            found[name] = next((node for other, node in answer if other == name), found[name])
        if self.name not in found:
            raise Silent("Slurm does not list " + self.name)
        return found

    def announce(self, mine: Node) -> None:
        """Announce this host: it counts among those that are out, with its state and reason unchanged."""
        self._update(f"Extra={MARK}[{time.time():.0f}]{mine.kept}")

    def withdraw(self, mine: Node) -> None:
        """Withdraw the announcement, if there is one."""
        if mine.is_announced:
            self._update("Extra=" + mine.kept)

    def drain(self, cause: str) -> None:
        """Drain the host; running jobs continue to their end."""
        self._update("State=DRAIN", "Reason=" + PREFIX + cause)

    def announce_end(self, mine: Node) -> float:
        """See Door: a job ends at its time limit, which Slurm enforces."""
        del mine
        return 0.0

    def end_work(self, mine: Node, seen: Verdict) -> None:
        """See Door: Slurm does."""
        del mine, seen

    def resume(self) -> None:
        """Resume the host."""
        self._update("State=RESUME")

    def cause_of(self, mine: Node) -> str:
        """See Door. Slurm adds the user and the time to the reason."""
        said = WRITTEN.match(mine.reason)
        return said.group(1) if said else ""

    def report(self, seen: Verdict, since: float, before: Mapping[str, Any]) -> Any:
        """See Door: the reason of the drain says it all."""
        del seen, since, before

    def _update(self, *words: str) -> None:
        self._run("update", "NodeName=" + self.name, *words)

    def _run(self, *words: str) -> str:
        try:
            return run([self._program(), *words], SECONDS, (0,))
        except Unreadable as error:
            raise Silent(str(error)) from None

    def _program(self) -> str:
        paths = (folder + "/scontrol" for folder in self._folders)
        found = next((path for path in paths if os.access(path, os.X_OK)), "")
        if not found:
            raise Silent("scontrol: not installed")
        return found


def _listed(said: str) -> Iterator[tuple[str, Node]]:
    """Split at lines that begin like a node's. Other line-breaking characters are part of a value."""
    for line in said.split("\n"):
        if line.startswith("NodeName="):
            known = fields(line)
            node = Node(known.get("State", ""), known.get("Reason", ""), known.get("Extra", ""))
            yield known["NodeName"], node
