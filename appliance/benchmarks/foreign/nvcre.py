"""A certification by NVIDIA's Cluster Readiness Engine: the JSON that nvcrectl writes to --results-file, with each category mapped to our checks.

The format is that of its page "Validation Results" and of its source: one report, or a list of them. A report has no time stamp.
"""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from appliance.adapters.json_answers import parsed
from appliance.benchmarks.benchmark import Raw
from appliance.benchmarks.foreign.shown import (
    UNKNOWN,
    ForeignReport,
    Ours,
    Row,
    clean,
    mapped,
    refuse_future,
    table,
)
from appliance.benchmarks.reading import Foreign, Unread, shaped
from appliance.errors import ConfigError
from appliance.text import first_few, plural, shortened

NAME = "nvcre"
GIVE = "use the file that nvcrectl certification report NAME --results-file FILE wrote, after it has ended"
DATED = "the file's own time"
MOST = 10_000
Word = Annotated[str, Field(max_length=4096)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Words = Annotated[tuple[Word, ...] | None, Field(max_length=MOST)]
"""Go writes an empty list as null in some cases."""


class Bandwidth(Foreign):
    """Result of one message size."""

    size: Word
    busBW: Word


class Domain(Foreign):
    """Result of one part of the fabric, in a training."""

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
        """Domain and variant, as in its catalogue."""
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


SAYS = {"Succeeded": "passed", "Failed": "failed"}
"""A category in another state (Pending, Running) did not finish, whatever the others did: its result is unknown."""
NOT_TESTED = "not tested"


def is_one(text: str) -> bool:
    """Whether it is meant to be such a report."""
    return '"categories"' in text and '"totalNodes"' in text


def read(file: Path, text: str, now: datetime) -> ForeignReport:
    """Raises ConfigError for a file that is not such a report, has not ended, or has a future date."""
    try:
        reports = tuple(_reports(text))
    except Unread as error:
        raise ConfigError(f"{file} is not a report of NVCRE: {error}", GIVE) from None
    running = [report.name for report in reports if report.result == "RUNNING"]
    if running or not reports:
        said = f"{first_few(running)} has not ended" if running else "no report"
        raise ConfigError(f"{file} is not a report of NVCRE: {clean(said)}", GIVE)
    began = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    refuse_future(file, began, now)
    rows = tuple(row for report in reports for row in _rows(report))
    found = Counter(says for says, *_ in rows)
    counts = ", ".join(f"{found[word]} {word}" for word in (*SAYS.values(), NOT_TESTED))
    names = first_few([clean(report.name) for report in reports])
    hosts = sum(report.totalNodes for report in reports)
    found_there = table(
        f"Certification by NVCRE, foreign: {counts}",
        rows,
        f"({names}, {plural(hosts, 'host')}), of {began:%Y-%m-%d %H:%M %Z} by {DATED}",
    )
    of = f"certification by NVCRE in {file.absolute()}"
    return ForeignReport(NAME, of, counts, began, DATED, (Raw("report.json", text),), found_there)


def _reports(text: str) -> Iterator[Report]:
    try:
        found: Any = parsed(text)
    except ValueError as error:
        raise Unread(shortened(str(error), 200)) from None
    for one in found if isinstance(found, list) else [found]:
        yield shaped(Report, one)


def _rows(report: Report) -> Iterator[Row]:
    known = mapped(NAME).items()
    for category in report.categories or ():
        says = SAYS.get(category.status, NOT_TESTED)
        observed = _measured(category) if says == "passed" else _failed(category)
        ours = next((o for key, o in known if re.fullmatch(key, category.key)), UNKNOWN)
        yield says, clean(_tried(category)), observed, ours.by, ours.why
    told = {n for c in report.categories or () for g in c.failedGroups or () for n in g.nodes or ()}
    if alone := [node for node in report.failedNodes or () if node not in told]:
        yield "failed", "hosts", clean(first_few(alone)), HOSTS.by, HOSTS.why
    ended = any(category.status == "Failed" for category in report.categories or ())
    if report.result == "FAILED" and not ended and not report.failedNodes:
        yield "failed", clean(report.name), "it failed, but no category failed", WHOLE.by, WHOLE.why
    if report.excludedNodes:
        why = f": {report.exclusionReason}" if report.exclusionReason else ""
        yield (
            NOT_TESTED,
            "hosts",
            clean(f"{first_few(report.excludedNodes)}{why}"),
            LEFT.by,
            LEFT.why,
        )


HOSTS = Ours(
    by="appliance health", why="a host is judged by its own checks, and in pairs with good hosts"
)
LEFT = Ours(by="appliance accept", why="the gates of a host that was not measured stay open")
WHOLE = Ours(by="appliance accept", why="gates without a measurement stay open")


def _tried(category: Category) -> str:
    """Its subject and number of hosts: one job that Kubernetes placed freely describes only its own hosts."""
    job = f", {plural(category.nodesPerJob, 'host')} a job" if category.nodesPerJob else ""
    part = (
        f" on {category.exercisedNodes} of {category.targetNodes}" if category.targetNodes else ""
    )
    mnnvl = f", MNNVL {category.mnnvl}" if category.mnnvl else ""
    return f"{category.key}{job}{part}{mnnvl}"


def _measured(category: Category) -> str:
    if category.bandwidth:
        last = category.bandwidth[-1]
        return clean(f"{last.busBW} at {last.size}")
    rates = [str(d.tflops) for d in category.domains or () if d.tflops is not None]
    return clean(f"{first_few(rates)} TFLOPS a GPU") if rates else ""


def _failed(category: Category) -> str:
    groups = [
        f"{first_few(g.nodes or ())}: {g.reason}".strip(": ") for g in category.failedGroups or ()
    ]
    said = "; ".join(filter(None, (category.failureReason, *groups[:3])))
    if category.status not in SAYS:
        said = f"it did not end: {category.status}"
    return clean(said or category.status)
