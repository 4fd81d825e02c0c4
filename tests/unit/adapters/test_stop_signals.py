"""Every signal that asks the program to end is Ctrl-C to it; one more ends it at once, and nothing is left here."""

import os
import signal
import subprocess  # noqa: TID251 - a process that gets signals must be held by its handle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters import leftovers

PROGRAM = """
import sys, time
from pathlib import Path
from appliance.adapters import leftovers, stop_signals
leftovers.MEMORY = Path(sys.argv[1])
stop_signals.listen()
leftovers.private_folder("/runs/r1")
try:
    print("at work", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("stops", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def program(
    tmp_path: Path, request: pytest.FixtureRequest, hears_hangups: None
) -> Iterator["subprocess.Popen[str]"]:
    """The program, when it listens; with parameter "nohup", started by that."""
    argv: tuple[str, ...] = (sys.executable, "-c", PROGRAM, str(tmp_path))
    if getattr(request, "param", ""):
        argv = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh", *argv)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert _line(process) == "at work"
        yield process
        process.kill()


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_first_is_ctrl_c_and_second_ends_it_at_once(
    program: "subprocess.Popen[str]", tmp_path: Path, first: signal.Signals, second: signal.Signals
) -> None:
    program.send_signal(first)
    assert _line(program) == "stops"
    assert len(list(tmp_path.glob(f"{leftovers.PREFIX}*"))) == 1
    program.send_signal(second)
    assert program.wait(30) == 130
    assert list(tmp_path.glob(f"{leftovers.PREFIX}*")) == []


@pytest.mark.parametrize("program", ["nohup"], indirect=True)
def test_hang_up_is_not_heard_under_nohup(program: "subprocess.Popen[str]") -> None:
    program.send_signal(signal.SIGHUP)
    program.send_signal(signal.SIGTERM)
    assert _line(program) == "stops"
    program.send_signal(signal.SIGHUP)
    assert program.poll() is None
