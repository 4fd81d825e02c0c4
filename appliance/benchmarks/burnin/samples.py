"""The samples of a burn-in on one host: complete, in order of time, and typed; anything else is refused."""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from pydantic import Field

from appliance.adapters.json_answers import parsed
from appliance.benchmarks.reading import Foreign, Rate, Unread, shaped
from appliance.text import quoted, shortened

XID = re.compile(
    r"\[ *[0-9]{1,12}\.[0-9]{1,9}\] (?:\[ *[A-Z][0-9]{1,9}\] )?NVRM: Xid \(PCI:([0-9A-Fa-f:.]{1,32})\): (\d{1,4})\b"
)
"""At the start of a record of dmesg, because only records of the driver start like this. Other records can contain names of users' programs."""


class Line(Foreign):
    """One line of samples.jsonl."""

    kind: Literal["begin", "sample", "end"]
    time: Rate
    seconds: Rate = 0
    interval: Rate = 0
    load: str = Field(default="", max_length=16)
    workers: int = Field(default=0, ge=0, le=4096)
    why: str = Field(default="", max_length=16)
    failed: int = Field(default=0, ge=0, le=4096)
    gpus: tuple[str, ...] = Field(default=(), max_length=64)
    hung: bool = False
    xids: tuple[str, ...] = Field(default=(), max_length=64)
    log: bool = False
    rates: dict[str, Rate] = Field(default_factory=dict, max_length=64)


@dataclass(frozen=True)
class Gpu:
    """One GPU at one time: C, W, MHz, %, errors counted until then, and NVML's reasons for a low clock. None: not reported."""

    index: int
    uuid: str
    temperature: float | None
    power: float | None
    clock: float | None
    utilization: float | None
    uncorrected: float | None
    corrected: float | None
    reasons: int | None


@dataclass(frozen=True)
class Moment:
    """One sample; seconds since the burn-in began (below 0: before it)."""

    at: float
    gpus: tuple[Gpu, ...]
    rates: dict[str, float]


@dataclass(frozen=True)
class Burn:
    """A whole run. ``xids``: codes that were logged after it began, with the GPU's address; None: the log was not readable.

    ``gap``: the longest time without a sample, s; ``done``: it came to its own end; ``failed``: workers that died.
    """

    asked: float
    interval: float
    load: str
    lasted: float
    gap: float
    done: bool
    failed: int
    hung: bool
    moments: tuple[Moment, ...]
    xids: tuple[tuple[str, int], ...] | None


def read(text: str) -> Burn:
    """Raises Unread if a line is not a sample, or if begin or any sample is missing. The last line may be cut off."""
    lines = [line for line in text.split("\n") if line.strip()]
    found = [
        line for number, raw in enumerate(lines, 1) if (line := _line(raw, number, len(lines)))
    ]
    begin = next((line for line in found if line.kind == "begin"), None)
    if begin is None or begin.seconds <= 0:
        raise Unread("its beginning is missing")
    samples = [line for line in found if line.kind == "sample"]
    during = [line for line in samples if line.time >= begin.time]
    if not during:
        raise Unread("it has no samples")
    end = next((line for line in found if line.kind == "end"), None)
    last = end or during[-1]
    times = [begin.time, *(line.time for line in during), last.time]
    if times != sorted(times):
        raise Unread("its samples are not in order: the clock was set back")
    # If sampling stopped hours before the end, that is a gap. After the requested time, while workers end, no sample is required.
    times[-1] = max(during[-1].time, min(last.time, begin.time + begin.seconds))
    return Burn(
        asked=begin.seconds,
        interval=begin.interval,
        load=begin.load,
        lasted=last.time - begin.time,
        gap=max(later - earlier for earlier, later in pairwise(times)),
        done=end is not None and end.why == "done",
        failed=max(line.failed for line in (*during, last)),
        hung=any(line.hung for line in during),
        moments=tuple(
            Moment(line.time - begin.time, tuple(_gpu(row) for row in line.gpus), dict(line.rates))
            for line in samples
        ),
        xids=_xids(samples, begin.time),
    )


def _line(raw: str, number: int, last: int) -> Line | None:
    try:
        return shaped(Line, parsed(raw))
    except ValueError as error:
        # A host that lost its power leaves half a line.
        if number == last:
            return None
        raise Unread(f"line {number}: {shortened(str(error), 120)}") from None


def _gpu(row: str) -> Gpu:
    """index, uuid, C, W, MHz, %, uncorrected, corrected, reasons; "[N/A]" and similar if a value is not reported."""
    words = [word.strip() for word in row.split(",")]
    if len(words) != 9 or not re.fullmatch("[0-9]{1,3}", words[0]):
        raise Unread(f"a GPU's row is none: {quoted(row)}")
    warmth, power, clock, use, lost, mended = map(_number, words[2:8])
    if use is not None and use > 100:
        raise Unread(f"GPU utilization of {use:g} % is impossible")
    uuid, reasons = shortened(words[1], 80), _reasons(words[8])
    # No GPU under load is that cold: the sensor does not work.
    warmth = warmth or None
    return Gpu(int(words[0]), uuid, warmth, power, clock, use, lost, mended, reasons)


def _number(word: str) -> float | None:
    if word.startswith("[") or word in {"N/A", ""}:
        return None
    try:
        found = float(word)
    except ValueError:
        raise Unread(f"a GPU's value is none: {quoted(word)}") from None
    if not 0 <= found <= 1e12:
        raise Unread(f"a GPU's value cannot be {quoted(word)}")
    return found


def _reasons(word: str) -> int | None:
    if not re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", word):
        return None
    return int(word, 16)


def _xids(samples: list[Line], begin: float) -> tuple[tuple[str, int], ...] | None:
    """Lines of the log that were not there before it began: the log keeps old ones, and drops the oldest."""
    if not all(line.log for line in samples):
        return None
    before = {text for line in samples if line.time < begin for text in line.xids}
    fresh = {text: None for line in samples for text in line.xids if text not in before}
    return tuple((m[1], int(m[2])) for text in fresh if (m := XID.match(text)))
