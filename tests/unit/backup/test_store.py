"""The target: what its server refuses is named by what to do, and what it sends is bounded."""

import os
from pathlib import Path
from typing import Any

import pytest

from appliance.backup import store
from appliance.backup.store import Folder, Sftp
from appliance.backup.trouble import TOOL, Trouble

TARGET = "ssh://store@192.0.2.7:2222/srv/backup"
SAYS = {
    "stat remote: No such file or directory": "/srv/backup does not exist on store@192.0.2.7: create it there",
    "remote open: Permission denied": "sftp: remote open: Permission denied",
}


@pytest.mark.parametrize("said", SAYS)
@pytest.mark.parametrize("does", ["names", "put"])
def test_a_missing_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, does: str
) -> None:
    program = tmp_path / "sftp"
    program.write_text(f"#!/bin/sh\ncat >/dev/null\necho '{said}' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    store = Sftp(TARGET, "/key", "/known_hosts")
    with pytest.raises(Trouble) as found:
        store.names("head") if does == "names" else store.put(program, "head/20261201.age")
    assert str(found.value) == SAYS[said]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setattr(store, "require_elsewhere", lambda path, mounts: None)
    (tmp_path / "target" / "tiny" / "head").mkdir(parents=True)
    return Folder(str(tmp_path / "target"))


def test_a_server_that_sends_without_end_fills_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, local = tmp_path / "sftp", tmp_path / "back"
    program.write_text(f"#!/bin/sh\ncat >/dev/null\nexec cat /dev/zero > {local}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(Trouble, match=r"head/a\.age on the target is larger than 4096 bytes"):
        Sftp(TARGET, "/key", "/known_hosts").get("head/a.age", local, 4096)
    assert local.stat().st_size == 4096


def test_a_server_that_lists_without_end_fills_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "sftp"
    program.write_text("#!/bin/sh\ncat >/dev/null\nulimit -v\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert Sftp(TARGET, "/key", "/known_hosts").names("head") == [str(store.MOST_MEMORY >> 10)]


def test_a_missing_sftp_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prlimit").symlink_to("/usr/bin/prlimit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Trouble, match="sftp is not installed") as found:
        Sftp(TARGET, "/key", "/known_hosts").names("head")
    assert found.value.kind == TOOL


def test_a_file_of_a_mounted_target_is_read_to_its_size(folder: Folder, tmp_path: Path) -> None:
    at = tmp_path / "target" / "tiny" / "head"
    (at / "a.age").write_bytes(b"x" * 10)
    folder.get("tiny/head/a.age", tmp_path / "back", 10)
    assert (tmp_path / "back").read_bytes() == b"x" * 10
    with (at / "b.age").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Trouble, match="larger than 10 bytes"):
        folder.get("tiny/head/b.age", tmp_path / "other", 10)


def test_links_and_pipes_of_a_mounted_target_are_not_read(folder: Folder, tmp_path: Path) -> None:
    at = tmp_path / "target" / "tiny" / "head"
    (at / "a.json").symlink_to("/etc/hostname")
    os.mkfifo(at / "b.json")
    for name in ("a", "b"):
        with pytest.raises(Trouble):
            folder.get(f"tiny/head/{name}.json", tmp_path / name, 100)
        assert not (tmp_path / name).exists()


def test_a_linked_folder_of_a_mounted_target_leads_nowhere(folder: Folder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "etc"
    elsewhere.mkdir()
    (elsewhere / "20261201T000000Z.age").write_text("kept")
    (tmp_path / "target" / "tiny" / "head").rmdir()
    (tmp_path / "target" / "tiny" / "head").symlink_to(elsewhere)
    name = "tiny/head/20261201T000000Z.age"
    for does in (
        lambda: folder.put(tmp_path / "etc" / "20261201T000000Z.age", name),
        lambda: folder.finish(name),
        lambda: folder.remove([name]),
        lambda: folder.names("tiny/head"),
        lambda: folder.get(name, tmp_path / "back", 100),
    ):
        with pytest.raises(Trouble, match="contains a symbolic link"):
            does()
    assert [path.name for path in elsewhere.iterdir()] == ["20261201T000000Z.age"]


def test_a_folder_that_its_server_exchanges_for_a_link_leads_nowhere(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at a path and its use: seen at the second try, with a program that exchanged the two without end."""
    elsewhere, at = tmp_path / "etc", tmp_path / "target" / "tiny"
    elsewhere.mkdir()
    real = os.open

    def exchanged(path: str | Path, *given: Any, **more: Any) -> int:
        if str(path).endswith(".part"):
            (at / "head").rename(at / "before")
            (at / "head").symlink_to(elsewhere)
        return real(path, *given, **more)

    monkeypatch.setattr(os, "open", exchanged)
    folder.put(Path(__file__), "tiny/head/1.age")
    assert not list(elsewhere.iterdir())
    with pytest.raises(Trouble, match="contains a symbolic link"):
        folder.finish("tiny/head/1.age")
