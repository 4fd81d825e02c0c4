"""A certification by NVIDIA's Cluster Readiness Engine: the JSON that nvcrectl writes to --results-file, each category set against ours.

The form is that of its page "Validation Results" and of its source: one report, or a list of them. A report bears no time of its own.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from appliance.adapters.answers import parsed
from appliance.benchmarks.benchmark import Raw
from appliance.benchmarks.foreign.shown import Shown
from appliance.benchmarks.reading import Foreign, Unread, shaped
from appliance.config import document as documents
from appliance.errors import ConfigError
from appliance.models.base import Model
from appliance.models.line import Line
from appliance.models.run import Table
from appliance.text import first_few, one_line, plural, shortened

NAME = "nvcre"
FILE = Path(__file__).with_name("nvcre.yml")
GIVE = "give what nvcrectl certification report NAME --results-file FILE wrote, once it has ended"
DATED = "the file's own time"
MOST = 10_000
Word = Annotated[str, Field(max_length=4096)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Words = Annotated[tuple[Word, ...] | None, Field(max_length=MOST)]
"""Of Go: an empty list may be null."""


class Bandwidth(Foreign):
    """Of one message size."""

    size: Word
    busBW: Word


class Domain(Foreign):
    """Of one part of the fabric, in a training."""

    tflops: float | Word | None = None


class Group(Foreign):
    """Hosts that failed together."""

    nodes: Words = None
    reason: Word = ""


class Category(Foreign):
    """One workload of its catalogue."""

    domain: Word
    variant: Word
    status: Word
    failureReason: Word = ""
    nodesPerJob: Count = 0
    mnnvl: Word = ""
    targetNodes: Count = 0
    exercisedNodes: Count = 0
    bandwidth: Annotated[tuple[Bandwidth, ...] | None, Field(max_length=MOST)] = None
    domains: Annotated[tuple[Domain, ...] | None, Field(max_length=MOST)] = None
    failedGroups: Annotated[tuple[Group, ...] | None, Field(max_length=MOST)] = None

    @property
    def key(self) -> str:
        """As its catalogue has it."""
        return f"{self.domain}/{self.variant}"


class Report(Foreign):
    """One certification."""

    name: Word
    platform: Word
    gpu: Word = ""
    totalNodes: Count
    excludedNodes: Words = None
    exclusionReason: Word = ""
    categories: Annotated[tuple[Category, ...] | None, Field(max_length=MOST)]
    failedNodes: Words = None
    result: Literal["PASSED", "INCOMPLETE", "FAILED", "RUNNING"]


class Ours(Model):
    """What answers a category here; ``why``: what differs."""

    by: Line
    why: Line


class Mapped(Model):
    """The file: by pattern of a category, the first that fits."""

    version: Literal[1]
    categories: dict[Line, Ours]


SAYS = {"Succeeded": "passed", "Failed": "failed"}
"""A category that is neither (Pending, Running) did not come to its end, whatever became of the others: nothing is known of it."""
NOT_TESTED = "not tested"


@dataclass(frozen=True)
class _Row:
    says: str
    of: str
    observed: str
    ours: Ours | None


@cache
def mapped() -> dict[str, Ours]:
    """What answers each category here."""
    return dict(Mapped.model_validate(documents.read(FILE).data).categories)


def is_one(text: str) -> bool:
    """Whether it is meant to be such a report."""
    return '"categories"' in text and '"totalNodes"' in text


def read(file: Path, text: str, now: datetime) -> Shown:
    """Raises ConfigError for what is no such report, has not ended, or is of the future."""
    try:
        reports = tuple(_reports(text))
    except Unread as error:
        raise ConfigError(f"{file} is no report of NVCRE: {error}", GIVE) from None
    running = [report.name for report in reports if report.result == "RUNNING"]
    if running or not reports:
        said = f"{first_few(running)} has not ended" if running else "no report"
        raise ConfigError(f"{file} is no report of NVCRE: {_clean(said)}", GIVE)
    began = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    if began > now:
        raise ConfigError(f"{file} is of the future ({began:%Y-%m-%d %H:%M})", "set the clocks")
    rows = tuple(row for report in reports for row in _rows(report))
    found = Counter(row.says for row in rows)
    counts = ", ".join(f"{found[word]} {word}" for word in (*SAYS.values(), NOT_TESTED))
    names = first_few([_clean(report.name) for report in reports])
    hosts = sum(report.totalNodes for report in reports)
    table = Table(
        title=f"Certification by NVCRE, foreign: {counts}",
        columns=("it says", "of", "observed", "here", "because"),
        rows=tuple((row.says, row.of, row.observed, *_answer(row.ours)) for row in rows),
        note=f"another program's word ({names}, {plural(hosts, 'host')}), of {began:%Y-%m-%d %H:%M %Z} by {DATED}; it counts for no gate",
    )
    of = f"certification by NVCRE in {file.absolute()}"
    return Shown(NAME, of, counts, began, DATED, (Raw("report.json", text),), table)


def _reports(text: str) -> Iterator[Report]:
    try:
        found: Any = parsed(text)
    except ValueError as error:
        raise Unread(shortened(str(error), 200)) from None
    for one in found if isinstance(found, list) else [found]:
        yield shaped(Report, one)


def _rows(report: Report) -> Iterator[_Row]:
    for category in report.categories or ():
        says = SAYS.get(category.status, NOT_TESTED)
        observed = _measured(category) if says == "passed" else _failed(category)
        ours = next((o for key, o in mapped().items() if re.fullmatch(key, category.key)), None)
        yield _Row(says, _clean(_tried(category)), observed, ours)
    told = {n for c in report.categories or () for g in c.failedGroups or () for n in g.nodes or ()}
    if alone := [node for node in report.failedNodes or () if node not in told]:
        yield _Row("failed", "hosts", _clean(first_few(alone)), HOSTS)
    ended = any(category.status == "Failed" for category in report.categories or ())
    if report.result == "FAILED" and not ended and not report.failedNodes:
        yield _Row("failed", _clean(report.name), "it failed, and no category did", WHOLE)
    if report.excludedNodes:
        why = f": {report.exclusionReason}" if report.exclusionReason else ""
        yield _Row(NOT_TESTED, "hosts", _clean(f"{first_few(report.excludedNodes)}{why}"), LEFT)


HOSTS = Ours(
    by="appliance health", why="a host is judged by its own checks, and by pairs with good ones"
)
LEFT = Ours(by="appliance accept", why="a host that was not measured keeps its gates open")
WHOLE = Ours(by="appliance accept", why="what was not measured keeps its gates open")


def _tried(category: Category) -> str:
    """What, and on how many hosts: one job that Kubernetes placed where it liked speaks of its own hosts alone."""
    job = f", {plural(category.nodesPerJob, 'host')} a job" if category.nodesPerJob else ""
    part = (
        f" on {category.exercisedNodes} of {category.targetNodes}" if category.targetNodes else ""
    )
    mnnvl = f", MNNVL {category.mnnvl}" if category.mnnvl else ""
    return f"{category.key}{job}{part}{mnnvl}"


def _measured(category: Category) -> str:
    if category.bandwidth:
        last = category.bandwidth[-1]
        return _clean(f"{last.busBW} at {last.size}")
    rates = [str(d.tflops) for d in category.domains or () if d.tflops is not None]
    return _clean(f"{first_few(rates)} TFLOPS a GPU") if rates else ""


def _failed(category: Category) -> str:
    groups = [
        f"{first_few(g.nodes or ())}: {g.reason}".strip(": ") for g in category.failedGroups or ()
    ]
    said = "; ".join(filter(None, (category.failureReason, *groups[:3])))
    if category.status not in SAYS:
        said = f"it did not end: {category.status}"
    return _clean(said or category.status)


def _answer(ours: Ours | None) -> tuple[str, str]:
    return (ours.by, ours.why) if ours else ("", "a category that this program does not know")


def _clean(text: str) -> str:
    return shortened(one_line(text), 160)
