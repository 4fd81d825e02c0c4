"""The program on a host: only what differs, never a GPU in use, all or nothing, and again after a reboot or a kill."""

import json
import os
import signal
import subprocess  # noqa: TID251 - a program that is to be killed must be held by its handle
import sys
from pathlib import Path
from typing import Any

import pytest

from appliance.lab.hardware import Hardware
from appliance.mig import clients
from appliance.mig import host as module
from appliance.mig.change import CHANGED, FAILED, PENDING, change
from appliance.mig.gpu import Gpu
from appliance.mig.layout import WHOLE, Layout, Refused, Spot, parse, words
from appliance.probe.nvml import FUNCTION_NOT_FOUND, Failure, Library
from tests.support.mig_host import MigHost, opened

BALANCED = [
    {"profile": "3g.40gb", "id": 9, "start": 0, "size": 4},
    {"profile": "2g.20gb", "id": 14, "start": 4, "size": 2},
    {"profile": "1g.10gb", "id": 19, "start": 6, "size": 1},
]
HALF = Layout(True, (Spot(9, 4, 4, "3g.40gb"),))


def declare(host: MigHost, *gpus: list[dict[str, Any]], count: int = 2) -> str:
    """Writes the declared layout of the first GPUs; returns the file."""
    file = host.run.parent / "mig.json"
    said = {str(index): spots for index, spots in enumerate(gpus)}
    file.write_text(json.dumps({"version": 1, "count": count, "gpus": said}))
    return str(file)


def apply(host: MigHost, *gpus: list[dict[str, Any]], count: int = 2) -> list[dict[str, Any]]:
    done = host.mig("apply", "--json", "--file", declare(host, *gpus, count=count))
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert done.returncode == (0 if {g["state"] for g in found} <= {"changed", "unchanged"} else 1)
    return found


def test_makes_what_is_declared_once_and_leaves_other_gpus_alone(host: MigHost) -> None:
    assert [g["state"] for g in apply(host, BALANCED)] == ["changed"]
    assert [g["state"] for g in apply(host, BALANCED)] == ["unchanged"]
    listed = host.smi("-L").stdout.splitlines()
    assert [line.split()[1] for line in listed if "MIG" in line] == [
        "3g.40gb",
        "2g.20gb",
        "1g.10gb",
    ]
    shown = json.loads(host.mig("show", "--json").stdout)
    assert [g["layout"] for g in shown] == ["3g.40gb, 2g.20gb, 1g.10gb", "whole"]


def test_only_instances_that_differ_are_made_anew(host: MigHost) -> None:
    apply(host, BALANCED)
    before = host.smi("-L").stdout
    (found,) = apply(host, BALANCED[:2])
    assert found["steps"] == ["remove 1g.10gb at 6"]
    assert set(host.smi("-L").stdout.splitlines()) < set(before.splitlines())


def test_a_gpu_becomes_whole_again(host: MigHost) -> None:
    apply(host, BALANCED)
    (found,) = apply(host, [])
    assert (found["state"], found["layout"]) == ("changed", "whole")
    assert host.smi("--query-gpu=mig.mode.current", "--format=csv,noheader").stdout.split() == [
        "Disabled",
        "Disabled",
    ]


def test_the_same_devices_are_there_after_a_reboot(host: MigHost) -> None:
    apply(host, BALANCED, BALANCED)
    before = host.smi("-L").stdout
    host.reboot()
    assert "MIG" not in host.smi("-L").stdout
    apply(host, BALANCED, BALANCED)
    assert host.smi("-L").stdout == before


@pytest.mark.parametrize(("part", "kept"), [("a100-sxm", "Enabled"), ("h100-sxm", "Disabled")])
def test_a100_keeps_its_mode_over_a_reboot_and_hopper_does_not(
    layer: Path, tmp_path: Path, part: str, kept: str
) -> None:
    host = MigHost(layer, tmp_path, Hardware(part, 1))
    apply(host, BALANCED, count=1)
    host.reboot()
    said = host.smi("--query-gpu=mig.mode.current", "--format=csv,noheader").stdout
    assert said.strip() == kept


@pytest.mark.parametrize("where", [(), ("2",)], ids=["on the GPU", "on an instance"])
def test_a_gpu_in_use_is_never_touched_and_its_processes_are_named(
    host: MigHost, where: tuple[str, ...]
) -> None:
    apply(host, BALANCED, BALANCED)
    before = host.smi("-L").stdout
    host.use(1, *where)
    untouched, refused = apply(host, BALANCED, [])
    assert (untouched["state"], refused["state"]) == ("unchanged", "refused")
    (process,) = refused["processes"]
    assert process["pid"] == os.getpid()
    assert process["name"] in refused["why"]
    assert process["user"] in refused["why"]
    assert host.smi("-L").stdout == before
    planned = json.loads(host.mig("plan", "--json", "--file", declare(host, BALANCED, [])).stdout)
    assert [g["state"] for g in planned] == ["unchanged", "refused"]
    host.leave()
    assert [g["state"] for g in apply(host, BALANCED, [])] == ["unchanged", "changed"]


def test_a_gpu_that_is_as_declared_may_be_in_use(host: MigHost) -> None:
    apply(host, BALANCED)
    host.use(0, "1")
    assert [g["state"] for g in apply(host, BALANCED)] == ["unchanged"]


def test_plan_changes_nothing(host: MigHost) -> None:
    done = host.mig("plan", "--json", "--file", declare(host, BALANCED))
    (planned,) = json.loads(done.stdout)
    assert planned["state"] == "differs"
    assert planned["steps"][0] == "turn MIG mode on"
    assert "MIG" not in host.smi("-L").stdout


def test_what_the_driver_does_not_offer_is_refused_before_anything_is_touched(
    host: MigHost,
) -> None:
    apply(host, BALANCED)
    before = host.smi("-L").stdout
    (found,) = apply(host, [{"profile": "5g.50gb", "id": 99, "start": 0, "size": 5}])
    assert found["state"] == "refused"
    assert "no profile 99 (5g.50gb); it has 1g.10gb (19)" in found["why"]
    (found,) = apply(host, [{"profile": "2g.20gb", "id": 14, "start": 1, "size": 2}])
    assert "2g.20gb can start at 0, 2, 4, not at 1; the previous layout" in found["why"]
    assert host.smi("-L").stdout == before


def test_a_layout_that_fails_half_way_is_put_back(
    host: MigHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(host, BALANCED)
    before = host.smi("-L").stdout
    with opened(host) as library:
        gpu = Gpu(library, 0)
        make, made = Gpu.make, []

        def fragile(self: Gpu, spot: Spot) -> None:
            made.append(spot)
            if len(made) == 2:
                raise Failure("DeviceCreateGpuInstanceWithPlacement: Insufficient Resources")
            make(self, spot)

        monkeypatch.setattr(Gpu, "make", fragile)
        wanted = Layout(True, tuple(Spot(15, start, 2, "1g.20gb") for start in (0, 2, 4, 6)))
        outcome = change(gpu, wanted)
    assert outcome.state == FAILED
    assert "the previous layout (3g.40gb, 2g.20gb, 1g.10gb) was restored" in outcome.why
    assert host.smi("-L").stdout == before


def test_a_whole_gpu_is_whole_again_after_a_failure(
    host: MigHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Gpu, spot: Spot) -> None:
        raise Failure("no")

    monkeypatch.setattr(Gpu, "make", broken)
    with opened(host) as library:
        gpu = Gpu(library, 0)
        assert change(gpu, HALF).why == "no; the previous layout (whole) was restored"
        assert gpu.layout() == WHOLE


def test_who_only_watches_is_stopped_for_the_moment_of_the_change(
    host: MigHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.use(0, "client")
    stopped = []

    def stop() -> list[str]:
        stopped.append("dcgm.service")
        host.leave()
        return stopped

    monkeypatch.setattr(clients, "stop", stop)
    with opened(host) as library:
        assert change(Gpu(library, 0), HALF).state == CHANGED
    assert stopped == ["dcgm.service"]


def test_a_mode_that_waits_is_said_and_taken_up_later(
    host: MigHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.use(0, "client")
    monkeypatch.setattr(clients, "stop", list)
    monkeypatch.setattr(clients, "reset", lambda index: False)
    with opened(host) as library:
        gpu = Gpu(library, 0)
        outcome = change(gpu, HALF)
        assert (outcome.state, gpu.mode(), gpu.layout()) == (PENDING, (False, True), WHOLE)
        assert "reboot the host" in outcome.why
        host.reboot()
        assert gpu.mode() == (True, True)
        assert change(gpu, HALF).state == CHANGED


def test_a_reset_makes_a_waiting_mode_current(
    host: MigHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.use(0, "client")
    monkeypatch.setattr(clients, "stop", list)

    def reset(index: int) -> bool:
        host.leave()
        return host.smi("--gpu-reset", "-i", str(index)).returncode == 0

    monkeypatch.setattr(clients, "reset", reset)
    with opened(host) as library:
        assert change(Gpu(library, 0), HALF).state == CHANGED


def test_instances_without_compute_instances_are_made_good(host: MigHost) -> None:
    apply(host, BALANCED)
    before = host.smi("-L").stdout
    assert host.smi("mig", "-dci", "-i", "0").returncode == 0
    assert host.smi("-L").stdout != before
    apply(host, BALANCED)
    assert host.smi("-L").stdout == before


def test_a_killed_run_is_mended_by_the_next(host: MigHost) -> None:
    file = declare(host, BALANCED, BALANCED)
    for moment in range(1, 9):
        host.reboot()
        killed(host, file, moment)
        done = host.mig("apply", "--json", "--file", file)
        assert done.returncode == 0, done.stdout
        shown = json.loads(host.mig("show", "--json").stdout)
        assert {g["layout"] for g in shown} == {"3g.40gb, 2g.20gb, 1g.10gb"}


KILLER = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from appliance.probe.nvml import Library
call, left = Library.call, [int(sys.argv[3])]
def counted(self, name, *arguments):
    if "Create" in name or "SetMig" in name:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    return call(self, name, *arguments)
Library.call = counted
from appliance.mig.command import main
main(["apply", "--file", sys.argv[2]])
"""


def killed(host: MigHost, file: str, moment: int) -> None:
    """A run that dies, as by power, before its so-many-th change of a GPU."""
    argv = (sys.executable, "-c", KILLER, str(host.program), file, str(moment))
    done = subprocess.run(argv, env={**os.environ, **host.env}, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_numbers_that_may_have_moved_are_not_trusted(host: MigHost) -> None:
    host.state["gpu0"]["off_bus"] = 1
    host.write()
    done = host.mig("apply", "--file", declare(host, BALANCED, []))
    assert done.returncode == 2
    assert "1 of 2 GPUs answer, and GPU numbers shift if one is missing" in done.stderr
    assert "MIG" not in host.smi("-L").stdout


def test_where_all_are_alike_the_ones_that_answer_are_divided(host: MigHost) -> None:
    host.state["gpu0"]["lost"] = 1
    host.write()
    assert [g["state"] for g in apply(host, BALANCED, BALANCED)] == ["failed", "changed"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"version": 2}', "has version 2, but this program supports 1"),
        ('{"version": 1, "count": 2, "gpus": {"7": []}}', "GPU 7 is declared, but the host has 2"),
        ('{"version": 1, "count": 2, "gpus": {"0": [{"id": 9}]}}', "cannot be read: KeyError"),
    ],
)
def test_a_declaration_that_cannot_be_read_is_one_line(host: MigHost, text: str, said: str) -> None:
    file = host.run.parent / "bad.json"
    file.write_text(text)
    done = host.mig("apply", "--file", str(file))
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_driver_it_says_so(host: MigHost) -> None:
    host.file.unlink()
    done = host.mig("show")
    assert (done.returncode, done.stderr) == (
        2,
        "appliance-mig: the driver does not answer: NVML does not start: Driver Not Loaded\n",
    )


def test_people_read_it_too(host: MigHost) -> None:
    apply(host, BALANCED)
    host.use(0, "1")
    said = host.mig("show").stdout
    assert said.startswith("GPU 0: 3g.40gb, 2g.20gb, 1g.10gb\n  3g.40gb      at 0  MIG-")
    assert f"  used by {os.getpid()} " in said
    assert said.endswith("GPU 1: whole\n")


def test_words_of_a_layout() -> None:
    twice = Layout(True, (Spot(19, 0, 1, "1g.10gb"), Spot(19, 1, 1, "1g.10gb"), HALF.spots[0]))
    assert words(twice) == "3g.40gb, 2 x 1g.10gb"
    assert (words(WHOLE), words(Layout(True))) == ("whole", "empty")


def shown(host: MigHost, count: int) -> None:
    """The driver shows so many GPUs from now on."""
    host.state["system"]["count"] = count
    host.write()


@pytest.fixture
def kept(host: MigHost, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """What a divided host keeps: its declared layout and the program. Both GPUs are divided."""
    apply(host, BALANCED, BALANCED)
    declared = Path(declare(host, BALANCED, BALANCED))
    monkeypatch.setattr(module, "DECLARED", str(declared))
    monkeypatch.setattr(module, "PROGRAM", str(host.program))
    monkeypatch.setattr(clients, "retire", lambda: None)
    return declared, host.program


def test_whole_gpus_need_nothing_at_boot_any_more(host: MigHost, kept: tuple[Path, Path]) -> None:
    with opened(host) as library:
        results = module.disable(library)
    assert [r["state"] for r in results] == ["changed", "changed"]
    assert not any(path.exists() for path in kept)


@pytest.mark.parametrize(("count", "said"), [(0, "shows no GPU"), (1, "1 of 2 GPUs answer")])
def test_what_divides_gpus_stays_where_some_of_them_are_not_seen(
    host: MigHost, kept: tuple[Path, Path], count: int, said: str
) -> None:
    before = host.smi("-L").stdout
    shown(host, count)
    with opened(host) as library, pytest.raises(Refused, match=said):
        module.disable(library)
    assert all(path.exists() for path in kept)
    shown(host, 2)
    assert host.smi("-L").stdout == before


def test_a_gpu_stays_as_it_is_where_nobody_tells_who_uses_it(
    host: MigHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Library.call

    def older(self: Library, name: str, *arguments: object) -> int:
        return FUNCTION_NOT_FOUND if name.endswith("Processes_v3") else call(self, name, *arguments)

    monkeypatch.setattr(Library, "call", older)
    declared = parse(Path(declare(host, BALANCED, BALANCED)).read_text())
    with opened(host) as library:
        results = module.apply(library, declared)
        assert Gpu(library, 0).layout() == WHOLE
    assert {r["state"] for r in results} == {"failed"}
    assert "does not list the processes" in results[0]["why"]
