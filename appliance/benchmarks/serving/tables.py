"""A server's answers by rate, as measurements, a table and a plot."""

from collections.abc import Iterator, Sequence

from appliance.benchmarks.serving.figures import Figure, saturation
from appliance.models.result import Measurement, Value
from appliance.models.run import Plot, Series, Table

COLUMNS = (
    *("requests/s", "good of asked", "tokens/s", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99"),
    *("ITL p99", "E2E p50", "E2E p99", "kept up"),
)


def measurements(
    found: Sequence[Figure], detail: dict[str, Value], simulated: bool
) -> Iterator[Measurement]:
    """Throughput of every level, with its percentiles in ms."""
    for one in found:
        spread = {
            f"{name}_p{share}_ms": round(value, 2)
            for name, times in (
                ("ttft", one.ttft),
                ("tpot", one.tpot),
                ("itl", one.itl),
                ("e2e", one.e2e),
            )
            for share, value in times.items()
        }
        level: dict[str, Value] = {"rate": one.rate, "asked": one.asked, "good": one.good}
        yield Measurement(
            name="serving.throughput",
            value=round(one.throughput, 2),
            unit="output tokens/s",
            simulated=simulated,
            detail={**level, **spread, **detail},
        )


def table(found: Sequence[Figure], model: str, note: str) -> Table:
    """Times in ms."""
    top = saturation(found)
    said = f"It keeps up with {top.rate:g} requests/s. " if top and top.rate else ""
    return Table(
        title=f"Serving {model}",
        columns=COLUMNS,
        rows=tuple(_row(one) for one in found),
        note=f"{said}Times in ms. {note}",
        plot=_plot(found),
    )


def _row(one: Figure) -> tuple[Value, ...]:
    def at(times: dict[int, float], share: int) -> Value:
        return round(times[share], 1) if share in times else None

    return (
        one.rate,
        f"{one.good} of {one.asked}",
        round(one.throughput, 1),
        *(at(one.ttft, 50), at(one.ttft, 99), at(one.tpot, 50), at(one.tpot, 99)),
        *(at(one.itl, 99), at(one.e2e, 50), at(one.e2e, 99)),
        None if one.rate is None else "yes" if one.kept else "no",
    )


def _plot(found: Sequence[Figure]) -> Plot | None:
    points = tuple((one.rate, one.throughput) for one in found if one.rate is not None)
    if len(points) < 2:
        return None
    return Plot(
        title="Throughput by request rate",
        x_label="requests/s",
        y_label="output tokens/s",
        series=(Series(label="measured", points=points),),
    )
