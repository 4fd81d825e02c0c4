"""Hosts that share a directory: the program is run by several at once, and files or locks that do not reach the others are told."""

import json
import os
import subprocess  # noqa: TID251 - the program is run as hosts run it
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from appliance.benchmarks.fio.gates import LOCKS, VISIBLE
from appliance.benchmarks.fio.meeting import PROGRAM, judge
from appliance.benchmarks.jobs import HostOutput, Trouble
from appliance.checks.check import View
from appliance.models.result import CheckResult, Status
from tests.support.facts import facts_of
from tests.support.fio_hosts import view

Told = Mapping[str, Any] | HostOutput


def met(folder: Path, hosts: int, program: str) -> list[dict[str, Any]]:
    """What so many hosts say that run the program at once."""
    argv = [sys.executable, "-c", program, str(folder / "met"), str(hosts)]
    started = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(hosts)]
    return [json.loads(process.communicate(timeout=60)[0]) for process in started]


def verdicts(said: Sequence[Told], bound: float | None = None) -> dict[str, CheckResult]:
    hosts = {
        f"gpu-{n}": one if isinstance(one, HostOutput) else HostOutput(json.dumps(one))
        for n, one in enumerate(said, 1)
    }
    limits = {} if bound is None else {VISIBLE: bound}
    return {r.id: r for r in judge(view(len(hosts), limits), "/data", hosts)}


def sound(**changes: Any) -> list[dict[str, Any]]:
    """What three hosts say where all is well; gpu-2 came first."""
    common = {"longest": 0.0, "lock": "refused", "counted": 75, "added": 75}
    said = [{"place": n, **common} for n in range(3)]
    said[0] |= {"lock": "held", "longest": 0.5, **changes}
    return [said[1], said[0], said[2]]


def failures(found: Mapping[str, CheckResult]) -> dict[str, str]:
    return {check: r.cause for check, r in found.items() if r.status is Status.FAIL}


def test_hosts_on_one_file_system_see_each_other_and_leave_nothing(tmp_path: Path) -> None:
    said = met(tmp_path, 3, PROGRAM.read_text())
    assert sorted(one["place"] for one in said) == [0, 1, 2]
    assert list(tmp_path.iterdir()) == []
    found = verdicts(said)
    assert {r.status for r in found.values()} == {Status.PASS}
    assert (found[LOCKS].value, found[LOCKS].target) == (75, "cluster/data 3 hosts")


@pytest.mark.parametrize(
    ("right", "wrong", "check", "told"),
    [
        ("fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_UN", LOCKS, " got a lock that "),
        ("write(str(number + 1))", "write('1')", LOCKS, "74 of 75 additions under a lock were lost"),
        ('    with folder.file("lock", "a+"', '    raise OSError(37, "No locks available")\n    with folder.file("lock", "a+"', LOCKS, "No locks available"),
        ('say(folder, f"answer-', 'time.sleep(2.2); say(folder, f"answer-', VISIBLE, "all hosts see a file 1."),
        ('say(folder, "asked", word)', "pass", VISIBLE, "round 0 was not seen within 1 s"),
    ],
)  # fmt: skip
def test_what_does_not_hold_between_hosts_is_told(
    tmp_path: Path, right: str, wrong: str, check: str, told: str
) -> None:
    program = PROGRAM.read_text()
    assert right in program
    broken = program.replace(right, wrong).replace("ROUNDS, ADDED = 5,", "ROUNDS, ADDED = 1,")
    patience = "1.0" if "not seen" in told else "20.0"
    bad = failures(verdicts(met(tmp_path, 3, broken.replace("= 20.0,", f"= {patience},"))))
    assert list(bad) == [check]
    assert told in bad[check]


@pytest.mark.parametrize(
    ("longest", "bound", "status"),
    [
        (2.0, None, Status.PASS),
        (2.01, None, Status.FAIL),
        (0.4, 0.2, Status.PASS),
        (0.41, 0.2, Status.FAIL),
    ],
)
def test_half_of_the_way_there_and_back_is_judged(
    longest: float, bound: float | None, status: Status
) -> None:
    found = verdicts(sound(longest=longest), bound)[VISIBLE]
    assert (found.status, found.limit, found.unit) == (status, bound or 1.0, "s")


@pytest.mark.parametrize(
    ("changes", "check", "status"),
    [
        ([{"counted": 74}], LOCKS, Status.FAIL),
        ([{"counted": 0, "added": 0}], LOCKS, Status.NOT_ASSESSED),
        ([{"counted": -1, "added": -1}], LOCKS, Status.NOT_ASSESSED),
        ([{"lock": ""}], LOCKS, Status.NOT_ASSESSED),
        ([{}, {"lock": "held"}], LOCKS, Status.NOT_ASSESSED),
        ([{}, {}, {"lock": "perhaps"}], LOCKS, Status.NOT_ASSESSED),
        ([{}, {"trouble": "No locks available"}], LOCKS, Status.FAIL),
        ([{"longest": None}], VISIBLE, Status.FAIL),
        ([{}, {}, {"longest": None}], VISIBLE, Status.FAIL),
        ([{}, {"place": 0}], VISIBLE, Status.FAIL),
        ([{}, {"place": 2}], VISIBLE, Status.FAIL),
        ([{"place": 3}], VISIBLE, Status.FAIL),
        ([{}, {"place": None}], VISIBLE, Status.FAIL),
    ],
)
def test_what_is_not_said_of_all_hosts_is_no_pass(
    changes: list[dict[str, Any]], check: str, status: Status
) -> None:
    """By place; the host that came first has the first change."""
    told = sound()
    for place, change in enumerate(changes):
        next(one for one in told if one["place"] == place).update(change)
    assert verdicts(told)[check].status is status


def test_what_could_not_be_seen_says_nothing_of_the_lock_and_names_the_host() -> None:
    told = sound()
    told[2] |= {"longest": None, "trouble": "round 0 was not seen within 20 s"}
    found = verdicts(told)
    assert found[VISIBLE].cause.endswith("other's files: gpu-3: round 0 was not seen within 20 s")
    assert (found[VISIBLE].limit, found[VISIBLE].unit) == (1.0, "s")
    assert found[LOCKS].status is Status.NOT_ASSESSED


def test_a_sound_meeting_says_what_it_counted_and_how_long_it_took() -> None:
    found = verdicts(sound())
    assert (found[LOCKS].value, found[LOCKS].limit, found[LOCKS].unit) == (75, 75, "additions")
    assert (found[VISIBLE].value, found[VISIBLE].simulated) == (0.25, False)
    assert verdicts(sound(longest=2.5))[VISIBLE].value == 1.25


def test_a_meeting_in_which_one_host_is_a_container_is_of_no_hardware() -> None:
    seen = view(3)
    inside = facts_of("gpu-3", os={"container": "nspawn"})
    said = {f"gpu-{n}": HostOutput(json.dumps(one)) for n, one in enumerate(sound(), 1)}
    found = judge(View(seen.profile, seen.site, {**seen.facts, "gpu-3": inside}), "/data", said)
    assert [r.simulated for r in found] == [True, True]


def test_the_hosts_whose_lock_is_their_own_are_named() -> None:
    said = sound()
    said[2] |= {"lock": "got"}
    (cause,) = failures(verdicts(said)).values()
    assert cause == "gpu-3 got a lock that gpu-2 held: locks apply only within one host"


def test_hosts_that_do_not_see_each_other_say_nothing_of_locks() -> None:
    said: list[Told] = [{"place": n, "trouble": "host 1 was not seen"} for n in (0, 0)]
    found = verdicts(said)
    assert found[VISIBLE].status is Status.FAIL
    assert found[LOCKS].status is Status.NOT_ASSESSED


@pytest.mark.parametrize(
    ("odd", "status"),
    [
        (HostOutput(trouble=Trouble.NO_TOOL, cause="python3 is not there"), Status.NOT_ASSESSED),
        (HostOutput("no document"), Status.ERROR),
        (HostOutput('{"place": 0, "longest": -1}'), Status.ERROR),
    ],
)
def test_a_host_that_did_not_take_part_is_told_and_nothing_is_said_of_all(
    odd: HostOutput, status: Status
) -> None:
    found = verdicts([*sound(), odd])
    assert {check: (r.status, r.host) for check, r in found.items()} == {VISIBLE: (status, "gpu-4")}


def alone(folder: Path) -> dict[str, Any]:
    argv = [sys.executable, "-c", PROGRAM.read_text(), str(folder), "1"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("plant", ["link", "open", "file", "eve's"])
def test_a_folder_that_somebody_else_prepared_is_not_met_in(tmp_path: Path, plant: str) -> None:
    """Its name stands in the arguments of all processes."""
    folder, victim = tmp_path / "met", tmp_path / "victim"
    victim.mkdir(0o700)
    (victim / "lock").write_text("kept")
    if plant == "link":
        folder.symlink_to(victim)
    elif plant == "file":
        folder.touch()
    else:
        folder.mkdir(0o777 if plant == "open" else 0o700)
        folder.chmod(0o777 if plant == "open" else 0o700)
        if plant == "eve's" and os.geteuid():
            pytest.skip("needs another user")
        if plant == "eve's":
            os.chown(folder, 61235, 61235)
    said = alone(folder)
    assert (said["place"], "is not the folder of this measurement" in said["trouble"]) == (
        None,
        True,
    )
    assert (victim / "lock").read_text() == "kept"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["met", "victim"]


@pytest.mark.parametrize("name", ["here-0", "asked", "lock", "held", "added-0"])
@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_no_link_or_pipe_in_the_folder_leads_anywhere(tmp_path: Path, name: str, kind: str) -> None:
    """Where the server takes all for nobody, others could put one there."""
    folder, victim = tmp_path / "met", tmp_path / "victim"
    folder.mkdir(0o700)
    victim.write_text("7")
    if kind == "link":
        (folder / name).symlink_to(victim)
    else:
        os.mkfifo(folder / name)
    said = alone(folder)
    assert said.get("trouble")
    assert victim.read_text() == "7"
