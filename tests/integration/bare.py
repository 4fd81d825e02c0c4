"""What `appliance validate --through WAY` alone comes to on a sound rack: all that needs no GPU is measured, the rest is named with its reason."""

import json
from typing import Any

from appliance.adapters.process import Completed
from appliance.benchmarks import BENCHMARKS

GPU_HOSTS = {"gpu-1", "gpu-2"}
FIGURES = {
    "gemm": ("gemm.rate", "gemm.memory"),
    "fio": (
        *(f"fio.scratch_{part}" for part in ("read", "write", "random_read", "random_write")),
        "fio.scratch_create",
    ),
    "hpcc": ("hpcc.stream", "hpcc.hpl"),
}
"""Of each host a figure, which simulated hardware marks."""
PASSES = {
    "storage": ("storage.roundtrip", {"head/data", "gpu-1/data", "gpu-2/data"}),
    "slurm": ("slurm.job", {"cluster"}),
    "gpt3": ("gpt3.loss", {"cluster/cpu-3m {platform} 1n", "cluster/cpu-3m {platform} 2n"}),
}
"""What is good or not, and where."""


def assert_whole(done: Completed, platform: str, *benchmarks: str) -> dict[str, Any]:
    """These benchmarks have measured, and no others; nothing is wrong. The record."""
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    record: dict[str, Any] = json.loads(done.stdout)
    results = record["results"]
    assert record["verdict"] == "passed"
    assert [r for r in results if r["status"] in {"fail", "error"}] == []
    for name in set(benchmarks) & set(FIGURES):
        for check in FIGURES[name]:
            figures = {r["host"]: r for r in results if r["id"] == check and r["value"]}
            assert set(figures) == GPU_HOSTS, (check, figures)
            assert all(r["simulated"] and r["value"] > 0 for r in figures.values())
    for name in set(benchmarks) & set(PASSES):
        check, wanted = PASSES[name]
        passed = {r["target"] for r in results if r["id"] == check and r["status"] == "pass"}
        assert passed == {target.format(platform=platform) for target in wanted}
    others = {b.name: b.checks for b in BENCHMARKS if b.name not in benchmarks}
    ran = {r["id"] for r in results if r["value"] is not None}
    assert not ran & {check for checks in others.values() for check in checks}
    assert reasons(record["left_out"]).keys() == others.keys()
    assert all(reasons(record["left_out"]).values())
    return record


def reasons(left_out: list[str]) -> dict[str, str]:
    """By benchmark why it was left out."""
    found: dict[str, str] = {}
    for line in left_out:
        names, _, why = line.removeprefix("skipped because no benchmark was named: ").partition(
            " ("
        )
        found |= dict.fromkeys(names.split(", "), why.removesuffix(")"))
    return found
