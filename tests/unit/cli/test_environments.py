"""Every verb with closed, full and unread streams, other users, locales and limits: its exit code, and no traceback."""

import json
import os
import re
import subprocess  # noqa: TID251 - the program itself, in environments Python cannot be put into afterwards
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.environments import ENVIRONMENTS, Run

ROOT = Path(__file__).parents[3]
CODES = {0, 1, 2, 3}
UNMADE = 77
"""The environment cannot be created here."""
Runs = Mapping[tuple[str, str], Run]


@pytest.fixture(scope="module")
def runs() -> Runs:
    """By environment and verb."""
    # Python's own UTF-8 mode would hide what a locale does.
    environment = os.environ | {"PYTHONUTF8": "0", "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    # A folder of pytest's is closed to other users.
    with tempfile.TemporaryDirectory(prefix="environments-") as folder:
        Path(folder).chmod(0o755)
        words = (sys.executable, "-m", "tests.support.environments", folder)
        subprocess.run(words, check=True, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)
        found = json.loads((Path(folder) / "ends.json").read_text(encoding="utf-8"))
    return {(run["environment"], run["verb"]): Run(**run) for run in found}


def of(runs: Runs, environment: str) -> list[Run]:
    found = [run for (name, _), run in runs.items() if name == environment]
    if not found or any(run.code == UNMADE for run in found):
        pytest.skip("needs root, and the right to mount")
    return found


def told(run: Run) -> str:
    return f"{run.verb}: {run.code}: {run.out[-300:]}{run.err[-600:]}"


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_verb_ends_as_documented_and_says_why_in_lines(runs: Runs, environment: str) -> None:
    wrong = [
        told(run)
        for run in of(runs, environment)
        if run.code not in CODES
        or any(word in run.out + run.err for word in ("Traceback", "Exception ignored"))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "environment",
    ["stdout closed", "stdin and stderr closed", "all closed", "stdout unread", "ASCII"],
)
def test_what_a_verb_finds_does_not_depend_on_who_reads_it(runs: Runs, environment: str) -> None:
    wrong = [told(run) for run in of(runs, environment) if run.code != runs["plain", run.verb].code]
    assert not wrong, "\n".join(wrong)


def test_output_that_is_lost_is_no_success_and_is_said(runs: Runs) -> None:
    for run in of(runs, "stdout full"):
        plain = runs["plain", run.verb]
        assert run.code == (plain.code or bool(plain.out)), told(run)
        assert ("standard output: No space left" in run.err) == bool(plain.out), told(run)


@pytest.mark.parametrize(
    "environment", ["stdout closed", "all closed", "stdout full", "stdout unread", "ASCII"]
)
def test_a_deployment_leaves_its_report_whatever_becomes_of_its_output(
    runs: Runs, environment: str
) -> None:
    assert runs[environment, "deploy"].code == 1
    assert runs[environment, "deploy"].reports == 1


def _headline(run: Run) -> str:
    """The first line, without how long the look took."""
    return re.sub(r" in [\d.]+ s ", " ", run.out.partition("\n")[0])


def test_who_may_write_nowhere_gets_a_verdict(runs: Runs) -> None:
    for run in of(runs, "monitor"):
        plain = runs["plain", run.verb]
        assert run.code == plain.code, told(run)
        assert _headline(run) == _headline(plain)
        assert "this run is not recorded in the site's journal" in run.err, told(run)


def test_a_verdict_needs_no_room_on_the_disk(runs: Runs) -> None:
    found = {run.verb: run for run in of(runs, "full disk")}
    for verb in ("health", "plan"):
        assert found[verb].code == 1
        assert (
            "did not answer" in found[verb].out or "refuses connections on port" in found[verb].out
        )
    assert "No space left" in found["init"].err


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("exec {program} profile list >&- 2>&-", 0),
        ("exec {program} profile show hpc | head -n 1 >/dev/null; exit ${{PIPESTATUS[0]}}", 0),
        ("ulimit -n 8; exec {program} profile list", 0),
        ("PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 LC_ALL=C exec {program} profile list", 0),
        ("PYTHONUNBUFFERED=1 exec {program} profile list >/dev/full", 1),
    ],
)
def test_a_shell_may_start_it_so(line: str, code: int) -> None:
    program = f"{sys.executable} -m appliance"
    words = ("bash", "-c", line.format(program=program))
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
