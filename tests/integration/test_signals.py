"""A run that is told to end, by whatever signal and whenever: one exit code, one line, nothing of a secret left here.

The host is an SSH server of this test, on an address that is this machine's own for a while; it answers the probe,
and hangs as soon as it is asked what the case says.
"""

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess  # noqa: TID251 - a run that is to be told to end must be held by its handle
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters import leftovers
from appliance.adapters.process import run
from appliance.probe import lease
from tests.integration.rack import PROGRAM, own_name
from tests.support.ssh_server import SshServer, serving

pytestmark = [
    pytest.mark.rack,
    pytest.mark.usefixtures("hears_hangups"),
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]

# Of this checkout alone: two may be tested on one machine at once.
PART = f"10.254.{int(own_name('').lstrip('-'), 16) % 100 + 100}"
NETWORK, ADDRESS = f"{PART}.0/24", f"{PART}.10"
SECONDS = 60.0
# Hosts are asked through sudo or not; Ansible's own commands go through a shell.
OF_ANSIBLE = re.compile(r"^/bin/sh -c ")
NOTE = Path(lease.FOLDER, lease.NAME)
"""The host is this machine: a run that is killed leaves its note here, and each test has a site of its own."""


@dataclass
class Work:
    """A site whose one host is the server, and the program at work on it."""

    server: SshServer
    site: Path

    def start(self, *words: str, hang: str = "") -> "subprocess.Popen[str]":
        """A verb; ``hang``: at the host's "facts", or at "ansible"."""
        self.server.commands.clear()
        self.server.slow = {
            "": lambda command: False,
            "facts": lambda command: True,
            "ansible": lambda command: bool(OF_ANSIBLE.match(command)),
        }[hang]
        return subprocess.Popen(
            (PROGRAM, *words, "--site", str(self.site)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def until_it_hangs(self, program: "subprocess.Popen[str]") -> None:
        """Waits until the host has been asked what it never answers."""
        deadline = time.monotonic() + SECONDS
        while not any(map(self.server.slow, tuple(self.server.commands))):
            assert program.poll() is None, program.communicate()[0]
            assert time.monotonic() < deadline, self.server.commands
            time.sleep(0.02)

    def ends(self, program: "subprocess.Popen[str]") -> tuple[int, str]:
        """Exit code and everything that was said."""
        said = program.communicate(timeout=SECONDS)[0]
        return program.returncode, said

    @property
    def left(self) -> list[Path]:
        """Private folders of this site."""
        notes = leftovers.MEMORY.glob(f"{leftovers.PREFIX}*/inventory/hosts.json")
        return [note.parent.parent for note in notes if str(ADDRESS) in note.read_text()]

    def journal(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Run, kind and data of each entry."""
        file = self.site / "runs" / "journal.sqlite"
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
            rows = db.execute("SELECT run, kind, data FROM entry ORDER BY seq").fetchall()
        db.close()
        return [(name, kind, json.loads(data)) for name, kind, data in rows]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    (tmp_path / "home").mkdir()
    NOTE.unlink(missing_ok=True)
    run(("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"))
    try:
        with serving(tmp_path / "home", ADDRESS) as server:
            site = tmp_path / "a site"
            argv = (
                PROGRAM,
                "init",
                str(site),
                "--count",
                "1",
                "-p",
                "hpc",
                "--network",
                NETWORK,
                "--with",
                "slurm",
                "--without",
                "kubernetes",
            )
            run(argv, check=False)
            file = site / "site.yml"
            text = file.read_text()
            file.write_text(
                re.sub("^access:\n", f"access:\n  port: {server.port}\n", text, flags=re.M)
            )
            server.pin(site / "known_hosts")
            (site / "secrets" / "id_ed25519.pub").unlink()
            server.give_key(site / "secrets" / "id_ed25519")
            yield Work(server, site)
    finally:
        run(("ip", "address", "del", f"{ADDRESS}/32", "dev", "lo"))
        NOTE.unlink(missing_ok=True)


DEPLOY = ("deploy", "--yes", "--stage", "base")


@pytest.mark.parametrize(
    ("number", "times"),
    [(signal.SIGINT, 1), (signal.SIGTERM, 2), (signal.SIGHUP, 1), (signal.SIGHUP, 2)],
)
def test_deployment_at_work_in_ansible_ends_clean(
    work: Work, number: signal.Signals, times: int
) -> None:
    program = work.start(*DEPLOY, hang="ansible")
    work.until_it_hangs(program)
    assert work.left
    for _ in range(times):
        program.send_signal(number)
        time.sleep(0.3)
    code, said = work.ends(program)
    assert code == 130, said
    assert "nterrupted" in said
    assert "Traceback" not in said
    assert work.left == []
    (last,) = [data for _, kind, data in work.journal() if kind == "run_finished"]
    assert (last["exit"], last["interrupted"]) == (130, True)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (DEPLOY, signal.SIGTERM),
        (DEPLOY, signal.SIGHUP),
        (("plan",), signal.SIGHUP),
        (("health",), signal.SIGINT),
    ],
)
def test_run_that_asks_for_facts_ends_clean(
    work: Work, words: tuple[str, ...], number: signal.Signals
) -> None:
    program = work.start(*words, hang="facts")
    work.until_it_hangs(program)
    program.send_signal(number)
    code, said = work.ends(program)
    assert code == 130, said
    assert said.strip().splitlines()[-1].startswith("Interrupted.")
    assert "Traceback" not in said
    noted = [data["exit"] for _, kind, data in work.journal() if kind == "run_finished"]
    assert noted == ([130] if words == DEPLOY else [])
    assert [path.name for path in (work.site / "runs").iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("verb", [("plan",), ("health",), DEPLOY], ids=lambda w: w[0])
def test_what_a_killed_run_left_goes_with_the_next_run(work: Work, verb: tuple[str, ...]) -> None:
    program = work.start(*DEPLOY, hang="ansible")
    work.until_it_hangs(program)
    program.kill()
    work.ends(program)
    assert work.left
    following = work.start(*verb, hang="ansible" if verb == DEPLOY else "")
    if verb == DEPLOY:
        work.until_it_hangs(following)
        assert len(work.left) == 1
        following.terminate()
    said = work.ends(following)[1]
    assert verb != DEPLOY or "was interrupted" in said
    assert work.left == []


def test_run_at_work_is_left_alone_by_others(work: Work) -> None:
    program = work.start(*DEPLOY, hang="ansible")
    work.until_it_hangs(program)
    before = work.left
    work.ends(work.start("health"))
    assert work.left == before
    assert program.poll() is None
    program.terminate()
    assert work.ends(program)[0] == 130


def test_terminal_that_is_closed_ends_the_run_clean(work: Work) -> None:
    work.server.slow = lambda command: bool(OF_ANSIBLE.match(command))
    argv = (PROGRAM, *DEPLOY, "--site", str(work.site))
    child, master = pty.fork()
    if child == 0:
        os.execv(argv[0], argv)
    deadline = time.monotonic() + SECONDS
    os.set_blocking(master, False)
    while not any(map(work.server.slow, tuple(work.server.commands))):
        assert time.monotonic() < deadline
        try:
            os.read(master, 1 << 16)
        except BlockingIOError:
            time.sleep(0.02)
    os.close(master)
    assert _exit_code(child) == 130
    assert work.left == []
    (last,) = [data for _, kind, data in work.journal() if kind == "run_finished"]
    assert last["interrupted"]


def test_run_that_was_started_by_nohup_goes_on_when_its_terminal_ends(work: Work) -> None:
    work.server.slow = lambda command: bool(OF_ANSIBLE.match(command))
    program = subprocess.Popen(
        ("sh", "-c", 'trap "" HUP; exec "$@"', "sh", PROGRAM, *DEPLOY, "-s", str(work.site)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    work.until_it_hangs(program)
    program.send_signal(signal.SIGHUP)
    time.sleep(1)
    assert program.poll() is None
    program.terminate()
    assert work.ends(program)[0] == 130


@pytest.mark.parametrize("hang", ["facts", "ansible"])
def test_no_process_of_a_run_may_dump_its_memory(work: Work, hang: str) -> None:
    program = work.start(*DEPLOY, hang=hang)
    work.until_it_hangs(program)
    here = [program.pid, *(p for left in work.left for p in leftovers._processes(f"{left}/"))]
    limits = [re.search(r"Max core file size +(\d+)", _limits(pid)) for pid in here]
    assert [found and found[1] for found in limits] == ["1"] * len(here)
    program.terminate()
    assert work.ends(program)[0] == 130


def _exit_code(child: int) -> int:
    deadline = time.monotonic() + SECONDS
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)
    return os.waitstatus_to_exitcode(ended[1])


def _limits(pid: int) -> str:
    return Path(f"/proc/{pid}/limits").read_text()
