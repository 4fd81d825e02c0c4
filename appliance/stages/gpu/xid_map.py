"""Meaning of Xid messages: classes, codes, and rules about repetitions, as data."""

from functools import cache
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from appliance.config.tables import load
from appliance.models.base import Model

NONFATAL = "Nonfatal"
Verdict = Literal["pass", "warn", "fail"]


class Source(Model):
    """A source and its date."""

    name: str
    date: str


class XidClass(Model):
    """Properties of a class of codes; ``action`` may contain ``{gpu}``, the GPU's index."""

    verdict: Verdict
    action: str


class XidCodes(Model):
    """Codes with the same meaning. ``nonfatal``: class of messages marked so. ``differs``: a source with another judgement."""

    codes: tuple[int, ...] = Field(min_length=1)
    kind: str = Field(alias="class")
    nonfatal: str = ""
    means: str
    action: str = ""
    source: str
    differs: str = ""


class Repeat(Model):
    """A rule about repetitions: ``count`` messages within ``hours``.

    ``same_gpu``: from one GPU; otherwise from that many different ones. Without codes and class: all that fail.
    """

    name: str
    codes: tuple[int, ...] = ()
    kind: str = Field(default="", alias="class")
    count: int = Field(ge=2)
    hours: float = Field(gt=0)
    same_gpu: bool
    verdict: Verdict
    action: str
    source: str


class XidMap(Model):
    """The whole map. ``hours``: how long a message fails a host."""

    version: Literal[1]
    sources: dict[str, Source]
    hours: float = Field(gt=0)
    classes: dict[str, XidClass]
    recovery: dict[int, str]
    repeats: tuple[Repeat, ...]
    codes: tuple[XidCodes, ...]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        listed = [code for row in self.codes for code in row.codes]
        twice = {code for code in listed if listed.count(code) > 1}
        if twice:
            raise ValueError(f"codes listed twice: {sorted(twice)}")
        kinds = {row.kind for row in self.codes} | {row.nonfatal for row in self.codes} - {""}
        kinds |= {r.kind for r in self.repeats if r.kind}
        if unknown := (kinds | set(self.recovery.values())) - set(self.classes):
            raise ValueError(f"unknown classes: {sorted(unknown)}")
        names = {row.source for row in self.codes} | {row.differs for row in self.codes} - {""}
        if unknown := (names | {r.source for r in self.repeats}) - set(self.sources):
            raise ValueError(f"unknown sources: {sorted(unknown)}")
        return self

    def row(self, code: int) -> XidCodes | None:
        """Return the entry of a code."""
        return next((row for row in self.codes if code in row.codes), None)

    @property
    def harmless(self) -> tuple[int, ...]:
        """Return codes that never fail a GPU."""
        good = (r for r in self.codes if self.classes[r.kind].verdict != "fail")
        return tuple(sorted(code for row in good for code in row.codes))

    def class_of(self, row: XidCodes, severity: str) -> XidClass:
        """Return the class of a message of these codes. Messages not marked nonfatal count as fatal."""
        return self.classes[row.nonfatal if row.nonfatal and severity == NONFATAL else row.kind]

    def cite(self, source: str) -> str:
        """Return a source in words."""
        found = self.sources[source]
        return f"{found.name}, {found.date}"


@cache
def xid_map() -> XidMap:
    """Return the map. Raises InvalidConfig if the file is damaged."""
    return load(Path(__file__).with_name("xid.yml"), XidMap)
