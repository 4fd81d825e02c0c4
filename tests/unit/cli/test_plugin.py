"""health as a monitoring plugin: whatever goes wrong, the first line of standard output says it, and the code is 3."""

import sys
from pathlib import Path

import pytest

from appliance.actions.monitoring import health
from appliance.report.monitoring_plugin import is_asked
from tests.support.command_line import run
from tests.support.site_folder import site_folder

__all__ = ["site_folder"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--site", "/no/such/folder"), "/no/such/folder does not exist"),
        (("--hosts", "gpu-99"), "--hosts gpu-99: no such host"),
        (("--nonsense",), "No such option"),
        (("--check", "no.such"), "unknown check: no.such"),
        (("--json",), "--json and --format nagios exclude each other"),
    ],
)
@pytest.mark.parametrize("form", [("--format", "nagios"), ("--format=nagios",)])
def test_errors_of_the_plugin_itself_are_unknown(
    form: tuple[str, ...],
    words: tuple[str, ...],
    says: str,
    site_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(site_folder)
    assert run(monkeypatch, "health", *form, *words) == 3
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("APPLIANCE UNKNOWN - ")
    assert says in first
    assert "|" not in first


@pytest.mark.parametrize(
    "error",
    [ZeroDivisionError("a defect"), PermissionError(13, "Permission denied", "x"), MemoryError()],
)
def test_a_defect_is_unknown_too_and_keeps_its_traceback_apart(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(health, "look", fail)
    assert run(monkeypatch, "health", "--format", "nagios") == 3
    shown = capsys.readouterr()
    assert shown.out.startswith("APPLIANCE UNKNOWN - ")
    assert ("Traceback" in shown.err) == isinstance(error, ZeroDivisionError)


def test_a_plugin_whose_output_is_lost_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(monkeypatch, "health", "--format", "nagios", "--nonsense") == 3
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("line", "is_plugin"),
    [
        ("health --format nagios", True),
        ("health -i x --format=nagios", True),
        ("health --format json", False),
        ("report --format nagios", False),
        ("explain health", False),
    ],
)
def test_only_health_in_that_format_is_one(line: str, is_plugin: bool) -> None:
    assert is_asked(line.split()) is is_plugin
