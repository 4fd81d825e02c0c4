"""The compiler next to other work: what is told of it, and that nothing of it is left."""

import sys
import time
from pathlib import Path
from threading import Barrier, Event

import pytest

from appliance.adapters.process import alongside
from appliance.errors import ApplianceError
from appliance.lab import compiling
from appliance.lab.compiling import EVERY, SHARES, Pace, compiled_meanwhile
from appliance.lab.programs import ETCD, KAI, KUBERNETES, Module
from appliance.provision.building import Progress


def test_each_program_has_its_share_of_the_time() -> None:
    assert set(SHARES) == {name for module in EVERY for name, _ in module.programs}


def test_the_time_left_follows_from_what_is_done(tmp_path: Path) -> None:
    now = [0.0]
    pace = Pace(tmp_path, lambda: now[0])
    now[0] = 50.0
    assert pace.left() == ""
    making = tmp_path / f"making-{KUBERNETES.folder_name}"
    making.mkdir()
    (making / "kubeadm").touch()
    now[0] = SHARES["kubeadm"]
    whole = sum(SHARES.values())
    assert pace.left() == f"; all programs in about {round((whole - SHARES['kubeadm']) / 60)} min"
    now[0] = 3 * whole
    assert pace.left() == "; all programs in about 1 min"


def test_one_slow_program_does_not_multiply_the_estimate(tmp_path: Path) -> None:
    now = [0.0]
    pace = Pace(tmp_path, lambda: now[0])
    making = tmp_path / f"making-{KUBERNETES.folder_name}"
    making.mkdir()
    (making / "kubeadm").touch()
    now[0] = 8 * SHARES["kubeadm"]
    minutes = int(pace.left().split()[-2])
    assert minutes < 3 * sum(SHARES.values()) / 60


def test_what_was_compiled_before_says_nothing_of_the_pace(tmp_path: Path) -> None:
    for module in EVERY[:-1]:
        (tmp_path / module.folder_name).mkdir()
    now = [0.0]
    pace = Pace(tmp_path, lambda: now[0])
    now[0] = 300.0
    assert pace.left() == ""


def test_where_all_is_there_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in EVERY:
        (tmp_path / module.folder_name).mkdir()
    monkeypatch.setattr(compiling, "alongside", lambda *_: pytest.fail("it was started"))
    with compiled_meanwhile(tmp_path, lambda _: None):
        pass


def test_its_lines_are_told_while_other_work_is_done() -> None:
    said: list[str] = []
    began = time.monotonic()
    script = "import time; print('one', flush=True); time.sleep(0.5); print('two', flush=True)"
    with alongside((sys.executable, "-c", script), said.append):
        while not said and time.monotonic() < began + 30:
            time.sleep(0.01)
        assert said == ["one"]
    assert said == ["one", "two"]


def test_it_ends_where_the_other_work_fails() -> None:
    began = time.monotonic()
    with (
        pytest.raises(ValueError, match="no image"),
        alongside((sys.executable, "-c", "import time; time.sleep(300)"), lambda _: None),
    ):
        raise ValueError("no image")
    assert time.monotonic() - began < 100


def test_sources_are_downloaded_ahead_and_two_modules_are_compiled_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[Module] = []
    all_there = Event()
    both = Barrier(2)
    done: list[Module] = []

    def fetch(_: Path, module: Module, __: Progress) -> None:
        fetched.append(module)
        if len(fetched) == len(EVERY):
            all_there.set()

    def built(_: Path, module: Module, __: Progress) -> None:
        assert module in fetched
        if module in EVERY[:2]:
            assert all_there.wait(30), "the compiler holds the downloads up"
            both.wait(30)
        done.append(module)

    monkeypatch.setattr(compiling, "fetch", fetch)
    monkeypatch.setattr(compiling, "built", built)
    compiling.all_built(tmp_path, EVERY, 2)
    assert fetched == list(EVERY)
    assert set(done) == set(EVERY)


def test_with_little_memory_one_module_is_compiled_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work: list[Module] = []
    done: list[Module] = []

    def built(_: Path, module: Module, __: Progress) -> None:
        at_work.append(module)
        assert at_work == [module]
        time.sleep(0.01)
        done.append(at_work.pop())

    monkeypatch.setattr(compiling, "fetch", lambda *_: None)
    monkeypatch.setattr(compiling, "built", built)
    compiling.all_built(tmp_path, EVERY, 1)
    assert done == list(EVERY)


@pytest.mark.parametrize("failing", ["fetch", "built"])
def test_a_module_that_fails_is_known_while_others_are_compiled(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = Event()
    begun: list[Module] = []

    def work(_: Path, module: Module, __: Progress) -> None:
        if module == EVERY[1]:
            raise ApplianceError("no module")

    def slow(_: Path, module: Module, __: Progress) -> None:
        begun.append(module)
        if failing == "built":
            work(_, module, __)
        end.wait(30)

    monkeypatch.setattr(compiling, "fetch", work if failing == "fetch" else lambda *_: None)
    monkeypatch.setattr(compiling, "built", slow)
    began = time.monotonic()
    with pytest.raises(ApplianceError, match="no module"):
        compiling.all_built(tmp_path, EVERY, 2)
    assert time.monotonic() - began < 25
    end.set()
    assert set(begun) <= set(EVERY[:3])


def test_one_line_counts_the_programs_of_all_modules(tmp_path: Path) -> None:
    pace = Pace(tmp_path)
    assert pace.line() == f"0 of {len(SHARES)} programs compiled"
    (tmp_path / ETCD.folder_name).mkdir()
    making = tmp_path / f"making-{KAI.folder_name}"
    making.mkdir()
    (making / "binder").touch()
    assert pace.line().startswith(f"4 of {len(SHARES)} programs compiled; all programs in about ")
