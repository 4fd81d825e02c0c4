"""A build that takes minutes is never silent for long."""

import time
from pathlib import Path

import pytest

from appliance.provision import building


def test_how_far_it_is_is_told_until_it_is_done() -> None:
    lines: list[str] = []
    with building.reported_progress(lines.append, "building", lambda: "half", interval=0.01):
        time.sleep(0.2)
    assert lines[0] == "building"
    assert lines[1] == "  0:00  half"
    assert lines[-1] == "  0:00  done"
    told = len(lines)
    time.sleep(0.05)
    assert len(lines) == told


def test_a_build_that_fails_is_not_called_done() -> None:
    lines: list[str] = []
    with (
        pytest.raises(ZeroDivisionError),
        building.reported_progress(lines.append, "building", lambda: "half", interval=9),
    ):
        raise ZeroDivisionError
    assert lines == ["building"]


def test_nobody_waits_longer_than_ten_seconds_for_a_word() -> None:
    assert building.INTERVAL < 10


def test_a_system_is_downloaded_unpacked_and_set_up(tmp_path: Path) -> None:
    assert building.system(tmp_path) == "reading the package lists"
    archives, info = tmp_path / building.ARCHIVES, tmp_path / "var/lib/dpkg/info"
    archives.mkdir(parents=True)
    info.mkdir(parents=True)
    (archives / "a.deb").write_bytes(b"1" * 2_000_000)
    (archives / "b.deb").touch()
    (info / "a.list").touch()
    assert building.system(tmp_path) == "2 packages downloaded, 1 unpacked"
    (info / "b.list").touch()
    assert building.system(tmp_path) == "0 of 2 packages set up"
    _dpkg(tmp_path, "status", "a", "installed")
    _dpkg(tmp_path, "updates/0001", "b", "half-configured")
    assert building.system(tmp_path) == "1 of 2 packages set up"
    _dpkg(tmp_path, "updates/0002", "b", "installed")
    assert building.system(tmp_path) == "2 of 2 packages set up"
    assert building.downloads(tmp_path) == "2 packages downloaded, 2 MB"


def _dpkg(root: Path, name: str, package: str, state: str) -> None:
    file = root / "var/lib/dpkg" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"Package: {package}\nStatus: install ok {state}\nPriority: required\n\n")


def test_time_is_written_in_minutes_and_seconds() -> None:
    assert building.span(125.9) == "2:05"
