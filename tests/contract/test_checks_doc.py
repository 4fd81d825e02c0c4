"""The pages of checks and of faults say what checks and faults say."""

import pytest

from appliance.engine.look.judge import REACHABLE
from appliance.lab.faults import FAULTS
from appliance.stages.catalog import EVERY_CHECK, HARDWARE
from tools.published.tables import belongs_to, check_table, fault_table, rung_of


def test_every_fault_has_one_row_and_names_a_check_there_is() -> None:
    rows = fault_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [fault.kind for fault in FAULTS]
    assert {row.replace("\\|", "").count("|") for row in rows} == {8}
    named = {fault.check for fault in FAULTS if fault.check}
    assert named <= {check.id for check in EVERY_CHECK} | {REACHABLE}


def test_a_fault_with_a_check_says_what_that_check_says() -> None:
    told = [fault for fault in FAULTS if fault.check]
    assert [fault.kind for fault in told if not fault.says or not fault.target] == []
    assert [fault.kind for fault in told if len(fault.example) < fault.required] == []


def test_every_check_has_one_row_with_six_cells() -> None:
    rows = check_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [check.id for check in EVERY_CHECK]
    assert {row.replace("\\|", "").count("|") for row in rows} == {7}


def test_checks_of_the_hardware_name_their_limit() -> None:
    assert [check.id for check in HARDWARE if not check.limit] == []
    assert {belongs_to(check) for check in HARDWARE} == {"hardware"}


def test_a_claim_on_no_rung_is_refused() -> None:
    assert (
        rung_of("| a | real software (with a simulated port) | b | 2026-11-24 |") == "real software"
    )
    with pytest.raises(ValueError, match="no rung there is: 'really'"):
        rung_of("| a | really | b | 2026-11-24 |")
