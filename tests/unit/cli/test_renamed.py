"""Former names of options and commands work, with one line of warning; new ones are the only ones shown."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from appliance.actions.benchmarks import gpt3_logs
from appliance.actions.benchmarks import validate as action
from appliance.cli.renamed import renamed
from appliance.cli.settings import Setting, set_options, settled
from appliance.errors import ConfigError
from tests.support.command_line import run
from tests.support.site_files import ready_site

SETTINGS = (
    Setting("repeats", 3, click.INT),
    Setting("keep", False, click.BOOL),
    Setting("evict", many=True),
)


def typed(params: tuple[click.Option, ...], *words: str) -> Result:
    """What a command with these options prints of its values."""
    command = click.Command("x", params=list(params), callback=lambda **given: click.echo(given))
    return CliRunner().invoke(command, words)


HOSTS = renamed("--limit", "--hosts", "hosts", multiple=True)
SITE = renamed("--inventory", "-s", "--site", "site", short="-i", type=click.Path(path_type=Path))


@pytest.mark.parametrize("words", [("--limit", "a"), ("--limit=a",)])
def test_the_old_name_gives_the_value_and_one_line(words: tuple[str, ...]) -> None:
    done = typed(HOSTS, *words)
    assert done.stdout == "{'hosts': ('a',)}\n"
    assert (
        done.stderr == "warning: --limit is now --hosts; the old name works until version 0.3.0\n"
    )


def test_both_names_of_a_repeatable_option_add_up() -> None:
    assert typed(HOSTS, "--limit", "a", "--hosts", "b").stdout == "{'hosts': ('b', 'a')}\n"


def test_the_new_name_warns_of_nothing() -> None:
    done = typed(SITE, "-s", "x")
    assert (done.stderr, done.exit_code) == ("", 0)
    assert "PosixPath('x')" in done.stdout


def test_both_names_of_one_value_are_refused() -> None:
    done = typed(SITE, "-i", "x", "--site", "y")
    assert done.exit_code == 2
    assert "--inventory and --site are the same option: give one" in done.stderr


def test_help_shows_the_new_name_alone() -> None:
    said = typed(SITE, "--help").stdout
    assert "--site" in said
    assert "inventory" not in said


def values(*words: str) -> tuple[dict[str, Any], Result]:
    found: dict[str, Any] = {}

    def keep(**given: Any) -> None:
        found.update(settled(given, SETTINGS))

    command = click.Command("x", params=list(set_options(SETTINGS)), callback=keep)
    return found, CliRunner().invoke(command, words)


def test_settings_have_defaults_and_are_set_by_key() -> None:
    assert values()[0] == {"repeats": 3, "keep": False, "evict": ()}
    words = ("--set", "repeats=5", "--set", "keep=yes", "--set", "evict=/a", "--set", "evict=/b")
    found, done = values(*words)
    assert found == {"repeats": 5, "keep": True, "evict": ("/a", "/b")}
    assert done.stderr == ""


def test_the_former_option_of_a_setting_works_and_names_the_key() -> None:
    found, done = values("--repeats", "5", "--keep")
    assert found["repeats"] == 5
    assert found["keep"]
    assert done.stderr.splitlines() == [
        "warning: --repeats works until version 0.3.0: use --set repeats=VALUE",
        "warning: --keep works until version 0.3.0: use --set keep=yes",
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--set", "speed=1"), "keys: repeats, keep, evict"),
        (("--set", "repeats=many"), "'many' is not a valid integer"),
        (("--set", "repeats=1", "--set", "repeats=2"), "repeats is given twice"),
    ],
)
def test_a_setting_that_is_none_is_refused(words: tuple[str, ...], told: str) -> None:
    done = values(*words)[1]
    assert done.exit_code == 2
    assert told in done.stderr


@pytest.mark.parametrize(
    ("words", "now"),
    [
        (("gpt3", "--from-logs", "{folder}", "--model", "5b"), "gpt3-logs"),
        (("--from-logs", "{folder}", "gpt3"), "gpt3-logs"),
        (("gpt3", "--from-logs={folder}"), "gpt3-logs"),
        (("gpt3", "--table"), "gpt3-logs --table"),
        (("serving", "--table"), "serving-results --table"),
        (("gpt3", "--render", "{folder}/jobs", "--model", "5b"), "gpt3-render"),
    ],
)
def test_an_option_that_is_a_command_now_runs_it(
    words: tuple[str, ...],
    now: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def read(*_: object) -> object:
        raise ConfigError("the logs were read", "")

    monkeypatch.setattr(gpt3_logs, "read_logs", read)
    code = run(monkeypatch, "validate", *(word.format(folder=tmp_path) for word in words))
    said = capsys.readouterr()
    assert f" is now: appliance validate {now}; the old form works until" in said.err
    assert ("the logs were read" in said.err) == (now == "gpt3-logs")
    assert code == (2 if now == "gpt3-logs" else 0)


@pytest.mark.parametrize(
    ("words", "names", "settings"),
    [
        (("storage", "fio"), ("storage", "fio"), {}),
        (("storage", "--profile", "hpc", "fio"), ("storage", "fio"), {}),
        (("--profile", "hpc", "fio"), ("fio",), {}),
        (("dcgm", "fio", "--level", "3"), ("dcgm", "fio"), {"dcgm": {"level": 3}}),
        (("--level", "3", "dcgm"), ("dcgm",), {"dcgm": {"level": 3}}),
        (("burnin", "--minutes", "5"), ("burnin",), {"burnin": {"minutes": 5}}),
        ((), (), {}),
    ],
)
def test_names_and_options_are_taken_in_any_order(
    words: tuple[str, ...],
    names: tuple[str, ...],
    settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []

    def noted(*arguments: Any) -> None:
        given.extend(arguments)
        raise ConfigError("far enough", "")

    monkeypatch.setattr(action, "validate", noted)
    site = ready_site(tmp_path / "site")
    assert run(monkeypatch, "validate", *words, "--site", str(site)) == 2
    assert given[1] == names
    assert {name: given[4][name] for name in settings} == settings
