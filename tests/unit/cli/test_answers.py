"""The answer of a verb that looks is among its first five lines; of a verb that people watch, among its last five."""

import io
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from appliance.journal import Journal
from appliance.models.queue_plan import Change, QueuePlan, Step
from appliance.models.result import CheckResult, Status, Verdict, overall
from appliance.models.run import RunRecord
from appliance.report.console import health_view, plan_table, run_summary
from appliance.report.console.queues import plan_lines
from appliance.report.findings import findings
from tests.golden.record import SITES, at_work
from tests.golden.record import documents as recorded
from tests.support.command_line import run
from tests.support.gpt3_logs import DATA
from tests.support.left_reports import leave
from tests.support.site_files import ready_site

NEAR = 5
Say = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Exit code and lines of a command, typed in a folder without a site."""
    monkeypatch.chdir(tmp_path)

    def typed(*words: str) -> tuple[int, list[str]]:
        code = run(monkeypatch, *words)
        return code, capsys.readouterr().out.splitlines()

    return typed


def printed(show: Callable[[Console], object]) -> list[str]:
    text = io.StringIO()
    show(Console(file=text, width=100))
    return [line for line in text.getvalue().splitlines() if line.strip()]


def has(lines: list[str], word: str) -> bool:
    return any(word in line for line in lines)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    shutil.copytree(DATA, tmp_path / "logs")
    return tmp_path / "logs"


def test_logs_are_judged_without_a_site_and_the_verdict_is_first(logs: Path, say: Say) -> None:
    code, lines = say("validate", "gpt3-logs", str(logs))
    assert has(lines[:NEAR], "checks passed")
    word, of_code = lines[0].split(":")[0].strip(), {0: "PASSED", 1: "FAILED", 3: "INCOMPLETE"}
    assert word == of_code[code]
    assert not has(lines, "as printed in the first paper")
    assert "--details prints them" in lines[-1]


def test_details_print_the_tables_after_the_verdict(logs: Path, say: Say) -> None:
    code, lines = say("validate", "gpt3-logs", str(logs), "--details")
    assert code == say("validate", "gpt3-logs", str(logs))[0]
    assert has(lines[:NEAR], "checks passed")
    assert len(lines) > 20


def test_logs_that_fail_give_their_exit_code(logs: Path, say: Say) -> None:
    (logs / "runs.yml").unlink()
    code, lines = say("validate", "gpt3-logs", str(logs))
    assert code == 3
    assert "INCOMPLETE" in lines[0]


def test_logs_of_a_site_come_verdict_first(logs: Path, say: Say, tmp_path: Path) -> None:
    site = ready_site(tmp_path / "site")
    code, lines = say("validate", "gpt3-logs", str(logs), "--site", str(site))
    assert has(lines[:NEAR], {0: "Passed.", 1: "FAILED.", 3: "INCOMPLETE."}[code])
    assert not has(lines, "as printed in the first paper")


def test_the_self_test_begins_with_its_sum(say: Say) -> None:
    _, lines = say("validate", "--self-test", "--profile", "balanced")
    assert "0 accepted" in lines[0]


@pytest.mark.parametrize(
    ("verdict", "word"), [(Verdict.PASSED, "Deployed."), (Verdict.FAILED, "FAILED.")]
)
def test_a_report_begins_with_its_verdict(
    verdict: Verdict, word: str, say: Say, tmp_path: Path
) -> None:
    leave(tmp_path / "runs", "r1", verdict)
    _, lines = say("report", "--site", str(tmp_path))
    assert has(lines[:NEAR], word)


def test_the_last_run_is_the_first_of_the_history(say: Say, tmp_path: Path) -> None:
    site = ready_site(tmp_path / "site")
    with Journal(site / "runs") as journal:
        for name in ("r1", "r2", "r3", "r4", "r5", "r6", "r7"):
            journal.append(name, "run_started", verb="deploy")
    _, lines = say("history", "--site", str(site))
    assert lines[0].endswith("r7")


def test_a_plan_of_queues_begins_with_its_sum() -> None:
    changes = tuple(
        Change(step=Step.CREATE, kind="Queue", name=str(n), title=str(n)) for n in range(9)
    )
    plan = QueuePlan(site="acme", server="x", digest="d", changes=changes, unchanged=2)
    assert next(plan_lines(plan)) == "  9 to create (2 as described)"


@pytest.mark.parametrize("name", SITES)
def test_plan_and_health_of_a_recorded_site_begin_with_the_answer(
    name: str, tmp_path: Path
) -> None:
    with at_work(name, tmp_path) as site:
        made = recorded(site)
    plan, results = made["plan"], made["results"]
    lines = printed(lambda console: plan_table(console, plan))
    assert has(lines[:NEAR], "to change")

    def health(console: Console) -> None:
        health_view(console, "acme", results, findings(results), hosts=5)

    lines = printed(health)
    assert has(lines[:1], overall(results).value.upper())


def test_a_run_that_was_watched_ends_with_its_verdict(tmp_path: Path) -> None:
    leave(tmp_path, "r1", Verdict.FAILED)
    record = RunRecord.model_validate_json((tmp_path / "r1" / "report.json").read_text())
    many = tuple(
        CheckResult(
            id=f"gpu.check{n}", target="gpu-1", host="gpu-1", status=Status.FAIL, cause="x", fix="y"
        )
        for n in range(30)
    )
    offers = [(f"offer {n}", "text") for n in range(9)]

    def show(console: Console) -> None:
        run_summary(
            console,
            record.model_copy(update={"results": many}),
            "report.html",
            "appliance health",
            offers=offers,
        )

    assert has(printed(show)[-NEAR:], "FAILED.")
