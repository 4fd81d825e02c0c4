"""The base of every model: frozen, and closed to unknown keys."""

from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

Part = TypeVar("Part")
Made = TypeVar("Made")


class Model(BaseModel):
    """Frozen data; a key nobody declared is an error, never silently dropped."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)

    def _made_of(self, part: Part, make: Callable[[Part], Made]) -> Made:
        """What ``make`` makes of one of this model's values, made once.

        A copy with another value takes along what was made of the old one, and makes its own.
        """
        name = f"_{make.__name__}"
        kept = self.__dict__.get(name)
        if kept is None or kept[0] is not part:
            kept = self.__dict__[name] = part, make(part)
        made: Made = kept[1]
        return made


class Document(Model):
    """What a verb prints with --json. ``version`` rises with every change that a reader of the one before cannot take.

    docs/json.md names each, docs/schema/ has its JSON Schema.
    """

    version: int = 1


class Numerous(Model):
    """Data of which a large site has very many: it does not remember which of its values were given.

    pydantic keeps their names in a set of each object's own, a third of what the facts of a host weigh.
    """

    def model_post_init(self, _context: object) -> None:
        """One set serves all; a copy gets its own, and nothing else may change a frozen model."""
        object.__setattr__(self, "__pydantic_fields_set__", _NOT_REMEMBERED)


_NOT_REMEMBERED: set[str] = set()
