"""The archive of a support bundle: written whole and once, and read as a file of an attacker."""

import gzip
import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.adapters import support_archive
from appliance.adapters.support_archive import first_files, writing
from appliance.errors import ConfigError


def test_what_is_written_is_read_and_only_the_first_part(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with writing(path, "top") as archive:
        archive.add("judge/site.json", "{}")
        archive.add("judge/facts/gpu-1.json", "é")
        archive.add("index.md", "x")
        archive.add("judge/late.json", "x")
    assert first_files(path, "judge") == {"site.json": b"{}", "facts/gpu-1.json": "é".encode()}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["a.tar.gz"]


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("/nowhere")])
def test_an_existing_name_is_never_replaced(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    make(path)
    with pytest.raises(ConfigError, match="already exists"), writing(path, "top"):
        pass


def test_a_name_that_is_taken_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with pytest.raises(ConfigError, match="already exists"), writing(path, "top"):
        path.write_text("mine")
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["a.tar.gz"]


def test_where_there_are_no_hard_links_it_gets_its_name_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "a.tar.gz"
    with writing(path, "top") as archive:
        archive.add("judge/x", "y")
    assert first_files(path, "judge") == {"x": b"y"}


def test_an_interrupted_bundle_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), writing(tmp_path / "a.tar.gz", "top"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def tarred(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(into.getvalue())


def member(
    name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, link
    return info


def claiming(size: int) -> bytes:
    """A header that claims a size, and nothing after it."""
    return gzip.compress(member("t/judge/x", size).tobuf(tarfile.GNU_FORMAT))


def bomb() -> bytes:
    """Files that are small enough each, and too large together."""
    zeros = bytes(1 << 20)
    return tarred(*((member(f"t/judge/{number}", len(zeros)), zeros) for number in range(9)))


def long_header() -> bytes:
    info = member("t/judge/x")
    info.pax_headers = {"comment": "x" * (4 << 20)}
    return gzip.compress(info.tobuf(tarfile.PAX_FORMAT))


HOSTILE = {
    "climbs": tarred((member("t/judge/../../etc/passwd"), b"")),
    "absolute": tarred((member("/etc/passwd"), b"")),
    "link": tarred((member("t/judge/x", kind=tarfile.SYMTYPE, link="/etc/passwd"), b"")),
    "hard link": tarred((member("t/judge/x", kind=tarfile.LNKTYPE, link="/etc/passwd"), b"")),
    "device": tarred((member("t/judge/x", kind=tarfile.CHRTYPE), b"")),
    "twice": tarred((member("t/judge/x"), b""), (member("t/judge/x"), b"")),
    "terminal": tarred((member("t/judge/\x1b[2J"), b"")),
    "huge": claiming(1 << 40),
    "negative": claiming(-1),
    "cut": claiming(1 << 20),
    "bomb": bomb(),
    "long header": long_header(),
    "no gzip": b"hello",
    "no tar": gzip.compress(b"hello"),
    "broken gzip": tarred((member("t/judge/x", 5), b"12345"))[:-20],
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_an_archive_of_an_attacker_is_refused_in_one_line(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support_archive, "MOST_IN_ALL", 8 << 20)
    path = tmp_path / "a.tar.gz"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        first_files(path, "judge")
    assert refused.value.exit_code == 2
    assert "\n" not in refused.value.message
    assert refused.value.message.isprintable()


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing"):
        with pytest.raises(ConfigError):
            first_files(path, "judge")
