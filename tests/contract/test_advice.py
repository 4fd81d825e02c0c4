"""Every command the program, its roles and its documents advise exists, and is one the command line takes."""

import ast
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import click
import pytest

from appliance.cli.main import cli
from appliance.report.advice import WITH_SITE

ROOT = Path(__file__).parents[2]
HOLE = "\0"
"""Where an f-string puts a value."""
START = re.compile(r"(?<![\w./@-])appliance (?=[a-z])")
WORD = re.compile(r"[^\s]+")
PLACEHOLDER = re.compile(
    r"\0|[A-Z][A-Z|0-9_-]*|\{+[^}]*\}+|<[^>]+>|\[[^\]]*\]|\$\{?\w+\}?|\.\.\.|…"
)
NO_COMMAND = frozenset(
    {"authors", "cordoned", "has", "is", "lab \0", "makes", "program", "that", "would"}
)
"""Words behind the name of the product where it is the subject of a sentence."""
CLOSERS = ".,;:)`'\"!?"
ENDS = tuple('.,;:)`"')


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Literals with the line they stand on, f-strings with their holes; no docstrings."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        if isinstance(node, ast.JoinedStr):
            parts = (str(v.value) if isinstance(v, ast.Constant) else HOLE for v in node.values)
            yield node.lineno, "".join(parts)


def said() -> Iterator[tuple[str, str]]:
    """Place and text behind "appliance ", wherever the repository tells people what to type."""
    for folder in ("appliance", "playbooks", "boards"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for line, text in strings(ast.parse(file.read_text())):
                yield from _in(file, line, text)
    for pattern in ("roles/**/*.yml", "playbooks/**/*.yml", "roles/**/*.j2", "profiles/*.yml"):
        for file in sorted(ROOT.glob(pattern)):
            for line, text in enumerate(file.read_text().splitlines(), 1):
                yield from _in(file, line, text)


def _in(file: Path, line: int, text: str) -> Iterator[tuple[str, str]]:
    for found in START.finditer(text):
        rest = text[found.end() :].partition("\n")[0]
        if not re.match(rf"(?:{'|'.join(NO_COMMAND)})(?!\\w)", rest):
            yield f"{file.relative_to(ROOT)}:{line}", rest


def documents() -> Iterator[tuple[str, str]]:
    """Commands in code of README, docs and roles: in backticks, or at the beginning of a line of a block."""
    files = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
    for file in (*files, *sorted(ROOT.glob("roles/*/README.md"))):
        in_block = False
        for line, text in enumerate(file.read_text().splitlines(), 1):
            in_block ^= text.startswith("```")
            place = f"{file.relative_to(ROOT)}:{line}"
            if in_block and (found := re.match(r"\s*(?:\$ )?(?:sudo )?appliance (.*)", text)):
                yield place, re.split(r"\s{2,}|\s#", found[1].strip())[0]
            elif not in_block:
                for code in re.findall(r"`(?:sudo )?appliance ([^`]+)`", text):
                    yield place, code


def command_of(words: list[str]) -> tuple[click.Command, list[str], click.Context]:
    """The command these words begin with, and what follows. Raises UsageError where there is none."""
    context = click.Context(cli, info_name="appliance")
    found: click.Command = cli
    rest = list(words)
    while isinstance(found, click.Group):
        if not rest:
            raise click.UsageError(f"{found.name} needs a command")
        name = rest[0].rstrip(CLOSERS)
        if found.invoke_without_command and PLACEHOLDER.fullmatch(name):
            name = "fio"
        got = found.get_command(context, name)
        if got is None and found.invoke_without_command and name.startswith("-"):
            break
        if got is None:
            raise click.UsageError(f"no command {name}")
        context = click.Context(got, parent=context, info_name=name)
        found = got
        ended = rest[0].endswith(ENDS)
        rest = [] if ended else rest[1:]
    return found, rest, context


def of_prose(text: str) -> list[str]:
    """The words of the command at the beginning of a sentence: up to punctuation, or the first word no option takes.

    A command whose last argument takes any number of names takes every word up to punctuation: so must its writer.
    """
    words = WORD.findall(re.split(r"</|<root", text)[0])
    if words[0][-1] in ENDS:
        return [words[0].rstrip(CLOSERS)]
    try:
        found, rest, _ = command_of(words)
    except click.UsageError:
        return [word.rstrip(CLOSERS) for word in words[:2]]
    begun = words[: len(words) - len(rest)]
    if begun[-1].endswith(ENDS):
        return [*begun[:-1], begun[-1].rstrip(CLOSERS)]
    places = sum(
        99 if p.nargs == -1 else p.nargs for p in found.params if isinstance(p, click.Argument)
    )
    flags = {name: p for p in found.params if isinstance(p, click.Option) for name in p.opts}
    taken: list[str] = []
    wants = 0
    for word in rest:
        bare = word.rstrip(CLOSERS) or word
        if wants:
            wants -= 1
        elif bare.startswith("-"):
            option = flags.get(bare)
            wants = 0 if option is None or option.is_flag else option.nargs
        elif places:
            places -= 1
        else:
            break
        taken.append(bare)
        if word != bare and word[-1] in ENDS:
            break
    return [*begun, *taken]


def parsed(words: list[str], place: Path) -> None:
    """Raises UsageError where the command line does not take these words; nothing is run.

    A name without anything behind it speaks of the command, or of a group of them.
    """
    if words[0].startswith("-"):
        with suppress(click.exceptions.Exit):
            cli.make_context("appliance", words)
        return
    if len(words) == 1 and words[0] in cli.commands:
        return
    if not command_of(words)[1]:
        return
    words_of_choice = ("gpu-1", "3", "hpc", "slurm", "base", "gpu", "gpt3", "kubernetes", "ecc")
    values = (*words_of_choice, "10.0.0.0/24", "2027-01-31", str(place), str(place / "file"))
    holes = [index for index, word in enumerate(words) if PLACEHOLDER.search(word)]
    error = click.UsageError("too many placeholders")
    for chosen in product(values, repeat=min(len(holes), 3)):
        filled = list(words)
        for index, value in zip(holes, chosen, strict=False):
            filled[index] = PLACEHOLDER.sub(value, words[index], count=1)
        try:
            found, rest, context = command_of([w for w in filled if w])
            found.make_context(found.name, rest, parent=context.parent).close()
        except click.exceptions.Exit:
            return
        except click.UsageError as wrong:
            error = wrong
        else:
            return
    raise error


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "file").touch()
    return tmp_path


def test_every_command_the_program_advises_is_taken_by_the_command_line(place: Path) -> None:
    wrong = []
    seen = list(said())
    assert len(seen) > 150
    for where, text in seen:
        words = of_prose(text)
        try:
            parsed(words, place)
        except click.UsageError as error:
            wrong.append(f"{where}: appliance {' '.join(words)}: {error.format_message()}")
    assert wrong == []


def test_every_command_in_the_documents_is_taken_by_the_command_line(place: Path) -> None:
    wrong = []
    seen = list(documents())
    assert len(seen) > 100
    for where, text in seen:
        try:
            parsed(shlex.split(text, comments=True), place)
        except (click.UsageError, ValueError) as error:
            wrong.append(f"{where}: appliance {text}: {error}")
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        "validate single on each host, then the pairs",
        "support-case",
        "deploy --only gpu",
        "mig divide; then deploy",
        "deploy --stage driver",
    ],
)
def test_command_that_does_not_exist_is_found(text: str, place: Path) -> None:
    with pytest.raises(click.UsageError):
        parsed(of_prose(text), place)


def opts(command: click.Command) -> set[str]:
    return {opt for param in command.params for opt in param.opts}


def commands(group: click.Group, *before: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group) and not command.invoke_without_command:
            yield from commands(command, *before, name)
        else:
            yield " ".join((*before, name)), command


def test_advice_names_the_site_for_every_command_that_takes_one_and_no_other() -> None:
    takes = {name for name, command in commands(cli) if {"--site", "--profile"} <= opts(command)}
    some = {
        name
        for name, command in commands(cli)
        if any(param.name == "inventory" for param in command.params)
    }
    assert takes == some == WITH_SITE
