"""The text format Prometheus reads, read back by its rules."""

import re
from datetime import UTC, datetime

import pytest

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


def test_what_did_not_pass_has_one_series_with_its_status() -> None:
    text = render("acme", [result(), result(target="gpu-1/GPU 6", status=Status.PASS)], AT)
    states = [line for line in samples(text) if line.startswith("appliance_check_status")]
    assert states == [
        'appliance_check_status{site="acme",id="gpu.ecc",target="gpu-1/GPU 5",simulated="false",status="fail"} 1'
    ]


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.PASS])
def test_every_result_without_a_pass_is_seen_and_counted(status: Status) -> None:
    lines = samples(render("s", [result(status=status, required=False)], AT))
    assert len([line for line in lines if line.startswith("appliance_check_status")]) == 1
    counted = 'appliance_check_results{site="s",id="gpu.ecc",simulated="false",status="%s"} %d'
    assert {counted % (s, s is status) for s in Status} <= set(lines)
    of_host = 'appliance_host_results{site="s",host="gpu-1",status="%s"} %d'
    assert {of_host % (s, s is status) for s in Status} <= set(lines)


def test_what_another_failure_explains_is_counted_and_seen_where_it_failed_itself() -> None:
    why = {"explained_by": "host.reachable gpu-1"}
    silent = result(id="host.reachable", target="gpu-1")
    unknown = result(status=Status.NOT_ASSESSED, **why)
    lines = samples(render("s", [silent, unknown, result(id="a.b", **why)], AT))
    states = [line for line in lines if line.startswith("appliance_check_status")]
    assert [re.findall(r'id="([^"]*)', line) for line in states] == [["host.reachable"], ["a.b"]]
    assert 'appliance_host_results{site="s",host="gpu-1",status="not_assessed"} 1' in lines


def test_simulated_results_are_counted_apart() -> None:
    both = [result(status=Status.PASS, target=t, simulated=t == "a") for t in "abc"]
    lines = samples(render("s", both, AT))
    counted = 'appliance_check_results{site="s",id="gpu.ecc",simulated="%s",status="pass"} %d'
    assert {counted % ("true", 1), counted % ("false", 2)} <= set(lines)


def test_results_of_the_cluster_belong_to_no_host() -> None:
    assert "appliance_host_results" not in render("s", [result(target="cluster")], AT)


def test_the_text_follows_what_is_wrong_and_not_the_number_of_results() -> None:
    """1,000 hosts of 46 results each are to stay below 2 MB, which node_exporter reads anew at every scrape."""

    many = [
        result(id="a.b", target=f"gpu-1/{n}", status=Status.PASS, value=n, limit=n)
        for n in range(1000)
    ]
    assert len(render("s", many, AT)) < len(render("s", many[:1], AT)) + 100


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


def test_numbers_of_what_did_not_pass_are_exported_and_words_are_not() -> None:
    text = render(
        "s",
        [
            result(value="Gen4 x8", limit=16),
            result(id="a.b", value=True),
            result(id="a.c", value=0.25, limit=16),
            result(id="a.d", value=1, status=Status.PASS),
        ],
        AT,
    )
    assert re.search(r'^appliance_check_value\{.*id="a\.b".*\} 1$', text, re.MULTILINE)
    assert re.search(r'^appliance_check_value\{.*id="a\.c".*\} 0\.25$', text, re.MULTILINE)
    assert not re.search(r'^appliance_check_value\{.*id="gpu\.ecc"', text, re.MULTILINE)
    assert not re.search(r'^appliance_check_limit\{.*id="gpu\.ecc"', text, re.MULTILINE)
    assert re.search(r'^appliance_check_limit\{.*id="a\.c".*\} 16$', text, re.MULTILINE)
    assert not re.search(r'^appliance_check_value\{.*id="a\.d"', text, re.MULTILINE)


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
