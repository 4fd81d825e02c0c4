"""appliance.host.files on lines of a file that is somebody else's."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., dict[str, Any]]
THEIRS = """\
# UMASK is explained here
UMASK\t\t022
PASS_MAX_DAYS   99999
UID_MIN 1000
"""
WANTED = {"UMASK": "027", "PASS_MAX_DAYS": "365", "SHA_CRYPT_MIN_ROUNDS": "100000"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file like login.defs."""
    path = tmp_path / "login.defs"
    path.write_text(THEIRS)
    path.chmod(0o640)
    return path


def ask(run: Run, file: Path, values: dict[str, str], **more: bool) -> dict[str, Any]:
    """What the module answers."""
    return run("files", keywords=[{"path": str(file), "values": values}], **more)


def said(file: Path) -> dict[str, str]:
    """What a program reads in it."""
    lines = [line.split() for line in file.read_text().splitlines() if line and line[0] != "#"]
    assert len({line[0] for line in lines}) == len(lines), "a keyword stands there twice"
    return dict(lines)


def test_keywords_are_set_in_their_places_and_all_else_stays(run: Run, file: Path) -> None:
    answer = ask(run, file, WANTED)
    assert answer["changed_paths"] == [str(file)]
    assert said(file) == {**WANTED, "UID_MIN": "1000"}
    assert file.read_text().startswith(
        "# UMASK is explained here\n#appliance UMASK: UMASK\t\t022\n"
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    name = f"{file} UMASK"
    assert {"kind": "keyword", "name": name, "wanted": {"value": "027"}} in answer["resources"]
    assert len(answer["resources"]) == len(WANTED)
    assert not ask(run, file, WANTED)["changed"]


@pytest.mark.parametrize("end", ["", "\n\n", "#end"])
def test_without_them_the_file_is_as_it_was(run: Run, file: Path, end: str) -> None:
    theirs = THEIRS + end
    file.write_text(theirs)
    ask(run, file, WANTED)
    assert said(file) == {**WANTED, "UID_MIN": "1000"}
    answer = ask(run, file, {})
    assert (answer["changed"], answer["resources"]) == (True, [])
    assert file.read_text() == theirs
    assert not ask(run, file, {})["changed"]


def test_one_that_is_no_longer_given_comes_back_alone(run: Run, file: Path) -> None:
    ask(run, file, WANTED)
    ask(run, file, {"PASS_MAX_DAYS": "365"})
    assert said(file) == {"UMASK": "022", "PASS_MAX_DAYS": "365", "UID_MIN": "1000"}


@pytest.mark.parametrize(
    "text",
    ["UMASK 022", "PASS_MAX_DAYS 365\nUMASK 022\n", "\n\nUMASK 022\n\n", "caf\udce9 1\n"],
    ids=["no end of line", "as wanted, by somebody else", "blank lines", "not UTF-8"],
)
def test_a_file_nobody_gave_keywords_of_is_never_touched(run: Run, file: Path, text: str) -> None:
    file.write_text(text, errors="surrogateescape")
    before = file.stat()
    assert not ask(run, file, {})["changed"]
    assert file.stat().st_ino == before.st_ino


def test_what_stood_there_as_wanted_stays_when_ours_goes(run: Run, file: Path) -> None:
    file.write_text("PASS_MAX_DAYS 365\nUMASK 022\n")
    ask(run, file, WANTED)
    ask(run, file, {})
    assert file.read_text() == "PASS_MAX_DAYS 365\nUMASK 022\n"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("UMASK\t027\n", ""), ("UMASK\t027\n", "UMASK 000\n"), ("UID_MIN 1000\n", "UMASK 000\n")],
    ids=["taken out", "changed", "one more behind"],
)
def test_what_somebody_changed_by_hand_is_put_right(
    run: Run, file: Path, ours: str, theirs: str
) -> None:
    ask(run, file, WANTED)
    more = ours + theirs if ours.startswith("UID") else theirs
    file.write_text(file.read_text().replace(ours, more))
    assert ask(run, file, WANTED)["changed"]
    lines = [line for line in file.read_text().splitlines() if line.startswith("UMASK")]
    assert set(lines) == {"UMASK\t027"}


def test_check_mode_tells_and_does_not_do(run: Run, file: Path) -> None:
    answer = ask(run, file, WANTED, check=True, diff=True)
    assert answer["changed_paths"] == [str(file)]
    assert "UMASK\t027" in answer["diff"][0]["after"]
    assert file.read_text() == THEIRS


def test_a_file_that_is_not_there_is_named_only_where_it_is_needed(
    run: Run, tmp_path: Path
) -> None:
    assert not ask(run, tmp_path / "none", {})["changed"]
    answer = ask(run, tmp_path / "none", {"UMASK": "027"})
    assert answer["msg"] == f"{tmp_path}/none: is not there, and UMASK is to be set in it"


@pytest.mark.parametrize(
    ("first", "stays"), [("# Managed by appliance; x\n", False), ("a\n", True)]
)
def test_only_a_file_of_ours_goes(run: Run, tmp_path: Path, first: str, stays: bool) -> None:
    path = tmp_path / "aide.conf"
    path.write_text(first)
    item = {"path": str(path), "state": "absent", "ours": True}
    assert run("files", files=[item])["changed"] is not stays
    assert path.exists() is stays
