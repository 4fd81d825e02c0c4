"""A run of NVIDIA's AI Cloud Validation Suite: the JUnit XML that isvctl writes (--junitxml), with each item mapped to our checks.

The format is that of isvctl 0.11.0: a suite for each phase of a platform, a case for each validation, ``NAME::PART`` for its parts. A
report contains neither its release nor the site, and nothing distinguishes a run with stand-ins (its demo mode) from one on
machines. Validations are counted like in its own last lines; the counts of a suite include each part that ran twice.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from appliance.adapters import xml_elements
from appliance.adapters.xml_elements import Element
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
from appliance.benchmarks.reading import Unread
from appliance.errors import ConfigError
from appliance.text import first_few, one_line, quoted, shortened

NAME = "isvctl"
GIVE = "use the file that isvctl test run --junitxml FILE wrote, after it has ended"
ITS_OWN, OF_THE_FILE = "the report's own clock", "the file's own time"
ROOT = "isvctl validation tests"
SUITE = re.compile(r"([\w.-]{1,40})/[\w.-]{1,40}", re.ASCII)
COUNT = re.compile(r"[0-9]{1,7}")
SAYS = {"error": "errored", "failure": "failed", "skipped": "skipped"}
"""Worst first: a case that contains a failure is failed, whatever else it contains; a skipped one has not passed."""
RAISED = "Validation raised exception: "
REASON = re.compile(
    r"(?:AssertionError: Validation failed: |Failed: )?(.*?)(?:\nOutput:.*)?", re.DOTALL
)
BESIDE = {"properties", "system-out", "system-err"}
FAILURES = ("error", "failure")
WORDS = ("passed", "failed", "errored", "skipped")
ORDER = ("errored", "failed", "skipped", "passed")


@dataclass(frozen=True)
class Item:
    """One case. ``bears``: its worst tag, ``says``: one of ``WORDS``."""

    name: str
    bears: str
    says: str
    observed: str

    @property
    def is_part(self) -> bool:
        """Whether it is a part of a validation that has its own case."""
        return "::" in self.name


def is_one(text: str) -> bool:
    """Whether it is meant to be such a report: it is XML."""
    return text.lstrip("\ufeff \t\r\n").startswith("<")


def read(file: Path, text: str, now: datetime) -> ForeignReport:
    """Raises ConfigError for a file that is not such a report, has wrong counts, or has a future date."""
    try:
        suites = _suites(text)
        platform = _platform(suites)
        items = tuple(item for suite in suites for item in _items(suite))
        began, dated_by = _began(suites, file)
    except ValueError as error:
        raise ConfigError(f"{file} is not a report of isvctl: {clean(str(error))}", GIVE) from None
    refuse_future(file, began, now)
    found = Counter(item.says for item in items if not item.is_part)
    counts = ", ".join(f"{found[word]} {word}" for word in WORDS)
    found_there = table(
        f"NVIDIA's AI Cloud Validation Suite, {platform}, foreign: {counts}",
        tuple(_rows(items)),
        f"of {began:%Y-%m-%d %H:%M %Z} by {dated_by}; its demo mode, which uses no machine, writes the same report",
    )
    of = f"run of isvctl on {platform} in {file.absolute()}"
    raw = (Raw("junit.xml", text),)
    return ForeignReport(f"{NAME}-{platform}", of, counts, began, dated_by, raw, found_there)


def _suites(text: str) -> Sequence[Element]:
    """Raises ValueError for another document."""
    top = xml_elements.root(text.lstrip("\ufeff"))
    name = top.attributes.get("name", "")
    if (top.tag, name) != ("testsuites", ROOT):
        raise Unread(f"it begins with {quoted(top.tag)} named {quoted(name)}, not with {ROOT!r}")
    if strays := {child.tag for child in top.children} - {"testsuite"}:
        raise Unread(f"it contains {quoted(min(strays))} in addition to its suites")
    if not any(suite.children for suite in top.children):
        raise Unread("it contains no items")
    return top.children


def _platform(suites: Sequence[Element]) -> str:
    """Returns the validations that each suite lists before its phase. Raises Unread if they do not agree."""
    names = [suite.attributes.get("name", "") for suite in suites]
    found = {match[1] if (match := SUITE.fullmatch(name)) else "" for name in names}
    if len(found) != 1 or "" in found:
        raise Unread(f"its suites are not named PLATFORM/PHASE of one platform: {first_few(names)}")
    return found.pop()


def _items(suite: Element) -> Sequence[Item]:
    """Raises Unread if the suite's own counts differ, whether its parts are counted once or twice."""
    of = quoted(suite.attributes["name"])
    if strays := {child.tag for child in suite.children} - {"testcase", *BESIDE}:
        raise Unread(f"suite {of} has {quoted(min(strays))}, which is not supported")
    items = [_item(case) for case in suite.named("testcase")]
    once = _counted(items)
    twice = _counted([*items, *(i for i in items if i.is_part and i.bears != "skipped")])
    for word, count in once.items():
        told = suite.attributes.get(word, "")
        if not COUNT.fullmatch(told) or int(told) not in (count, twice[word]):
            raise Unread(f"suite {of} declares {word}={quoted(told)}, but contains {count}")
    return items


def _counted(items: Sequence[Item]) -> dict[str, int]:
    """Counts of the items, by the attributes of a suite."""
    found = Counter(item.bears for item in items)
    words = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    return {"tests": len(items), **{word: found[tag] for word, tag in words.items()}}


def _item(case: Element) -> Item:
    name = case.attributes.get("name", "")
    if not name:
        raise Unread("a case without a name")
    if strays := {child.tag for child in case.children} - {*SAYS, *BESIDE}:
        raise Unread(f"case {quoted(name)} has {quoted(min(strays))}, which is not supported")
    for tag, says in SAYS.items():
        if found := [*case.named(tag)]:
            reason = _reason(found[-1])
            raised = tag == "failure" and reason.startswith(RAISED)
            return Item(name, tag, "errored" if raised else says, clean(reason))
    return Item(name, "", "passed", "")


def _reason(element: Element) -> str:
    """A validation's own comes after those of its parts."""
    said = element.attributes.get("message") or element.text.strip()
    match = REASON.fullmatch(said)
    return (match[1] if match else said) or element.attributes.get("type", "")


def _began(suites: Sequence[Element], file: Path) -> tuple[datetime, str]:
    """When, and by whose word: a suite that ran nothing bears no time. One without a zone is of the control machine's."""
    told = [suite.attributes["timestamp"] for suite in suites if "timestamp" in suite.attributes]
    if not told:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC), OF_THE_FILE
    try:
        return min(datetime.fromisoformat(text).astimezone(UTC) for text in told), ITS_OWN
    except OverflowError:
        raise Unread(f"{quoted(told)} is no time") from None


def _rows(items: Sequence[Item]) -> Iterator[Row]:
    """The failed validations one by one, with their parts; the others in one row per covering check, by whole validations."""
    rest: dict[tuple[str, str, str], list[Item]] = {}
    for item in sorted(items, key=lambda item: ORDER.index(item.says)):
        ours = _answer(item.name.partition("::")[0])
        if item.bears in FAILURES:
            yield item.says, clean(item.name), item.observed, ours.by, ours.why
        elif not item.is_part:
            rest.setdefault((item.says, ours.by, ours.why), []).append(item)
    for (says, by, why), found in rest.items():
        names = first_few([item.name for item in found], 6)
        reasons = first_few([*dict.fromkeys(filter(None, (i.observed for i in found)))], 1)
        yield says, shortened(one_line(names), 320), clean(reasons), by, why


def _answer(name: str) -> Ours:
    if len(name) <= 128:
        for pattern, ours in mapped(NAME).items():
            if re.fullmatch(pattern, name):
                return ours
    return UNKNOWN
