"""Documents of a model's shape with one text in every place for a text, made from the model's own fields."""

import types
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AwareDatetime, BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

PLAIN: Mapping[object, object] = {
    bool: True,
    int: 1,
    float: 1.0,
    type(None): None,
    datetime: "2026-11-23T00:00:00Z",
    AwareDatetime: "2026-11-23T00:00:00Z",
    date: "2026-11-23",
    IPv4Address: "10.0.0.1",
    IPv4Network: "10.0.0.0/24",
}

Sample = Callable[[str], str]
"""A text for a pattern that refuses the planted one."""


def planted(kind: Any, text: str, sample: Sample, refused: Any = ()) -> Any:
    """Data for an annotation. ``refused``: its constraints, where it has any."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return planted(arguments[0], text, sample, (*arguments[1:], *refused))
    if kind is str:
        return _text(text, sample, tuple(refused))
    if kind in PLAIN:
        return PLAIN[kind]
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        # The widest of several is the text; of "or none" the other.
        one = str if str in arguments else arguments[0]
        return planted(one, text, sample)
    if origin in (tuple, list, Sequence):
        each = arguments[:1] if arguments[-1] is Ellipsis else arguments
        return [planted(one, text, sample) for one in each]
    if origin in (dict, Mapping):
        key, value = arguments
        return {planted(key, text, sample): planted(value, text, sample)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind)).value
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {n: _field(f, text, sample) for n, f in kind.model_fields.items()}
    raise AssertionError(f"no data is known for {kind}: add it here")


def _field(field: FieldInfo, text: str, sample: Sample) -> Any:
    return planted(field.annotation, text, sample, tuple(field.metadata))


def _text(text: str, sample: Sample, constraints: tuple[Any, ...]) -> str:
    if not constraints:
        return text
    adapter: TypeAdapter[str] = TypeAdapter(Annotated[(str, *constraints)])
    try:
        adapter.validate_python(text)
    except ValidationError as error:
        return sample(str(error.errors()[0].get("ctx", {}).get("pattern", error)))
    return text


def nothing_fits(pattern: str) -> str:
    """For models of which every text is free."""
    raise AssertionError(f"no text is known for {pattern}")


def models_of(kind: Any) -> set[type[BaseModel]]:
    """Every model reached from an annotation."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        below = (models_of(field.annotation) for field in kind.model_fields.values())
        return {kind}.union(*below)
    return set[type[BaseModel]]().union(*map(models_of, get_args(kind)))
