"""The self-test closes every gate that is declared, and tells of a judge that would let doctored evidence pass."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from appliance.actions.acceptance import gate_self_test as action
from appliance.actions.acceptance.gate_self_test import try_gates
from appliance.actions.sites.opening import Target
from appliance.benchmarks.benchmark import (
    Benchmark,
    Outcome,
    Requirement,
    gpu_models,
    of_cluster,
    per_host,
    per_pair,
)
from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.engine.accept import acceptance, gate_self_test, stale_evidence
from appliance.models.acceptance import Level
from appliance.models.profile import Limit
from appliance.models.site import Role
from tests.support.command_line import run
from tests.support.site_files import ready_site

PROFILES = {
    "hpc": {
        *("gpt3.5b", "gpt3.126m", "dcgm.diag", "nccl.host", "nccl.cluster"),
        *("perftest.write_bw", "perftest.write_lat", "fio.scratch_read", "burnin.done"),
    },
    "balanced": {"dcgm.diag", "burnin.done"},
}
PROFILES |= {"dgx-a100": PROFILES["hpc"], "cost-efficient": PROFILES["balanced"]}

COPIES = ("nvbandwidth.h2d", "nvbandwidth.d2h", "nvbandwidth.peer")

LIMIT = Limit(value=21, unit="GB/s", source="a table")


def _gates(view: View) -> tuple[Requirement, ...]:
    hosts = [host.name for host in view.site.with_role(Role.GPU)]
    base = Requirement(
        id="copy.host",
        title="",
        level=Level.HOST,
        benchmark="copy",
        check="copy.rate",
        targets=per_host(hosts),
        close="appliance validate copy",
        limit=LIMIT,
        stages=("gpu",),
        gpus=gpu_models(view),
    )
    return (
        base,
        replace(base, id="copy.pair", targets=per_pair(pairwise(hosts))),
        replace(base, id="copy.all", targets=of_cluster(hosts)),
        replace(base, id="copy.cpu", of_gpus=False, gpus=frozenset(), limit=None),
    )


@pytest.fixture
def every_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the declared gates one of each shape."""
    made = Benchmark("copy", "", ("copy.rate",), lambda v, r: Outcome(), 1, "", gates=_gates)
    for module in (acceptance, gate_self_test):
        monkeypatch.setattr(module, "BENCHMARKS", (made,))


@pytest.mark.parametrize("profile", PROFILES)
def test_every_declared_gate_passes_honest_evidence_and_nothing_else(profile: str) -> None:
    tested = try_gates(Target(profile=profile))
    assert [one for one in tested.tried if not one.as_it_should] == []
    assert {one.gate for one in tested.tried} == PROFILES[profile]
    assert tested.blocked == {}


def test_gates_that_only_a_site_asks_for_are_closed_too(tmp_path: Path) -> None:
    folder = ready_site(tmp_path / "site", hosts=2)
    with (folder / "site.yml").open("a") as text:
        text.write("limits:\n")
        for check in COPIES:
            text.write(f"  {check}: {{value: 20, unit: GB/s, source: contract}}\n")
    tested = try_gates(Target(inventory=folder))
    assert [one for one in tested.tried if not one.as_it_should] == []
    of_copies = [one.case for one in tested.tried if one.gate == "nvbandwidth.peer"]
    assert {"in another unit", "judged by another limit", "older than an exchanged GPU"} <= set(
        of_copies
    )
    assert {one.gate for one in tested.tried} == PROFILES["hpc"] | set(COPIES)


def test_every_gate_of_gpus_that_somebody_asks_for_is_closed_by_every_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No profile that ships asks for them."""
    asked = {
        "gemm.rate": Limit(value=240, unit="TFLOPS", source="contract"),
        "gemm.memory": Limit(value=1500, unit="GB/s", source="contract"),
    }
    plain = load_profile("balanced")
    more = plain.model_copy(update={"limits": {**plain.limits, **asked}})
    monkeypatch.setattr(action, "load_profile", lambda *_: more)
    tested = try_gates(Target(profile="balanced"))
    assert [one for one in tested.tried if not one.as_it_should] == []
    assert {one.gate for one in tested.tried} == PROFILES["balanced"] | set(asked)


@pytest.mark.usefixtures("every_shape")
def test_gates_of_every_shape_are_closed_by_every_case() -> None:
    tested = try_gates(Target(profile="balanced"))
    assert [one for one in tested.tried if not one.as_it_should] == []
    cases = {one.case for one in tested.tried if one.gate == "copy.all"}
    assert {"of fewer hosts", "older than an exchanged GPU", "in another unit"} <= cases
    assert {one.gate for one in tested.tried} >= {"copy.host", "copy.pair", "copy.cpu"}


@pytest.mark.usefixtures("every_shape")
@pytest.mark.parametrize(
    ("module", "broken", "answer", "case"),
    [
        (stale_evidence, "_foreign", lambda *_: "", "of another site"),
        (stale_evidence, "_resized", lambda *_: "", "of fewer hosts"),
        (stale_evidence, "_last_change", lambda *_: None, "older than a change of stage gpu"),
        (stale_evidence, "_exchanged", lambda *_: iter(()), "older than an exchanged GPU"),
        (acceptance, "_unfit", lambda *_: "", "in another unit"),
        (acceptance, "_stale", lambda *_: "", "judged by another limit"),
    ],
)
def test_judge_that_would_let_doctored_evidence_pass_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: object,
    broken: str,
    answer: Callable[..., object],
    case: str,
) -> None:
    monkeypatch.setattr(module, broken, answer)
    assert run(monkeypatch, "validate", "--self-test", "--profile", "balanced") == 1
    assert f"ACCEPTED: {case}" in capsys.readouterr().out


def test_the_verb_says_what_it_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Tried once, told twice.
    monkeypatch.setattr(action, "try_gates", cache(try_gates))
    assert run(monkeypatch, "validate", "--self-test") == 0
    shown = capsys.readouterr().out
    assert "gpt3.5b  closes: 3" in shown
    assert "hpc: 9 gates, " in shown
    assert ", 0 accepted" in shown
    assert run(monkeypatch, "validate", "--self-test", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["good"]
    assert all(one["good"] for one in told["tried"])
    assert run(monkeypatch, "validate", "gpt3", "--self-test") == 2
