"""The measurements as a table and a plot per place, next to the published times."""

from collections.abc import Iterator

from appliance.benchmarks.model_load import figures as f
from appliance.benchmarks.model_load.answer import Answer, Measured
from appliance.benchmarks.model_load.gates import part
from appliance.benchmarks.model_load.reference import Experiment, load
from appliance.models.result import Measurement, Value, place
from appliance.models.run import Plot, Series, Table

WARM_SERVER = "The server's own cache is unknown"


def measurements(answer: Answer, host: str, simulated: bool) -> Iterator[Measurement]:
    """Seconds of every loader and concurrency, and of the storage by itself."""
    for measured in answer.places:
        own = f.raw(measured)
        for figure in (*((own,) if own else ()), *f.figures(measured)):
            package = answer.packages.get(_package(figure.loader))
            detail: dict[str, Value] = {
                "concurrency": figure.concurrency,
                "bytes": measured.bytes,
                "loads": len(figure.seconds),
                "least": round(min(figure.seconds), 4),
                "most": round(max(figure.seconds), 4),
                "kind": measured.kind,
                "sha256": measured.sha256,
            }
            if package:
                detail |= {"version": package.version, "record": package.record}
            yield Measurement(
                name=f"model_load.{figure.loader}",
                value=round(figure.median, 4),
                unit="s",
                target=str(place(host or answer.host, part(measured.place))),
                simulated=simulated,
                detail=detail,
            )


def tables(answer: Answer, host: str = "") -> Iterator[Table]:
    """One per place that has figures."""
    for measured in answer.places:
        found = f.figures(measured)
        if found:
            yield _table(measured, found, host or answer.host, _device(measured))


def _table(measured: Measured, found: tuple[f.Figure, ...], host: str, device: str) -> Table:
    own, beside = f.raw(measured), load().comparable(measured.kind)
    lines = [*((own,) if own else ()), *found]
    rows = tuple(_row(figure, measured, own, beside) for figure in lines)
    note = f"{measured.bytes / 1e9:.2f} GB in {measured.tensors} tensors to {device}, medians of cold loads. "
    note += f"Published: {load().model}; {load().machine}; {load().note}."
    if measured.kind not in f.BLOCK:
        note = f"{WARM_SERVER}. {note}"
    return Table(
        title=f"Model load on {host} from {measured.place} ({measured.kind})",
        columns=(
            *("loader", "s", "least to most", "GB/s", "% of storage"),
            *(f"published, {e.title}, s" for e in beside),
        ),
        rows=rows,
        note=note,
        plot=_plot(found),
    )


def _row(
    figure: f.Figure, measured: Measured, own: f.Figure | None, beside: tuple[Experiment, ...]
) -> tuple[Value, ...]:
    name = figure.name if figure.loader != "raw" else f"storage alone, {figure.concurrency} readers"
    spread = f"{min(figure.seconds):.2f} to {max(figure.seconds):.2f}"
    share = round(own.median / figure.median * 100) if own else None
    rate = round(measured.bytes / 1e9 / figure.median, 2)
    published = (_published(e, figure) for e in beside)
    return (name, round(figure.median, 2), spread, rate, share, *published)


def _published(experiment: Experiment, figure: f.Figure) -> Value:
    cell = experiment.cell(figure.loader, figure.concurrency)
    if cell is None:
        return None
    return f"{cell.seconds:g} ?" if cell.doubt else cell.seconds


def _plot(found: tuple[f.Figure, ...]) -> Plot | None:
    series = []
    for loader in dict.fromkeys(figure.loader for figure in found):
        own = sorted((x.concurrency, x.median) for x in found if x.loader == loader)
        if len(own) > 1:
            series.append(Series(label=loader, points=tuple(own)))
    plain = f.best(found, "safetensors")
    if not series:
        return None
    if plain:
        ends = sorted({x for line in series for x, _ in line.points})
        level = tuple((x, plain.median) for x in (ends[0], ends[-1]))
        series.append(Series(label="safetensors", points=level, kind="reference"))
    return Plot(
        title="Time to load",
        x_label="concurrency",
        y_label="s, lower is better",
        series=tuple(series),
    )


def _package(loader: str) -> str:
    return {"streamer": "runai-model-streamer"}.get(loader, loader)


def _device(measured: Measured) -> str:
    return next((x.device for x in measured.loads if x.device), "memory").replace("cpu", "memory")
