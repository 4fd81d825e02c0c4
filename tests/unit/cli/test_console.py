"""Verb console: without a terminal it is health, without Textual one line."""

import fcntl
import importlib.util
import os
import pty
import re
import select
import signal
import struct
import subprocess  # noqa: TID251 - starts the program in a terminal of its own
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from appliance.actions.monitoring import health
from appliance.actions.monitoring.health import Health
from appliance.cli import console as verb
from appliance.models.result import CheckResult, Status
from tests.support import command_line

ROOT = Path(__file__).parents[3]
SHOWS = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from appliance.console.app import show
from tests.golden.console import known
show(known(), ascii_only=False)
"""
COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Status], None]:
    """What the hosts answer."""

    def answer(status: Status) -> None:
        bad = CheckResult(id="gpu.ecc", target="gpu-1", host="gpu-1", status=status, cause="c")
        found = Health("acme", 1, 1.0, (), (bad,), {})
        monkeypatch.setattr(health, "look", lambda *_, **__: found)

    return answer


@pytest.mark.parametrize(
    ("status", "code"), [(Status.PASS, 0), (Status.FAIL, 1), (Status.NOT_ASSESSED, 3)]
)
def test_without_a_terminal_it_prints_and_exits_as_health(
    status: Status,
    code: int,
    looked: Callable[[Status], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    looked(status)
    said = []
    for name in ("console", "health"):
        assert command_line.run(monkeypatch, name, "-s", str(tmp_path)) == code
        said.append(capsys.readouterr())
    assert said[0] == said[1]
    assert "acme" in said[0].out


@pytest.mark.parametrize(
    ("terminal", "term", "is_screen"),
    [
        (True, "xterm", True),
        (True, "dumb", False),
        (True, "", False),
        (True, None, False),
        (False, "xterm", False),
    ],
)
def test_a_dumb_terminal_is_none(
    terminal: bool, term: str | None, is_screen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = SimpleNamespace(isatty=lambda: terminal)
    monkeypatch.setattr(verb, "sys", SimpleNamespace(stdin=stream, stdout=stream))
    monkeypatch.delenv("TERM", raising=False)
    if term is not None:
        monkeypatch.setenv("TERM", term)
    assert verb._is_screen() is is_screen


def test_without_textual_one_line_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "_is_screen", lambda: True)
    monkeypatch.setattr(verb, "find_spec", lambda name: None if name == "textual" else 1)
    assert command_line.run(monkeypatch, "console", "-s", str(tmp_path)) == 1
    assert capsys.readouterr().err == (
        "the console needs Textual, which is not installed\n"
        "  fix: pip install 'appliance[console]', in the environment of this program\n"
    )


def test_the_library_that_is_asked_for_is_the_one_that_is_used() -> None:
    assert importlib.util.find_spec(verb.LIBRARY)


class Terminal:
    """A program in a terminal of 80 columns and 24 lines."""

    def __init__(self, code: str, **environment: str) -> None:
        self._own, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        known = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "LINES", "COLUMNS"}}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={**known, "TERM": "xterm-256color", **environment},
        )
        os.close(theirs)
        self.written = b""

    def await_text(self, text: str) -> None:
        """Reads until the program has written a text; fails with what it wrote instead."""
        while text.encode() not in self.written:
            ready, _, _ = select.select([self._own], [], [], 60)
            assert ready, self.written[-2000:]
            self.written += os.read(self._own, 1 << 16)

    def press(self, keys: str) -> None:
        os.write(self._own, keys.encode())

    def close(self) -> None:
        os.close(self._own)

    def ended(self) -> int:
        return self.process.wait(60)


@pytest.mark.parametrize("no_colour", [False, True])
def test_in_a_terminal_it_draws_takes_keys_and_restores_the_screen(no_colour: bool) -> None:
    terminal = Terminal(SHOWS, **({"NO_COLOR": "1"} if no_colour else {}))
    terminal.await_text("Deployed")
    terminal.press("3")
    terminal.await_text("rails")
    terminal.press("q")
    terminal.await_text("\x1b[?1049l")
    assert terminal.ended() == 0
    assert bool(COLOUR.search(terminal.written)) is not no_colour
    terminal.close()


def test_it_ends_with_its_terminal() -> None:
    """As when an ssh connection is lost."""
    terminal = Terminal(SHOWS)
    terminal.await_text("Deployed")
    terminal.close()
    assert terminal.ended() == -signal.SIGHUP


def test_without_its_server_the_browser_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "find_spec", lambda name: None)
    assert command_line.run(monkeypatch, "console", "-s", str(tmp_path), "--web", "8765") == 1
    assert capsys.readouterr().err == (
        "the console in a browser needs textual-serve, which is not installed\n"
        "  fix: pip install 'appliance[web]', in the environment of this program\n"
    )
