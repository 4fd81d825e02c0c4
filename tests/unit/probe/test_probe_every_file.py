"""The look at every file: what one owner heaps up hides nothing of another, and what was not looked at is said."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.process import run
from appliance.probe import budget, every_file, places
from appliance.probe.ask import Ask
from appliance.probe.budget import Budget, shown
from appliance.probe.posture import collect

Grow = Callable[[dict[str, Any]], str]
MALLORY, BOB = 54321, 54322
HOST: dict[str, Any] = {
    "/proc/self/mountinfo": "22 1 0:20 / / rw - ext4 /dev/sda1 rw\n",
    "/etc/passwd": "root:x:0:0::/root:/bin/bash\nmallory:x:54321:1::/home/mallory:/bin/sh\n",
    "/etc/group": "root:x:0:\n",
    "/etc/shadow": "root:*:1::::::\nmallory:!:1::::::\n",
    "/usr/bin/su": {"text": "x", "mode": "4755"},
    "/zzz/su": {"text": "x", "mode": "4755"},
}


def look(root: str, **more: Any) -> tuple[dict[str, dict[str, str]], str]:
    ask = Ask({"deep": True}, root)
    for name, value in more.items():
        setattr(ask, name, value)
    found: dict[str, dict[str, str]] = collect(ask, {})["posture"]["things"]
    return found, ask.errors.get("posture", "")


@pytest.fixture
def shared(grow: Grow) -> Path:
    """Where all may write, of a host with two setuid files of root's."""
    place = Path(grow(HOST)) / "var/tmp"
    place.mkdir(parents=True)
    place.chmod(0o1777)
    return place


def nested(top: Path, name: str, depth: int) -> None:
    """Folders within each other, deeper than Python recurses, and than a path can be long."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


@pytest.fixture
def mallory(shared: Path) -> Iterator[Path]:
    """A folder that is taken away again by a program without recursion, which Python's own ways have."""
    (shared / "mallory").mkdir()
    yield shared / "mallory"
    run(("rm", "-rf", str(shared / "mallory")))


@pytest.mark.parametrize("name", ["d", "d" * 50])
def test_a_thousand_nested_folders_hide_nothing_and_are_told(
    shared: Path, mallory: Path, name: str
) -> None:
    nested(mallory, name, 1500)
    (shared / "su").write_text("x")
    (shared / "su").chmod(0o4755)
    found, said = look(str(shared.parents[1]))
    assert found["setuid file"].keys() == {"/usr/bin/su", "/zzz/su", "/var/tmp/su"}
    assert "folders nested too deep" in said
    assert len(said) < 1000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of several owners")
def test_thousands_of_files_of_one_owner_hide_nothing_of_another(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "OF_ONE", 10)
    for owner, count in ((MALLORY, 50), (BOB, 2)):
        place = shared / str(owner)
        place.mkdir()
        os.chown(place, owner, owner)
        for n in range(count):
            (place / f"su{n}").write_text("x")
            os.chown(place / f"su{n}", owner, owner)
            (place / f"su{n}").chmod(0o4755)
        # In her own folder also what is root's counts as hers.
        os.link(shared.parents[1] / "usr/bin/su", place / "linked")
    found, said = look(str(shared.parents[1]))
    files = found["setuid file"].keys()
    assert {"/usr/bin/su", "/zzz/su"} <= files
    assert len([name for name in files if str(BOB) in name]) == 3
    assert len([name for name in files if str(MALLORY) in name]) == 10
    assert "files of mallory not checked" in said
    assert "too many findings of kind setuid file" in said
    assert str(BOB) not in said


def test_a_name_of_any_octets_is_told_on_one_line(grow: Grow) -> None:
    root = grow({**HOST, "/zzz/a\nb\x1b[31m": {"text": "x", "mode": "4755"}})
    raw = os.fsencode(root) + b"/zzz/\xff\xfe" + b"n" * 200
    Path(os.fsdecode(raw)).write_text("x")
    Path(os.fsdecode(raw)).chmod(0o4755)
    found, said = look(root)
    assert r"/zzz/a\nb\x1b[31m" in found["setuid file"]
    assert len(found["setuid file"]) == 4
    assert all(name.isprintable() for name in found["setuid file"])
    "".join(found["setuid file"]).encode()
    assert said == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_what_is_closed_is_told_and_costs_nothing_else(shared: Path) -> None:
    (shared / "closed").mkdir(mode=0)
    found, said = look(str(shared.parents[1]))
    assert found["setuid file"].keys() == {"/usr/bin/su", "/zzz/su"}
    assert "/var/tmp/closed (Permission denied)" in said
    (shared / "closed").chmod(0o700)


def test_places_of_people_are_left_out_where_no_time_is_left_and_that_is_told(shared: Path) -> None:
    (shared / "su").write_text("x")
    (shared / "su").chmod(0o4755)
    found, said = look(str(shared.parents[1]), patience=0.0)
    assert found["setuid file"].keys() == {"/usr/bin/su", "/zzz/su"}
    assert "shared files not checked: /var/tmp (no time was left)" in said


def test_a_package_manager_that_fails_costs_its_kind_alone(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: every_file.EveryFile) -> Any:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(every_file.EveryFile, "_records", broken)
    found, said = look(grow(HOST))
    assert "setuid file" in found
    assert "package record" not in found
    assert "package record: [Errno 5]" in said


def test_a_link_to_a_folder_is_no_program_and_what_it_leads_to_no_path(grow: Grow) -> None:
    links = {"/usr/local/kit": {"link": "/usr/bin"}, "/usr/local/bin/x": {"link": "/dev/watchdog"}}
    found, _ = look(grow({**HOST, "/usr/bin/true": "x", **links}))
    assert found["program link"] == {"/usr/local/bin/x": "to /dev/watchdog"}


def test_of_each_owner_as_much_is_told_as_fits_and_root_loses_nothing() -> None:
    kept = Budget(("program",))
    for n in range(5000):
        kept.note("program", f"/tmp/{n}" + "n" * 300, "x", MALLORY)
    kept.note("program", "/usr/bin/x", "x", places.ROOT)
    kept.note("program", "/tmp/y", "x", BOB)
    assert {"/usr/bin/x", "/tmp/y"} <= kept.found["program"].keys()
    assert sum(map(len, kept.found["program"])) < budget.BYTES_OF_ONE + 100
    (line,) = kept.gaps(str)
    assert "too many findings of kind program" in line


def test_owners_without_end_are_a_number_of_lines() -> None:
    kept = Budget(("program",))
    for uid in range(1000, 9000):
        kept.left_out(uid, "/tmp/x\n" * 100, "too deep")
    lines = list(kept.gaps(str))
    assert len(lines) == budget.GAPS + 1
    assert lines[-1].endswith("more owners")
    assert all(len(line) < 300 and line.isprintable() for line in lines)


def test_long_names_stay_apart() -> None:
    one, other = shown("n" * 5000 + "1"), shown("n" * 5000 + "2")
    assert one != other
    assert len(one) <= budget.LONGEST


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of several owners")
def test_who_takes_all_time_takes_none_of_another(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner in (MALLORY, BOB):
        (shared / str(owner) / "d").mkdir(parents=True)
        (shared / str(owner) / "d/su").write_text("x")
        for path in (shared / str(owner), shared / str(owner) / "d", shared / f"{owner}/d/su"):
            os.chown(path, owner, owner)
        (shared / str(owner) / "d/su").chmod(0o4755)
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    plain = every_file.EveryFile._one

    def slow(self: Any, path: str, told: str, is_now: os.stat_result, whose: int) -> None:
        now[0] += 1000.0 if told.startswith(f"/var/tmp/{MALLORY}/") else 0.0
        now[0] = min(now[0], 300.0)
        plain(self, path, told, is_now, whose)

    monkeypatch.setattr(every_file.EveryFile, "_one", slow)
    found, said = look(str(shared.parents[1]))
    assert f"/var/tmp/{BOB}/d/su" in found["setuid file"]
    assert "files of mallory not checked" in said
    assert str(BOB) not in said
