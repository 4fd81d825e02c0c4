"""Numbers, times and host lists read the same everywhere."""

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.models.result import Value
from appliance.report.ascii_text import ascii_text
from appliance.report.formatting import (
    about,
    binary_size,
    duration,
    fold,
    measured,
    moment,
    number,
    one_line,
    targets,
)


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ([], ""),
        (["head"], "head"),
        (["gpu-1"], "gpu-1"),
        (["head", "gpu-1", "gpu-2", "gpu-4"], "head, gpu-[1-2,4]"),
        (["n01", "n02", "n10"], "n[01-02,10]"),
        (["GPU 0", "GPU 1"], "GPU [0-1]"),
        (["a1", "b1", "a2"], "a1, b1, a2"),
        (["1", "2"], "[1-2]"),
        (["n1", "n01"], "n1, n01"),
        (["head", "head"], "head, head"),
    ],
)
def test_numbered_hosts_are_folded(hosts: list[str], text: str) -> None:
    assert fold(hosts) == text


def test_parts_are_folded_where_hosts_share_them_and_a_host_alone_stands_apart() -> None:
    named = ["gpu-1/GPU 0", "gpu-1/GPU 1", "gpu-2/GPU 0", "gpu-2/GPU 1", "head", "head/prometheus"]
    assert targets(named) == "gpu-[1-2] GPU [0-1]; head; head prometheus"


@given(st.sets(st.integers(min_value=0, max_value=300), min_size=2))
def test_folding_loses_no_host(numbers: set[int]) -> None:
    inner = fold([f"gpu-{n}" for n in sorted(numbers)]).removeprefix("gpu-[").removesuffix("]")
    found: set[int] = set()
    for part in inner.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    assert found == numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), (True, "yes"), (False, "no"), (0, "0"), (9999, "9999"), (185090, "185,090"),
        (1.3, "1.3"), (0.00012, "0.00012"), (24.1234, "24.12"), (48941.4, "48,941"), (1234.5, "1234"),
        (-2.0, "-2"), ("Gen4 x8", "Gen4 x8"),
    ],
)  # fmt: skip
def test_values_are_written_with_the_digits_that_matter(value: Value, text: str) -> None:
    assert number(value) == text


def test_a_number_carries_its_unit_and_a_word_none() -> None:
    assert measured(2, "errors") == "2 errors"
    assert measured("10:12", "lanes") == "10:12 lanes"
    assert measured("off", "errors") == "off"
    assert measured(None, "errors") == ""


def test_times_and_sizes() -> None:
    assert [duration(s) for s in (-1, 41, 725, 7391)] == ["0:00", "0:41", "12:05", "2:03:11"]
    assert [about(m) for m in (0.2, 11.2, 150)] == [
        "less than a minute",
        "about 11 min",
        "about 2.5 h",
    ]
    assert [binary_size(n) for n in (12, 2048, 2**41)] == ["12 B", "2 KiB", "2 TiB"]


def test_one_line_is_one_line() -> None:
    assert one_line("a\n  b\r\n\tc ") == "a b c"


def test_ascii_terminals_get_stand_ins() -> None:
    assert ascii_text("✓ a · b → ü") == "+ a | b -> ?"


@pytest.mark.parametrize(
    ("day", "text"),
    [(23, "2026-11-23 02:05"), (24, "2026-11-23 02:05"), (25, "2026-11-23")],
)
def test_a_moment_of_this_night_has_its_hour(day: int, text: str) -> None:
    time = datetime(2026, 11, 23, 2, 5).astimezone()
    assert moment(time, date(2026, 11, day)) == text
