"""Limits findings by owner, so that one owner's files cannot hide another's; omissions are reported."""

from __future__ import annotations

import hashlib

from appliance.probe.places import ROOT, SHARED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST = 4_000
"""Maximum number of findings of a kind listed for root, and for all others together."""
OF_ONE = 1_000
"""Maximum number of findings of a kind listed for one owner other than root."""
BYTES = 1 << 20
"""Maximum number of characters of these findings together."""
BYTES_OF_ONE = 64 << 10
FOLDERS = 1_000_000
"""Maximum number of folders of one owner that are read, which takes an idle host some minutes."""
TOPS = 10_000
"""Maximum number of them directly in places of root."""
LONGEST = 400
"""Characters of a name; a longer one is cut and gets a digest."""
GAPS = 20
"""Maximum number of owners whose omissions are listed; further ones are counted."""


class Budget:
    """Findings by kind, and omissions by owner."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self.found: dict[str, dict[str, str]] = {kind: {} for kind in kinds}
        self._spent: dict[tuple[str, int], list[int]] = {}
        self._entered: dict[int, int] = {}
        self._deferred: dict[int, int] = {}
        self._gaps: dict[int, dict[str, list[object]]] = {}

    def note(self, kind: str, told: str, value: str, whose: int) -> None:
        """Keep one finding, or note that it was left out."""
        name, value = shown(told), shown(value)
        size = len(name) + len(value)
        if whose == ROOT:
            fits = self._fits((kind, ROOT), size, MOST, BYTES)
        else:
            fits = self._fits((kind, whose), size, OF_ONE, BYTES_OF_ONE) and self._fits(
                (kind, -2), size, MOST, BYTES
            )
        if fits:
            self.found[kind][name] = value
        else:
            self.left_out(whose, told, f"too many findings of kind {kind} for one answer")

    def _fits(self, key: tuple[str, int], size: int, most: int, room: int) -> bool:
        spent = self._spent.setdefault(key, [0, 0])
        if spent[0] >= most or spent[1] + size > room:
            return False
        spent[0] += 1
        spent[1] += size
        return True

    def enters(self, whose: int) -> bool:
        """Return whether one more folder of that owner may be read."""
        self._entered[whose] = self._entered.get(whose, 0) + 1
        return whose == ROOT or self._entered[whose] <= FOLDERS

    def defers(self, whose: int) -> bool:
        """Return whether one more folder of that owner, in a place of root, may be queued."""
        self._deferred[whose] = self._deferred.get(whose, 0) + 1
        return self._deferred[whose] <= TOPS

    def left_out(self, whose: int, told: str, why: str) -> None:
        """Note that something was not read or is not listed."""
        reasons = self._gaps.setdefault(whose, {})
        first = reasons.setdefault(why, [told, 0])
        first[1] = int(str(first[1])) + 1

    def gaps(self, name: Callable[[int], str]) -> Iterator[str]:
        """Return a line for each owner and reason."""
        for whose, reasons in sorted(self._gaps.items())[:GAPS]:
            of = "shared files" if whose == SHARED else f"files of {name(whose)}"
            for why, (first, count) in sorted(reasons.items())[:GAPS]:
                more = f" and {int(str(count)) - 1} more" if count != 1 else ""
                yield f"{of} not checked: {shown(str(first))[:120]}{more} ({why})"
        if len(self._gaps) > GAPS:
            yield f"not checked: files of {len(self._gaps) - GAPS} more owners"


def shown(text: str, longest: int = LONGEST) -> str:
    """Return a file name on one line in printable characters; a long one is cut and gets a digest."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    if len(text) > longest:
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        text = f"{text[: longest - 20]}… ({digest})"
    return text
