"""When each stage ran on each host, as rectangles on a time axis."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from appliance.models.run import RunRecord, StageOutcome, StageState
from appliance.report.findings import tells_of
from appliance.report.formatting import duration, fold, one_line
from appliance.report.symbols import STATE, Sign

WIDTH = 720.0
GUTTER = 84.0
_LANE = 9.0
_GAP = 9.0
_TOP = 6.0
_MAX_LANES = 12
_MOST = 48
"""Boxes of a stage; neighbours with the same outcome share one if there are many hosts."""
_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400)


@dataclass(frozen=True)
class Box:
    """A rectangle: one host's part of a stage, or that of several neighbours."""

    x: float
    y: float
    width: float
    height: float
    state: str
    label: str


@dataclass(frozen=True)
class Tick:
    """A tick of the time axis."""

    x: float
    label: str


@dataclass(frozen=True)
class Label:
    """A stage's name at the left, its duration after its last box."""

    y: float
    name: str
    end: float
    duration: str


@dataclass(frozen=True)
class Timeline:
    """The drawing; ``height`` includes the axis."""

    boxes: tuple[Box, ...]
    labels: tuple[Label, ...]
    ticks: tuple[Tick, ...]
    height: float
    folded: bool = False


@dataclass(frozen=True)
class Outcome:
    """One row of the table next to the drawing: a state and its hosts."""

    stage: str
    hosts: str
    state: str
    sign: Sign
    seconds: str
    changes: int
    said: str
    fix: str


def timeline(record: RunRecord) -> Timeline | None:
    """Return the drawing of ``record``'s stages; None if nothing ran."""
    ran = [o for o in record.outcomes if o.started is not None and o.seconds > 0]
    if not ran:
        return None
    scale = (WIDTH - GUTTER - 60) / max(_end(record, o) for o in ran)
    boxes: list[Box] = []
    labels: list[Label] = []
    y = _TOP
    for stage in dict.fromkeys(o.stage for o in ran):
        lanes = [o for o in ran if o.stage == stage]
        lane = min(_LANE, _LANE * _MAX_LANES / len(lanes))
        drawn: list[Box] = []
        end = y
        for group in _neighbours(lanes):
            drawn.append(_box(record, group, scale, end, lane * len(group)))
            end += lane * len(group)
        boxes += drawn
        labels.append(_label(stage, drawn, lanes))
        y = end + _GAP
    span = (WIDTH - GUTTER - 60) / scale
    folded = len(boxes) < len(ran)
    return Timeline(tuple(boxes), tuple(labels), _ticks(span, scale), round(y + 18, 1), folded)


def outcomes(record: RunRecord) -> tuple[Outcome, ...]:
    """Return all outcomes; hosts with the same outcome share a row, in the order of stages."""
    return _rows(record.outcomes)


def failures(record: RunRecord) -> tuple[Outcome, ...]:
    """Return the failed outcomes that no result of the run mentions."""
    failed = [o for o in record.outcomes if o.state is StageState.FAILED]
    return _rows([o for o in failed if not any(tells_of(r, [o]) for r in record.results)])


def _rows(found: Sequence[StageOutcome]) -> tuple[Outcome, ...]:
    groups: dict[tuple[str, StageState, str, str], list[StageOutcome]] = {}
    for o in found:
        said = one_line(o.cause or o.why)
        groups.setdefault((o.stage, o.state, said, one_line(o.fix)), []).append(o)
    stages = list(dict.fromkeys(o.stage for o in found))
    ordered = sorted(groups.items(), key=lambda item: stages.index(item[0][0]))
    return tuple(
        Outcome(
            stage=stage,
            hosts=fold(o.host for o in group),
            state=state.value.replace(" ", "-"),
            sign=STATE[state],
            seconds=duration(max(o.seconds for o in group)),
            changes=sum(o.changes for o in group),
            said=said,
            fix=fix,
        )
        for (stage, state, said, fix), group in ordered
    )


def _neighbours(lanes: Sequence[StageOutcome]) -> Iterator[Sequence[StageOutcome]]:
    most = -(-len(lanes) // _MOST)
    for _, alike in groupby(lanes, key=lambda o: o.state):
        group = list(alike)
        yield from (group[at : at + most] for at in range(0, len(group), most))


def _begin(record: RunRecord, outcome: StageOutcome) -> float:
    started = outcome.started or record.started
    return max(0.0, (started - record.started).total_seconds())


def _end(record: RunRecord, outcome: StageOutcome) -> float:
    return _begin(record, outcome) + outcome.seconds


def _box(
    record: RunRecord, group: Sequence[StageOutcome], scale: float, y: float, height: float
) -> Box:
    """Return the seconds from the first beginning to the last end."""
    o = group[0]
    begin = min(_begin(record, one) for one in group)
    seconds = max(_end(record, one) for one in group) - begin
    inner = max(0.5, height - (1.5 if height > 4 else 0))
    return Box(
        round(GUTTER + begin * scale, 1),
        round(y, 1),
        round(max(1.5, seconds * scale), 1),
        round(inner, 1),
        o.state.value.replace(" ", "-"),
        f"{fold(one.host for one in group)}: {o.stage} {STATE[o.state].word}, {duration(seconds)}",
    )


def _label(stage: str, boxes: Sequence[Box], lanes: Sequence[StageOutcome]) -> Label:
    middle = (boxes[0].y + boxes[-1].y + boxes[-1].height) / 2
    end = max(box.x + box.width for box in boxes)
    begun = min(box.x for box in boxes)
    seconds = max(o.seconds for o in lanes)
    return Label(round(middle, 1), stage, round(max(end, begun), 1), duration(seconds))


def _ticks(span: float, scale: float) -> tuple[Tick, ...]:
    step = next((s for s in _STEPS if span / s <= 8), _STEPS[-1])
    return tuple(
        Tick(round(GUTTER + at * scale, 1), duration(at)) for at in range(0, int(span) + 1, step)
    )
