"""Outliers among equals: a planted one is named, noise names nobody, and too few equals name nobody."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.benchmarks.blame.outliers import EQUALS, compare

NOISE = st.floats(0.99, 1.01)


def named(values: dict[str, float], least: float = 10, more: bool = True) -> list[str]:
    return [o.name for o in compare(values, least=least, more_is_better=more).outliers]


@given(st.lists(NOISE, min_size=EQUALS, max_size=40), st.floats(1e-3, 1e9))
def test_noise_below_the_least_difference_names_nobody(noise: list[float], scale: float) -> None:
    values = {f"h{i}": scale * n for i, n in enumerate(noise)}
    found = compare(values, least=10)
    assert (found.outliers, found.why) == ((), "")


@given(st.data(), st.lists(NOISE, min_size=EQUALS, max_size=40), st.booleans())
def test_a_slow_minority_is_named_and_nobody_else(
    data: st.DataObject, noise: list[float], more: bool
) -> None:
    # Up to a quarter: the noise of the sound ones must not be all that the median of deviations sees.
    slow = data.draw(st.integers(1, max(1, len(noise) // 4)))
    factor = data.draw(st.floats(0.2, 0.8))
    values = {
        f"h{i}": n * ((factor if more else 1 / factor) if i < slow else 1)
        for i, n in enumerate(noise)
    }
    assert sorted(named(values, more=more)) == sorted(f"h{i}" for i in range(slow))


@given(st.lists(st.floats(0.1, 10), min_size=EQUALS, max_size=20), st.integers(-30, 30))
def test_the_unit_changes_nothing(values: list[float], power: int) -> None:
    plain = {f"h{i}": v for i, v in enumerate(values)}
    # Powers of two are exact, so that a value on the very edge stays there.
    assert named(plain) == named({name: v * 2.0**power for name, v in plain.items()})


@given(st.lists(st.floats(0.1, 10), min_size=EQUALS, max_size=20), st.floats(1, 50))
def test_never_half_of_the_equals_are_outliers(values: list[float], least: float) -> None:
    assert len(named({f"h{i}": v for i, v in enumerate(values)}, least)) <= len(values) / 2


@given(st.dictionaries(st.text(min_size=1), st.floats(0.1, 10), max_size=EQUALS - 1))
def test_too_few_equals_name_nobody_and_say_how_many_are_needed(values: dict[str, float]) -> None:
    found = compare(values, least=10)
    assert found.outliers == ()
    assert f"{EQUALS} are needed" in found.why


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_measurement_is_not_compared_and_hides_nobody(value: float) -> None:
    found = compare({"a": 1, "b": 1, "c": 1, "d": 0.5, "e": value}, least=10)
    assert [outlier.name for outlier in found.outliers] == ["d"]
    few = compare({"a": 1, "b": 1, "c": 0.5, "e": value}, least=10)
    assert few.why == f"3 equals; {EQUALS} are needed to identify an outlier"


def test_two_camps_of_equal_size_name_nobody_and_are_told() -> None:
    found = compare({"a": 100, "b": 100, "c": 50, "d": 50}, least=10)
    assert found.outliers == ()
    assert (
        found.why == "they differ by 67 %, but not because of a few: no outlier can be identified"
    )


def test_the_outlier_is_told_with_the_median_it_misses() -> None:
    (found,) = compare({"a": 100, "b": 101, "c": 99, "d": 60}, least=10).outliers
    assert (found.name, found.value, found.median) == ("d", 60, 99.5)
    assert round(found.percent, 1) == 39.7


@pytest.mark.parametrize(("value", "outliers"), [(74.0, ["h"]), (74.1, [])])
def test_what_lies_within_the_noise_of_its_equals_is_no_outlier(
    value: float, outliers: list[str]
) -> None:
    """Half of these are 5 or more from the median, so one must be 3.5 / 0.6745 times as far: 25.95."""
    equals = dict(zip("abcdefg", (100, 100, 100, 105, 95, 105, 95), strict=True))
    assert named({**equals, "i": 95, "h": value}) == outliers


def test_the_worst_outlier_is_the_first_and_less_is_better_of_a_latency() -> None:
    values = {"a": 1.5, "b": 1.0, "c": 1.0, "d": 1.0, "e": 1.0, "f": 2.0, "g": 1.0}
    found = compare(values, least=10, more_is_better=False).outliers
    assert [(o.name, o.percent) for o in found] == [("f", 100.0), ("a", 50.0)]


@pytest.mark.parametrize(("low", "named"), [(9.0, True), (9.005, False)])
def test_ten_percent_are_enough_and_less_is_not(low: float, named: bool) -> None:
    values = {"a": 10.0, "b": 10.0, "c": 10.0, "d": low}
    assert [o.name for o in compare(values, least=10).outliers] == ["d"] * named


def test_equals_that_do_not_differ_have_no_outlier_however_little_is_asked_for() -> None:
    assert compare(dict.fromkeys("abcd", 7.0), least=0).outliers == ()


@pytest.mark.parametrize(("low", "told"), [(9.0, True), (9.005, False)])
def test_equals_that_differ_by_as_much_without_a_minority_are_told(low: float, told: bool) -> None:
    found = compare({"a": 11.0, "b": 10.0, "c": 10.0, "d": low, "e": low}, least=10)
    assert found.outliers == ()
    assert bool(found.why) is told
