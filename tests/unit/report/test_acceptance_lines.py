"""The gates on a terminal: what nobody has measured is one block, what is known of a gate stands by itself.

Who plans or deploys sees a folded block, whatever the number of gates.
"""

import io
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from rich.console import Console

from appliance.models.acceptance import Acceptance, Accepted, Gate, GateState
from appliance.models.run import RunRecord
from appliance.models.waiver import Waiver
from appliance.report.console import run_summary
from appliance.report.console.acceptance import LINES, acceptance_fold, acceptance_lines

UNMEASURED = "no measurement of this site"


RecordBuilder = Callable[..., RunRecord]


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
        gate("perftest.write_bw", why="fewer active ports than the class has", close=""),
        gate("burnin.done"),
        gate("gpt3.5b"),
    )
    own = [line.split()[1] for line in shown[1:] if line[0] in "?✗"]
    assert own == ["dcgm.diag", "nccl.host", "fio.scratch_read", "perftest.write_bw", "2"]


def folded(verdict: Accepted, *gates: Gate, stands: bool = True, why: str = "") -> list[str]:
    at = Console(file=io.StringIO(), width=100)
    acceptance_fold(at, Acceptance(verdict=verdict, gates=gates, why=why), stands=stands)
    assert isinstance(at.file, io.StringIO)
    return [" ".join(line.split()) for line in at.file.getvalue().splitlines()]


def test_folded_gates_stand_by_reason_and_by_the_command_that_closes_them() -> None:
    shown = folded(
        Accepted.NOT_YET,
        gate("nccl.host"),
        gate("nccl.cluster"),
        gate("dcgm.diag", state=GateState.PASSED),
        gate("perftest.write_bw", why="fewer active ports than the class has", close=""),
        gate("burnin.done"),
    )
    assert shown == [
        "Accepted: not yet. 4 gates are open. The deployment stands.",
        "? no measurement of this site",
        "nccl.host, nccl.cluster: appliance validate nccl",
        "burnin.done: appliance validate burnin",
        "? fewer active ports than the class has",
        "perftest.write_bw",
    ]


def test_a_failed_gate_comes_first_and_is_no_failure_of_the_deployment() -> None:
    shown = folded(
        Accepted.NO,
        gate("burnin.done"),
        gate("fio.total_read", state=GateState.FAILED, why="too slow", value=3, unit="GB/s"),
    )
    assert shown[0] == "Accepted: no. 1 gate failed; 1 gate is open. The deployment stands."
    assert shown[1].startswith("✗ too slow · 3 GB/s")
    assert shown[2] == "fio.total_read: appliance validate fio"


def test_a_deployment_that_does_not_stand_is_not_said_to() -> None:
    assert folded(Accepted.NOT_YET, gate("burnin.done"), stands=False)[0].endswith("open:")


def test_simulated_hardware_has_its_gates_counted_and_none_to_close() -> None:
    shown = folded(Accepted.SIMULATED, gate("burnin.done"), gate("gpt3.5b"), why="simulated")
    assert shown == [
        "Accepted: no. Simulated. The deployment stands.",
        "Real hardware of its class has 2 gates to pass.",
    ]


def test_many_gates_with_many_reasons_stay_one_block_and_none_is_left_uncounted() -> None:
    gates = [gate(f"x{number}.y", why=f"stale since {number}") for number in range(20)]
    shown = folded(Accepted.NOT_YET, *gates)
    assert len(shown) == LINES + 2
    named = sum(line.startswith("?") for line in shown)
    assert shown[-1] == f"and {20 - named} gates more: accept --look lists them"


def test_a_waived_gate_shows_its_waiver_and_asks_for_no_command() -> None:
    waiver = Waiver.model_validate({"check": "gpt3.5b", "reason": "ordered", "until": "2027-01-31"})
    shown = folded(Accepted.NOT_YET, gate("gpt3.5b", waivers=(waiver,)), gate("burnin.done"))
    assert "gpt3.5b waived until 2027-01-31: ordered" in shown
    assert "gpt3.5b" in shown
    assert not any("validate gpt3" in line for line in shown)


@pytest.mark.parametrize("verdict", list(Accepted))
@pytest.mark.parametrize("verb", ["deploy", "validate"])
@pytest.mark.parametrize("others", [0, LINES])
def test_a_waiver_is_told_once_whether_or_not_its_gate_is(
    build: RecordBuilder, verdict: Accepted, verb: str, others: int
) -> None:
    waiver = Waiver.model_validate({"check": "gpt3.5b", "reason": "ordered", "until": "2027-01-31"})
    more = [gate(f"x.g{n}", why=f"reason {n}") for n in range(others)]
    found = Acceptance(verdict=verdict, gates=(*more, gate("gpt3.5b", waivers=(waiver,))))
    console = Console(file=io.StringIO(), width=120)
    run_summary(console, build(verb=verb, acceptance=found, waivers=(waiver,)))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count("gpt3.5b waived") == 1


def test_a_run_that_asked_no_host_does_not_count_any(build: RecordBuilder) -> None:
    console = Console(file=io.StringIO(), width=120)
    run_summary(console, build(verb="validate", hosts=()))
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue()
    assert "No host was asked" in said
    assert "0 hosts" not in said
