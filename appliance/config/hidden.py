"""What this process has read of secrets, whatever it read them for: whatever prints takes it out.

Every command line prints, and most read no secret: what redacts is read where there is one.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from appliance.config.secrets import Redactor

T = TypeVar("T")


class _Known:
    values: frozenset[str] = frozenset()
    redact: "Redactor | None" = None


def hide(secrets: Iterable[str]) -> None:
    """From now on ``hidden`` takes these out, too."""
    from appliance.config.secrets import Redactor

    values = _Known.values.union(map(str, secrets))
    if values != _Known.values:
        _Known.values, _Known.redact = values, Redactor(values)


def forget() -> None:
    """The process begins another command line: it has read no secret yet."""
    _Known.values, _Known.redact = frozenset(), None


def hidden(document: T) -> T:
    """A text, or a document, without the secrets that this process has read."""
    return document if _Known.redact is None else _Known.redact.texts(document)
