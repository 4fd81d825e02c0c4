"""ClusterMAX's audit (PyPI: clustermax): reads its values, lets its own program judge them, and maps each item to our checks.

The file of an audit, ``audit.values.json``, contains observations without verdicts. ``cmax audit review`` derives the verdicts,
offline. The format is that of 0.2.1.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from appliance.adapters import process
from appliance.benchmarks.benchmark import Raw
from appliance.benchmarks.foreign.shown import UNKNOWN, ForeignReport, mapped, refuse_future, table
from appliance.benchmarks.reading import Foreign, Unread, document
from appliance.config.bounded_files import opened
from appliance.errors import CommandFailed, ConfigError, DeadlineExceeded
from appliance.models.run import Table
from appliance.text import one_line, plural, shortened

NAME = "clustermax"
DATED = "the audit's own clock"
LARGEST = 16 << 20
"""Bytes; an audit of two hosts has 53 KB."""
SECONDS = 120.0
GET = "install its program cmax on PATH: python3 -m venv audit && audit/bin/pip install clustermax==0.2.1"
GIVE = "give the file audit.values.json that cmax audit wrote, or a report of nvcrectl (--results-file) or isvctl (--junitxml)"
SHOWN = ("fail", "warning")
ITEM = re.compile(r"(PASS|SKIPPED|WARNING|FAIL) +(\S.*?)  \[([\w.-]+)\]")
OBSERVED = re.compile(r" +Observed: (.*)")
TOTALS = re.compile(r"(\d+) failed, (\d+) warnings?, (\d+) passed, (\d+) skipped")
Word = Annotated[str, Field(max_length=128)]


class Cluster(Foreign):
    """The audited system."""

    orchestrator: Word
    nodes: int = Field(ge=0)
    gpus_per_node: int = Field(default=0, ge=0)
    audited_at: AwareDatetime


class Values(Foreign):
    """The file of an audit."""

    schema_version: Literal[1]
    runner: Literal["audit"]
    cluster: Cluster


@dataclass(frozen=True)
class Item:
    """One verdict of the program. ``key``: its own id, ``observed``: its observation."""

    key: str
    title: str
    status: str
    observed: str


@dataclass(frozen=True)
class Audit:
    """One audit: of what, when, by which release, and every item."""

    values: Values
    release: str
    items: tuple[Item, ...]
    text: str
    review: str

    @property
    def counts(self) -> str:
        """``13 passed, 12 failed, 19 warnings, 15 skipped``."""
        found = Counter(item.status for item in self.items)
        words = {"pass": "passed", "fail": "failed", "warning": "warnings", "skipped": "skipped"}
        return ", ".join(f"{found[status]} {word}" for status, word in words.items())


def text_of(file: Path) -> str:
    """Raises ConfigError for an unreadable file."""
    try:
        with opened(file) as source:
            content = source.read(LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror})", GIVE) from None
    if len(content) > LARGEST:
        raise ConfigError(f"{file} has more than {LARGEST >> 20} MiB", GIVE)
    return content.decode("utf-8", "replace")


def shown(audit: Audit, file: Path) -> ForeignReport:
    """The data that is kept and shown."""
    of = f"audit by ClusterMAX {audit.release} in {file.absolute()}"
    raw = (Raw("audit.values.json", audit.text), Raw("review.txt", audit.review))
    began = audit.values.cluster.audited_at
    return ForeignReport(NAME, of, audit.counts, began, DATED, raw, listed(audit))


def read(file: Path, now: datetime) -> Audit:
    """Raises ConfigError for a file that is not an audit, or that its own program cannot judge."""
    text = text_of(file)
    try:
        values = document(Values, text)
    except Unread as error:
        raise ConfigError(f"{file} is not an audit of ClusterMAX: {error}", GIVE) from None
    refuse_future(file, values.cluster.audited_at, now)
    release = _cmax("--version").partition(" ")[2].strip()
    review = _cmax("audit", "review", str(file.absolute()), "--no-interactive")
    return Audit(values, shortened(release, 40), _items(file, review), text, review)


def listed(audit: Audit) -> Table:
    """The findings of the audit, and the check that covers each here."""
    ours = mapped(NAME)
    found = [
        (item, ours.get(item.key, UNKNOWN))
        for status in SHOWN
        for item in audit.items
        if item.status == status
    ]
    of = audit.values.cluster
    return table(
        f"Audit by ClusterMAX {audit.release}, foreign: {audit.counts}",
        tuple((item.status, item.title, item.observed, o.by, o.why) for item, o in found),
        f"of {of.audited_at:%Y-%m-%d %H:%M %Z}, on {plural(of.nodes, 'GPU host')} of {of.orchestrator}",
    )


def _cmax(*words: str) -> str:
    try:
        return process.run(["cmax", *words], timeout=SECONDS, hint=GET).stdout
    except (CommandFailed, DeadlineExceeded) as error:
        raise ConfigError(
            f"its values must be judged by ClusterMAX's own program: {error.message}", GET
        ) from None


def _items(file: Path, review: str) -> tuple[Item, ...]:
    """Raises ConfigError if the review's own counts differ."""
    lines = review.splitlines()
    items = tuple(_each(lines))
    told = next((m for line in lines if (m := TOTALS.fullmatch(line.strip()))), None)
    found = Counter(item.status for item in items)
    counted = tuple(found[status] for status in ("fail", "warning", "pass", "skipped"))
    if told is None or tuple(map(int, told.groups())) != counted:
        said = told[0] if told else "no count"
        raise ConfigError(
            f"the summary of {file} counts {said}, but {len(items)} items were read",
            "this program supports cmax 0.2.1; if you use it, report a bug with this file",
        )
    return items


def _each(lines: Sequence[str]) -> Iterator[Item]:
    for at, line in enumerate(lines):
        if match := ITEM.fullmatch(line.rstrip()):
            after = OBSERVED.fullmatch(lines[at + 1]) if at + 1 < len(lines) else None
            observed = shortened(one_line(after[1]), 120) if after else ""
            yield Item(match[3], shortened(one_line(match[2]), 80), match[1].lower(), observed)
