"""The base of every model: frozen, and closed to unknown keys."""

import os
from collections.abc import Callable
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict

# It would look through all packages of the environment for some, and obey whichever it found.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

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

    def _of_values(self, values: dict[str, Any]) -> Self:
        """A model of these values as they are: nothing is looked at."""
        # What object.__setattr__ does, each slot found once: nobody else may write into a frozen model.
        made = _new(type(self))
        _set_values(made, values)
        _set_given(made, _NOT_REMEMBERED)
        _set_extra(made, None)
        _set_private(made, None)
        return made


_set_values, _set_given, _set_extra, _set_private = (
    vars(BaseModel)[name].__set__
    for name in (
        "__dict__",
        "__pydantic_fields_set__",
        "__pydantic_extra__",
        "__pydantic_private__",
    )
)
_new = object.__new__
_NOT_REMEMBERED: set[str] = set()
MOST = 4096
_KNOWN: dict[tuple[object, ...], Any] = {}


def shared(one: Part) -> Part:
    """The first that was equal, in place of it: hosts of a site say most things alike. For what holds texts alone."""
    values = one.items() if isinstance(one, dict) else one.__dict__.values()
    if len(_KNOWN) >= MOST:
        _KNOWN.clear()
    known: Part = _KNOWN.setdefault((type(one), *values), one)
    return known


_SLIM: dict[type, dict[str, Any]] = {}


def slim(one: Part) -> Part:
    """The same in less memory: the names of its values lie once, in its class, for it and for what copies it.

    Python does that with up to 30 values that are set one by one; pydantic sets them all at once.
    """
    kind = type(one)
    if kind not in _SLIM:
        first = kind.__new__(kind)
        for name in one.__dict__:
            object.__setattr__(first, name, None)
        _SLIM[kind] = first.__dict__
    values = _SLIM[kind].copy()
    values.update(one.__dict__)
    object.__setattr__(one, "__dict__", values)
    return one


_NAMED: dict[tuple[str, ...], dict[str, Any]] = {}


def named(one: dict[str, Made]) -> dict[str, Made]:
    """The same in less memory where many have values of these names: the names lie once for all of them."""
    names = tuple(one)
    if names not in _NAMED:
        if len(_NAMED) >= MOST:
            _NAMED.clear()
        first = type("Names", (), {})()
        for name in names:
            setattr(first, name, None)
        _NAMED[names] = first.__dict__
    values = _NAMED[names].copy()
    values.update(one)
    return values
