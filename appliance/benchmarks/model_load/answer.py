"""The answer of a host, parsed strictly: every number is in its range, and every place was requested."""

from collections.abc import Collection
from typing import Literal

from pydantic import AwareDatetime, Field, ValidationError

from appliance.adapters import json_answers
from appliance.benchmarks.model_load.reference import Loader
from appliance.models.base import Model
from appliance.models.line import Line
from appliance.text import quoted

LONGEST_S = 1e6
OBJECTS = "s3://"
Share = float | None


class Package(Model):
    """``record``: SHA-256 of the list of its files."""

    version: Line
    record: str = Field(pattern=r"^[0-9a-f]{64}$")


class Tried(Model):
    """One timed reading. ``stayed``: share of the file that was in the page cache before; None: not known."""

    turn: int = Field(ge=0)
    seconds: float | None = Field(default=None, gt=0, lt=LONGEST_S, allow_inf_nan=False)
    stayed: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    trouble: Line = ""


class Raw(Tried):
    """The bytes alone; ``direct``: past the page cache."""

    readers: int = Field(ge=1)
    direct: bool = False


class Load(Tried):
    """``fetched``: bytes requested from storage, -1: unknown; ``wrong``: tensors with other bytes, if ``checked``."""

    loader: Loader
    concurrency: int = Field(ge=1)
    checked: bool = False
    fetched: int = -1
    wrong: int = Field(default=0, ge=0)
    device: Line = ""


class Missing(Model):
    """A loader that was not tried for lack of packages."""

    loader: Loader
    packages: tuple[Line, ...]


class Measured(Model):
    """One place; ``kind``: its file system, or s3. ``left``: files that could not be removed."""

    place: Line
    kind: Line = ""
    source: Line = ""
    bytes: int = Field(default=0, ge=0)
    tensors: int = Field(default=0, ge=0)
    sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    raw: tuple[Raw, ...] = ()
    loads: tuple[Load, ...] = ()
    missing: tuple[Missing, ...] = ()
    trouble: Line = ""
    remedy: Line = ""
    left: Line = ""


class Answer(Model):
    """All of it, of one host."""

    version: Literal[1]
    host: Line
    kernel: Line
    python: Line
    processors: int = Field(ge=1)
    packages: dict[Line, Package]
    began: AwareDatetime
    places: tuple[Measured, ...]


def read(text: str, asked: Collection[str]) -> Answer:
    """Returns the answer about exactly the requested places. Raises ValueError with one line."""
    try:
        answer = Answer.model_validate(json_answers.parsed(text))
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise ValueError(f"{at or 'it'}: {first['msg']}") from None
    told = [place.place for place in answer.places]
    if sorted(told) != sorted(asked):
        raise ValueError(f"it reports {quoted(told)}, requested was {quoted(sorted(asked))}")
    for measured in answer.places:
        # Objects are not cached on the host; for other files, loads must be proved to be cold.
        if not measured.loads:
            continue
        if (measured.kind == "s3") != measured.place.startswith(OBJECTS):
            raise ValueError(f"{measured.place} cannot be of kind {quoted(measured.kind)}")
        if not (measured.bytes and measured.tensors):
            raise ValueError(f"{measured.place} was loaded, but its file is empty")
    return answer
