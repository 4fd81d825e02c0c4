"""Nvbandwidth cluster, as several test modules use it."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from appliance.adapters.process import Completed
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.nvbandwidth.gates import FROM_GPU, PEER, TO_GPU
from appliance.benchmarks.nvbandwidth.run import run
from appliance.checks.check import View
from appliance.models.profile import Interconnect, Limit
from appliance.models.result import CheckResult
from tests.support.batches import Batches, answer, labelled, value
from tests.support.facts import facts_of, gpus_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of

DATA = Path(__file__).parents[1] / "data/benchmarks/nvbandwidth"


FIVE, EIGHT = ((DATA / f"0.{number}.json").read_text() for number in (5, 8))


A100, UNKNOWN = "NVIDIA A100-SXM4-80GB", "NVIDIA B900"


COUNT = 4


SLOT: dict[str, Any] = {"pcie_max_generation": 4, "pcie_max_width": 16}


ASKED = {TO_GPU: 21.0, FROM_GPU: 21.0, PEER: 235.0}


Change = Callable[[dict[str, Any]], object]


def view(
    hosts: int = 1,
    gpu: str = A100,
    interconnect: Interconnect = Interconnect.NVSWITCH,
    count: int = COUNT,
    limits: dict[str, float] | None = None,
    **of_gpu: Any,
) -> View:
    names = [f"gpu-{n}" for n in range(1, hosts + 1)]
    gpus = gpus_of(gpu, count)
    devices = tuple(one.model_copy(update=SLOT | of_gpu) for one in gpus.devices)
    facts = {
        name: facts_of(name, gpus=gpus.model_copy(update={"devices": devices})) for name in names
    }
    wanted = (ASKED if gpu == A100 else {}) if limits is None else limits
    asked = {c: Limit(value=v, unit="GB/s", source="contract") for c, v in wanted.items()}
    profile = profile_of(gpu={"interconnect": interconnect, "count": count})
    return View(profile, site_of("head", *names, limits=asked), facts)


def changed(output: str, change: Change) -> str:
    document = json.loads(output)
    change(document["nvbandwidth"])
    return json.dumps(document)


def case(body: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in body["testcases"] if one["name"] == name)
    return found


def cell(output: str, name: str, y: int, x: int, value: object) -> str:
    def put(body: dict[str, Any]) -> None:
        case(body, name)["bandwidth_matrix"][y][x] = value

    return changed(output, put)


class Cluster(Batches):
    """A Slurm whose hosts print these documents; ``codes``: how nvbandwidth ended there."""

    def __init__(self, said: dict[str, str] | str, code: int = 0) -> None:
        super().__init__()
        self.said, self.code = said, code
        self.jobs: list[tuple[str, ...]] = []

    def step(self, argv: Sequence[str]) -> Completed:
        host = value(argv, "--nodelist")
        self.jobs.append(tuple(argv))
        text = self.said if isinstance(self.said, str) else self.said.get(host, EIGHT)
        return Completed(tuple(argv), 0, labelled(answer(host, text, self.code)), "")


def outcome(output: dict[str, str] | str, seen: View | None = None, code: int = 0) -> Outcome:
    return run(seen or view(), Cluster(output, code))


def found(
    output: dict[str, str] | str, seen: View | None = None, code: int = 0
) -> dict[tuple[str, str], CheckResult]:
    return {(r.id, r.target): r for r in outcome(output, seen, code).results}
