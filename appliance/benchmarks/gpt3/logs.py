"""Reads the step times out of the logs of NeMo 1.x and 2.x, NeMo's DLLogger, Megatron-LM and Megatron-Bridge."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from appliance.benchmarks.gpt3 import bulk, events, lines
from appliance.benchmarks.gpt3.families import (
    BRIDGE,
    DLLOGGER,
    FAMILIES,
    MEGATRON,
    NAN_ITERATIONS,
    NAN_NORM,
    NEMO_1,
    SKIPPED_ITERATIONS,
    Family,
)
from appliance.benchmarks.gpt3.once import Once
from appliance.benchmarks.gpt3.printed import HEAD, printed
from appliance.benchmarks.gpt3.steps import (
    Log,
    Refusal,
    Refusals,
    Samples,
    Step,
    Steps,
    UnusableLog,
    half_unit,
    number,
    one_batch,
)
from appliance.config.bounded_files import opened
from appliance.text import plural

LATE = 2
"""If several ranks print, a line may be this many steps late without a new start of the run."""
STARTS = (b"using world size:", b"distributed processes registered")
"""Megatron-LM and Lightning print these once, before a training starts."""
MARKS = (*(family.mark for family in FAMILIES), *STARTS)
TIMING_BAR = NEMO_1.key.encode()
OLD_NEMO = (
    "NeMo before 1.21 prints no step time, and its s/it counted micro-batches in some versions",
    "use the TensorBoard file of the same run (events.out.tfevents.*, scalar train_step_timing)",
)
NO_TEXT = {
    b"\x1f\x8b": ("compressed with gzip", "unpack it first: gunzip FILE"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "unpack it first: unzstd FILE"),
    b"\xff\xfe": ("UTF-16 text", "write it as UTF-8: iconv -f UTF-16 -t UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "write it as UTF-8: iconv -f UTF-16 -t UTF-8"),
}


@dataclass
class _Reading:
    """State of one family's reader; ``order`` is the last (epoch, number)."""

    family: Family
    seen: int = 0
    keyed: int = 0
    steps: Steps = field(default_factory=Steps)
    refused: Refusals = field(default_factory=Refusals)
    batches: dict[bytes, int] = field(default_factory=dict)
    first: tuple[int, bytes] | None = None
    last: tuple[int, bytes] | None = None
    order: tuple[int, int] = (-1, -1)
    restarted: int = 0
    repeated: int = 0
    total: int | None = None

    def begin(self, line: int) -> None:
        """The run starts again: earlier steps do not count."""
        self.steps = Steps()
        self.first = self.last = None
        self.restarted = line
        self.order = (-1, -1)


def read(path: Path) -> Log:
    """Reads the log in ``path``, whose format is detected by its content. Raises UnusableLog if it is unreadable, unknown or without step times."""
    try:
        with opened(path) as file:
            return _read(path, file)
    except OSError as error:
        raise UnusableLog(f"{path}: {error.strerror}", "check the path and its mode") from error


def parse(text: str, source: str) -> Log:
    """Reads the log in ``text``. Raises UnusableLog if no family is recognised or no step time is printed."""
    return _parse(BytesIO(text.encode(errors="replace")), source)


def _read(path: Path, file: BinaryIO) -> Log:
    start = file.read(events.FRAME)
    for begins, (kind, remedy) in NO_TEXT.items():
        if start.startswith(begins):
            raise UnusableLog(f"{path}: is {kind}", remedy)
    file.seek(0)
    if events.is_event_file(path, start):
        return events.read(str(path), Once(file))
    return _parse(file, str(path))


def _parse(file: BinaryIO, source: str) -> Log:
    said = printed(file.read(HEAD).decode(errors="replace"))
    file.seek(0)
    readings = [_Reading(family) for family in FAMILIES]
    line, latest = 1, [readings[FAMILIES.index(family)] for family in bulk.LINES]
    once = Once(file)
    for block, whole in lines.blocks(once):
        ends = _took_bulk(latest, line, block) if whole else 0
        if not ends:
            _take_block(readings, line, block, whole)
            ends = block.count(b"\n")
        line += ends
        for reading in readings:
            reading.steps.bound()
    best = max(readings, key=_worth)
    if not best.steps:
        raise _no_steps(max(readings, key=lambda r: r.seen), source)
    best.steps.settle()
    return Log(
        source=source,
        family=best.family.name,
        steps=best.steps,
        refused=best.refused,
        global_batch=one_batch(best.batches.values(), source),
        notes=tuple(_notes(best, readings)),
        printed=said,
        samples=_samples(best),
        tflops=_tflops(best),
        total=best.total,
        sha256=once.sha256(),
        size=once.size,
    )


def _worth(reading: _Reading) -> int:
    """Weight of a family: its number of steps. DLLogger's count twice: it prints the steps of NeMo's bar with all digits, the last ones later."""
    return len(reading.steps) * (2 if reading.family is DLLOGGER else 1)


def _took_bulk(latest: list[_Reading], line: int, block: bytes) -> int:
    """Number of line ends of a block that contains only valid, consecutive steps of one program and unrelated lines; otherwise 0.

    ``latest``: the possible families, the one with the latest steps first.
    """
    for reading in latest:
        if reading.family.mark in block:
            found = bulk.read(reading.family, line, block, MARKS)
            if found is None or (found.epoch, found.number) <= reading.order:
                return 0
            _keep_bulk(reading, found)
            latest.sort(key=lambda other: other is not reading)
            return found.ends
    return 0


def _keep_bulk(reading: _Reading, found: bulk.Bulk) -> None:
    numbers = found.steps.numbers
    reading.seen += len(numbers)
    reading.keyed += len(numbers)
    reading.steps.extend(found.steps)
    reading.batches.update({text: int(text) for text in found.batches})
    reading.order = (found.epoch, numbers[-1] - 1 + reading.family.first)
    reading.first = reading.first or (numbers[0], found.first)
    reading.last = (numbers[-1], found.last)
    last = reading.family.line.search(found.last)
    if last and (total := last.groupdict().get("total")):
        reading.total = int(total)


def _take_block(readings: list[_Reading], line: int, block: bytes, whole: bool) -> None:
    present = [reading for reading in readings if reading.family.mark in block]
    starts = tuple(start for start in STARTS if start in block)
    if not present and not starts:
        return
    marks = (*(reading.family.mark for reading in present), *starts)
    for at, text in lines.segments(line, block, marks, TIMING_BAR):
        ended = whole and len(text) <= lines.LONGEST
        segment = text if ended else text[: lines.LONGEST]
        for reading in present:
            if reading.family.mark in segment and (match := reading.family.line.search(segment)):
                _take(reading, at, segment, match, ended)
        if starts and any(start in segment for start in starts):
            for reading in readings:
                if reading.steps:
                    reading.begin(at)


def _take(
    reading: _Reading, line: int, segment: bytes, match: re.Match[bytes], whole: bool
) -> None:
    reading.seen += 1
    family = reading.family
    timing = family.seconds.search(segment)
    if timing is None:
        reading.keyed += family.key.encode() in segment
        return
    reading.keyed += 1
    value = _text(timing)
    try:
        if not family.closed.match(segment, timing.end()) or (
            not whole and timing.end() == len(segment)
        ):
            raise ValueError("is cut off")
        seconds = number(value) * family.scale
        if seconds <= 0:
            raise ValueError(f"is {value}")
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
        _check_skipped(segment)
    except ValueError as error:
        reading.refused.add(Refusal(line=line, reason=str(error)))
        return
    _keep(reading, match, segment, (line, seconds, _half(family, value, seconds), loss))


def _half(family: Family, value: str, seconds: float) -> float:
    """Maximum difference in seconds between a step and its printed time."""
    if family.precision:
        return seconds * family.precision
    return half_unit(value, family.significant) * family.scale


def _keep(
    reading: _Reading,
    match: re.Match[bytes],
    segment: bytes,
    timed: tuple[int, float, float, float | None],
) -> None:
    """A redrawn bar of the same step replaces it. A step far before the last one means that the run started again."""
    line, seconds, half, loss = timed
    family = reading.family
    found = match.groupdict()
    count = None
    if "number" in found:
        order = (int(found.get("epoch") or 0), int(found["number"]))
        if order < reading.order:
            if _is_late(reading, order):
                reading.repeated += 1
                return
            reading.begin(line)
        elif order == reading.order:
            reading.steps.pop()
        reading.order = order
        count = order[1] + 1 - family.first
        reading.last = (count, segment)
        reading.total = int(found["total"]) if found.get("total") else None
        reading.first = reading.first or reading.last
    clock = _clock(family, segment)
    reading.steps.append(Step(count, seconds, line, loss, half, clock))


def _is_late(reading: _Reading, order: tuple[int, int]) -> bool:
    """A line of another rank that prints the same steps. The very first step is a new start."""
    (epoch, count), (last_epoch, last) = order, reading.order
    return epoch == last_epoch and last - count <= LATE and count > reading.family.first


def _samples(reading: _Reading) -> Samples:
    """Samples that the program counted as consumed, in its first and last step."""
    samples, pattern = Samples(), reading.family.samples
    if reading.family.counted:
        return _counted(reading.family, reading.last[1] if reading.last else b"")
    for at in (reading.first, reading.last):
        found = pattern.search(at[1]) if pattern and at else None
        if at and found:
            with suppress(ValueError):
                value = _text(found)
                samples.add(at[0], number(value), half_unit(value, reading.family.significant))
    return samples


def _counted(family: Family, segment: bytes) -> Samples:
    """From the steps that it counts itself; the bar keeps three digits of them."""
    steps = family.counted.search(segment) if family.counted else None
    samples = family.samples.search(segment) if family.samples else None
    with suppress(ValueError):
        if steps and samples:
            return Samples.counted(number(_text(steps)) + 1, number(_text(samples)), 0.01)
    return Samples()


def _tflops(reading: _Reading) -> float | None:
    """TFLOPS per GPU as printed by the program."""
    pattern = reading.family.tflops
    found = pattern.search(reading.last[1]) if pattern and reading.last else None
    with suppress(ValueError):
        return number(_text(found)) if found else None
    return None


def _clock(family: Family, segment: bytes) -> float | None:
    """Seconds since 1970, or since the start of the bar; None if the line has no time."""
    found = family.clock.search(segment) if family.clock else None
    if found is None:
        return None
    parts = found.groupdict()
    if since := parts.get("since"):
        return float(since)
    if stamp := parts.get("stamp"):
        try:
            return datetime.fromisoformat(stamp.decode()).timestamp()
        except (ValueError, OverflowError, OSError):
            return None
    return (int(parts["hours"] or 0) * 60 + int(parts["minutes"])) * 60 + int(parts["seconds"])


def _loss(family: Family, segment: bytes) -> float | None:
    """Raises ValueError if the training diverged."""
    if b"nan iterations" in segment and b"nan iterations:   0" not in segment:
        nan = NAN_ITERATIONS.search(segment)
        if nan and int(nan["value"]):
            raise ValueError(f"{_text(nan)} nan iterations")
    if _has_odd_norm(segment) and (norm := NAN_NORM.search(segment)):
        raise ValueError(" ".join(norm[0].decode().split()))
    found = family.loss.search(segment) if family.loss else None
    if found is None:
        return None
    try:
        return number(_text(found))
    except ValueError as error:
        raise ValueError(f"loss {error}") from None


def _has_odd_norm(segment: bytes) -> bool:
    at = segment.find(b"grad norm: ")
    return at >= 0 and not segment[at + 11 : at + 12].isdigit()


def _note_batch(reading: _Reading, segment: bytes) -> None:
    found = reading.family.batch.search(segment) if reading.family.batch else None
    if not found or found["value"] in reading.batches:
        return
    try:
        size = round(number(_text(found)))
    except ValueError as error:
        raise ValueError(f"global batch {error}") from None
    if size < 1:
        raise ValueError(f"global batch is {_text(found)}")
    reading.batches[found["value"]] = size


def _check_skipped(segment: bytes) -> None:
    """A skipped iteration updates no weights, so its time is not that of a step. Raises ValueError."""
    if b"skipped iterations" in segment and b"skipped iterations:   0" not in segment:
        skipped = SKIPPED_ITERATIONS.search(segment)
        if skipped and int(skipped["value"]):
            raise ValueError(f"{_text(skipped)} skipped iterations")


def _text(found: re.Match[bytes]) -> str:
    return found["value"].decode(errors="replace")


def _notes(best: _Reading, readings: list[_Reading]) -> Iterator[str]:
    yield best.family.note
    if best.restarted:
        yield f"the run restarted at line {best.restarted}; only later lines count"
    if best.repeated:
        yield f"{plural(best.repeated, 'line')} of steps were out of order, as if from another rank, and did not count"
    if best.family is MEGATRON and any(r.seen for r in readings if r.family is BRIDGE):
        yield "written by Megatron-Bridge; its separate Step Time lines were not used"


def _no_steps(reading: _Reading, source: str) -> UnusableLog:
    if not reading.seen:
        known = ", ".join(family.name for family in FAMILIES)
        return UnusableLog(
            f"{source}: no line in a supported training log format",
            f"known: {known}, TensorBoard event files",
        )
    if reading.family is NEMO_1 and not reading.keyed:
        return UnusableLog(f"{source}: {OLD_NEMO[0]}", OLD_NEMO[1])
    why = next(iter(reading.refused.first), None)
    said = f"line {why.line}: {why.reason}" if why else f"no {reading.family.key} in any line"
    return UnusableLog(
        f"{source}: {reading.family.name} log without a usable step time ({said})",
        "check that the run logs step times and ended without errors",
    )
