"""Processes of a rack's host are found in groups that come and go."""

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.lab import cgroups

HOST: Any = SimpleNamespace(machine="r1-rack-gpu-1")


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    group: Path = tmp_path / cgroups.PARENT / HOST.machine
    for name, pids in (("", "0\n"), ("payload", "7\n8\n"), ("payload/gone.service", "9\n"), ("payload/z.service", "11\n")):  # fmt: skip
        (group / name).mkdir(parents=True)
        (group / name / "cgroup.procs").write_text(pids)
    found = SimpleNamespace(all=lambda: (tmp_path,), every=lambda: (tmp_path,))
    monkeypatch.setattr(cgroups, "hierarchies", lambda: found)
    return group


def test_all_processes_of_a_host_are_found_and_never_0(top: Path) -> None:
    assert cgroups.members(HOST) == (7, 8, 9, 11)


def test_a_group_that_goes_while_it_is_read_stops_nobody(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = os.scandir

    def scandir(path: Any) -> Iterator[os.DirEntry[str]]:
        if str(path).endswith("gone.service"):
            raise FileNotFoundError(path)
        return scan(path)

    (top / "payload/gone.service/cgroup.procs").unlink()
    monkeypatch.setattr(os, "scandir", scandir)
    assert cgroups.members(HOST) == (7, 8, 11)


def test_groups_are_removed_from_the_innermost(top: Path) -> None:
    for procs in top.rglob("cgroup.procs"):
        procs.unlink()
    cgroups.remove(HOST)
    assert not top.parent.exists()


def test_a_group_that_is_busy_a_moment_is_removed_all_the_same(top: Path) -> None:
    *others, last = sorted(top.rglob("cgroup.procs"))
    for procs in others:
        procs.unlink()
    last.write_text("")
    freed = Timer(0.2, last.unlink)
    freed.start()
    cgroups.remove(HOST)
    freed.join()
    assert not top.parent.exists()


def test_a_group_that_stays_busy_ends_no_removal_in_a_loop(top: Path) -> None:
    for procs in top.rglob("cgroup.procs"):
        procs.write_text("")
    cgroups.remove(HOST, timeout=0.1)
    assert top.exists()


@pytest.mark.parametrize(("order", "found"), [((7, 8, 9), 8), ((9, 8, 7), 8), ((7, 9), None)])
def test_a_pods_first_process_is_not_that_of_its_host(
    order: tuple[int, ...], found: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their numbers may be lower than the host's own: the machine counts around."""
    for pid, inner in ((7, "500\t1"), (8, "1"), (9, "2")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "status").write_text(f"Name:\tx\nNSpid:\t{pid}\t{inner}\nUid:\t0\n")
    monkeypatch.setattr(cgroups, "PROC", tmp_path)
    monkeypatch.setattr(cgroups, "members", lambda _: order)
    assert cgroups.init(HOST) == found
