"""Every command is seen as a whole: its help fits a screen, and it has a dozen options at most."""

from collections.abc import Iterator

import click
import pytest
from click.shell_completion import ShellComplete

from appliance.benchmarks import BENCHMARKS
from appliance.cli.main import cli
from appliance.cli.validate import MEASURED, NAMES

OPTIONS, LINES, COLUMNS = 12, 40, 80


def commands(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            with click.Context(inner, context, name, terminal_width=COLUMNS) as below:
                yield from commands(inner, below)


def options(command: click.Command) -> list[str]:
    """Those that the help shows, without --help itself."""
    shown = (one for one in command.params if isinstance(one, click.Option) and not one.hidden)
    return [one.opts[-1] for one in shown]


def rows(text: str) -> int:
    """The rows on a terminal, which wraps longer lines."""
    return sum(max(1, -(-len(line) // COLUMNS)) for line in text.splitlines())


def offenders(root: click.Group) -> dict[str, tuple[int, int]]:
    """Path of each command that is too large: its options, and the rows of its help."""
    found = {}
    # Click keeps the option --help of each command as the first context names it.
    given = {**root.context_settings, "terminal_width": COLUMNS}
    for context in commands(root, click.Context(root, None, "appliance", **given)):
        size = len(options(context.command)), rows(context.get_help())
        if size[0] > OPTIONS or size[1] > LINES:
            found[context.command_path] = size
    return found


def test_a_command_has_a_dozen_options_and_a_screen_of_help_at_most() -> None:
    assert offenders(cli) == {}


def test_a_command_that_is_too_large_is_named() -> None:
    wide = click.Command("wide", params=[click.Option([f"--o{n}"]) for n in range(13)])
    long = click.Command("long", help="\n\n".join(f"Line {n}." for n in range(20)))
    found = offenders(click.Group("x", commands=[wide, long]))
    assert found["appliance wide"][0] == OPTIONS + 1
    assert found["appliance long"][1] > LINES


def test_the_group_lists_every_benchmark_under_its_title() -> None:
    assert {b.name: b.title for b in BENCHMARKS} == MEASURED


def completed(*words: str) -> list[str]:
    *before, incomplete = words
    found = ShellComplete(cli, {}, "appliance", "_A").get_completions(before, incomplete)
    return [item.value for item in found]


def test_a_shell_completes_the_names_of_validate_and_their_options() -> None:
    assert completed("validate", "") == list(NAMES)
    assert completed("validate", "gpt3-") == ["gpt3-logs", "gpt3-render"]
    assert completed("validate", "dcgm", "--le") == ["--level"]
    assert completed("validate", "--site", "x", "burnin", "--mi") == ["--minutes"]
    assert completed("validate", "fio", "hp") == ["hpcc"]
    assert completed("validate", "--se") == ["--self-test"]
    assert completed("validate", "gpt3", "--inv") == []


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_a_command_of_its_own(name: str) -> None:
    with click.Context(cli.commands["validate"]) as context:
        command = cli.commands["validate"].get_command(context, name)  # type: ignore[attr-defined]
        assert command.get_short_help_str(80).rstrip(".")
        assert "--site" in options(command) or name in {"gpt3-render", "serving-results"}
