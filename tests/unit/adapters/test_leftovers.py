"""What a killed run left is found by its mark, ended and removed; nothing else is touched."""

import os
import re
import subprocess  # noqa: TID251 - another process that is to be killed must be held by its handle
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters import leftovers, process
from appliance.errors import ApplianceError

pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")

SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The mark of a run whose private folders lie below the test's own."""
    monkeypatch.setattr(leftovers, "MEMORY", tmp_path / "memory")
    leftovers.MEMORY.mkdir()
    mark = leftovers.mark(tmp_path / "runs" / "r1")
    yield mark
    for left in (mark, mark + "1"):
        leftovers.end(left)


def _start(tmp_path: Path, *argv: str, mark: str = "") -> int:
    env = {leftovers.VARIABLE: mark} if mark else {}
    pid = process.spawn((sys.executable, "-c", SLEEP, *argv), env=env, log=tmp_path / "log")
    # Until it has become the program, it shows this one's command line.
    while SLEEP.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes():
        time.sleep(0.01)
    return pid


def _alive(pid: int) -> bool:
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state == "Z":
            return False
        time.sleep(0.02)
    return True


def test_processes_with_the_mark_are_ended_and_counted(tmp_path: Path, own: str) -> None:
    pids = [_start(tmp_path, mark=own) for _ in range(2)]
    other = _start(tmp_path, mark=own + "1")
    assert leftovers.end(own) == 2
    assert not any(map(_alive, pids))
    assert _alive(other)


def test_shared_connection_is_known_by_the_folder_in_its_title(tmp_path: Path, own: str) -> None:
    folder = leftovers.private_folder(own)
    pid = _start(tmp_path, f"{folder}/cp/1234 [mux]")
    assert leftovers.end(own) == 1
    assert not _alive(pid)


def test_private_folders_are_removed_those_of_other_runs_stay(tmp_path: Path, own: str) -> None:
    folder, other = leftovers.private_folder(own), leftovers.private_folder(own + "1")
    (folder / "secret").write_text("s3cret")
    assert folder.stat().st_mode & 0o777 == 0o700
    leftovers.end(own)
    assert not folder.exists()
    assert other.exists()


def test_run_of_the_same_name_at_another_site_is_another_run(tmp_path: Path) -> None:
    assert leftovers.mark(tmp_path / "a" / "r1") != leftovers.mark(tmp_path / "b" / "r1")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert leftovers.mark(tmp_path / "link" / "r1") == leftovers.mark(tmp_path / "a" / "r1")


def test_shared_connections_end_with_the_folder_they_lie_in(tmp_path: Path, own: str) -> None:
    folder, other = leftovers.private_folder(own), leftovers.private_folder(own)
    pid = _start(tmp_path, f"ssh: {folder}/cp/1234 [mux]")
    another = _start(tmp_path, f"ssh: {other}/cp/1234 [mux]", mark=own)
    leftovers.discard(folder)
    assert not _alive(pid)
    assert _alive(another)
    assert not folder.exists()
    assert other.exists()


def test_without_memory_a_folder_is_made_where_ssh_can_name_its_sockets(
    tmp_path: Path, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile, plain = tmp_path / "100% of it", tmp_path / "plain"
    for folder in (hostile, plain):
        folder.mkdir()
    monkeypatch.setattr(leftovers, "MEMORY", tmp_path / "none")
    monkeypatch.setattr(leftovers, "PLAIN", re.compile(r"[A-Za-z0-9/._-]+"))
    monkeypatch.setattr(leftovers, "SPARE", (plain,))
    monkeypatch.setattr("tempfile.tempdir", str(hostile))
    assert leftovers.private_folder(own).parent == plain
    monkeypatch.setattr(leftovers, "SPARE", (tmp_path / "none",))
    with pytest.raises(ApplianceError, match="cannot create a folder for the secrets"):
        leftovers.private_folder(own)


MAKER = """
import sys, time
from pathlib import Path
from appliance.adapters import leftovers
leftovers.MEMORY = Path(sys.argv[1])
print(leftovers.private_folder(sys.argv[2]), flush=True)
time.sleep(60)
"""


@pytest.fixture
def maker(own: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process that has a private folder, whose path it has written."""
    argv = (sys.executable, "-c", MAKER, str(leftovers.MEMORY), own)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as process:
        yield process
        process.kill()


def test_folder_of_a_process_that_lives_is_left_alone_and_of_one_that_died_is_not(
    tmp_path: Path, maker: "subprocess.Popen[str]"
) -> None:
    assert maker.stdout is not None
    folder = Path(maker.stdout.readline().strip())
    (folder / "secret").write_text("s3cret")
    left = _start(tmp_path, f"{folder}/cp/1234 [mux]")
    assert leftovers.clear() == ()
    assert _alive(left)
    maker.kill()
    maker.wait()
    assert leftovers.clear() == ("r1",)
    assert not folder.exists()
    assert not _alive(left)


def test_own_folders_are_not_taken_for_those_of_the_dead(own: str) -> None:
    folder = leftovers.private_folder(own)
    assert leftovers.clear() == ()
    assert folder.exists()
    leftovers.discard(folder)
    assert list(leftovers.MEMORY.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_what_others_put_there_is_not_touched(own: str) -> None:
    folder = leftovers.MEMORY / f"{leftovers.PREFIX}of-another-user"
    folder.mkdir()
    (folder / leftovers.NOTE).write_text("r9")
    os.chown(folder, 65534, 65534)
    link = leftovers.MEMORY / f"{leftovers.PREFIX}link"
    link.symlink_to(folder)
    assert leftovers.clear() == ()
    assert link.is_symlink()
    assert folder.exists()


def test_nothing_is_left_or_made_after_the_last_sweep(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "_swept", threading.Event())
    folders = [leftovers.private_folder(own), leftovers.private_folder(own + "1")]
    leftovers.sweep()
    assert not any(folder.exists() for folder in folders)
    with pytest.raises(ApplianceError, match="ending"):
        leftovers.private_folder(own)
    assert list(leftovers.MEMORY.iterdir()) == []


def test_signal_in_the_middle_of_making_a_folder_leaves_none(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tempfile.mkdtemp

    def interrupted(prefix: str, dir: Path) -> str:
        made(prefix=prefix, dir=dir)
        raise KeyboardInterrupt

    monkeypatch.setattr(leftovers, "_swept", threading.Event())
    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    with pytest.raises(KeyboardInterrupt):
        leftovers.private_folder(own)
    assert len(list(leftovers.MEMORY.iterdir())) == 1
    leftovers.sweep()
    assert list(leftovers.MEMORY.iterdir()) == []
