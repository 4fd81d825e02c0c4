"""The page of checks says what the checks say."""

import pytest

from appliance.actions.published import LIMITS, PAGE, belongs_to, table, with_table
from appliance.checks import CHECKS, HARDWARE
from appliance.config import data


def test_the_page_of_checks_is_current() -> None:
    page = (data.root() / PAGE).read_text()
    assert page == with_table(page), "run: python -m appliance.actions.published"


def test_every_check_has_one_row_with_six_cells() -> None:
    rows = table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [check.id for check in CHECKS]
    assert {row.replace("\\|", "").count("|") for row in rows} == {7}


def test_checks_of_the_hardware_name_their_limit() -> None:
    assert [check.id for check in HARDWARE if not check.limit] == []
    assert {belongs_to(check) for check in HARDWARE} == {"hardware"}


def test_limits_are_told_of_checks_there_are_and_once() -> None:
    silent = {check.id for check in CHECKS if not check.limit}
    assert set(LIMITS) <= silent


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="the page has no"):
        with_table("# Checks")
