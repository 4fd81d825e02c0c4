"""What one NVIDIA H100 80GB HBM3 really gave (docs/reality.md, 2026-11-27), as the program took it from there; the card's UUID is left out."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from appliance.adapters.process import Completed
from appliance.benchmarks.burnin import gates
from appliance.benchmarks.burnin import judge as burnin
from appliance.benchmarks.burnin.samples import read as samples
from appliance.benchmarks.gemm import run as gemm
from appliance.benchmarks.gpt3 import logs, recorded
from appliance.benchmarks.gpt3.described import Recorded
from appliance.benchmarks.gpt3.reference import load
from appliance.benchmarks.gpt3.throughput import Formula, cut, mfu, tflops_per_gpu
from appliance.benchmarks.nccl import run as nccl
from appliance.benchmarks.nvbandwidth import run as nvbandwidth
from appliance.checks.check import View
from appliance.models.profile import Interconnect, Limit
from appliance.models.result import Status
from tests.support.batches import Batches, answer, labelled
from tests.support.facts import facts_of, gpus_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of

DATA = Path(__file__).parents[2] / "data/real-gpu"
GPU = "NVIDIA H100 80GB HBM3"


class One(Batches):
    """A control host whose srun gives what the machine gave."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.said = (DATA / file).read_text()

    def step(self, argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, labelled(answer("gpu-1", self.said)), "")


def view(**limits: tuple[float, str]) -> View:
    asked = {
        name: Limit(value=value, unit=unit, source="less 10 % of what it gave when idle")
        for name, (value, unit) in limits.items()
    }
    gpus = gpus_of(GPU, 1)
    slot = {"bus_id": "00000000:00:06.0", "pcie_max_generation": 5, "pcie_max_width": 16}
    gpus = gpus.model_copy(
        update={"devices": tuple(d.model_copy(update=slot) for d in gpus.devices)}
    )
    profile = profile_of(gpu={"count": 1, "models": [GPU], "interconnect": Interconnect.PCIE})
    return View(
        profile, site_of("head", "gpu-1", limits=asked), {"gpu-1": facts_of("gpu-1", gpus=gpus)}
    )


@pytest.mark.parametrize(
    ("file", "status", "rate", "memory"),
    [
        ("gemm.json", Status.PASS, 714.1, 3055.0),
        ("gemm-beside-training.json", Status.FAIL, 345.1, 1378.0),
    ],
)
def test_other_work_on_the_gpu_fails_what_it_passes_when_idle(
    file: str, status: Status, rate: float, memory: float
) -> None:
    limits = {"gemm.rate": (640.0, "TFLOPS"), "gemm.memory": (2700.0, "GB/s")}
    found = {r.id: r for r in gemm.run(view(**limits), One(file)).results}
    assert {name: (r.status, r.value, r.simulated) for name, r in found.items()} == {
        "gemm.rate": (status, rate, False),
        "gemm.memory": (status, memory, False),
    }
    assert "best of fp64" in found["gemm.rate"].evidence


def test_copies_to_and_from_the_host_reach_what_is_asked_of_an_h100() -> None:
    limits = {"nvbandwidth.h2d": (48.0, "GB/s"), "nvbandwidth.d2h": (48.0, "GB/s")}
    found = nvbandwidth.run(view(**limits), One("nvbandwidth-0.8.json")).results
    assert {r.id: (r.status, r.value) for r in found} == {
        "nvbandwidth.h2d": (Status.PASS, 55.09),
        "nvbandwidth.d2h": (Status.PASS, 55.16),
    }


def test_one_gpu_has_nobody_to_speak_to() -> None:
    found = nccl.run(view(), One("nccl-tests-2.19.txt")).results
    assert {(r.status, r.required) for r in found} == {(Status.NOT_ASSESSED, False)}


def test_its_training_is_read_to_the_digit_and_gates_nothing() -> None:
    reference = load()
    log = logs.read(DATA / "126m-1n.log")
    described = Recorded(
        log=log.source,
        model="126m",
        platform="bare-metal",
        nodes=1,
        gpus_per_node=1,
        gpu="H100-SXM5-80GB",
    )
    run = recorded.run_of(log, described, reference, None)
    assert (cut(run.tokens_per_s), run.used, run.plain, run.diverged) == (275_094, 40, True, "")
    assert not [note for note in run.notes if "assumed" in note]
    share = mfu(
        tflops_per_gpu(run, reference.models["126m"], Formula.CAUSAL),
        reference.gpus["H100-SXM5-80GB"].peak,
    )
    assert round(share, 1) == 23.9


def test_a_minute_under_load_is_sound_and_at_its_power_limit() -> None:
    burn = samples((DATA / "burnin.jsonl").read_text())
    found = {r.id: r for r in burnin.judge("gpu-1", burn, 60.0, 1, simulated=False)}
    assert set(found) == set(gates.CHECKS)
    assert {r.status for r in found.values()} == {Status.PASS}
    assert max(g.power or 0 for m in burn.moments for g in m.gpus) == 700.03
