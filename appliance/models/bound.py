"""The bounds of a check's limit: its unit and its range, or one of a few words."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Bound:
    """The range of a number in ``unit`` (``whole``: a whole number), or the accepted ``words``.

    ``above`` and ``below`` are exclusive, ``most`` and ``least`` inclusive; ``least`` replaces ``above``. ``each``: the bounds
    for a part, whose number is appended to the id (gpu.xid.63).
    """

    unit: str = ""
    above: float = 0
    least: float | None = None
    below: float | None = None
    most: float | None = None
    whole: bool = False
    words: tuple[str, ...] = ()
    each: "Bound | None" = None

    def __str__(self) -> str:
        if self.words:
            return ", ".join(self.words)
        begin = f"above {_figure(self.above)}"
        if self.least is not None:
            begin = f"{_figure(self.least)} or more"
        end = f", below {_figure(self.below)}" if self.below is not None else ""
        end = f", at most {_figure(self.most)}" if self.most is not None else end
        kind = "a whole number of" if self.whole else "in"
        return f"{kind} {self.unit}, {begin}{end}"

    def holds(self, number: float) -> bool:
        """Whether a number is in the range; NaN is not."""
        begins = number > self.above if self.least is None else number >= self.least
        ends = (self.below is None or number < self.below) and (
            self.most is None or number <= self.most
        )
        return begins and ends and not (self.whole and number % 1)


def _figure(number: float) -> str:
    """Without an exponent: 1,000,000 and not 1e+06."""
    return f"{number:,.0f}" if abs(number) >= 1e6 else f"{number:g}"


Bounds = Mapping[str, Bound | None]
"""By the id of a verdict; None if site and profile can set no limit."""


def bound_of(name: str, known: Bounds) -> Bound | None:
    """The bounds for the id of a limit. Raises KeyError if no check has that id."""
    if name in known:
        return known[name]
    check, _, part = name.rpartition(".")
    whole = known.get(check)
    if whole is None or whole.each is None or not (part.isascii() and part.isdigit()):
        raise KeyError(name)
    return whole.each
