"""Which releases work together: a table, and checks of a choice against it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from appliance.config.document import read
from appliance.config.finding import InvalidConfig
from appliance.config.schema import check
from appliance.models.base import Model
from appliance.models.profile import Software

TABLE = Path(__file__).with_name("compatibility.yml")
RELEASE = re.compile(r"^[0-9]+(\.[0-9]+){0,3}\Z")
SYSTEMS = "operating_systems"
COMPONENTS = tuple(name for name in Software.model_fields if name != SYSTEMS)


class Bound(Model):
    """Releases of another component; bounds are inclusive and compared to the depth they are written in."""

    min: str | None = None
    max: str | None = None
    one_of: tuple[str, ...] = ()
    excluded: tuple[str, ...] = Field(default=(), alias="except")

    def accepts(self, release: str) -> bool:
        """Whether ``release`` is in range."""
        if any(_same_line(release, line) for line in self.excluded):
            return False
        if self.one_of and not any(_same_line(release, line) for line in self.one_of):
            return False
        low = self.min is None or _cut(release, self.min) >= _numbers(self.min)
        return low and (self.max is None or _cut(release, self.max) <= _numbers(self.max))

    def __str__(self) -> str:
        if self.one_of:
            return " or ".join(self.one_of)
        if self.min and self.max:
            return self.min if self.min == self.max else f"{self.min} to {self.max}"
        ends = f"from {self.min}" if self.min else f"up to {self.max}" if self.max else ""
        return ", ".join(part for part in (ends, *(f"not {e}" for e in self.excluded)) if part)

    def nearest(self, release: str) -> str:
        """A release in range, closest to the refused one; empty if the bound names none."""
        if self.one_of:
            return min(self.one_of, key=lambda line: abs(_numbers(line)[0] - _numbers(release)[0]))
        if self.max and _cut(release, self.max) > _numbers(self.max):
            return self.max
        return self.min or ""


class Row(Model):
    """One release line of one component, its requirements, and the systems that have packages of it.

    Without ``systems``, availability is unknown.
    """

    component: str
    release: str
    needs: dict[str, Bound] = Field(default_factory=dict)
    systems: tuple[str, ...] = ()
    source: str
    date: str


class Table(Model):
    """All rows."""

    version: Literal[1]
    rows: tuple[Row, ...]

    def lines(self, component: str) -> tuple[str, ...]:
        """Release lines listed for a component."""
        return tuple(row.release for row in self.rows if row.component == component)

    def row(self, component: str, release: str) -> Row | None:
        """The row of a release."""
        rows = (r for r in self.rows if r.component == component and _same_line(release, r.release))
        return next(rows, None)


@dataclass(frozen=True)
class Clash:
    """Two incompatible releases, or (``other`` empty) an unknown one."""

    component: str
    other: str
    message: str
    remedy: str


@cache
def table() -> Table:
    """The table shipped with the program. Raises InvalidConfig if it is damaged."""
    checked = check(read(TABLE), Table)
    if checked.model is None or checked.findings:
        raise InvalidConfig(checked.findings)
    return checked.model


def clashes(chosen: Mapping[str, object], known: Table | None = None) -> Iterator[Clash]:
    """Incompatibilities in a choice of releases; None is the distribution's own and is not judged."""
    known = known or table()
    releases = {name: r for name, r in chosen.items() if isinstance(r, str) and name in COMPONENTS}
    listed_systems = chosen.get(SYSTEMS)
    systems = tuple(listed_systems) if isinstance(listed_systems, tuple | list) else ()
    for name, release in releases.items():
        if not RELEASE.match(release):
            yield Clash(
                name,
                "",
                f'"{release}" is not a release',
                "write numbers and dots, such as 1.35 or 580",
            )
            continue
        row = known.row(name, release)
        if row is not None and not _spelled_as(release, row.release):
            remedy = f"write it as published: {row.release}"
            yield Clash(name, "", f'"{release}" is not a release', remedy)
        elif row is not None:
            yield from _against(known, row, release, releases)
            yield from _on(known, row, release, systems)
        elif known.lines(name):
            listed = ", ".join(known.lines(name))
            remedy = (
                f"supported releases are {listed}; a newer one needs a newer version of appliance"
            )
            yield Clash(name, "", f"{release} is not in the compatibility table", remedy)


def _against(known: Table, row: Row, release: str, releases: Mapping[str, str]) -> Iterator[Clash]:
    for other, bound in row.needs.items():
        found = releases.get(other)
        if found is None or not RELEASE.match(found) or bound.accepts(found):
            continue
        message = (
            f"{other} {found} is incompatible with {row.component} {release}"
            f" ({bound}; source: {row.source}, {row.date})"
        )
        ways = [f"{other} {fit}"] if (fit := bound.nearest(found)) else []
        ways += [f"{row.component} {line}" for line in _fitting(known, row.component, other, found)]
        yield Clash(
            row.component,
            other,
            message,
            "choose " + ", or ".join(ways) if ways else "remove one of them",
        )


def _on(known: Table, row: Row, release: str, systems: tuple[str, ...]) -> Iterator[Clash]:
    """Refused if no operating system of the class has packages of it."""
    if not systems or not row.systems or set(row.systems) & set(systems):
        return
    others = [
        other.release
        for other in known.rows
        if other.component == row.component and set(other.systems) & set(systems)
    ]
    message = (
        f"{row.component} {release} has no packages for {', '.join(systems)}"
        f" (packages for {', '.join(row.systems)}; source: {row.source}, {row.date})"
    )
    ways = [f"{row.component} {line}" for line in others]
    remedy = "choose " + ", or ".join([*ways, f"{SYSTEMS} {', '.join(row.systems)}"])
    yield Clash(row.component, SYSTEMS, message, remedy)


def _fitting(known: Table, component: str, other: str, found: str) -> list[str]:
    rows = [r for r in known.rows if r.component == component]
    return [r.release for r in rows if other not in r.needs or r.needs[other].accepts(found)]


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def _cut(release: str, bound: str) -> tuple[int, ...]:
    return _numbers(release)[: len(_numbers(bound))]


def _spelled_as(release: str, line: str) -> bool:
    """Without leading zeros: charts and packages are looked up by their text."""
    parts = line.split(".")
    return release.split(".")[: len(parts)] == parts


def _same_line(release: str, line: str) -> bool:
    return _cut(release, line) == _numbers(line)
