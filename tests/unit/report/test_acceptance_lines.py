"""The gates on a terminal: what nobody has measured is one block, what is known of a gate stands by itself."""

import io
from datetime import UTC, datetime

from rich.console import Console

from appliance.models.acceptance import Acceptance, Accepted, Gate, GateState
from appliance.models.waiver import Waiver
from appliance.report.console.acceptance import acceptance_lines

UNMEASURED = "no measurement of this site"


def gate(name: str, **more: object) -> Gate:
    benchmark = name.partition(".")[0]
    told = {"why": UNMEASURED, "close": f"appliance validate {benchmark}"} | more
    return Gate.model_validate({"id": name, "state": GateState.OPEN} | told)


def lines(*gates: Gate) -> list[str]:
    at = Console(file=io.StringIO(), width=100)
    acceptance_lines(at, Acceptance(verdict=Accepted.NOT_YET, gates=gates))
    assert isinstance(at.file, io.StringIO)
    return [" ".join(line.split()) for line in at.file.getvalue().splitlines()]


def test_gates_nobody_has_measured_share_a_block_and_each_command_stands_once() -> None:
    shown = lines(gate("nccl.host"), gate("nccl.cluster"), gate("burnin.done"))
    assert shown == [
        "Accepted: not yet. 3 gates are open:",
        "? 3 gates no measurement of this site: nccl.host, nccl.cluster, burnin.done",
        "close: appliance validate nccl",
        "close: appliance validate burnin",
    ]


def test_one_gate_alone_keeps_its_name_in_front() -> None:
    assert lines(gate("burnin.done"))[1] == f"? burnin.done {UNMEASURED}"


def test_what_is_known_of_a_gate_stands_by_itself() -> None:
    measured = datetime(2026, 11, 24, tzinfo=UTC)
    waiver = Waiver.model_validate(
        {"check": "fio.scratch_read", "reason": "ordered", "until": "2027-01-31"}
    )
    shown = lines(
        gate("dcgm.diag", state=GateState.FAILED, why="gpu-1/GPU 0: memory"),
        gate("nccl.host", source="run r1", measured=measured, why="not measured: gpu-2"),
        gate("fio.scratch_read", waivers=(waiver,)),
        gate("perftest.write_bw", why="fewer active ports are known", close=""),
        gate("burnin.done"),
        gate("gpt3.5b"),
    )
    own = [line.split()[1] for line in shown[1:] if line[0] in "?✗"]
    assert own == ["dcgm.diag", "nccl.host", "fio.scratch_read", "perftest.write_bw", "2"]
