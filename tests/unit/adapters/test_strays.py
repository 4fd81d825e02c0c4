"""What a killed run left is found by its mark, ended and removed; nothing else is touched."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters import process, strays

pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")

SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The mark of a run whose private folders lie below the test's own."""
    monkeypatch.setattr(strays, "MEMORY", tmp_path / "memory")
    strays.MEMORY.mkdir()
    mark = strays.mark(tmp_path / "runs" / "r1")
    yield mark
    for left in (mark, mark + "1"):
        strays.end(left)


def _start(tmp_path: Path, *argv: str, mark: str = "") -> int:
    env = {strays.VARIABLE: mark} if mark else {}
    return process.spawn((sys.executable, "-c", SLEEP, *argv), env=env, log=tmp_path / "log")


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
    assert strays.end(own) == 2
    assert not any(map(_alive, pids))
    assert _alive(other)


def test_shared_connection_is_known_by_the_folder_in_its_title(tmp_path: Path, own: str) -> None:
    folder = strays.private_folder(own)
    pid = _start(tmp_path, f"{folder}/cp/1234 [mux]")
    assert strays.end(own) == 1
    assert not _alive(pid)


def test_private_folders_are_removed_those_of_other_runs_stay(tmp_path: Path, own: str) -> None:
    folder, other = strays.private_folder(own), strays.private_folder(own + "1")
    (folder / "secret").write_text("s3cret")
    assert folder.stat().st_mode & 0o777 == 0o700
    strays.end(own)
    assert not folder.exists()
    assert other.exists()


def test_run_of_the_same_name_at_another_site_is_another_run(tmp_path: Path) -> None:
    assert strays.mark(tmp_path / "a" / "r1") != strays.mark(tmp_path / "b" / "r1")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert strays.mark(tmp_path / "link" / "r1") == strays.mark(tmp_path / "a" / "r1")


def test_shared_connections_end_with_the_folder_they_lie_in(tmp_path: Path, own: str) -> None:
    folder, other = strays.private_folder(own), strays.private_folder(own)
    pid = _start(tmp_path, f"ssh: {folder}/cp/1234 [mux]")
    another = _start(tmp_path, f"ssh: {other}/cp/1234 [mux]", mark=own)
    strays.discard(folder)
    assert not _alive(pid)
    assert _alive(another)
    assert not folder.exists()
    assert other.exists()
