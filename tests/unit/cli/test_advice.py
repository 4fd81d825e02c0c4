"""Advice is pasted into a shell: it acts on the site it speaks of, in every format and from every folder."""

import json
import re
import shlex
from pathlib import Path

import click
import pytest

from appliance.actions.monitoring import health as action
from appliance.actions.monitoring.health import Health
from appliance.cli.main import cli
from appliance.engine.look.gather import Round
from appliance.engine.look.run_record import Findings, record_of, save
from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.models.result import CheckResult, Status
from appliance.models.run import StageOutcome, StageState
from appliance.report.advice import Address, addressed
from tests.support.command_line import run
from tests.support.engine_session import hosts, recorder, session
from tests.support.left_reports import leave

__all__ = ["hosts", "recorder", "session"]

SITE = "my site"
FIX = "appliance deploy --hosts gpu-1; then appliance health --check gpu"
RESULT = CheckResult(
    id="stage.gpu", target="gpu-1", status=Status.FAIL, cause="it is not finished", fix=FIX
)


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site elsewhere, whose folder's name needs quotes; its health is bad."""
    (tmp_path / SITE).mkdir()
    monkeypatch.chdir(tmp_path)
    seen = Health("acme", 1, 0.1, (), (RESULT,), {})
    monkeypatch.setattr(action, "look", lambda *_, **__: seen)
    return tmp_path / SITE


def pasted(text: str) -> list[click.Context]:
    """The commands in ``text``, as the command line understands them."""
    found = []
    for part in re.findall(r"appliance (?:deploy|health|validate)[^;\n|]*", text):
        verb, *words = shlex.split(part)[1:]
        found.append(cli.commands[verb].make_context(verb, words))
    return found


@pytest.mark.parametrize("flags", [(), ("--json",), ("--format", "nagios")])
def test_a_fix_that_health_prints_addresses_the_site_it_judged(
    flags: tuple[str, ...],
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    run(monkeypatch, "health", "--site", SITE, "--profile", "hpc", *flags)
    shown = capsys.readouterr().out
    fix = json.loads(shown)["results"][0]["fix"] if "--json" in flags else shown.split("fix: ")[1]
    first, second = pasted(fix.partition("\n")[0])
    assert {c.params["profile"] for c in (first, second)} == {"hpc"}
    assert first.params["limit"] == ("gpu-1",)
    for context in (first, second):
        assert context.params["inventory"].resolve() == site
        assert context.params["inventory"].is_absolute() == bool(flags)


def test_an_error_names_the_site(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ApplianceError(
            "gpu-1 shows another key", "compare it, then: appliance trust", "gpu-1"
        )

    monkeypatch.setattr(action, "look", fail)
    run(monkeypatch, "health", "--site", SITE)
    assert "then: appliance trust --site 'my site'\n" in capsys.readouterr().err


def test_without_an_inventory_advice_is_for_the_embedded_rack(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    run(monkeypatch, "health", "--site", SITE)
    run(monkeypatch, "health")
    assert capsys.readouterr().out.count(FIX) == 1


def test_a_report_names_the_site_by_its_whole_path(site: Path, session: Session) -> None:
    object.__setattr__(session, "address", Address(Path(SITE)).absolute())
    failed = StageOutcome(
        stage="fabric", host="gpu-1", state=StageState.FAILED, cause="x", fix="appliance deploy"
    )
    record = record_of(session, Round({}, {}), Findings(results=[RESULT], outcomes=[failed]))
    save(session, record)
    command = f"appliance deploy --site {shlex.quote(str(site))}"
    kept = json.loads((session.folder_of_run / "report.json").read_text())
    assert [r["fix"] for r in kept["results"]] == [
        command,
        f"{command} --hosts gpu-1; then appliance health --site {shlex.quote(str(site))} --check gpu",
    ]
    assert kept["outcomes"][0]["fix"] == command
    page = (session.folder_of_run / "report.html").read_text()
    assert page.count("appliance deploy --site") >= 2
    assert "appliance deploy --hosts" not in page


def test_a_report_of_another_time_is_shown_with_the_site_it_is_asked_for(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leave(site / "runs", "r1")
    assert run(monkeypatch, "report", "--site", SITE, "--run", "r9") == 2
    assert "appliance report --site 'my site' --list" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("appliance deploy", "appliance deploy -S"),
        (
            "appliance mig plan, then appliance mig apply",
            "appliance mig plan -S, then appliance mig apply -S",
        ),
        (
            "appliance deploy --site other; appliance plan",
            "appliance deploy --site other; appliance plan -S",
        ),
        ("appliance deploy --stage gpu -i other", "appliance deploy --stage gpu -i other"),
        ("(appliance health)", "(appliance health -S)"),
        ("appliance explain gpu.ecc", "appliance explain gpu.ecc"),
        ("appliance lab up", "appliance lab up"),
        ("/opt/appliance deploy", "/opt/appliance deploy"),
        ("the appliance deployed it", "the appliance deployed it"),
        ("appliance report-list", "appliance report-list"),
    ],
)
def test_only_commands_that_take_a_site_and_name_none_are_given_one(text: str, made: str) -> None:
    site = Address(Path("a b"))
    words = "--site 'a b'"
    assert addressed(text, site) == made.replace("-S", words)
    assert addressed(addressed(text, site), site) == made.replace("-S", words)
    assert addressed(text, Address()) == text
