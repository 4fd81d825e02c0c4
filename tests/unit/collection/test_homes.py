"""appliance.host.homes on folders of the test's own."""

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Run = Callable[..., dict[str, Any]]
ME = os.geteuid()


@pytest.fixture(autouse=True)
def skeleton(
    plugin: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each home begins with."""
    folder = tmp_path / "skel"
    (folder / ".config").mkdir(parents=True)
    (folder / ".profile").write_text("umask 027\n")
    (folder / ".config/link").symlink_to("/etc/passwd")
    monkeypatch.setattr(plugin("module_utils.resources.homes"), "SKELETON", str(folder))


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """The arguments of a home for whoever runs the test."""
    return {"folder": str(tmp_path / "data/home"), "homes": [{"name": "ada", "uid": ME}]}


def test_a_home_is_made_once_and_then_the_users_own(
    run: Run, given: dict[str, Any], tmp_path: Path
) -> None:
    home = tmp_path / "data/home/ada"
    answer = run("homes", **given)
    assert answer["changes"] == [str(home.parent), str(home)]
    assert answer["resources"] == [
        {"kind": "directory", "name": str(home.parent)},
        {"kind": "home", "name": str(home)},
    ]
    assert (home.stat().st_mode & 0o777, home.parent.stat().st_mode & 0o777) == (0o700, 0o755)
    assert (home / ".profile").read_text() == "umask 027\n"
    assert (home / ".config/link").is_symlink()
    (home / ".profile").unlink()
    home.chmod(0o750)
    assert not run("homes", **given)["changed"]
    assert not (home / ".profile").exists()
    assert [path.name for path in home.parent.iterdir()] == ["ada"]


@pytest.mark.skipif(ME != 0, reason="gives files to others")
def test_all_of_a_home_is_its_users(run: Run, given: dict[str, Any], tmp_path: Path) -> None:
    run("homes", **{**given, "homes": [{"name": "ada", "uid": 2001}]})
    home = tmp_path / "data/home/ada"
    for path in (home, *home.rglob("*")):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (2001, 2001), path
    assert Path("/etc/passwd").stat().st_uid == 0


def test_what_a_killed_run_left_is_made_anew(
    run: Run, given: dict[str, Any], tmp_path: Path
) -> None:
    half = tmp_path / "data/home/.ada.new"
    half.mkdir(parents=True)
    (half.parent).chmod(0o755)
    (half / "half").touch()
    run("homes", **given)
    assert {path.name for path in (half.parent / "ada").iterdir()} == {".config", ".profile"}
    assert not half.exists()


def test_check_mode_makes_nothing(run: Run, given: dict[str, Any], tmp_path: Path) -> None:
    assert run("homes", check=True, **given)["changed"]
    assert not (tmp_path / "data").exists()


def test_a_home_of_another_number_is_refused(
    run: Run, given: dict[str, Any], tmp_path: Path
) -> None:
    run("homes", **given)
    answer = run("homes", **{**given, "homes": [{"name": "ada", "uid": 2002}]})
    home = tmp_path / "data/home/ada"
    assert answer["msg"] == (
        f"{home}: belongs to number {ME}, ada has 2002; give ada that number in base.users, or: chown -R 2002:2002 {home}"
    )


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_folder_others_can_write_to_holds_no_homes(
    run: Run, given: dict[str, Any], tmp_path: Path, mode: int
) -> None:
    folder = tmp_path / "data/home"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    assert "homes lie only in a folder of root's" in run("homes", **given)["msg"]
    assert list(folder.iterdir()) == []


def test_a_link_in_the_place_of_a_home_is_not_followed(
    run: Run, given: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "data/home"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    (folder / "ada").symlink_to(tmp_path)
    assert "is in the way" in run("homes", **given)["msg"]
