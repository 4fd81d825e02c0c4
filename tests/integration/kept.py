"""A rack that outlives the module which raised it, for as long as modules of the same one follow."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar, cast

T = TypeVar("T")


class Kept:
    """At most one rack, and whose it is."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._rack = ""
        self._found: object = None

    def of(self, rack: str, raised: Callable[[], AbstractContextManager[T]]) -> T:
        """The rack of this name as it stands, or raised now."""
        self.only(rack)
        if not self._rack:
            self._found = self._stack.enter_context(raised())
            self._rack = rack
        return cast(T, self._found)

    def only(self, rack: str) -> None:
        """Leaves every other one."""
        if self._rack != rack:
            self.leave()

    def leave(self) -> None:
        """Takes the rack away, if there is one."""
        self._rack = ""
        self._stack.close()
