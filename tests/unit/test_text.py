"""Text of others: what a terminal would act on is spelled out, and no word is lost."""

import pytest

from appliance.errors import ApplianceError
from appliance.models.bound import Bound
from appliance.report.formatting import measured
from appliance.text import CUT, LONGEST, cleaned, counted, lines, one_line, quoted, shortened

ACTS = [
    "\x1b[2J",
    "\x1b]0;pwned\x07",
    "\x9b31m",
    "\x00",
    "\x08",
    "\x7f",
    "\u202e",
    "\u2066",
    "\u200b",
    "\u200f",
    "\ufeff",
    "\U000e0041",
]
"""Sequences of C0 and C1, marks of direction, blanks of no width, invisible letters."""


@pytest.mark.parametrize("act", ACTS)
def test_what_has_no_picture_is_spelled_out(act: str) -> None:
    shown = one_line(f"a{act}b")
    assert shown.isprintable()
    assert shown.startswith("a\\")
    assert shown.endswith("b")


@pytest.mark.parametrize(
    "between", ["\n", "\r\n", "\t", "\u2028", "\u2029", "\x85", "\x0b", " \n "]
)
def test_blanks_and_line_breaks_are_one_blank(between: str) -> None:
    assert one_line(f"a{between}b") == "a b"


@pytest.mark.parametrize("text", ["", "two  blanks", "長い理由 ü ✗ é", "[bold]x[/]", "a\\nb"])
def test_what_can_be_read_stays(text: str) -> None:
    assert one_line(text) == text


def test_cleaning_twice_changes_nothing() -> None:
    once = shortened(one_line("\x1b\n" * LONGEST))
    assert shortened(one_line(once)) == once
    assert len(once) == LONGEST
    assert once.endswith(CUT)


def test_lines_of_a_long_message_stay_lines() -> None:
    assert lines("a\x1b\nb") == "a\\x1b\nb"
    error = ApplianceError("host\x1b[2J", "fix\x07", "h")
    assert (error.message, error.hint, str(error)) == ("host\\x1b[2J", "fix\\x07", "host\\x1b[2J")


def test_a_document_is_cleaned_all_through() -> None:
    assert cleaned({"a\x1b": ["\x07", {"b": "c\nd"}], "n": 1}) == {
        "a\\x1b": ["\\x07", {"b": "c d"}],
        "n": 1,
    }


def test_a_quoted_value_is_short_and_one_line() -> None:
    assert quoted("\x1b" * 100, 10) == "'\\x1b\\x1b…"


@pytest.mark.parametrize(
    ("count", "unit", "said"),
    [
        (1, "errors", "1 error"),
        (2, "errors", "2 errors"),
        (0, "errors", "0 errors"),
        (1, "entries", "1 entry"),
        (1, "NUMA nodes", "1 NUMA node"),
        (1, "pods waiting", "1 pod waiting"),
        (1, "GB/s", "1 GB/s"),
        (1, "s", "1 s"),
        (1, "% free", "1 % free"),
    ],
)
def test_one_thing_is_told_in_the_singular(count: int, unit: str, said: str) -> None:
    assert counted(count, unit) == said
    assert measured(count, unit) == said


def test_a_rate_is_no_count() -> None:
    assert measured(1.0, "times as fast") == "1 times as fast"


def test_a_range_has_no_exponent() -> None:
    assert "at most 1,000,000" in str(Bound(unit="errors", most=1e6, whole=True))
    assert "below 0.5" in str(Bound(unit="s", below=0.5))
