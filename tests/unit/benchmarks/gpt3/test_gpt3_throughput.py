"""The arithmetic against the published restatement, and the verdicts."""

from typing import Any

import pytest
from pydantic import ValidationError

from appliance.benchmarks.gpt3.judge import judge
from appliance.benchmarks.gpt3.reference import load
from appliance.benchmarks.gpt3.throughput import (
    Formula,
    Interval,
    Run,
    cut,
    difference,
    linear_factor,
    mfu,
    perfect,
    published,
    tflops_per_gpu,
    tokens_per_s,
)
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status

REFERENCE = load()


def run(nodes: int = 1, rate: float = 48_941, **changes: object) -> Run:
    batch = REFERENCE.models["5b"].global_batch
    base: dict[str, object] = {
        "model": "5b",
        "platform": "bare-metal",
        "nodes": nodes,
        "gpus_per_node": 8,
        "gpu": "A100-SXM4-80GB",
        "global_batch": batch,
        "sequence": 2048,
        "seconds": batch * 2048 / rate,
    }
    return Run.model_validate(base | changes)


def verdict(results: tuple[CheckResult, ...], check: str = "gpt3.throughput") -> CheckResult:
    return next(r for r in reversed(results) if r.id == check)


def test_tokens_per_second_of_the_papers_first_cell() -> None:
    assert int(tokens_per_s(2048, 2048, 85.7)) == 48_941


def test_factor_perfect_line_and_difference() -> None:
    assert round(linear_factor(185_090, 48_941), 2) == 3.78
    assert perfect(892_208, 4) == 3_568_832
    assert round(difference(919_803, 892_208), 2) == 3.00


@pytest.mark.parametrize(
    ("model", "rate", "formula", "tflops", "share"),
    [
        ("5b", 48_941, Formula.FULL, 199.8, 64.0),
        ("5b", 48_941, Formula.CAUSAL, 192.4, 61.7),
        ("5b", 48_941, Formula.SIX_N, None, 59.4),
        ("126m", 919_803, Formula.FULL, 111.8, 35.8),
        ("126m", 919_803, Formula.CAUSAL, 98.7, 31.6),
        ("126m", 919_803, Formula.SIX_N, None, 27.7),
    ],
)
def test_three_formulas_give_three_utilisations(
    model: str, rate: int, formula: Formula, tflops: float | None, share: float
) -> None:
    gpt = REFERENCE.models[model]
    measured = run(
        model=model, global_batch=gpt.global_batch, seconds=gpt.global_batch * 2048 / rate
    )
    rate_per_gpu = tflops_per_gpu(measured, gpt, formula)
    assert tflops is None or round(rate_per_gpu, 1) == tflops
    assert round(mfu(rate_per_gpu, 312), 1) == share


def test_a_run_at_the_published_figure_passes_with_limit_and_source() -> None:
    result = verdict(judge([run()], REFERENCE))
    assert (result.status, result.value, result.limit) == (Status.PASS, 48_941, 46_494)
    assert "48,941 less 5 %" in result.limit_source


def test_a_run_six_per_cent_slow_fails_with_the_shortfall() -> None:
    result = verdict(judge([run(rate=48_941 * 0.94)], REFERENCE))
    assert result.status is Status.FAIL
    assert "6.0 % below" in result.cause


def test_a_site_may_allow_more() -> None:
    allowed = Limit(value=10, unit="%", source="site")
    assert verdict(judge([run(rate=48_941 * 0.94)], REFERENCE, allowed)).status is Status.PASS


def test_a_cluster_that_does_not_scale_fails_though_one_node_is_fast() -> None:
    results = judge([run(rate=55_000), run(nodes=2, rate=95_000)], REFERENCE)
    assert verdict(results).status is Status.PASS
    scaling = verdict(results, "gpt3.scaling")
    assert (scaling.status, scaling.value) == (Status.FAIL, 1.72)


def test_scaling_without_one_node_is_not_assessed() -> None:
    scaling = verdict(judge([run(nodes=2, rate=97_541)], REFERENCE), "gpt3.scaling")
    assert (scaling.status, scaling.required) == (Status.NOT_ASSESSED, True)


def test_scaling_against_another_configuration_is_not_assessed() -> None:
    runs = [run(global_batch=1024), run(nodes=2, rate=97_541)]
    assert verdict(judge(runs, REFERENCE), "gpt3.scaling").status is Status.NOT_ASSESSED


def test_scaling_against_another_framework_is_not_assessed() -> None:
    runs = [run(rate=30_000, plain=True), run(nodes=2, rate=97_541)]
    assert verdict(judge(runs, REFERENCE), "gpt3.scaling").status is Status.NOT_ASSESSED


def test_the_doubtful_cell_is_no_gate_however_slow() -> None:
    gpt = REFERENCE.models["126m"]
    slow = run(
        4,
        model="126m",
        platform="kubernetes",
        global_batch=256,
        seconds=gpt.global_batch * 2048 / 1e6,
    )
    result = verdict(judge([slow], REFERENCE))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)
    assert "linear projection" in result.cause


@pytest.mark.parametrize(
    ("changes", "required", "said"),
    [
        ({"gpu": None}, True, "the GPU of this run"),
        ({"gpu": "H100-SXM5-80GB"}, False, "record a baseline"),
        ({"gpus_per_node": 4, "seconds": 200.0}, False, "record a baseline"),
        ({"global_batch": 1024, "seconds": 50.0}, True, "published with 2048"),
        ({"nodes": 3}, False, "for 3 nodes"),
        ({"model": "7b"}, False, "model 7b"),
    ],
)
def test_what_cannot_be_compared_is_never_a_pass(
    changes: dict[str, object], required: bool, said: str
) -> None:
    result = verdict(judge([Run.model_validate(run().model_dump() | changes)], REFERENCE))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, required)
    assert said in result.cause
    assert result.value is not None


def test_more_than_the_gpu_can_do_is_an_error_of_the_log() -> None:
    result = verdict(judge([run(rate=90_000)], REFERENCE))
    assert result.status is Status.ERROR
    assert "is impossible" in result.cause


def test_a_diverged_run_fails_however_fast() -> None:
    result = verdict(judge([run(diverged="loss is nan, line 40")], REFERENCE))
    assert result.status is Status.FAIL
    assert "diverged" in result.cause


def test_a_run_on_processors_shows_its_value_and_gates_nothing() -> None:
    results = judge([run(unreal="processors"), run(nodes=2, unreal="processors")], REFERENCE)
    assert {r.status for r in results} == {Status.NOT_ASSESSED}
    assert all(r.simulated and not r.required and r.value for r in results)


def test_gpus_are_known_by_the_drivers_names() -> None:
    assert REFERENCE.gpu("NVIDIA A100-SXM4-80GB") == "A100-SXM4-80GB"
    assert REFERENCE.gpu("NVIDIA H100 PCIe") == "H100-PCIe-80GB"
    assert REFERENCE.gpu("NVIDIA T4") is None


def test_one_node_alone_has_no_scaling_to_judge() -> None:
    (result,) = judge([run()], REFERENCE)
    assert result.id == "gpt3.throughput"
    assert "global batch 2048, sequence 2048" in result.evidence


SCALING = "gpt3.scaling"


@pytest.mark.parametrize("wrong", [0, 1])
def test_scaling_of_or_against_a_diverged_run_fails(wrong: int) -> None:
    runs = [run(), run(nodes=2, rate=97_541)]
    assert verdict(judge(runs, REFERENCE), SCALING).status is Status.PASS
    runs[wrong] = runs[wrong].model_copy(update={"diverged": "loss is nan, line 40"})
    scaling = verdict(judge(runs, REFERENCE), SCALING)
    assert (scaling.status, scaling.value) == (Status.FAIL, 1.99)
    assert scaling.cause == "the training diverged: loss is nan, line 40"


def test_scaling_to_the_doubtful_cell_is_no_gate_however_bad() -> None:
    of_cell: dict[str, Any] = {"model": "126m", "platform": "kubernetes", "global_batch": 256}
    one, four = (run(n, **of_cell, seconds=256 * 2048 / 9e5) for n in (1, 4))
    scaling = verdict(judge([one, four], REFERENCE), SCALING)
    assert (scaling.status, scaling.required, scaling.value) == (Status.NOT_ASSESSED, False, 1.0)
    assert "linear projection" in scaling.cause


@pytest.mark.parametrize(
    ("changes", "required"),
    [({"nodes": 3}, False), ({"gpu": None}, True), ({"model": "7b"}, False)],
)
def test_scaling_that_cannot_be_compared_is_never_a_pass(
    changes: dict[str, object], required: bool
) -> None:
    many = {"nodes": 2} | changes
    one = run().model_copy(update={**changes, "nodes": 1})
    scaling = verdict(judge([one, run(2).model_copy(update=many)], REFERENCE), SCALING)
    assert (scaling.status, scaling.required) == (Status.NOT_ASSESSED, required)
    assert (scaling.value, bool(scaling.cause)) == (1.0, True)


def test_scaling_shows_its_limit_and_says_what_the_log_leaves_open() -> None:
    good = verdict(judge([run(), run(nodes=2, rate=97_541)], REFERENCE), SCALING)
    assert (good.limit, good.limit_source.partition(" less")[0]) == (1.89, "1.99")
    coarse = run(nodes=2, rate=92_000, rounding=2.0)
    open_one = verdict(judge([run(), coarse], REFERENCE), SCALING)
    assert (open_one.status, open_one.required) == (Status.NOT_ASSESSED, True)
    assert open_one.cause.endswith("1.801 to 1.966, and the limit is 1.893")


def test_of_processors_no_scaling_is_owed() -> None:
    scaling = verdict(judge([run(nodes=2, unreal="processors")], REFERENCE), SCALING)
    assert (scaling.status, scaling.required) == (Status.NOT_ASSESSED, False)


@pytest.mark.parametrize(("share", "status"), [(0.52, Status.FAIL), (0.48, Status.ERROR)])
def test_less_than_half_a_percent_of_the_peak_is_a_unit_mixed_up(
    share: float, status: Status
) -> None:
    gpt = REFERENCE.models["5b"]
    full = mfu(tflops_per_gpu(run(), gpt, Formula.CAUSAL), 312)
    result = verdict(judge([run(rate=48_941 * share / full)], REFERENCE))
    assert (result.status, result.unit) == (status, "tokens/s")
    assert result.value


def test_a_diverged_run_shows_how_fast_it_was() -> None:
    result = verdict(judge([run(diverged="loss is nan")], REFERENCE))
    assert (result.value, result.unit) == (48_941, "tokens/s")


def test_what_a_log_rounds_cannot_more_than_double_a_rate() -> None:
    coarse = run().model_copy(update={"seconds": 1.0, "rounding": 0.9})
    once = coarse.tokens_per_s
    assert coarse.rates == Interval(once / 1.9, once * 2)
    assert str(Interval(999.6, 2000.4)) == "1,000 to 2,000"


def test_what_is_behind_the_last_digit_is_cut_away() -> None:
    assert (cut(48_941.995), cut(48_941.999_999_9)) == (48_941, 48_942)
    assert (cut(1.9999, 2), cut(2.0, 2)) == (1.99, 2.0)


def test_a_model_of_nobody_has_no_published_figure() -> None:
    assert published(run(), REFERENCE.appliance, REFERENCE) is not None
    assert published(run(model="7b"), REFERENCE.appliance, REFERENCE) is None


def test_longer_sequences_take_more_work() -> None:
    gpt = REFERENCE.models["5b"]
    once, twice = (
        tflops_per_gpu(run(sequence=length, seconds=85.7), gpt, Formula.SIX_N)
        for length in (2048, 4096)
    )
    assert twice == pytest.approx(2 * once, rel=0.01)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, 0) for name in ("nodes", "gpus_per_node", "global_batch", "sequence", "seconds")),
        *((name, -1) for name in ("deviation", "rounding")),
    ],
)
def test_a_run_of_nothing_is_none(field: str, value: int) -> None:
    with pytest.raises(ValidationError, match=field):
        Run.model_validate(run().model_dump() | {field: value})


def test_the_least_run_is_one() -> None:
    least = dict.fromkeys(("nodes", "gpus_per_node", "global_batch", "sequence"), 1)
    made = Run.model_validate(run().model_dump() | least)
    assert (made.gpus, made.deviation, made.rounding, made.used) == (1, 0, 0, 0)
