"""JUnit XML: a reader of CI counts what failed, and takes nothing that is unknown for a pass."""

from pathlib import Path
from xml.etree import ElementTree as XML

import pytest
from click.testing import CliRunner

from appliance.actions.deployment import plan as action
from appliance.cli.main import cli
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.result import CheckResult, Status, overall
from appliance.report.junit import SITE, render_health, render_plan
from tests.golden.record import SITES, at_work, documents

OUTCOMES = ("failure", "error", "skipped")


def result(
    status: Status, check: str = "gpu.ecc", target: str = "gpu-1", **more: str
) -> CheckResult:
    return CheckResult(id=check, target=target, status=status, **more)


def read(text: str) -> dict[tuple[str, str], XML.Element]:
    """Its test cases by host and name; counts of each suite are those of its cases."""
    root = XML.fromstring(text)
    for suite in (root, *root):
        for name, outcome in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            if name in suite.attrib:
                assert int(suite.attrib[name]) == len(suite.findall(f".//testcase/{outcome}"))
        assert int(suite.attrib["tests"]) == len(suite.findall(".//testcase"))
    return {
        (suite.attrib["name"], case.attrib["name"]): case
        for suite in root
        for case in suite.findall("testcase")
    }


def outcome(case: XML.Element) -> str:
    found = [child.tag for child in case if child.tag in OUTCOMES]
    return found[0] if found else "passed"


def health(*results: CheckResult) -> dict[tuple[str, str], XML.Element]:
    return read(render_health("acme", results, overall(results)))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.PASS, "passed"),
        (Status.WARN, "passed"),
        (Status.FAIL, "failure"),
        (Status.ERROR, "error"),
        (Status.SKIP, "skipped"),
        (Status.NOT_ASSESSED, "skipped"),
    ],
)
def test_status_of_a_check_is_its_outcome(status: Status, expected: str) -> None:
    assert outcome(health(result(status))["gpu-1", "gpu.ecc"]) == expected


def test_warning_has_its_text() -> None:
    case = health(result(Status.WARN, cause="it is hot"))["gpu-1", "gpu.ecc"]
    assert "it is hot" in case.findtext("system-out", "")


@pytest.mark.parametrize(
    ("status", "expected"),
    [(Status.PASS, "passed"), (Status.FAIL, "failure"), (Status.NOT_ASSESSED, "error")],
)
def test_verdict_of_an_incomplete_site_is_no_pass(status: Status, expected: str) -> None:
    found = health(result(Status.PASS, "base.clock"), result(status))
    assert outcome(found[SITE, "verdict"]) == expected


def test_results_of_a_check_on_a_host_are_one_case_with_all_that_did_not_pass() -> None:
    found = health(
        result(Status.PASS, target="gpu-1/GPU 0"),
        result(Status.NOT_ASSESSED, target="gpu-1/GPU 1", cause="not read"),
        result(Status.FAIL, target="gpu-1/GPU 2", cause="two errors", fix="replace it"),
        result(Status.PASS, target="gpu-2/GPU 0"),
        result(Status.PASS, target="cluster"),
    )
    assert set(found) == {
        (SITE, "verdict"),
        ("gpu-1", "gpu.ecc"),
        ("gpu-2", "gpu.ecc"),
        ("cluster", "gpu.ecc"),
    }
    (failure,) = found["gpu-1", "gpu.ecc"]
    assert failure.attrib == {"message": "two errors", "type": "fail"}
    text = failure.text or ""
    assert text.splitlines() == [
        "not_assessed: gpu-1/GPU 1: not read",
        "fail: gpu-1/GPU 2: two errors",
        "  fix: replace it",
    ]


def test_characters_that_xml_cannot_contain_are_escaped() -> None:
    # Sanitized texts contain none; a model that was not validated may.
    odd = '\x00\x1b[31m<&">]]>\x7f\udc80\ufffe\U0001f600 München'
    bad = result(Status.FAIL).model_copy(update={"cause": odd, "target": odd, "fix": odd})
    text = render_health(odd, [bad], overall([bad]), [odd])
    (failure,) = read(text)["gpu-1", "gpu.ecc"]
    clean = '\\x00\\x1b[31m<&">]]>\x7f\\udc80\\ufffe\U0001f600 München'
    assert failure.attrib["message"] == clean
    assert clean in (failure.text or "")
    assert text.isascii()


PLAN = Plan(
    site="acme",
    profile="hpc",
    hosts=("gpu-1",),
    stages=("base", "gpu"),
    cells=(
        HostStage(stage="base", host="gpu-1", action=Action.SKIP),
        HostStage(
            stage="gpu", host="gpu-1", action=Action.REPAIR, why="drift", differences=("a", "b")
        ),
        HostStage(stage="mig", host="gpu-1", action=Action.NOT_CONCERNED),
        HostStage(stage="fabric", host="gpu-1", action=Action.BLOCKED, why="gpu failed"),
        HostStage(stage="base", host="gpu-2", action=Action.UNKNOWN, why="no answer"),
    ),
    results=(result(Status.FAIL),),
)


def test_stage_that_would_change_a_host_is_a_failure_and_an_unknown_one_an_error() -> None:
    found = read(render_plan(PLAN))
    assert {name: outcome(case) for name, case in found.items()} == {
        ("gpu-1", "stage base"): "passed",
        ("gpu-1", "stage gpu"): "failure",
        ("gpu-1", "stage fabric"): "failure",
        ("gpu-1", "gpu.ecc"): "failure",
        ("gpu-2", "stage base"): "error",
    }
    (failure,) = found["gpu-1", "stage gpu"]
    assert (failure.attrib["message"], failure.text) == ("drift", "a\nb")


@pytest.mark.parametrize("name", SITES)
def test_recorded_site_has_a_case_for_each_check_and_host(name: str, tmp_path: Path) -> None:
    with at_work(name, tmp_path) as site:
        made = documents(site)
    results = made["results"]
    found = health(*results)
    pairs = {(r.host or "cluster", r.id) for r in results}
    assert set(found) == {*pairs, (SITE, "verdict")}
    passed = {key for key, case in found.items() if outcome(case) == "passed"}
    unknown = {
        (r.host or "cluster", r.id) for r in results if r.status not in {Status.PASS, Status.WARN}
    }
    assert passed.isdisjoint(unknown)
    assert read(render_plan(made["plan"]))


def test_formats_of_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action, "make", lambda *_: PLAN)
    printed = {
        words: CliRunner().invoke(cli, ["plan", *words])
        for words in (
            ("--json",),
            ("--format", "json"),
            ("--format", "junit"),
            ("--json", "--format", "junit"),
        )
    }
    assert printed["--json",].output == printed["--format", "json"].output
    assert read(printed["--format", "junit"].output)
    assert printed["--format", "junit"].exit_code == printed["--json",].exit_code == 0
    refused = printed["--json", "--format", "junit"]
    assert refused.exit_code == 2
    assert "--json and --format junit exclude each other" in refused.output
