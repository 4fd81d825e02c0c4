"""A host as its scheduler reports it, and the words by which this program recognizes its own drains."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from appliance.watch.place import Place
    from appliance.watch.verdict import Verdict

PREFIX = "appliance: health: "
"""Prefix of the reason of this program's drains; also in appliance.models.drain."""
MARK = "[appliance-watch is about to drain it]"
"""Announces a drain, followed by the time; other text stays after it."""
MARKED = re.compile(re.escape(MARK) + r"(?:\[([0-9]{1,12})\])?")
"""Written by an earlier version, or by an operator, without a time."""
OUT = frozenset(
    {"down", "drain", "drained", "draining", "error", "fail", "failing", "inval", "invalid_reg"}
)
"""States that appliance.stages.slurm.checks treats as out of work."""
DRAINED, FREE = "DRAIN", "IDLE"
"""The states of a node of Kubernetes: cordoned, or not."""


class Silent(Exception):
    """The scheduler did not answer, or refused; the text is one line."""


class Node:
    """A node: its state in words of Slurm, the reason of a drain, and the text that holds the announcement.

    ``ends``: when work on the drained host is ended; "" if never, or by the scheduler's own limits.
    """

    def __init__(self, state: str, reason: str = "", extra: str = "", ends: str = "") -> None:
        self.state, self.reason, self.extra, self.ends = state, reason, extra, ends

    @property
    def is_out(self) -> bool:
        """It gets no new work."""
        return not OUT.isdisjoint(re.sub(r"[^a-z_+]", "", self.state.lower()).split("+"))

    @property
    def is_ours(self) -> bool:
        """This program drained it."""
        return self.is_out and self.reason.startswith(PREFIX)

    @property
    def is_announced(self) -> bool:
        """This program is about to drain it, or was stopped at that moment, or another program wrote the mark."""
        return self.extra.startswith(MARK)

    @property
    def announced(self) -> float:
        """When, in s since the epoch by that host's clock; 0 if unknown."""
        found = MARKED.match(self.extra)
        return float(found.group(1) or 0) if found else 0.0

    @property
    def kept(self) -> str:
        """Other text of ``extra``."""
        return MARKED.sub("", self.extra, count=1) if self.is_announced else self.extra


if TYPE_CHECKING:

    class Door(Protocol):
        """A scheduler: all its nodes, and changes of this host's node ``name``. Every method raises Silent."""

        name: str
        place: Place

        def nodes(self) -> Mapping[str, Node]:
            """Return all nodes, this one among them."""
            ...

        def announce(self, mine: Node) -> None:
            """Announce this host: it counts among those that are out, with its state and reason unchanged."""
            ...

        def withdraw(self, mine: Node) -> None:
            """Withdraw the announcement, if there is one."""
            ...

        def drain(self, cause: str) -> None:
            """Drain the host; running work continues to its end."""
            ...

        def announce_end(self, mine: Node) -> float:
            """Tell the owners of work on the drained host when it ends; return that time by the clock since the boot, or 0."""
            ...

        def end_work(self, mine: Node, seen: Verdict) -> None:
            """End the work that uses GPUs, once the time that the node states has passed."""
            ...

        def resume(self) -> None:
            """Give the host work again."""
            ...

        def cause_of(self, mine: Node) -> str:
            """Return the id of the check that this program drained the host for; "" if an operator may have written the reason."""
            ...

        def report(self, seen: Verdict, since: float, before: Mapping[str, Any]) -> Any:
            """Tell the scheduler the verdict, if it keeps one; return what the next run needs as ``before``."""
            ...
