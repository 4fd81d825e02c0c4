"""What this process has read of secrets, whatever it read them for: whatever prints takes it out.

Every command line prints, and most read no secret: what redacts comes from where they are read.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
Texts = Callable[[Any], Any]
"""A document without some secrets."""


class _Known:
    values: frozenset[str] = frozenset()
    texts: Texts | None = None


def hide(secrets: Iterable[str], without: Callable[[frozenset[str]], Texts]) -> None:
    """From now on ``hidden`` takes these out, too; ``without`` makes what does, of all that are known by then."""
    values = _Known.values.union(map(str, secrets))
    if values != _Known.values:
        _Known.values, _Known.texts = values, without(values)


def forget() -> None:
    """The process begins another command line: it has read no secret yet."""
    _Known.values, _Known.texts = frozenset(), None


def hidden(document: T) -> T:
    """A text, or a document, without the secrets that this process has read."""
    if _Known.texts is None:
        return document
    found: T = _Known.texts(document)
    return found
