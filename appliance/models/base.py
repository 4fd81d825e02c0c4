"""The base of every model: frozen, and closed to unknown keys."""

import os
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

# Pydantic would search all packages of the environment for plugins, and load any it finds.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

Part = TypeVar("Part")
Made = TypeVar("Made")


class Model(BaseModel):
    """Frozen data; an undeclared key is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)

    def _made_of(self, part: Part, make: Callable[[Part], Made]) -> Made:
        """The result of ``make`` for one of this model's values, computed once.

        A copy with another value keeps the cached result of the old one, and computes its own.
        """
        name = f"_{make.__name__}"
        kept = self.__dict__.get(name)
        if kept is None or kept[0] is not part:
            kept = self.__dict__[name] = part, make(part)
        made: Made = kept[1]
        return made


class Document(Model):
    """What a verb prints with --json. ``version`` increases with every change that older readers cannot handle.

    docs/json.md lists each, docs/schema/ has its JSON Schema.
    """

    version: int = 1
