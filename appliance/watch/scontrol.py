"""The door to Slurm's controller: all nodes as it has them, and changes of this host's node."""

from __future__ import annotations

import os
import re
import time

from appliance.probe import files
from appliance.probe.command import run
from appliance.probe.problems import FOLDERS, Unreadable
from appliance.stages.slurm.collect.slurm import fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SECONDS = 10.0
PREFIX = "appliance: health: "
"""How the reason begins where this program took a host out; also in appliance.stages.slurm.checks."""
MARK = "[appliance-watch is about to drain it]"
"""What a node's Extra begins with from the announcement to the drain, then the time; what else is there stays behind it."""
MARKED = re.compile(re.escape(MARK) + r"(?:\[([0-9]{1,12})\])?")
"""Of a version before this one, or of a person's, without a time."""
OUT = frozenset(
    {"down", "drain", "drained", "draining", "error", "fail", "failing", "inval", "invalid_reg"}
)
"""What appliance.stages.slurm.checks calls out of work."""


CONFIGURED = re.compile(r"^NodeName=(\S+)", re.MULTILINE)
PLAIN = re.compile(r"[A-Za-z0-9._-]+\Z")


class Silent(Exception):
    """The controller gave no answer, or refused; the text is one line."""


class Node:
    """A node as the controller has it."""

    def __init__(self, state: str, reason: str = "", extra: str = "") -> None:
        self.state, self.reason, self.extra = state, reason, extra

    @property
    def is_out(self) -> bool:
        """Slurm starts no job there."""
        return not OUT.isdisjoint(re.sub(r"[^a-z_+]", "", self.state.lower()).split("+"))

    @property
    def is_ours(self) -> bool:
        """This program took it out."""
        return self.is_out and self.reason.startswith(PREFIX)

    @property
    def is_announced(self) -> bool:
        """This program is about to take it out, or was ended when it was, or somebody says so."""
        return self.extra.startswith(MARK)

    @property
    def announced(self) -> float:
        """When, in s of the epoch by that host's clock; 0 where that is not said."""
        found = MARKED.match(self.extra)
        return float(found.group(1) or 0) if found else 0.0

    @property
    def kept(self) -> str:
        """What somebody keeps in Extra."""
        return MARKED.sub("", self.extra, count=1) if self.is_announced else self.extra


def configured(path: str = "") -> frozenset[str]:
    """The nodes of this host's slurm.conf, each on a line of its own; none where it has ranges of them."""
    path = path or os.environ.get("SLURM_CONF", "/etc/slurm/slurm.conf")
    names = CONFIGURED.findall(files.text(path))
    return frozenset(names if all(map(PLAIN.match, names)) else ())


class Slurm:
    """scontrol, for the node called ``name``. Every call raises Silent where the controller does not answer."""

    def __init__(self, name: str, folders: tuple[str, ...] = FOLDERS) -> None:
        self.name = name
        self._folders = folders
        self._configured = configured()

    def nodes(self) -> Mapping[str, Node]:
        """All nodes; this one is among them, or Silent is raised.

        Whoever may change a node can put a line break into its Extra, and so lines that look like those of others. Such a
        name stands there twice, or is of no node: the first line of an answer about it alone is its own.
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
        """From now on it counts among those that are out; its state and reason stay as they are."""
        self._update(f"Extra={MARK}[{time.time():.0f}]{mine.kept}")

    def withdraw(self, mine: Node) -> None:
        """Take back what was announced, if it was."""
        if mine.is_announced:
            self._update("Extra=" + mine.kept)

    def drain(self, cause: str) -> None:
        """No new jobs; those there run to their end."""
        self._update("State=DRAIN", "Reason=" + PREFIX + cause)

    def resume(self) -> None:
        """Work again."""
        self._update("State=RESUME")

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
    """Each line that begins as one of a node. Other characters that break lines are part of a value."""
    for line in said.split("\n"):
        if line.startswith("NodeName="):
            known = fields(line)
            node = Node(known.get("State", ""), known.get("Reason", ""), known.get("Extra", ""))
            yield known["NodeName"], node
