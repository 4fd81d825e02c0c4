"""The text format Prometheus reads, read back by its rules."""

import re
from datetime import UTC, datetime

from appliance.models.result import CheckResult, Measurement, Status
from appliance.report.prometheus import render

AT = datetime(2026, 11, 20, 13, 5, tzinfo=UTC)
LINE = re.compile(
    r'^[a-zA-Z_:][a-zA-Z0-9_:]*\{([a-zA-Z_]\w*="(\\["\\n]|[^"\\\n])*",?)*\} (NaN|[+-]Inf|-?[0-9.]+(e[+-]?\d+)?)$'
)


def result(**more: object) -> CheckResult:
    fields = {"id": "gpu.ecc", "target": "gpu-1/GPU 5", "status": Status.FAIL}
    return CheckResult.model_validate(fields | more)


def samples(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_exactly_one_status_of_a_check_is_one() -> None:
    text = render("acme", [result()], AT)
    states = [line for line in samples(text) if line.startswith("appliance_check_status")]
    assert len(states) == len(Status)
    assert [line for line in states if line.endswith(" 1")] == [
        'appliance_check_status{site="acme",id="gpu.ecc",target="gpu-1/GPU 5",simulated="false",status="fail"} 1'
    ]


def test_every_family_has_help_and_type_once_and_ends_with_a_newline() -> None:
    text = render(
        "acme", [result(value=3, limit=0)], AT, [Measurement(name="m", value=1.5, unit="s")]
    )
    families = {line.split("{")[0] for line in samples(text)}
    for family in families:
        assert len(re.findall(rf"^# HELP {family} \S", text, re.MULTILINE)) == 1
        assert text.count(f"# TYPE {family} gauge\n") == 1
    assert "appliance_measurement" in families
    assert text.endswith("\n")


def test_labels_are_escaped() -> None:
    text = render('a"b\\c\nd', [result(target="züri/✓")], AT)
    assert all(LINE.match(line) for line in samples(text))
    assert r'site="a\"b\\c\nd"' in text
    assert 'target="züri/✓"' in text


def test_values_that_are_numbers_are_exported_and_words_are_not() -> None:
    text = render(
        "s",
        [
            result(value="Gen4 x8", limit=16),
            result(id="a.b", value=True),
            result(id="a.c", value=0.25),
        ],
        AT,
    )
    assert re.search(r'^appliance_check_value\{.*id="a\.b".*\} 1$', text, re.MULTILINE)
    assert re.search(r'^appliance_check_value\{.*id="a\.c".*\} 0\.25$', text, re.MULTILINE)
    assert not re.search(r'^appliance_check_value\{.*id="gpu\.ecc"', text, re.MULTILINE)
    assert re.search(r'^appliance_check_limit\{.*id="gpu\.ecc".*\} 16$', text, re.MULTILINE)


def test_no_series_stands_twice() -> None:
    twice = [result(value=1), result(value=2, status=Status.PASS)]
    measured = [Measurement(name="m", value=v, unit="s") for v in (1.0, 2.0)]
    lines = samples(render("s", twice, AT, measured))
    series = [line.rpartition(" ")[0] for line in lines]
    assert len(series) == len(set(series))


def test_no_results_are_exported_as_incomplete() -> None:
    lines = samples(render("s", [], AT))
    assert 'appliance_verdict{site="s",verdict="incomplete"} 1' in lines
    assert 'appliance_checked_timestamp_seconds{site="s"} 1795179900' in lines
