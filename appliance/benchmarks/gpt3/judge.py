"""Compares training runs with the published values. A run without a comparable value never passes."""

from collections.abc import Iterator, Sequence
from typing import Any

from appliance.benchmarks.gpt3.reference import PLATFORMS, Cell, Reference
from appliance.benchmarks.gpt3.throughput import (
    Formula,
    Interval,
    Run,
    cut,
    linear_factor,
    linear_factors,
    mfu,
    of_size,
    one_node,
    tflops_per_gpu,
)
from appliance.checks.check import failed, judged, not_assessed, passed
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Place, Status
from appliance.text import plural

THROUGHPUT = "gpt3.throughput"
SCALING = "gpt3.scaling"
LEAST = 0.5
"""% of the peak. A thousandth of the usual value means that units were confused."""
MOST_APART = 10.0
"""% between the slowest and the fastest of several equal runs. Own choice: the published runs repeat within 3 %."""
ONE_SLOW = "find out why the slowest run was slow, fix that, and train again; or use logs of only one configuration"
FINER = "use the TensorBoard file of the same run, or the JSON of NeMo's DLLogger: both have seven digits"
WITH_NEMO = "train it with NeMo, or use logs of NeMo: appliance validate gpt3-logs DIR"
SLOW_FIX = (
    "first look for one slow host: train on each host alone (1n logs) and compare; then check clocks, power limits, "
    "errors of GPUs and fabric (appliance health), and the training configuration"
)


def judge(
    runs: Sequence[Run], reference: Reference, tolerance: Limit | None = None
) -> tuple[CheckResult, ...]:
    """Returns one gpt3.throughput per run, and one gpt3.scaling per run on several nodes.

    ``tolerance``: accepted % below the published value; None for the reference's own.
    """
    allowed = tolerance or reference.tolerance
    results = [throughput(run, reference, allowed) for run in runs]
    results += [scaling(run, runs, reference, allowed) for run in runs if run.nodes > 1]
    return tuple(results)


def throughput(run: Run, reference: Reference, allowed: Limit) -> CheckResult:
    """Compares tokens/s with the published cell."""
    shown = {"value": cut(run.tokens_per_s), "unit": "tokens/s", "evidence": _evidence(run)}
    if run.diverged:
        fix = "correct the training first: learning rate, data, and ECC errors of the GPUs"
        return failed(target(run), f"the training diverged: {run.diverged}", fix, **shown).of(
            THROUGHPUT
        )
    if run.unreal:
        return not_assessed(target(run), run.unreal, required=False, simulated=True, **shown).of(
            THROUGHPUT
        )
    if impossible := _impossible(run, reference):
        return judged(
            target(run),
            Status.ERROR,
            cause=impossible,
            fix="check units of time, global batch, sequence length and number of GPUs of this log",
            **shown,
        ).of(THROUGHPUT)
    cell, reason, required = _comparable(run, reference)
    if cell is None or reason:
        return not_assessed(target(run), reason, required=required, **shown).of(THROUGHPUT)
    return _against(THROUGHPUT, run, run.rates, cell.tokens_per_s, reference, allowed, shown)


def scaling(run: Run, runs: Sequence[Run], reference: Reference, allowed: Limit) -> CheckResult:
    """Compares the linear factor with the published one. Both ends must be measured, and published as a gate."""
    base = one_node(runs, run)
    if base is None:
        why = "no 1-node run of the same configuration to scale against"
        return not_assessed(target(run), why, required=not run.unreal).of(SCALING)
    factor = linear_factor(run.tokens_per_s, base.tokens_per_s)
    shown = {
        "value": cut(factor, 2),
        "evidence": f"{cut(run.tokens_per_s):,} on {plural(run.nodes, 'node')}, {cut(base.tokens_per_s):,} on one; perfect is {run.nodes}",
    }
    if run.unreal:
        return not_assessed(target(run), run.unreal, required=False, simulated=True, **shown).of(
            SCALING
        )
    if why := run.diverged or base.diverged:
        return failed(target(run), f"the training diverged: {why}", "correct it first", **shown).of(
            SCALING
        )
    cell, reason, required = _comparable(run, reference)
    first, first_reason, _ = _comparable(base, reference)
    if cell is None or first is None or reason or first_reason:
        return not_assessed(target(run), reason or first_reason, required=required, **shown).of(
            SCALING
        )
    published = linear_factor(cell.tokens_per_s, first.tokens_per_s)
    factors = linear_factors(run.rates, base.rates)
    return _against(SCALING, run, factors, published, reference, allowed, shown)


def _against(
    check_id: str,
    run: Run,
    values: Interval,
    published: float,
    reference: Reference,
    allowed: Limit,
    shown: dict[str, Any],
) -> CheckResult:
    """Judges the interval of possible values. If it contains the limit, the log gives no verdict."""
    percent = float(allowed.value or 0)
    floor = published * (1 - percent / 100)
    decimals = 0 if check_id == THROUGHPUT else 2
    limit = round(floor) if check_id == THROUGHPUT else round(floor, 2)
    bounds: dict[str, Any] = {
        "limit": limit,
        "limit_source": f"{cut(published, decimals):,.{decimals}f} less {percent:g} %: {reference.appliance.source}; {allowed.source}",
    }
    if values.low >= floor and run.apart > MOST_APART:
        cause = f"its runs are {run.apart:.0f} % apart, so their mean is not meaningful"
        return not_assessed(target(run), cause, fix=ONE_SLOW, **shown, **bounds).of(check_id)
    if values.low >= floor:
        return passed(target(run), **shown, **bounds).of(check_id)
    if values.high >= floor:
        digits = 0 if check_id == THROUGHPUT else 3
        cause = (
            f"the log's step times are too coarse to judge: {values.low:,.{digits}f} to "
            f"{values.high:,.{digits}f}, and the limit is {floor:,.{digits}f}"
        )
        return not_assessed(target(run), cause, fix=FINER, **shown, **bounds).of(check_id)
    short = (1 - (values.low + values.high) / 2 / published) * 100
    cause = f"{short:.1f} % below the published figure ({percent:g} % allowed)"
    if run.plain and check_id == THROUGHPUT:
        cause += "; PyTorch alone does not have the kernels of the published result"
        return not_assessed(target(run), cause, fix=WITH_NEMO, **shown, **bounds).of(check_id)
    return failed(target(run), cause, SLOW_FIX, **shown, **bounds).of(check_id)


def target(run: Run) -> Place:
    """ "cluster/5b bare-metal 2n"."""
    return of_size(run.model, run.platform, run.nodes)


def _comparable(run: Run, reference: Reference) -> tuple[Cell | None, str, bool]:
    """Returns the published cell, the reason why it is no gate for this run ("" if it is one), and whether a verdict was required."""
    series = reference.appliance
    gpt = reference.models.get(run.model)
    if gpt is None:
        known = ", ".join(reference.models)
        return None, f"no published figure for model {run.model} (published: {known})", False
    if run.gpu is None:
        return None, "the GPU of this run is unknown: set gpu in runs.yml", True
    if (run.gpu, run.gpus_per_node) != (series.gpu, series.gpus_per_node):
        mine = f"{run.gpus_per_node} x {run.gpu}"
        return None, f"no result is published for {mine} per node; record a baseline", False
    if (run.global_batch, run.sequence) != (gpt.global_batch, gpt.sequence):
        mine = f"global batch {run.global_batch}, sequence {run.sequence}"
        return None, f"{mine}; published with {gpt.global_batch} and {gpt.sequence}", True
    cell = series.cell(run.model, run.platform, run.nodes)
    if cell is None:
        where = PLATFORMS.get(run.platform, run.platform)
        return None, f"no result is published for {plural(run.nodes, 'node')} on {where}", False
    return cell, "" if cell.gate else f"not a gate: {cell.note}", cell.gate


def _impossible(run: Run, reference: Reference) -> str:
    gpt, gpu = reference.models.get(run.model), reference.gpus.get(run.gpu or "")
    if gpt is None or gpu is None:
        return ""
    share = mfu(tflops_per_gpu(run, gpt, Formula.CAUSAL), gpu.peak)
    if share > 100:
        return f"{share:.0f} % of the GPU's peak, which is impossible"
    return f"{share:.2g} % of the GPU's peak: no GPU trains so slowly" if share < LEAST else ""


def _evidence(run: Run) -> str:
    return "; ".join(_facts(run))


def _facts(run: Run) -> Iterator[str]:
    yield f"{run.seconds:.4g} s a step +- {run.deviation:.2g} ({plural(run.used, 'value')}, {run.rule})"
    if cut(run.rates.low) != cut(run.rates.high):
        yield f"{run.rates} tokens/s, from the digits of the log"
    yield f"global batch {run.global_batch}, sequence {run.sequence}"
    yield f"{run.source} ({'PyTorch alone' if run.plain else run.family})"
    yield from run.notes
