"""The papers' tables and plots, computed from measured runs: throughput with factors, overhead, and values per GPU."""

from collections.abc import Iterator, Sequence
from math import ceil

from appliance.benchmarks.gpt3.reference import PLATFORMS, Reference
from appliance.benchmarks.gpt3.reference import Series as Published
from appliance.benchmarks.gpt3.throughput import (
    Formula,
    Run,
    cut,
    difference,
    differences,
    linear_factor,
    linear_factors,
    mfu,
    perfect,
    published,
    tflops_per_gpu,
)
from appliance.models.result import Measurement, Value
from appliance.models.run import Plot, Series, Table
from appliance.text import plural

Row = tuple[Value, ...]


def tables(runs: Sequence[Run], reference: Reference) -> tuple[Table, ...]:
    """Returns the paper's table with its plot per model, then all runs compared with the published values, and per GPU."""
    models = list(dict.fromkeys(run.model for run in runs))
    made = [
        _throughput(model, [r for r in runs if r.model == model], reference) for model in models
    ]
    known = [run for run in runs if run.model in reference.models]
    if known:
        made += [_against(known, reference), _per_gpu(known, reference)]
    return tuple(made)


def measurements(runs: Sequence[Run], reference: Reference) -> tuple[Measurement, ...]:
    """tokens/s of every run, with the values that a headline needs. A reference is shown only next to a value that it fits."""
    return tuple(_measurement(run, reference) for run in runs)


def _measurement(run: Run, reference: Reference) -> Measurement:
    detail: dict[str, Value] = {
        "model": run.model,
        "platform": run.platform,
        "nodes": run.nodes,
        "gpus": 0 if run.unreal else run.gpus,
        "seconds_per_step": run.seconds,
        "global_batch": run.global_batch,
        "sequence": run.sequence,
    }
    series = reference.appliance
    cell = published(run, series, reference)
    if cell and cell.gate:
        detail |= {"reference": cell.tokens_per_s, "source": series.source}
    return Measurement(
        name="gpt3.tokens_per_s",
        value=cut(run.tokens_per_s),
        unit="tokens/s",
        simulated=bool(run.unreal),
        detail=detail,
    )


def _throughput(model: str, runs: Sequence[Run], reference: Reference) -> Table:
    nodes = sorted({run.nodes for run in runs})
    platforms = list(dict.fromkeys(run.platform for run in runs))
    found = {(run.platform, run.nodes): run for run in runs}
    rows: list[Row] = []
    for platform in platforms:
        rows += _environment(platform, [found.get((platform, n)) for n in nodes], nodes)
    if set(PLATFORMS) <= set(platforms):
        rows.append(("Difference", *_differences(found, nodes)))
    title = reference.models[model].title if model in reference.models else model
    return Table(
        title=f"GPT-3 {title}: tokens/s",
        columns=("", *(_column(runs, n) for n in nodes)),
        rows=tuple(rows),
        note=_note(runs),
        plot=_plot(title, runs, reference),
    )


def _environment(platform: str, runs: Sequence[Run | None], nodes: Sequence[int]) -> Iterator[Row]:
    """The three rows of each environment in the papers."""
    name = PLATFORMS.get(platform, platform)
    one = runs[0] if nodes[0] == 1 else None
    yield (f"{name}: tokens/s", *(_rate(run) for run in runs))
    if one:
        factors = (_factor(run, one, n) for run, n in zip(runs, nodes, strict=True))
        yield ("linear factor / perfect", *factors)
        yield (
            "perfect line, tokens/s",
            *(f"{perfect(cut(one.tokens_per_s), n):,.0f}" for n in nodes),
        )


def _column(runs: Sequence[Run], nodes: int) -> str:
    run = next(run for run in runs if run.nodes == nodes)
    label = plural(nodes, "node")
    return label if run.unreal else f"{label} / {run.gpus} GPUs"


def _rate(run: Run | None) -> str:
    """All digits if the log's digits determine them, otherwise with half the width of the possible interval."""
    if run is None:
        return "-"
    low, high = run.rates
    rate = f"{cut(run.tokens_per_s):,.0f}"
    return rate if _is_decided(run) else f"{rate} ± {ceil((high - low) / 2):,}"


def _is_decided(run: Run) -> bool:
    """Whether the log's digits determine one whole number of tokens/s."""
    return cut(run.rates.low) == cut(run.rates.high)


def _factor(run: Run | None, one: Run, nodes: int) -> str:
    if run is None:
        return "-"
    if run is one:
        return "1 / 1"
    factor = cut(linear_factor(cut(run.tokens_per_s), cut(one.tokens_per_s)), 2)
    low, high = linear_factors(run.rates, one.rates)
    decided = cut(low, 2) == cut(high, 2) or (_is_decided(run) and _is_decided(one))
    slack = "" if decided else f" ± {ceil((high - low) * 50) / 100:.2f}"
    return f"{factor:.2f}{slack} / {nodes}"


def _differences(found: dict[tuple[str, int], Run], nodes: Sequence[int]) -> Iterator[str]:
    for n in nodes:
        bare, kubernetes = found.get(("bare-metal", n)), found.get(("kubernetes", n))
        if bare is None or kubernetes is None:
            yield "-"
            continue
        low, high = differences(bare.rates, kubernetes.rates)
        value = f"{difference(bare.tokens_per_s, kubernetes.tokens_per_s):.2f}"
        slack = "" if f"{low:.2f}" == f"{high:.2f}" else f" ± {ceil((high - low) * 50) / 100:.2f}"
        yield f"{value}{slack} %"


def _note(runs: Sequence[Run]) -> str:
    if unreal := next((run.unreal for run in runs if run.unreal), ""):
        return unreal
    batches = sorted({(run.global_batch, run.sequence) for run in runs})
    configured = "; ".join(f"global batch {b}, sequence {s}" for b, s in batches)
    both = len({run.platform for run in runs}) > 1
    caution = " Difference = (bare metal - Kubernetes) / bare metal; valid only if both ran the same configuration."
    digits = " As in the papers, rates are truncated, factors are calculated from truncated rates and truncated, differences are rounded. ±: uncertainty from the log's digits."
    return f"{configured}.{digits}{caution if both else ''}"


def _plot(title: str, runs: Sequence[Run], reference: Reference) -> Plot | None:
    if len({run.nodes for run in runs}) < 2:
        return None
    series: list[Series] = []
    for platform in dict.fromkeys(run.platform for run in runs):
        mine = sorted((r for r in runs if r.platform == platform), key=lambda r: r.nodes)
        name = PLATFORMS.get(platform, platform)
        series.append(
            Series(label=name, points=tuple((float(r.nodes), r.tokens_per_s) for r in mine))
        )
        if mine[0].nodes == 1:
            line = tuple((float(r.nodes), perfect(mine[0].tokens_per_s, r.nodes)) for r in mine)
            series.append(Series(label=f"{name}, perfect", points=line, kind="ideal"))
        if points := _published(mine, reference):
            series.append(Series(label=f"{name}, published", points=points, kind="reference"))
    return Plot(title=f"GPT-3 {title}", x_label="nodes", y_label="tokens/s", series=tuple(series))


def _published(runs: Sequence[Run], reference: Reference) -> tuple[tuple[float, float], ...]:
    cells = (published(run, reference.appliance, reference) for run in runs)
    return tuple((float(c.nodes), float(c.tokens_per_s)) for c in cells if c and c.gate)


def _against(runs: Sequence[Run], reference: Reference) -> Table:
    gate, beside = reference.appliance, reference.nvidia
    return Table(
        title="GPT-3 compared with published results (tokens/s)",
        columns=("Run", "Measured", "Published", "% of it", "NVIDIA 2023", "% of it", "Gate"),
        rows=tuple(_compared(run, gate, beside, reference) for run in runs),
        note=f"Published: {gate.source}. NVIDIA 2023: {beside.source}; shown for comparison, not a gate. "
        "-: no result with this run's GPUs, batch and sequence.",
    )


def _compared(run: Run, gate: Published, beside: Published, reference: Reference) -> Row:
    name = f"{reference.models[run.model].title} {run.platform} {run.nodes}n"
    row: list[Value] = [name, f"{cut(run.tokens_per_s):,.0f}"]
    for series in (gate, beside):
        cell = published(run, series, reference)
        row.append(f"{cell.tokens_per_s:,}" if cell else "-")
        row.append(f"{run.tokens_per_s / cell.tokens_per_s * 100:.1f}" if cell else "-")
    cell = published(run, gate, reference)
    return (*row, "yes" if cell and cell.gate else "no")


def _per_gpu(runs: Sequence[Run], reference: Reference) -> Table:
    return Table(
        title="GPT-3 per GPU: TFLOPS and MFU by three formulas",
        columns=("Run", "s/step", "std", "Values", *(f"{f.value}" for f in Formula)),
        rows=tuple(_efficiency(run, reference) for run in runs),
        note=_peaks(runs, reference),
    )


def _efficiency(run: Run, reference: Reference) -> Row:
    gpt, gpu = reference.models[run.model], reference.gpus.get(run.gpu or "")
    cells = []
    for formula in Formula:
        rate = tflops_per_gpu(run, gpt, formula)
        cells.append(f"{rate:.1f}" + (f" ({mfu(rate, gpu.peak):.1f} %)" if gpu else ""))
    name = f"{gpt.title} {run.platform} {run.nodes}n"
    return (name, f"{run.seconds:.4g}", f"{run.deviation:.2g}", run.used, *cells)


def _peaks(runs: Sequence[Run], reference: Reference) -> str:
    used = sorted({run.gpu for run in runs if run.gpu in reference.gpus and run.gpu})
    peaks = (
        f"{name}: {reference.gpus[name].peak:g} TFLOPS ({reference.gpus[name].source})"
        for name in used
    )
    return (
        "MFU of the dense peak. " + "; ".join(peaks) if used else "The GPU is not set, so no MFU."
    )
