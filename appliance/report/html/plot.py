"""Computes a line plot for an SVG template: scaling of throughput over nodes."""

from dataclasses import dataclass
from math import floor, log10

from appliance.models.run import Plot
from appliance.report.formatting import number

WIDTH = 360.0
HEIGHT = 250.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 12.0, 28.0, 42.0
_MARKS = ("circle", "square", "triangle", "diamond")


@dataclass(frozen=True)
class Mark:
    """A point of the plot and its label."""

    x: float
    y: float
    label: str


@dataclass(frozen=True)
class Curve:
    """One series; ``path`` is an SVG path."""

    label: str
    kind: str
    shape: str
    path: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Tick:
    """A tick of an axis at ``at``."""

    at: float
    label: str


@dataclass(frozen=True)
class Drawing:
    """The whole plot, ready to be drawn."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = _LEFT
    right: float = WIDTH - _RIGHT
    top: float = _TOP
    bottom: float = HEIGHT - _BOTTOM


@dataclass(frozen=True)
class _Scale:
    x_max: float
    y_max: float

    def x(self, value: float) -> float:
        return round(_LEFT + value / self.x_max * (WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - _BOTTOM - value / self.y_max * (HEIGHT - _TOP - _BOTTOM), 1)


def drawing(plot: Plot) -> Drawing | None:
    """Scale ``plot`` from zero on both axes; None if it has no positive point."""
    points = [point for series in plot.series for point in series.points]
    if not points or max(x for x, _ in points) <= 0 or max(y for _, y in points) <= 0:
        return None
    step = _step(max(y for _, y in points))
    count = floor(max(y for _, y in points) / step) + 1
    scale = _Scale(1.06 * max(x for x, _ in points), step * count)
    xs = sorted({x for x, _ in points})
    return Drawing(
        title=plot.title,
        x_label=plot.x_label,
        y_label=plot.y_label,
        curves=_curves(plot, scale),
        x_ticks=tuple(Tick(scale.x(x), number(x)) for x in xs),
        y_ticks=tuple(Tick(scale.y(step * n), number(float(step * n))) for n in range(count + 1)),
    )


def _curves(plot: Plot, scale: _Scale) -> tuple[Curve, ...]:
    curves: list[Curve] = []
    for index, series in enumerate(plot.series):
        at = [(scale.x(x), scale.y(y)) for x, y in series.points]
        path = " ".join(f"{'L' if n else 'M'}{x} {y}" for n, (x, y) in enumerate(at))
        said = [f"{series.label}: {number(y)} at {number(x)}" for x, y in series.points]
        marks = tuple(Mark(x, y, text) for (x, y), text in zip(at, said, strict=True))
        shape = _MARKS[index % len(_MARKS)]
        curves.append(Curve(series.label, series.kind, shape, path, marks))
    return tuple(curves)


def _step(highest: float) -> float:
    """Return a round distance that gives three to eight lines."""
    power = 10.0 ** floor(log10(highest / 3))
    return next(f * power for f in (10.0, 5.0, 2.0, 1.0) if highest / (f * power) >= 3)
