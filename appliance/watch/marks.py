"""Decides which marks of other hosts count within the bound.

An honest host drains within seconds of its mark, or withdraws it.
So a mark counts only while it is young. A host whose mark went first and that is not out a minute later, with
room left, is ignored for an hour. All marks together delay this host for a limited time, whoever writes them.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from appliance.watch.node import Node

YOUNG_S = 120.0
"""Six tries, each with a controller that may take seconds; clocks differ, too."""
PROMISE_S, BROKEN_S, HELD_S = 45.0, 3600.0, 600.0
"""The program runs every 60 s."""


class Marks:
    """``before``: ``kept`` of the last run. ``ignored``: nodes whose marks were not counted."""

    def __init__(
        self, before: Mapping[str, Any] | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        before, self._clock = before or {}, clock
        self._promised = _times(before.get("promised"))
        self._broken = _times(before.get("broken"))
        self._held = float(before.get("held", 0.0))
        self.ignored: set[str] = set()

    @property
    def kept(self) -> dict[str, Any]:
        """Return what the next run needs."""
        return {"promised": self._promised, "broken": self._broken, "held": self._held}

    @property
    def gaps(self) -> list[str]:
        """Return a line for operators."""
        names = ", ".join(sorted(self.ignored)[:8]) + ", ..." * (len(self.ignored) > 8)
        said = "announcements that no drain follows are not counted: " + names
        return [said] if names else []

    def judge(self, out: set[str], most: int) -> None:
        """Check the hosts whose marks went first; none is at fault while the bound is reached."""
        now = self._clock()
        self._broken = {name: at for name, at in self._broken.items() if now - at < BROKEN_S}
        if len(out) >= most:
            self._promised, self._held = {}, 0.0
        for name, at in list(self._promised.items()):
            if name in out:
                del self._promised[name]
            elif now - at >= PROMISE_S:
                self._broken[name] = now
                del self._promised[name]

    def count(self, name: str, node: Node) -> bool:
        """Return whether the mark of another host counts."""
        if not node.is_announced or node.is_out:
            return False
        now = self._clock()
        is_young = abs(now - node.announced) < YOUNG_S
        is_bounded = not self._held or now - self._held < HELD_S
        if is_young and is_bounded and name not in self._broken:
            return True
        self.ignored.add(name)
        return False

    def give_way(self, waiting: set[str], room: int) -> None:
        """This host keeps its jobs because those go first, or, without room, because of those that are out."""
        now = self._clock()
        for name in sorted(waiting)[: max(0, room)]:
            self._promised.setdefault(name, now)
        if room > 0:
            self._held = self._held or now


def _times(said: Any) -> dict[str, float]:
    return {str(name): float(at) for name, at in (said or {}).items()}
