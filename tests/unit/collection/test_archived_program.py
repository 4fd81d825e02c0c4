"""A program from its maker's archive: the one that was pinned, or none."""

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Run = Callable[..., dict[str, Any]]
URL = "http://m/helm.tar.gz"


def archive(program: bytes, member: str = "linux-amd64/helm") -> bytes:
    """As Helm's makers pack it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as made:
        entry = tarfile.TarInfo(member)
        entry.size = len(program)
        made.addfile(entry, io.BytesIO(program))
    return packed.getvalue()


class World:
    """A maker who serves an archive, and a host."""

    def __init__(self, run: Run, path: Path) -> None:
        self.run = run
        self.path = path
        self.served = archive(b"helm 3")
        self.asked = 0

    def open(self, url: str, **_: object) -> io.BytesIO:
        self.asked += 1
        if not self.served:
            raise OSError("no route to host")
        return io.BytesIO(self.served)

    def bring(self, digest: str = "", **more: Any) -> dict[str, Any]:
        pinned = digest or hashlib.sha256(self.served).hexdigest()
        given = {"url": URL, "member": "linux-amd64/helm", "path": str(self.path)}
        return self.run("archived_program", **{**given, "sha256": pinned, **more})


@pytest.fixture
def world(
    plugin: Callable[[str], ModuleType], run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> World:
    made = World(run, tmp_path / "lib/helm")
    monkeypatch.setattr(plugin("module_utils.resources.archived_program"), "open_url", made.open)
    monkeypatch.setattr(plugin("module_utils.disk"), "set_attributes", lambda *_: None)
    return made


def test_the_pinned_archives_program_is_put_in_place_once(world: World) -> None:
    answer = world.bring()
    assert answer["changed"]
    assert answer["resources"] == [{"kind": "file", "name": str(world.path)}]
    assert world.path.read_bytes() == b"helm 3"
    assert not world.bring()["changed"]
    assert world.asked == 1


def test_an_archive_that_was_exchanged_is_refused_and_nothing_is_written(world: World) -> None:
    pinned = hashlib.sha256(world.served).hexdigest()
    world.served = archive(b"helm of somebody else")
    said = world.bring(pinned)["msg"]
    assert "is another archive than the one pinned" in said
    assert pinned in said
    assert not world.path.exists()


def test_a_program_that_was_changed_is_brought_again(world: World) -> None:
    world.bring()
    world.path.write_bytes(b"helm with a fault")
    assert world.bring()["changed"]
    assert world.path.read_bytes() == b"helm 3"


def test_another_release_takes_its_place(world: World) -> None:
    world.bring()
    world.served = archive(b"helm 4")
    assert world.bring()["changed"]
    assert world.path.read_bytes() == b"helm 4"


@pytest.mark.parametrize(
    ("served", "line"),
    [
        (b"", "cannot be fetched: no route to host"),
        (archive(b"x", "other/thing"), "has no file linux-amd64/helm"),
        (b"<html>404</html>", "has no file linux-amd64/helm"),
    ],
)
def test_what_is_no_such_archive_is_told(world: World, served: bytes, line: str) -> None:
    world.served = served
    assert line in world.bring(hashlib.sha256(served).hexdigest())["msg"]


def test_check_mode_writes_nothing(world: World) -> None:
    assert world.bring(check=True)["changed"]
    assert not world.path.exists()
