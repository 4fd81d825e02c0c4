"""Reads the step times out of the logs of NeMo 1.x and 2.x, Megatron-LM and Megatron-Bridge."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO

from appliance.benchmarks.gpt3 import events
from appliance.benchmarks.gpt3.printed import HEAD, printed
from appliance.benchmarks.gpt3.steps import (
    Log,
    Refusal,
    Refusals,
    Step,
    Steps,
    UnusableLog,
    number,
)

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ENDS = re.compile(r"([\r\n])")
CHUNK = 1 << 18
"""Characters that are read at a time."""
LONGEST = 1 << 20
"""Characters of a line that are read; no program prints a step behind them."""
RUNNING_MEAN = "each value is a running mean of 5 steps, so one slow step shows in five values"


@dataclass(frozen=True)
class Family:
    """How one program prints a step. ``mark`` stands in every such line; ``closed``: what must follow the value for it
    to be whole.

    ``first`` is the number of its first step; ``scale`` turns its unit into seconds.
    """

    name: str
    mark: str
    line: re.Pattern[str]
    seconds: re.Pattern[str]
    closed: re.Pattern[str]
    key: str
    first: int = 1
    scale: float = 1.0
    loss: re.Pattern[str] | None = None
    batch: re.Pattern[str] | None = None
    note: str = ""


NEMO_1 = Family(
    name="NeMo 1.21-1.23",
    mark="Epoch ",
    line=re.compile(
        r"Epoch (?P<epoch>\d{1,9}):(?:(?!Epoch \d).)*?\b(?P<number>\d{1,9})(?:/(?:\d{1,9}|\?)|it) \["
    ),
    seconds=re.compile(r"train_step_timing in s=(?P<value>[^,\]\s]*)"),
    closed=re.compile(r"[,\]]"),
    key="train_step_timing in s",
    loss=re.compile(r"reduced_train_loss=(?P<value>[^,\]\s]+)"),
    note=RUNNING_MEAN,
)
NEMO_2 = Family(
    name="NeMo 2.x",
    mark="Training epoch ",
    line=re.compile(r"Training epoch (?P<epoch>\d{1,9}), iteration (?P<number>\d{1,9})/\d"),
    seconds=re.compile(r"train_step_timing in s: (?P<value>[^|\s]*)"),
    closed=re.compile(r" \|| *$"),
    key="train_step_timing in s",
    first=0,
    loss=re.compile(r"reduced_train_loss: (?P<value>[^|\s]+)"),
    batch=re.compile(r"\bglobal_batch_size: (?P<value>[^|\s]+)"),
    note=RUNNING_MEAN,
)
MEGATRON = Family(
    name="Megatron-LM",
    mark="consumed samples:",
    line=re.compile(r"iteration\s{1,20}(?P<number>\d{1,9})/\s{0,20}\d{1,9} \|\s*consumed samples:"),
    seconds=re.compile(r"elapsed time per iteration \(ms\):\s*(?P<value>[^|\s]*)"),
    closed=re.compile(r"\s*\|"),
    key="elapsed time per iteration (ms)",
    scale=1e-3,
    loss=re.compile(r"lm loss:\s*(?P<value>[^|\s]+)"),
    batch=re.compile(r"global batch size:\s*(?P<value>[^|\s]+)\s*\|"),
    note="each value is a mean over the log interval; the first one includes the start",
)
BRIDGE = Family(
    name="Megatron-Bridge",
    mark="Step Time :",
    line=re.compile(r"\bStep Time :"),
    seconds=re.compile(r"\bStep Time :\s*(?P<value>\S*?)(?=s(?:\s|$)|\s|$)"),
    closed=re.compile(r"s(\s|$)"),
    key="Step Time",
    note="steps are not numbered; the TFLOPS lines belong to no particular step and are not read",
)
FAMILIES = (NEMO_1, NEMO_2, MEGATRON, BRIDGE)
NAN_ITERATIONS = re.compile(r"number of nan iterations:\s*(?P<value>\d{1,9})")
NAN_NORM = re.compile(r"grad norm:\s*[+-]?(?:nan|inf)", re.IGNORECASE)
OLD_NEMO = (
    "NeMo before 1.21 prints no step time, and its s/it counted micro-batches in some versions",
    "give the TensorBoard file of the same run (events.out.tfevents.*, scalar train_step_timing)",
)


NO_TEXT = {
    b"\x1f\x8b": ("compressed with gzip", "unpack it first: gunzip FILE"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "unpack it first: unzstd FILE"),
    b"\xff\xfe": ("UTF-16 text", "write it as UTF-8: iconv -f UTF-16 -t UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "write it as UTF-8: iconv -f UTF-16 -t UTF-8"),
}


@dataclass
class _Reading:
    """What one family's reader has found so far; ``order`` is the last (epoch, number) seen."""

    family: Family
    seen: int = 0
    keyed: int = 0
    steps: Steps = field(default_factory=Steps)
    refused: Refusals = field(default_factory=Refusals)
    batches: set[int] = field(default_factory=set)
    order: tuple[int, int] = (-1, -1)
    restarted: int = 0


def read(path: Path) -> Log:
    """The log in ``path``, told by its content. Raises UnusableLog: unreadable, unknown or without step times."""
    try:
        with path.open("rb") as file:
            return _read(path, file)
    except OSError as error:
        raise UnusableLog(f"{path}: {error.strerror}", "check the path and its mode") from error


def parse(text: str, source: str) -> Log:
    """The log in ``text``. Raises UnusableLog where no family is recognised or no step time is printed."""
    return _parse(StringIO(text, newline=""), source)


def _read(path: Path, file: BinaryIO) -> Log:
    start = file.read(events.FRAME)
    for begins, (kind, remedy) in NO_TEXT.items():
        if start.startswith(begins):
            raise UnusableLog(f"{path}: is {kind}", remedy)
    file.seek(0)
    if events.is_event_file(path, start):
        return events.read(str(path), file)
    with TextIOWrapper(file, "utf-8", "replace", newline="") as text:
        return _parse(text, str(path))


def _parse(text: TextIO, source: str) -> Log:
    said = printed(text.read(HEAD))
    text.seek(0)
    readings = [_Reading(family) for family in FAMILIES]
    for line, segment, whole in _segments(iter(partial(text.read, CHUNK), "")):
        for reading in readings:
            if reading.family.mark in segment and (match := reading.family.line.search(segment)):
                _take(reading, line, segment, match, whole)
    best = max(readings, key=lambda r: len(r.steps))
    if not best.steps:
        raise _no_steps(max(readings, key=lambda r: r.seen), source)
    return Log(
        source=source,
        family=best.family.name,
        steps=best.steps,
        refused=best.refused,
        global_batch=_batch(best, source),
        notes=tuple(_notes(best, readings)),
        printed=said,
    )


def _segments(chunks: Iterable[str]) -> Iterator[tuple[int, str, bool]]:
    """Line number, what a terminal shows between carriage returns, and whether it was written to its end."""
    line, rest = 1, ""
    for chunk in chunks:
        *ended, rest = ENDS.split(rest + chunk)
        for part, end in zip(ended[::2], ended[1::2], strict=True):
            yield line, _shown(part), len(part) <= LONGEST
            line += end == "\n"
        rest = rest[: LONGEST + 1]
    yield line, _shown(rest), False


def _shown(part: str) -> str:
    return ANSI.sub("", part[:LONGEST]) if "\x1b" in part else part[:LONGEST]


def _take(reading: _Reading, line: int, segment: str, match: re.Match[str], whole: bool) -> None:
    reading.seen += 1
    family = reading.family
    reading.keyed += family.key in segment
    timing = family.seconds.search(segment)
    if timing is None:
        return
    try:
        if not family.closed.match(segment, timing.end()) or (
            not whole and timing.end() == len(segment)
        ):
            raise ValueError("is cut off")
        seconds = number(timing["value"]) * family.scale
        if seconds <= 0:
            raise ValueError(f"is {timing['value']}")
    except ValueError as error:
        reading.refused.add(Refusal(line=line, reason=f"{family.key} {error}"))
        return
    try:
        loss = _loss(family, segment)
    except ValueError as error:
        reading.refused.add(Refusal(line=line, reason=str(error), diverged=True))
        return
    try:
        _note_batch(reading, segment)
    except ValueError as error:
        reading.refused.add(Refusal(line=line, reason=f"global batch {error}"))
        return
    _keep(reading, match, Step(number=None, seconds=seconds, line=line, loss=loss))


def _keep(reading: _Reading, match: re.Match[str], step: Step) -> None:
    """A bar redrawn for the same step replaces it; a step behind the last one means the run began again."""
    found = match.groupdict()
    if "number" not in found:
        reading.steps.append(step)
        return
    order = (int(found.get("epoch") or 0), int(found["number"]))
    if order < reading.order:
        reading.steps = Steps()
        reading.restarted = step.line
    elif order == reading.order:
        reading.steps.pop()
    reading.order = order
    count = order[1] + 1 - reading.family.first
    reading.steps.append(replace(step, number=count))


def _loss(family: Family, segment: str) -> float | None:
    """Raises ValueError where the training diverged."""
    if (nan := NAN_ITERATIONS.search(segment)) and int(nan["value"]):
        raise ValueError(f"{nan['value']} nan iterations")
    if norm := NAN_NORM.search(segment):
        raise ValueError(" ".join(norm[0].split()))
    found = family.loss.search(segment) if family.loss else None
    if found is None:
        return None
    try:
        return number(found["value"])
    except ValueError as error:
        raise ValueError(f"loss {error}") from None


def _note_batch(reading: _Reading, segment: str) -> None:
    found = reading.family.batch.search(segment) if reading.family.batch else None
    if found:
        size = round(number(found["value"]))
        if size < 1:
            raise ValueError(f"is {found['value']}")
        reading.batches.add(size)


def _batch(reading: _Reading, source: str) -> int | None:
    if len(reading.batches) > 1:
        sizes = ", ".join(map(str, sorted(reading.batches)))
        raise UnusableLog(
            f"{source}: the global batch changes ({sizes})",
            "log a run without batch ramp-up, or cut the log to one batch size",
        )
    return next(iter(reading.batches), None)


def _notes(best: _Reading, readings: list[_Reading]) -> Iterator[str]:
    yield best.family.note
    if best.restarted:
        yield f"the run began again at line {best.restarted}; only what follows counts"
    if best.family is MEGATRON and any(r.seen for r in readings if r.family is BRIDGE):
        yield "written by Megatron-Bridge; its separate Step Time lines were not used"


def _no_steps(reading: _Reading, source: str) -> UnusableLog:
    if not reading.seen:
        known = ", ".join(family.name for family in FAMILIES)
        return UnusableLog(
            f"{source}: no line of a known training log", f"known: {known}, TensorBoard event files"
        )
    if reading.family is NEMO_1 and not reading.keyed:
        return UnusableLog(f"{source}: {OLD_NEMO[0]}", OLD_NEMO[1])
    why = next(iter(reading.refused.first), None)
    said = f"line {why.line}: {why.reason}" if why else f"no {reading.family.key} in any line"
    return UnusableLog(
        f"{source}: {reading.family.name} log without a usable step time ({said})",
        "check that the run logs step times and ended in good order",
    )
