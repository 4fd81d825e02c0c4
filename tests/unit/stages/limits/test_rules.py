"""A limit is in the unit and range of its check, or it is refused: none is dropped, rounded or read otherwise."""

from pathlib import Path

import pytest

from appliance.actions.profiles.limit_bounds import check_ids
from appliance.config.finding import Finding, InvalidConfig
from appliance.config.load import load_profile, load_site
from appliance.models.bound import Bound
from appliance.stages.catalog import CHECKS
from tests.support.site_folder import SITE, site_folder

__all__ = ["site_folder"]


OWN = 'base.clock: {value: 0.05, unit: s, source: contract, date: "2026-11-02"}'
NOT_A_NUMBER = (
    '"0,05"',
    "0,05",
    "50 ms",
    "five",
    ".nan",
    '"NaN"',
    "1e999",
    "true",
    '"0.05"',
    "0x1",
)
OUT_OF_RANGE = ("0", "-1", "-0.0", "61", "1e9")


def findings(folder: Path, limit: str) -> tuple[Finding, ...]:
    (folder / "site.yml").write_text(SITE.replace(OWN, limit))
    try:
        load_site(folder, check_ids=check_ids())
    except InvalidConfig as error:
        return error.findings
    return ()


@pytest.mark.parametrize("value", NOT_A_NUMBER)
def test_what_is_no_number_bounds_no_clock(site_folder: Path, value: str) -> None:
    (found,) = findings(
        site_folder,
        f"base.clock: {{value: {value}, unit: s, source: contract}}".replace("0,05,", "'0,05',"),
    )
    assert (found.key, found.line) == (
        "limits.base.clock.value",
        SITE[: SITE.index(OWN)].count("\n") + 1,
    )
    assert "is not a number" in found.message
    assert "in s, above 0, at most 60" in found.remedy


@pytest.mark.parametrize("value", OUT_OF_RANGE)
def test_a_bound_that_judges_nothing_is_out_of_range(site_folder: Path, value: str) -> None:
    (found,) = findings(site_folder, f"base.clock: {{value: {value}, unit: s, source: contract}}")
    assert "is out of range" in found.message


@pytest.mark.parametrize(("unit", "says"), [("ms", '"ms" is not the unit'), ("", "is missing")])
def test_another_unit_is_refused_and_the_right_one_named(
    site_folder: Path, unit: str, says: str
) -> None:
    given = f"unit: {unit}, " if unit else ""
    (found,) = findings(site_folder, f"base.clock: {{value: 50, {given}source: contract}}")
    assert (found.key, found.remedy) == (
        "limits.base.clock.unit",
        'give the value in s, and write unit: "s"',
    )
    assert says in found.message


def test_a_check_that_compares_with_the_profile_takes_no_limit(site_folder: Path) -> None:
    (found,) = findings(site_folder, "gpu.count: {value: 4, source: contract}")
    assert "is a check without a limit" in found.message
    assert "base.clock" in found.remedy


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ("gpu.xid.63: {value: fail, source: ours}", ""),
        ("gpu.xid.63: {value: fatal, source: ours}", "is not accepted"),
        ("gpu.xid.63: {value: 1, source: ours}", "is not accepted"),
        ("gpu.xid.63: {value: fail, unit: h, source: ours}", "a word has no unit"),
        ("gpu.xid.two: {value: fail, source: ours}", "is not the id of a check"),
        ("base.clock.storage: {value: 1, unit: s, source: ours}", "is not the id of a check"),
        ("gpu.nvlink: {value: 11.5, unit: links, source: ours}", "is not a whole number"),
        ("gpt3.throughput: {value: 0, unit: '%', source: ours}", ""),
        ("gpt3.throughput: {value: 100, unit: '%', source: ours}", "is out of range"),
    ],
)
def test_limits_of_parts_words_and_whole_numbers(site_folder: Path, limit: str, says: str) -> None:
    found = findings(site_folder, limit)
    assert [says in f.message for f in found] == ([True] if says else [])


def test_profiles_are_held_to_the_same(tmp_path: Path) -> None:
    shipped = Path("profiles/hpc.yml").read_text()
    file = tmp_path / "mine.yml"
    file.write_text(shipped.replace("unit: s\n", "unit: ms\n"))
    with pytest.raises(InvalidConfig, match="is not the unit of this check"):
        load_profile(file, check_ids())


def test_numbers_have_a_unit_and_words_have_none() -> None:
    bounds = [b for c in CHECKS if c.bound for b in (c.bound, c.bound.each) if b]
    assert len(bounds) >= 10
    assert all(bool(b.unit) != bool(b.words) for b in bounds)
    assert not Bound("s").holds(float("nan"))
