"""What most hosts have, with one vote for each host, however many items it lists."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T", bound=Any)


def usual(found: Mapping[str, Iterable[T]]) -> T | None:
    """Return the value of most hosts, of each its own most frequent one; a tie is settled for the greatest. None without a value."""
    own = (values for values in map(Counter, found.values()) if values)
    votes = Counter(_most(values) for values in own)
    return _most(votes) if votes else None


def _most(counts: Counter[T]) -> T:
    return max(counts, key=lambda value: (counts[value], value))
