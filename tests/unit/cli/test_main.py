"""The program's edges: exit codes, one-line errors, nothing contacted when the input is wrong."""

import errno
import signal
import subprocess  # noqa: TID251 - the program itself, printing to a full device
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import click
import pytest

from appliance import __main__ as entry
from appliance.cli import main as program
from appliance.cli.main import cli
from appliance.errors import ApplianceError, ConfigError
from appliance.lab import faults
from tests.support.command_line import run
from tests.support.left_reports import leave

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("verb", sorted(cli.commands))
def test_every_verb_explains_itself(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, verb, "--help") == 0
    assert "Usage: appliance" in capsys.readouterr().out


def groups(group: click.Group) -> Iterator[click.Group]:
    yield group
    for command in group.commands.values():
        if isinstance(command, click.Group):
            yield from groups(command)


@pytest.mark.parametrize("group", list(groups(cli)), ids=lambda group: group.name)
def test_what_a_command_does_fits_in_its_line_on_80_columns(group: click.Group) -> None:
    context = click.Context(group, info_name="appliance", terminal_width=80)
    assert "..." not in group.get_help(context).partition("Commands:")[2]


def test_readme_names_every_verb() -> None:
    text = (ROOT / "README.md").read_text()
    assert [v for v in cli.commands if f"`appliance {v}`" not in text] == []


@pytest.mark.parametrize(
    "argv",
    [
        ("deploy", "--stage", "nonsense"),
        ("deploy", "--stage", "base", "--until", "slurm", "--yes"),
        ("deploy", "--no-such-flag"),
        ("validate", "nonsense"),
        ("validate", "slurm", "--from-logs", "."),
        ("validate", "scheduler", "--from-logs", "."),
        ("validate", "storage", "--prometheus", "http://10.0.0.1:9090"),
        ("validate", "slurm", "--clean"),
        ("validate", "workloads", "--gpu-image", "x"),
        ("health", "--format", "prometheus", "--json"),
        ("health", "--check", "gpu.nothing"),
        ("report", "--site", "/no/such/folder"),
        ("trust",),
        ("plan", "--site", "/no/such/folder"),
        ("explain", "no.such.check"),
        ("profile", "show", "no-such-class"),
    ],
)
def test_unusable_input_is_exit_2_without_a_traceback(
    argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *argv) == 2
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    assert shown.err.strip()


def test_a_report_goes_where_it_can_be_written_and_a_damaged_one_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leave(tmp_path / "runs", "r1")
    leave(tmp_path / "runs", "r2")
    of_site = ("report", "--site", str(tmp_path))
    assert run(monkeypatch, *of_site, "--output", str(tmp_path / "none" / "x.html")) == 2
    assert "cannot be written (No such file or directory)" in capsys.readouterr().err
    assert run(monkeypatch, *of_site, "--run", "r9") == 2
    (tmp_path / "runs" / "r1" / "report.json").write_text("{")
    assert run(monkeypatch, *of_site, "--list") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("r1/report.json cannot be read: it is not a record of a run")
    assert second.startswith("r2  ")


def test_a_report_goes_to_no_path_that_is_none_and_runs_nobody_may_read_are_not_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leave(tmp_path / "runs", "r1")
    of_site = ("report", "--site", str(tmp_path))
    (tmp_path / "loop").symlink_to("loop")
    assert run(monkeypatch, *of_site, "--output", str(tmp_path / "loop")) == 2
    assert "cannot be written (Too many levels" in capsys.readouterr().err

    def closed(folder: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", closed)
    assert run(monkeypatch, *of_site, "--list") == 1
    assert "runs cannot be read (Permission denied)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [("plan", "--site"), ("report", "--site"), ("profile", "validate")]
)
def test_a_path_that_cannot_be_is_told_in_a_line(
    argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *argv, "a" * 300) in (1, 2)
    assert "File name too long" in capsys.readouterr().err


def test_explain_tells_the_limit_of_a_check_and_what_explains_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "explain", "gpu.temperature") == 0
    said = capsys.readouterr().out
    assert "\nlimit: the GPU's own slowdown threshold" in said
    assert "limit gpu.temperature: in °C, above 20, below 120" in said
    assert said.endswith("  gpu.driver             without a driver no GPU can be queried\n")
    assert run(monkeypatch, "explain", "fio.scratch_random_read") == 0
    assert "\nlimit: limit fio.scratch_random_read: in IOPS, above 0\n" in capsys.readouterr().out
    assert run(monkeypatch, "explain", "slurm.watch") == 0
    assert "\n  checks that it lists   the host's own watch" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("host.reachable", "Usual causes: power, cable"),
        ("host.receipts", "/var/lib/appliance/receipts"),
        ("bmc.reachable", "hosts[].bmc"),
        ("stage.slurm", "The next deployment continues with it."),
    ],
)
def test_explain_tells_of_every_id_a_look_shows(
    name: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "explain", name) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{name}: ")
    assert says in said


@pytest.mark.parametrize("argv", [("explain", "gpu.ec"), ("health", "--check", "gpu.ec")])
def test_a_check_that_was_mistyped_is_guessed(
    argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *argv) == 2
    assert 'did you mean "gpu.ecc"?' in capsys.readouterr().err


def test_nobody_to_ask_means_nothing_is_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", (ROOT / "README.md").open())
    assert run(monkeypatch, "deploy", "--site", "/no/such/folder") == 2
    assert "--yes" in capsys.readouterr().err
    sys.stdin.close()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApplianceError("the disk is full", "free some", "gpu-1"), 1),
        (ConfigError("no such site", "make one"), 2),
        (PermissionError(13, "Permission denied", "runs/x"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_end_in_their_code_with_cause_and_remedy(
    error: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "main", fail)
    assert run(monkeypatch) == code
    said = capsys.readouterr().err
    if isinstance(error, OSError):
        assert said.startswith("runs/x: Permission denied\n  fix: ")
    if isinstance(error, ApplianceError):
        assert error.message in said
        assert f"fix: {error.hint}" in said


@pytest.mark.parametrize(
    ("cause", "says"),
    [(KeyboardInterrupt(), "the same command continues"), (None, "nothing was changed")],
    ids=["at work", "at a question"],
)
def test_interrupt_at_a_question_is_told_from_one_at_work(
    cause: BaseException | None,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(**_: object) -> None:
        raise click.exceptions.Abort from cause

    monkeypatch.setattr(cli, "main", fail)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert run(monkeypatch) == 130
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "completion", shell) == 0
    assert "_APPLIANCE_COMPLETE" in capsys.readouterr().out


def test_output_that_finds_no_room_is_one_line_and_no_success() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "appliance", "profile", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=ROOT,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("standard output: No space left on device")


def test_interrupt_while_the_program_is_read_ends_it_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Reading:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "appliance.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "appliance.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Reading(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "\nInterrupted; nothing was changed.\n"


def test_the_program_begins_where_an_interrupt_is_caught() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {name: resolve_name(place) for name, place in scripts.items()} == {
        "appliance": entry.main
    }


def test_a_question_that_gets_no_answer_is_no_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise click.exceptions.Abort from None

    monkeypatch.setattr(cli, "main", fail)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    assert run(monkeypatch) == 2
    assert "standard input ended before the question was answered" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (OSError(errno.ENOSPC, "No space left on device"), "/dev/shm"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), "/x: no space left"),
        (MemoryError(), "not enough memory"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (FileNotFoundError(2, "No such file or directory"), "the current folder no longer exists"),
        (FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"), "TMPDIR"),
    ],
)
def test_what_the_machine_refuses_is_a_line_and_a_remedy(
    error: Exception,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "main", fail)
    assert run(monkeypatch) == 1
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 2


def test_a_host_is_named_before_what_is_said_of_it_unless_it_is_named_already() -> None:
    error = ApplianceError("it is down", "", "head")
    assert error.told_of() == error.told_of("gpu-1") == "head: it is down"
    assert error.told_of("head") == "it is down"
    assert ApplianceError("no host's").told_of("gpu-1") == "no host's"


@pytest.mark.parametrize("error", [RuntimeError("a defect"), FileNotFoundError(2, "no", "x")])
def test_a_defect_keeps_its_traceback(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "main", fail)
    monkeypatch.setattr(sys, "argv", ["appliance"])
    with pytest.raises(type(error)):
        program.main()


def test_the_kinds_of_faults_stand_apart_from_what_they_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "lab", "fault", "--list") == 0
    shown = capsys.readouterr().out.splitlines()
    for fault in faults.FAULTS:
        words = f"  {fault.kind} {fault.arguments}".rstrip()
        assert any(line.strip().startswith(f"{words.strip()}  ") for line in shown), words


def test_a_crash_of_the_interpreter_says_where_it_was() -> None:
    crashing = (
        "import os, signal, sys; from appliance.__main__ import main\n"
        "sys.argv = ['appliance', '--version']\n"
        "try: main()\n"
        "finally: os.kill(os.getpid(), signal.SIGSEGV)"
    )
    done = subprocess.run((sys.executable, "-c", crashing), capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in done.stderr
    assert "most recent call first" in done.stderr
