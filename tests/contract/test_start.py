"""The program reads what a command line needs, and says the same as if it had read everything."""

import json
import os
import subprocess  # noqa: TID251 - a process that has read nothing yet
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete

from appliance.cli import main as program
from appliance.cli.main import cli
from appliance.cli.verbs import VERBS, Commands
from appliance.report import symbols
from appliance.report.ascii_text import ascii_text
from tests.support.command_line import run

ROOT = Path(__file__).parents[2]
HEAVY = {
    *("ansible_runner", "cryptography", "jinja2", "kubernetes"),
    *("paramiko", "rich", "textual", "yaml"),
}
LATE = {"ansible_runner", "jinja2", "kubernetes", "paramiko", "textual"}
"""What is read when a host, a cluster or a template is worked with."""
NEEDED = {"node": {"paramiko"}, "trust": {"paramiko"}}
"""They ask hosts for their keys."""
TELL = """
import json, sys
from appliance.__main__ import main
try:
    main()
finally:
    sys.stderr.write(json.dumps(sorted(sys.modules)))
"""

EXPLAIN = """
import io, json
from contextlib import redirect_stdout
from appliance.cli.main import cli

said = {}
for verb in dict(cli.commands):
    with redirect_stdout(io.StringIO()) as told:
        cli.main([verb, "--help"], prog_name="appliance", standalone_mode=False)
    said[verb] = told.getvalue()
print(json.dumps(said))
"""
BELOW = ("appliance.stages.catalog", "appliance.checks.check", "appliance.config.load")
"""What nearly every verb reads: dear, and no verb itself."""
ALONE = f"""
import importlib, io, json, os, sys
from contextlib import redirect_stdout

for name in {BELOW}:
    importlib.import_module(name)
found = {{"": ["", sorted(sys.modules)]}}
for verb in sys.argv[1:]:
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        with redirect_stdout(io.StringIO()) as told:
            from appliance.cli.main import cli
            cli.main([verb, "--help"], prog_name="appliance", standalone_mode=False)
        with open(writer, "w", encoding="utf-8") as out:
            json.dump([told.getvalue(), sorted(sys.modules)], out)
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as said:
        found[verb] = json.load(said)
print(json.dumps(found))
"""


def fresh(*argv: str, **environment: str) -> tuple[str, set[str]]:
    """What a new process prints for a command line, and the modules it has read for that."""
    done = subprocess.run(
        [sys.executable, "-c", TELL, *argv],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100", **environment},
    )
    return done.stdout, set(json.loads(done.stderr))


def read_of_verbs(modules: set[str]) -> set[str]:
    rooms = ("actions", "engine", "stages", "checks", "config", "lab", "models")
    ours = tuple(f"appliance.{room}" for room in rooms)
    return {name for name in modules if name.startswith(ours)} | (HEAVY & modules)


@pytest.mark.parametrize("argv", [("--version",), ("--help",), ("completion", "bash")])
def test_what_no_verb_is_needed_for_reads_none(argv: tuple[str, ...]) -> None:
    assert read_of_verbs(fresh(*argv)[1]) == set()


def test_names_of_verbs_are_completed_without_reading_them() -> None:
    asked = {"_APPLIANCE_COMPLETE": "bash_complete", "COMP_WORDS": "appliance p", "COMP_CWORD": "1"}
    code = TELL.replace("main()\n", "sys.argv[0] = 'appliance'; main()\n")
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **asked},
    )
    assert done.stdout.split() == [
        "plain,plan",
        "plain,power",
        "plain,profile",
        "plain,provision",
    ]
    assert read_of_verbs(set(json.loads(done.stderr))) == set()


def test_the_door_to_ssh_reads_neither_what_paramiko_could_do_without_nor_the_rack() -> None:
    """What a verb on a site of one's own reads before it asks a host."""
    code = "import json, sys; import appliance.actions.monitoring.health, appliance.adapters.ssh; print(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    modules = set(json.loads(done.stdout))
    assert "paramiko" in modules
    assert not modules & {"asyncio", "unittest.mock", "urllib.request", "appliance.lab.rack"}


def listed(group: click.Group) -> str:
    context = click.Context(group, info_name="appliance", terminal_width=80)
    return group.get_help(context).partition("Commands:")[2]


def test_the_list_of_verbs_is_that_of_the_verbs_themselves() -> None:
    plain = click.Group("cli", commands=dict(cli.commands), params=cli.params, help=cli.help)
    plain.context_settings = cli.context_settings
    assert listed(cli) == listed(plain)
    for group in (cli, plain):
        assert [c.name for c in group.commands.values()] == list(VERBS)
    items = [
        [
            (item.value, item.help)
            for item in ShellComplete(group, {}, "a", "_A").get_completions([], "")
        ]
        for group in (cli, plain)
    ]
    assert items[0] == items[1]


def told(code: str, *argv: str) -> Any:
    """What a new process says in JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code, *argv],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100"},
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def among_all() -> dict[str, str]:
    """What each verb says of itself in a process that has read all of them."""
    found: dict[str, str] = told(EXPLAIN)
    return found


@pytest.fixture(scope="module")
def alone() -> dict[str, tuple[str, list[str]]]:
    """What each verb says in a process that has read no other, and what that has read; "" for what lies below all verbs."""
    found: dict[str, tuple[str, list[str]]] = told(ALONE, *VERBS)
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_read_alone_explains_itself_as_among_all_others(
    verb: str, among_all: dict[str, str], alone: dict[str, tuple[str, list[str]]]
) -> None:
    shown, modules = alone[verb]
    assert shown == among_all[verb]
    assert shown.startswith(f"Usage: appliance {verb} ")
    assert not [name for name in alone[""][1] if name.startswith("appliance.cli")]
    others = {f"appliance.cli.{other}" for other in VERBS} - {f"appliance.cli.{verb}"}
    assert not others & set(modules)
    assert LATE & set(modules) <= NEEDED.get(verb, set())


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process, as far as verb explain goes."""
    monkeypatch.setattr(cli, "commands", Commands())
    monkeypatch.delitem(sys.modules, "appliance.cli.explain", raising=False)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "\nInterrupted; nothing was changed.\n"),
        (ImportError("no such thing"), 1, "the program cannot start: no such thing\n  fix: "),
        (OSError(24, "Too many open files"), 1, "Too many open files\n  fix: raise the limits"),
        (MemoryError(), 1, "the program cannot start: not enough memory\n  fix: "),
    ],
)
def test_a_verb_that_cannot_be_read_is_told_in_lines(
    error: BaseException,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Reading:
        def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
            if name == "appliance.cli.explain":
                raise error
            return None

    monkeypatch.setattr(sys, "meta_path", [Reading(), *sys.meta_path])
    assert run(monkeypatch, "explain") == code
    assert says in capsys.readouterr().err


@pytest.mark.usefixtures("unread")
def test_a_defect_of_a_verbs_module_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reading:
        def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
            if name == "appliance.cli.explain":
                raise KeyError("defect")
            return None

    monkeypatch.setattr(sys, "meta_path", [Reading(), *sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["appliance", "explain"])
    with pytest.raises(KeyError, match="defect"):
        program.main()


def test_every_sign_has_its_stand_in_in_texts() -> None:
    signs = (*symbols.STATUS.values(), *symbols.STATE.values(), *symbols.VERDICT.values())
    assert {s.mark for s in signs if ascii_text(s.mark) != s.plain} <= {"·"}
