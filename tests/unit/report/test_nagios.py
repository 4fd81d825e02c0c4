"""Nagios reads one line, a code, and details that cannot forge performance data."""

import pytest

from appliance.models.result import CheckResult, Status
from appliance.report.monitoring_plugin import Code
from appliance.report.nagios import render


def result(status: Status, **more: object) -> CheckResult:
    return CheckResult.model_validate(
        {"id": "gpu.ecc", "target": "gpu-1", "status": status, **more}
    )


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ([], Code.UNKNOWN),
        ([Status.PASS], Code.OK),
        ([Status.PASS, Status.WARN], Code.WARNING),
        ([Status.WARN, Status.FAIL], Code.CRITICAL),
        ([Status.PASS, Status.ERROR], Code.UNKNOWN),
        ([Status.SKIP], Code.UNKNOWN),
        ([Status.NOT_ASSESSED, Status.PASS], Code.UNKNOWN),
        ([Status.FAIL, Status.ERROR], Code.CRITICAL),
    ],
)
def test_codes_follow_the_verdict(statuses: list[Status], code: Code) -> None:
    text, found = render("acme", [result(status) for status in statuses])
    assert found is code
    assert text.startswith(f"APPLIANCE {code.name} - acme: ")


def test_an_optional_check_without_verdict_is_no_alarm() -> None:
    results = [result(Status.PASS), result(Status.NOT_ASSESSED, required=False)]
    assert render("acme", results)[1] is Code.OK


def test_the_first_line_counts_and_the_rest_explains() -> None:
    bad = result(Status.FAIL, value=3, unit="errors", limit=0, cause="row 12", fix="replace")
    text, _ = render("acme", [bad, result(Status.PASS)])
    first, detail = text.splitlines()
    assert first.split(" | ")[1] == (
        "pass=1;;;0;2 warn=0;;;0;2 fail=1;;;0;2 error=0;;;0;2 skip=0;;;0;2 not_assessed=0;;;0;2"
    )
    assert detail == "FAILED gpu.ecc gpu-1: 3 errors (limit 0) row 12 fix: replace"


def test_text_cannot_begin_performance_data_or_a_line() -> None:
    text, _ = render("a|b", [result(Status.FAIL, cause="x | fail=0\nOK - all well")])
    assert text.count("|") == 1
    assert len(text.splitlines()) == 2


def test_many_findings_are_counted_not_listed_on_the_first_line() -> None:
    results = [result(Status.FAIL, target=f"gpu-{n}") for n in range(64)]
    first, *rest = render("acme", results)[0].splitlines()
    assert "61 more" in first
    assert len(rest) == 64
