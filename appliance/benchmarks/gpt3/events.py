"""Reads the step times of NeMo and Megatron-LM from TensorBoard event files: TFRecord framing and the few required protobuf fields."""

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from pathlib import Path

from appliance.benchmarks.gpt3.families import OVER_INTERVAL, RUNNING_MEAN, SINGLE
from appliance.benchmarks.gpt3.once import Once
from appliance.benchmarks.gpt3.printed import Printed
from appliance.benchmarks.gpt3.steps import (
    Log,
    Refusal,
    Refusals,
    Samples,
    Step,
    Steps,
    UnusableLog,
    one_batch,
)

TIMING = "train_step_timing"
ITERATION = "iteration-time"
"""Scalars of Megatron-LM and Megatron-Bridge, in s, by iteration from 1 on."""
SAMPLES = "consumed_samples"
BATCH = "batch-size"
LOSSES = ("reduced_train_loss", "train_loss", "lm loss")
TAGS = {
    TIMING: TIMING,
    f"{TIMING} in s": TIMING,
    # Lightning uses tensorboardX if PyTorch's writer is not available. It replaces blanks by underscores.
    f"{TIMING}_in_s": TIMING,
    ITERATION: ITERATION,
    SAMPLES: SAMPLES,
    BATCH: BATCH,
    **dict.fromkeys(LOSSES, "loss"),
}
FIRST = {TIMING: 0, ITERATION: 1}
"""The number of the first step, by program."""
NOTES = {TIMING: RUNNING_MEAN, ITERATION: OVER_INTERVAL}
NAMED = (
    *(tag.encode() for tag in (TIMING, ITERATION, SAMPLES, BATCH)),
    b"train_loss",
    b"lm loss",
)
"""Every record that is read contains one of these. For others, the checksum is not computed."""
FRAME = 12
LENGTH_DELIMITED = 2
SAME = 0.01
"""Maximum relative difference of two times of the same step."""
DATED = 10
"""Number of events, from the first on, that may contain the start of the run."""
LARGEST = 1 << 26
"""Maximum size of a record in bytes. NeMo's scalars need less than 100, and images are not read."""
MOST = 1 << 62
VARINT_BITS = 70
"""A varint has at most ten bytes (protobuf.dev, Encoding)."""
UNREAD = "the rest is not read"


def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


CRC32C = _table()


def masked_crc(data: bytes) -> int:
    """TFRecord's checksum: CRC-32C (Castagnoli), rotated and offset."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC32C[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def is_event_file(path: Path, start: bytes) -> bool:
    """Recognises an event file by TensorBoard's file name, or by a first frame whose length has a valid checksum."""
    return "tfevents" in path.name or (
        len(start) >= FRAME and masked_crc(start[:8]) == struct.unpack_from("<I", start, 8)[0]
    )


def read(source: str, file: Once) -> Log:
    """Returns the timing scalar of every step. Raises UnusableLog if the file is damaged from the start or lacks the scalar."""
    found = _Found(source)
    for index, record in _records(file, found.refused):
        found.take(index, record)
        found.steps.bound()
    if not found.steps:
        first = found.refused.first
        why = f" ({first[0].reason})" if first else ""
        raise UnusableLog(
            f"{source}: no scalar train_step_timing or iteration-time in this TensorBoard file{why}",
            "enable exp_manager.log_step_timing in NeMo or --log-timers-to-tensorboard in Megatron-LM, or use the right events file",
        )
    return Log(
        source=source,
        family="TensorBoard",
        steps=found.steps,
        refused=found.refused,
        global_batch=one_batch(found.batches, source),
        notes=tuple(found.notes()),
        printed=Printed(began=found.began),
        samples=found.samples,
        resolution=1e-3,
        sha256=file.sha256(),
        size=file.size,
    )


@dataclass
class _Found:
    """Result of the events of one file. ``timed`` is the timing scalar that occurred first."""

    source: str = ""
    steps: Steps = field(default_factory=Steps)
    refused: Refusals = field(default_factory=Refusals)
    samples: Samples = field(default_factory=Samples)
    batches: set[int] = field(default_factory=set)
    timed: str = ""
    began: datetime | None = None
    restarted: int = 0
    last: int = -1
    loss: tuple[int, float] | None = None

    def take(self, index: int, record: bytes) -> None:
        """Reads one event; ``index`` is the number of its record."""
        event = _event(record)
        if self.began is None and index <= DATED:
            self.began = _dated(event.wall)
        for tag, value in event.scalars:
            kind = TAGS.get(tag)
            if kind and event.step >= MOST:
                self.refused.add(Refusal(line=index, reason="its step is not a valid step number"))
            elif kind in FIRST:
                self.timed = self.timed or kind
                if kind == self.timed:
                    self._time(index, event, value)
            elif kind == BATCH:
                self._batch(index, value)
            elif kind == SAMPLES and isfinite(value):
                self.samples.add(event.step + 1, value, value * SINGLE)
            elif kind == "loss" and isfinite(value):
                self.loss = event.step, value
            elif kind == "loss":
                reason = f"loss is {value:g}"
                self.refused.add(Refusal(line=index, reason=reason, diverged=True))

    def _batch(self, index: int, size: float) -> None:
        if isfinite(size) and size >= 1:
            self.batches.add(round(size))
        else:
            self.refused.add(Refusal(line=index, reason=f"{BATCH} is {size:g}"))

    def _time(self, index: int, event: "_Event", seconds: float) -> None:
        if not isfinite(seconds) or seconds <= 0:
            self.refused.add(Refusal(line=index, reason=f"{self.timed} is {seconds:g}"))
            return
        if event.step < self.last:
            self.steps, self.samples, self.restarted = Steps(), Samples(), index
        elif event.step == self.last and self.steps:
            self._require_same(event, index, seconds)
            self.steps.pop()
        self.last = event.step
        loss = self.loss[1] if self.loss and self.loss[0] == event.step else None
        number, half = event.step + 1 - FIRST[self.timed], seconds * SINGLE
        self.steps.append(
            Step(number, seconds, index, loss=loss, half=half, clock=event.wall or None)
        )

    def _require_same(self, event: "_Event", index: int, seconds: float) -> None:
        """Two different times of one step are ambiguous. Raises UnusableLog."""
        before = self.steps[-1].seconds
        if abs(before - seconds) > SAME * max(before, seconds):
            raise UnusableLog(
                f"{self.source}: step {event.step} has two times, {before:.4g} s and {seconds:.4g} s (record {index})",
                "one is a mean or from another writer: let the program write only one of them, and use the events file of one run",
            )

    def notes(self) -> Iterator[str]:
        """Notes that a reader of the results needs."""
        yield f"lines are record numbers; {NOTES[self.timed]}"
        if self.restarted:
            yield f"the run restarted at record {self.restarted}; only later records count"


@dataclass(frozen=True)
class _Event:
    """Returns seconds since 1970, step, and scalars by tag of an event."""

    wall: float
    step: int
    scalars: tuple[tuple[str, float], ...]


def _dated(wall: float) -> datetime | None:
    if not wall:
        return None
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(wall, UTC)
    return None


def _records(file: Once, refused: Refusals) -> Iterator[tuple[int, bytes]]:
    """Yields relevant records with their numbers, up to the first damaged one.

    A file that is still being written ends with an incomplete record.
    """
    for count, head in enumerate(iter(partial(file.read, FRAME), b""), 1):
        if len(head) < FRAME or masked_crc(head[:8]) != struct.unpack_from("<I", head, 8)[0]:
            refused.add(Refusal(line=count, reason=f"record header damaged; {UNREAD}"))
            return
        (length,) = struct.unpack_from("<Q", head)
        if length > LARGEST:
            refused.add(Refusal(line=count, reason=f"record of {length:,} bytes; {UNREAD}"))
            return
        record, crc = file.read(length), file.read(4)
        if len(record) < length or len(crc) < 4:
            refused.add(Refusal(line=count, reason="last record is cut off"))
            return
        if count > DATED and not any(name in record for name in NAMED):
            continue
        if masked_crc(record) != struct.unpack("<I", crc)[0]:
            refused.add(Refusal(line=count, reason=f"record checksum wrong; {UNREAD}"))
            return
        yield count, record


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields field numbers and raw values of the protobuf wire format."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        length = {1: 8, 5: 4}.get(kind, 0)
        if kind == LENGTH_DELIMITED:
            length, at = _varint(data, at)
        yield key >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while at < len(data) and shift < VARINT_BITS:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, at


def _event(record: bytes) -> _Event:
    """Event {1: wall time, 2: step, 5: Summary {1: Value {1: tag, 2: simple_value, 8: TensorProto {5: float_val}}}}."""
    wall, step = 0.0, 0
    scalars: list[tuple[str, float]] = []
    for number, value in _fields(record):
        if number == 1 and isinstance(value, bytes) and len(value) == 8:
            wall = float(struct.unpack("<d", value)[0])
        elif number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            scalars += _scalars(value)
    return _Event(wall if isfinite(wall) else 0.0, step, tuple(scalars))


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    for _, value in _fields(summary):
        parts = dict(_fields(value)) if isinstance(value, bytes) else {}
        tag, tensor = parts.get(1), parts.get(8)
        raw = parts.get(2) or (_float_of(tensor) if isinstance(tensor, bytes) else None)
        if isinstance(tag, bytes) and isinstance(raw, bytes) and len(raw) == 4:
            yield tag.decode(errors="replace"), float(struct.unpack("<f", raw)[0])


def _float_of(tensor: bytes) -> int | bytes | None:
    """TensorProto {4: tensor_content, 5: float_val, packed}: both are the four bytes of one float."""
    fields = dict(_fields(tensor))
    return fields.get(5) or fields.get(4)
