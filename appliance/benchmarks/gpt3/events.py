"""Reads train_step_timing out of TensorBoard event files: TFRecord framing and the few protobuf fields it needs."""

import math
import struct
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from appliance.benchmarks.gpt3.printed import Printed
from appliance.benchmarks.gpt3.steps import Log, Refusal, Refusals, Step, Steps, UnusableLog

TAGS = ("train_step_timing", "train_step_timing in s")
FRAME = 12
LENGTH_DELIMITED = 2
DATED = 10
"""Events from the first on that may tell when the run began."""
LARGEST = 1 << 26
"""Bytes of a record; NeMo's scalars take under 100, and images are not read."""
MOST = 1 << 62
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
    """By TensorBoard's file name, or by a first frame whose length carries its own checksum."""
    return "tfevents" in path.name or (
        len(start) >= FRAME and masked_crc(start[:8]) == struct.unpack_from("<I", start, 8)[0]
    )


def read(source: str, file: BinaryIO) -> Log:
    """The timing scalar of every step. Raises UnusableLog: damaged from the start, or the scalar is not in it."""
    steps = Steps()
    refused = Refusals()
    began: datetime | None = None
    for index, record in enumerate(_records(file, refused), 1):
        if began is None and index <= DATED:
            began = _wall_time(record)
        found = _timing(record)
        if found is None:
            continue
        step, seconds = found
        if not math.isfinite(seconds) or seconds <= 0:
            refused.add(Refusal(line=index, reason=f"train_step_timing is {seconds:g}"))
            continue
        if step >= MOST:
            refused.add(Refusal(line=index, reason="its step is no number of a step"))
            continue
        steps.append(Step(number=step + 1, seconds=seconds, line=index))
    if not steps:
        why = f" ({refused.first[0].reason})" if refused.first else ""
        raise UnusableLog(
            f"{source}: no scalar train_step_timing in this TensorBoard file{why}",
            "switch on exp_manager.log_step_timing in NeMo, or give the right events file",
        )
    note = "lines are record numbers; each value is a running mean of 5 steps"
    return Log(
        source=source,
        family="TensorBoard",
        steps=steps,
        refused=refused,
        notes=(note,),
        printed=Printed(began=began),
    )


def _wall_time(event: bytes) -> datetime | None:
    """Of an event: Event {1: seconds since 1970, as a double}."""
    for number, value in _fields(event):
        if number == 1 and isinstance(value, bytes) and len(value) == 8:
            with suppress(ValueError, OverflowError, OSError):
                return datetime.fromtimestamp(struct.unpack("<d", value)[0], UTC)
    return None


def _records(file: BinaryIO, refused: Refusals) -> Iterator[bytes]:
    """Records up to the first damaged one; a file still being written ends in half a record."""
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
        if masked_crc(record) != struct.unpack("<I", crc)[0]:
            refused.add(Refusal(line=count, reason=f"record checksum wrong; {UNREAD}"))
            return
        yield record


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Protobuf wire format: field number and its raw value."""
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
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, at


def _timing(event: bytes) -> tuple[int, float] | None:
    """Event {2: step, 5: Summary {1: Value {1: tag, 2: simple_value, 8: TensorProto {5: float_val}}}}."""
    step, found = 0, None
    for number, value in _fields(event):
        if number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            found = _scalar(value)
    return None if found is None else (step, found)


def _scalar(summary: bytes) -> float | None:
    for _, value in _fields(summary):
        parts = dict(_fields(value)) if isinstance(value, bytes) else {}
        tag = parts.get(1)
        if not isinstance(tag, bytes) or tag.decode(errors="replace") not in TAGS:
            continue
        tensor = parts.get(8)
        raw = parts.get(2) or (dict(_fields(tensor)).get(5) if isinstance(tensor, bytes) else None)
        if isinstance(raw, bytes) and len(raw) == 4:
            return float(struct.unpack("<f", raw)[0])
    return None
