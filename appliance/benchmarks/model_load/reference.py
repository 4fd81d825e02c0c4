"""The published times of loading a model, as data with their source, and the digests of the files hosts make."""

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from appliance.config import document
from appliance.models.base import Model

FILE = Path(__file__).with_name("reference.yml")
Loader = Literal["safetensors", "streamer", "tensorizer"]


class Cell(Model):
    """One published time. ``doubt``: the reason why it may not be the measured value."""

    loader: Loader
    concurrency: int = Field(ge=1)
    seconds: float = Field(gt=0)
    doubt: str = ""


class Experiment(Model):
    """All cells of one kind of storage."""

    name: Literal["gp3", "io2", "s3"]
    title: str
    storage: str
    cells: tuple[Cell, ...]

    def cell(self, loader: str, concurrency: int) -> Cell | None:
        """The published time of this combination, if there is one."""
        return next(
            (c for c in self.cells if (c.loader, c.concurrency) == (loader, concurrency)), None
        )


class Ready(Model):
    """Seconds until a server accepts requests, by storage; None if it was not measured."""

    loader: Loader
    gp3: float | None
    io2: float | None
    s3: float | None


class Reference(Model):
    """All of reference.yml. ``files``: SHA-256 by size in bytes."""

    version: Literal[1]
    source: str
    model: str
    machine: str
    note: str
    experiments: tuple[Experiment, ...]
    ready: tuple[Ready, ...]
    files: dict[int, str]

    def comparable(self, kind: str) -> tuple[Experiment, ...]:
        """The experiments that are shown next to a place of this kind."""
        return tuple(e for e in self.experiments if (e.name == "s3") == (kind == "s3"))


@cache
def load() -> Reference:
    """The figures that come with the program."""
    return Reference.model_validate(document.read(FILE).data)
