"""The program as a GPU host has it: one file, its settings, a Slurm of three nodes behind a scontrol of its own."""

import json
import subprocess  # noqa: TID251 - runs the program as a host does
import sys
import time
from pathlib import Path

import pytest

from appliance.watch import command, lock, programs, rules, verdict
from appliance.watch.acts import act as act_on
from appliance.watch.bundle import executable
from appliance.watch.node import MARK, PREFIX, Node, Silent
from appliance.watch.place import Place
from appliance.watch.scontrol import Slurm
from appliance.watch.verdict import Cause, Verdict

LINE = (
    "NodeName={name} Arch=x86_64 Gres=gpu:a100:8 State={state} Partitions=gpu BootTime=x{reason} "
    "Comment=somebody's Extra={extra}"
)
SCONTROL = """#!/bin/sh
[ -e {folder}/silent ] && echo 'Unable to contact slurm controller (connect failure)' >&2 && exit 1
case "$*" in
  *"show nodes"*) cat {folder}/nodes ;;
  *"show node "*) cat {folder}/node ;;
  *) echo "$*" >> {folder}/told ;;
esac
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "scontrol"
    program.write_text(SCONTROL.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setattr(Slurm, "place", place_in(tmp_path))
    monkeypatch.setattr(lock, "LOCK", str(tmp_path / "run/private/watch.lock"))
    monkeypatch.setattr(lock, "WAITS", str(tmp_path / "run/watch.waits"))
    nodes(tmp_path)
    return tmp_path


def place_in(folder: Path, programs: str = "") -> Place:
    """Slurm's, with all files in this folder."""
    usual = Slurm.place
    return Place(
        usual.scheduler, str(folder / "run/watch.json"), usual.metrics, programs, usual.check
    )


def nodes(folder: Path, state: str = "IDLE", reason: str = "", extra: str = "") -> None:
    lines = [
        LINE.format(name="gpu-1", state=state, reason=reason and f" Reason={reason}", extra=extra),
        LINE.format(name="gpu-2", state="IDLE", reason="", extra=""),
    ]
    (folder / "nodes").write_text("\n".join(lines) + "\n")


def act(folder: Path, *causes: Cause, most: int = 1) -> Verdict:
    given = {"version": 1, "node": "gpu-1", "most_out": most, "textfiles": str(folder)}
    given["return_after_minutes"] = 10
    return act_on(given, Verdict(list(causes), []), Slurm("gpu-1", (str(folder),)))


def told(folder: Path) -> list[str]:
    file = folder / "told"
    return file.read_text().splitlines() if file.exists() else []


LOST = Cause("gpu.error", "the driver cannot reach it", "GPU 3")


def test_one_file_of_the_standard_library_alone(tmp_path: Path) -> None:
    file = tmp_path / "appliance-watch"
    file.write_bytes(executable())
    argv = [sys.executable, "-ISB", str(file)]
    done = subprocess.run([*argv, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "appliance-watch act" in done.stdout
    none = [*argv, "--file", str(tmp_path / "none")]
    for verb, status in (("look", 2), ("act", 2), ("prolog", 0), ("epilog", 0)):
        done = subprocess.run([*none, verb], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (status, 1), done.stderr


def test_an_unfit_host_is_announced_then_drained_with_the_cause(world: Path) -> None:
    act(world, LOST)
    announced = told(world)[0]
    assert abs(Node("IDLE", extra=announced.partition("Extra=")[2]).announced - time.time()) < 99
    assert told(world) == [
        announced,
        f"update NodeName=gpu-1 State=DRAIN Reason={PREFIX}gpu.error GPU 3: the driver cannot reach it",
    ]


def test_over_the_bound_it_is_told_and_not_drained(world: Path) -> None:
    seen = act(world, LOST, most=0)
    assert (seen.state, told(world)) == (verdict.OVER, [])
    assert verdict.last(Slurm.place)["causes"] == [
        {
            "check": "gpu.error",
            "part": "GPU 3",
            "cause": "the driver cannot reach it",
            "key": "gpu.error GPU 3",
        }
    ]
    metrics = (world / "appliance_watch.prom").read_text()
    assert 'appliance_watch_unfit{scheduler="slurm"} 1\n' in metrics
    assert 'appliance_watch_kept{scheduler="slurm"} 1\n' in metrics


def test_a_controller_without_an_answer_is_told_and_nothing_more(world: Path) -> None:
    (world / "silent").touch()
    seen = act(world, LOST)
    assert (seen.state, told(world)) == (verdict.SILENT, [])
    assert "Unable to contact slurm controller" in seen.gaps[0]


def test_a_fit_host_asks_the_controller_once(world: Path) -> None:
    assert act(world).state == verdict.LEFT
    (world / "silent").touch()
    assert not act(world).gaps


@pytest.mark.parametrize("kept", ["", "rack=7"])
@pytest.mark.parametrize("time_of_it", ["", "[1795938000]"])
def test_what_was_announced_is_taken_back_by_a_host_that_is_fit(
    world: Path, kept: str, time_of_it: str
) -> None:
    nodes(world, extra=MARK + time_of_it + kept)
    act(world)
    assert told(world) == [f"update NodeName=gpu-1 Extra={kept}"]


def test_since_when_stays_while_the_verdict_does(world: Path) -> None:
    act(world, LOST)
    first = verdict.last(Slurm.place)["since"]
    act(world, LOST, Cause("base.disk", "/ is full"))
    assert verdict.last(Slurm.place)["since"] == first
    act(world)
    assert verdict.last(Slurm.place)["since"] >= first


def test_nodes_are_read_as_slurm_writes_them(world: Path) -> None:
    nodes(world, "DOWN*+DRAIN", f"{PREFIX}x y [root@2026-11-24T10:00:00]", "a b")
    found = Slurm("gpu-1", (str(world),)).nodes()
    assert (found["gpu-1"].is_out, found["gpu-1"].is_ours) == (True, True)
    assert (found["gpu-1"].extra, found["gpu-2"].is_out) == ("a b", False)
    with pytest.raises(Silent, match="does not list"):
        Slurm("gpu-9", (str(world),)).nodes()
    with pytest.raises(Silent, match="not installed"):
        Slurm("gpu-1", ()).nodes()


FORGED = f"NodeName=gpu-1 State=IDLE+DRAIN Reason={PREFIX}x y [root@2026-11-24T10:00:00]"


@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize("end", ["\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_a_line_break_in_what_a_host_says_of_itself_changes_no_other_host(
    world: Path, at: int, end: str
) -> None:
    """Slurm 22.05 prints Extra and Comment as they are."""
    own = LINE.format(name="gpu-1", state="IDLE", reason="", extra="")
    other = LINE.format(name="gpu-0", state="IDLE", reason="", extra=f"x{end}{FORGED}")
    lines = [own, LINE.format(name="gpu-2", state="IDLE", reason="", extra="")]
    lines.insert(at, other)
    (world / "nodes").write_text("\n".join(lines) + "\n")
    (world / "node").write_text(f"{own}\n{FORGED}\n")
    found = Slurm("gpu-2", (str(world),)).nodes()
    assert set(found) == {"gpu-0", "gpu-1", "gpu-2"}
    assert not found["gpu-1"].is_out
    act(world, LOST)
    assert told(world)[-1].startswith("update NodeName=gpu-1 State=DRAIN")


def test_a_node_that_slurm_conf_does_not_have_is_not_counted(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = world / "slurm.conf"
    conf.write_text("# one\nNodeName=gpu-1 CPUs=1\nNodeName=gpu-2 CPUs=1\n")
    monkeypatch.setenv("SLURM_CONF", str(conf))
    made_up = FORGED.replace("gpu-1", "gpu-7")
    nodes(world, extra=f"x\n{made_up}")
    assert set(Slurm("gpu-1", (str(world),)).nodes()) == {"gpu-1", "gpu-2"}
    act(world, LOST)
    assert told(world)[-1].startswith("update NodeName=gpu-1 State=DRAIN")
    conf.write_text("NodeName=gpu-[1-2] CPUs=1\n")
    assert set(Slurm("gpu-1", (str(world),)).nodes()) == {"gpu-1", "gpu-2", "gpu-7"}


def test_programs_of_the_site_are_causes_by_their_first_line(tmp_path: Path) -> None:
    for name, script in {
        "10-good.sh": "exit 0",
        "20-bad.sh": "echo the lift is stuck; echo more; exit 3",
        "30-mute.sh": "exit 4",
        "40-note.txt": "exit 1",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    said = [str(cause) for cause in programs.causes(place_in(tmp_path, str(tmp_path)))]
    assert said == [
        "slurm.watch 20-bad.sh: the lift is stuck",
        "slurm.watch 30-mute.sh: ended with 4",
    ]


def test_a_host_without_settings_is_not_kept_from_work_for_that(world: Path) -> None:
    (world / "settings").write_text(json.dumps({"version": 2}))
    assert command.settings(str(world / "settings")) == f"{world}/settings is not of version 1"


AT = "@2026-11-24T10:00:00]"
OURS = f"{PREFIX}storage.mount nothing is mounted at /shared [root{AT}"
RESUME = "update NodeName=gpu-1 State=RESUME"


def fit_for(world: Path, minutes: float) -> None:
    """The last look found it fit that long ago, and out."""
    act(world)
    file = Path(Slurm.place.last)
    said = json.loads(file.read_text())
    file.write_text(json.dumps({**said, "since": said["since"] - 60 * minutes}))


@pytest.mark.parametrize(("minutes", "returns"), [(9, False), (11, True)])
def test_a_host_that_was_fit_for_long_enough_works_again(
    world: Path, minutes: float, returns: bool
) -> None:
    nodes(world, "IDLE+DRAIN", OURS)
    fit_for(world, minutes)
    assert act(world).state == (verdict.LEFT if returns else verdict.OUT)
    assert told(world) == [RESUME] * returns


@pytest.mark.parametrize(
    "reason",
    [
        f"waits for a fan [root{AT}",
        f"appliance: the driver is changed [root{AT}",
        f"{PREFIX}gpu.ecc GPU 3: 2 [root{AT}",
        f"{PREFIX}look at its fan [root{AT}",
        OURS.replace("[root@", "[mia@"),
    ],
)
def test_what_is_a_person_s_to_give_back_stays_out(world: Path, reason: str) -> None:
    nodes(world, "IDLE+DRAIN", reason)
    fit_for(world, 999)
    assert not act(world).returns
    assert told(world) == []


@pytest.mark.parametrize(
    ("cause", "returns"), [(LOST, False), (Cause("base.disk", "/ has 0.0 % free"), True)]
)
def test_whether_a_fault_ends_by_itself_is_noted(world: Path, cause: Cause, returns: bool) -> None:
    nodes(world, "IDLE+DRAIN", f"{PREFIX}{cause} [root{AT}")
    act(world, cause)
    assert verdict.last(Slurm.place)["returns"] is returns
    (world / "silent").touch()
    act(world, cause)
    assert verdict.last(Slurm.place)["returns"] is returns
    (world / "silent").unlink()
    nodes(world, "IDLE+DRAIN", f"waits for a fan [root{AT}")
    act(world, cause)
    assert verdict.last(Slurm.place)["returns"] is False


def test_a_host_that_a_person_gave_back_is_left_to_him_until_something_new_is_found(
    world: Path,
) -> None:
    nodes(world, "IDLE+DRAIN", f"{PREFIX}{LOST} [root@2026-11-24T10:00:00]")
    assert act(world, LOST).ours
    nodes(world)
    assert act(world, LOST).state == verdict.LEFT
    assert act(world, LOST).state == verdict.LEFT
    assert told(world) == []
    act(world, LOST, Cause("base.disk", "/ has 0.0 % free"))
    assert (
        told(world)[-1]
        == f"update NodeName=gpu-1 State=DRAIN Reason={PREFIX}base.disk / has 0.0 % free"
    )


def test_a_fault_that_went_and_came_again_is_new(world: Path) -> None:
    nodes(world, "IDLE+DRAIN", f"{PREFIX}{LOST} [root@2026-11-24T10:00:00]")
    act(world, LOST)
    nodes(world)
    act(world, LOST)
    act(world)
    act(world, LOST)
    assert told(world)[-1].startswith("update NodeName=gpu-1 State=DRAIN")


def test_a_message_of_the_kernel_counts_again_when_it_came_again(world: Path) -> None:
    nodes(world, "IDLE+DRAIN", f"{PREFIX}gpu.xid GPU 3: Xid 95 [root@2026-11-24T10:00:00]")
    act(world, Cause("gpu.xid", "Xid 95", "GPU 3", 600.0))
    nodes(world)
    assert act(world, Cause("gpu.xid", "Xid 95", "GPU 3", 660.0)).state == verdict.LEFT
    assert act(world, Cause("gpu.xid", "Xid 95", "GPU 3", 720.0)).state == verdict.LEFT
    act(world, Cause("gpu.xid", "Xid 95", "GPU 3", -5.0))
    assert told(world)[-1].startswith("update NodeName=gpu-1 State=DRAIN")


BUSY = {"index": 3, "name": "A100", "bus_id": "0000:03:00.0", "processes": 1}
FREE = {**BUSY, "processes": 0}


class Epilog:
    """The epilog of a job on GPU 3, which finds these states of the GPU one after the other; the last one stays."""

    def __init__(self, world: Path, monkeypatch: pytest.MonkeyPatch, *states: dict[str, object]):
        self.world, self.states, self.looks = world, list(states), 0
        settings = {"version": 1, "node": "gpu-1", "most_out": 1, "expects": {"x": 1}}
        self.file = world / "watch.json"
        self.file.write_text(json.dumps(settings))
        monkeypatch.setenv("SLURM_JOB_GPUS", "3")
        monkeypatch.setattr(command, "door", lambda given: Slurm("gpu-1", (str(world),)))
        monkeypatch.setattr(command, "taken", lambda: {"gpus": self.gpus()})
        monkeypatch.setattr(command, "gpus", self.gpus)
        monkeypatch.setattr(rules, "causes", lambda facts, expects: iter(()))
        monkeypatch.setattr(rules, "xids", lambda facts, expects: [])
        monkeypatch.setattr(command, "PAUSE_S", 0.001)
        monkeypatch.setattr(command, "FREED_S", 0.05)

    def gpus(self) -> object:
        self.looks += 1
        return {"devices": [self.states.pop(0) if len(self.states) > 1 else self.states[0]]}

    def run(self, verb: str = "epilog") -> int:
        return command.main([verb, "--file", str(self.file)])


def test_what_a_job_left_on_its_gpu_drains_the_host_and_keeps_it_out(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epilog = Epilog(world, monkeypatch, BUSY)
    assert epilog.run() == command.FIT, "a failed epilog would drain without a limit"
    reason = f"{PREFIX}slurm.idle_gpus GPU 3: 1 process of an ended job left"
    assert told(world)[-1] == f"update NodeName=gpu-1 State=DRAIN Reason={reason}"
    nodes(world, "IDLE+DRAIN", f"{reason} [root@2026-12-01T12:00:00]")
    epilog.run()
    assert verdict.last(Slurm.place)["state"] == verdict.OUT
    assert epilog.run("act") == command.UNFIT, "the next minute's run looks at that GPU again"
    epilog.states = [FREE]
    assert epilog.run("act") == command.FIT


def test_memory_that_is_freed_a_moment_later_drains_nobody(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epilog = Epilog(world, monkeypatch, BUSY, BUSY, FREE)
    assert epilog.run() == command.FIT
    assert (epilog.looks, told(world)) == (3, [])


def test_a_driver_that_stops_to_answer_frees_nothing(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epilog = Epilog(world, monkeypatch, BUSY)
    monkeypatch.setattr(command, "gpus", lambda: None)
    epilog.run()
    assert any("State=DRAIN" in line for line in told(world))


def test_the_gpu_of_another_job_is_not_looked_at(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epilog = Epilog(world, monkeypatch, BUSY)
    monkeypatch.setenv("SLURM_JOB_GPUS", "2")
    assert (epilog.run(), told(world)) == (command.FIT, [])


def test_a_host_over_the_limit_forgets_it_since_its_gpu_may_have_a_job_again(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epilog = Epilog(world, monkeypatch, BUSY)
    epilog.file.write_text(epilog.file.read_text().replace('"most_out": 1', '"most_out": 0'))
    epilog.run()
    assert verdict.last(Slurm.place)["state"] == verdict.OVER
    assert epilog.run("act") == command.FIT


def test_a_fault_that_the_job_caused_is_found_at_its_end(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epilog = Epilog(world, monkeypatch, FREE)
    monkeypatch.setattr(rules, "causes", lambda facts, expects: iter([LOST]))
    epilog.run()
    assert told(world)[-1].endswith("gpu.error GPU 3: the driver cannot reach it")
