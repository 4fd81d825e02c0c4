"""What runs on the host: cold caches that are known to be cold, work with an end, one document whatever happens."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from appliance.benchmarks.model_load.answer import read
from appliance.benchmarks.model_load.host import cold, loaders, raw
from appliance.benchmarks.model_load.host.apart import Unable, apart
from appliance.benchmarks.model_load.host.place import OWN, Place
from appliance.benchmarks.model_load.request import Request
from appliance.benchmarks.model_load.run import here, program
from appliance.models.result import Status

MEMORY = Path("/dev/shm")


def test_a_file_that_was_read_is_resident_and_can_be_made_cold(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1 << 20))
    assert cold.resident(path) == 1.0
    stayed = cold.chill(path)
    in_memory = os.statvfs(tmp_path).f_fsid == os.statvfs(MEMORY).f_fsid
    assert stayed == (1.0 if in_memory else 0.0)


def test_a_file_that_lies_in_memory_never_counts_as_cold() -> None:
    path = MEMORY / f"appliance-test-{os.getpid()}"
    path.write_bytes(b"x" * 65536)
    try:
        stayed = cold.chill(path)
    finally:
        path.unlink()
    assert stayed is not None
    assert stayed > cold.COLD


def test_work_that_does_not_end_is_killed_at_its_deadline() -> None:
    def endless() -> dict[str, Any]:
        time.sleep(60)
        return {}

    with pytest.raises(Unable, match="did not end"):
        apart(endless, 0.2, {})


def test_work_that_dies_is_told() -> None:
    with pytest.raises(Unable, match="without an answer"):
        apart(lambda: os._exit(9), 20, {})


def test_what_a_library_raises_is_told_with_its_kind(capfd: pytest.CaptureFixture[str]) -> None:
    def broken() -> dict[str, Any]:
        raise RuntimeError("no such file")

    with pytest.raises(Unable, match="RuntimeError: no such file"):
        apart(broken, 20, {})
    capfd.readouterr()


def test_what_a_library_prints_is_no_part_of_the_answer(capfd: pytest.CaptureFixture[str]) -> None:
    def chatty() -> dict[str, Any]:
        os.write(1, b"loading ...\n")
        return {"seen": os.environ["LEVEL"]}

    assert apart(chatty, 20, {"LEVEL": "16"}) == {"seen": "16"}
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("readers", [1, 3, 16])
def test_raw_reading_reads_every_byte(tmp_path: Path, readers: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (raw.PIECE * 2 + 12345))
    assert raw.read_file(path, readers)["seconds"] > 0


def test_a_python_without_loaders_is_not_assessed_and_told_what_to_install(tmp_path: Path) -> None:
    request = Request(places=(str(tmp_path),), size=4_000_000, python=sys.executable)
    outcome = here(request)
    (result,) = outcome.results
    assert result.status is Status.NOT_ASSESSED
    assert "torch" in result.fix
    assert "pip install" in result.fix
    assert list(tmp_path.iterdir()) == []
    assert outcome.raw[0].name == "here.json"


@pytest.mark.parametrize("plant", ["link", "open", "file", "loop"])
def test_a_folder_that_somebody_else_prepared_is_not_used(tmp_path: Path, plant: str) -> None:
    place, victim = tmp_path / "scratch", tmp_path / "victim"
    own = place / OWN
    for folder in (place, victim):
        folder.mkdir(0o700)
    if plant == "open":
        own.mkdir()
        own.chmod(0o777)
    elif plant == "file":
        own.touch()
    else:
        own.symlink_to(victim if plant == "link" else own)
    asked = Request(size=4_000_000, repeats=1).asked_of_host((str(place),))
    record = Place(str(place), asked, {}, time.monotonic() + 60).measure()
    assert record["trouble"] == f"{own} belongs to another user"
    assert list(victim.iterdir()) == []


@pytest.mark.parametrize(
    ("mode", "is_used"), [(0o777, False), (0o775, False), (0o1777, True), (0o755, True)]
)
def test_root_makes_nothing_where_others_could_exchange_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, *, is_used: bool
) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    if os.geteuid() == 0:
        os.chown(place, 0, 61234)
    place.chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    asked = Request(size=4_000_000, repeats=1).asked_of_host((str(place),))
    record = Place(str(place), asked, {}, time.monotonic() + 60).measure()
    assert ("no sticky bit" not in record.get("trouble", "")) is is_used
    assert [file.name for file in place.iterdir()] == []


def test_a_place_that_is_none_is_told_beside_the_others(tmp_path: Path) -> None:
    request = Request(
        places=("/nowhere/at/all", str(tmp_path)), size=4_000_000, python=sys.executable
    )
    outcome = here(request)
    assert [r.cause for r in outcome.results if "/nowhere" in r.cause] != []
    assert len(outcome.results) == 2


def test_keys_are_in_no_argument_list_and_no_answer(tmp_path: Path) -> None:
    request = Request(
        places=(str(tmp_path),),
        size=4_000_000,
        python=sys.executable,
        secrets={"AWS_SECRET_ACCESS_KEY": "hush-hush"},
    )
    assert "hush-hush" not in repr(request)
    assert "hush-hush" not in request.model_dump_json()
    outcome = here(request)
    assert "hush-hush" not in outcome.raw[0].text


def test_a_python_that_is_none_ends_in_one_line(tmp_path: Path) -> None:
    (result,) = here(Request(places=(str(tmp_path),), python="/bin/false")).results
    assert result.status is Status.NOT_ASSESSED
    assert "--python" in result.fix


def test_the_program_is_the_same_bytes_for_the_same_sources() -> None:
    first = program()
    program.cache_clear()
    assert program() == first


def test_the_answer_is_read_back_by_the_control_machine(tmp_path: Path) -> None:
    request = Request(places=(str(tmp_path),), size=4_000_000, python=sys.executable)
    answer = read(here(request).raw[0].text, [str(tmp_path)])
    (place,) = answer.places
    assert len(place.raw) == 2 * request.repeats
    assert place.sha256


def test_a_loader_that_lacks_something_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def lacks(*_: object) -> dict[str, Any]:
        raise ModuleNotFoundError("No module named 'dateutil'")

    monkeypatch.setattr(loaders, "serialize", lacks)
    monkeypatch.setattr(loaders, "load", lambda *_: {"seconds": 1.0, "wrong": 0})
    asked = Request(size=4_000_000, repeats=1, concurrency=(1, 8)).asked_of_host((str(tmp_path),))
    packages = dict.fromkeys(("safetensors", "torch", "tensorizer", "runai-model-streamer"))
    record = Place(str(tmp_path), asked, packages, time.monotonic() + 60).measure()
    capfd.readouterr()
    assert {(x["loader"], x.get("seconds")) for x in record["loads"]} == {
        ("safetensors", 1.0),
        ("streamer", 1.0),
        ("tensorizer", None),
    }
    troubles = {x["trouble"] for x in record["loads"] if "trouble" in x}
    assert troubles == {
        "its own format was not written: ModuleNotFoundError: No module named 'dateutil'"
    }
