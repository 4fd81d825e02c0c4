"""TensorBoard event files: framing, checksums, the scalar, and damage."""

import struct
from pathlib import Path

import pytest

from appliance.benchmarks.gpt3 import events, logs
from appliance.benchmarks.gpt3.steps import UnusableLog
from tests.unit.benchmarks.gpt3.recorded_logs import event, record, tensorboard


def test_checksum_is_crc32c_masked_as_tfrecord_does() -> None:
    """0xE3069283 is the check value of CRC-32C (RFC 3720's polynomial) over 123456789."""
    crc = 0xE3069283
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert events.masked_crc(b"123456789") == masked


def test_timing_scalars_become_steps_counted_from_one() -> None:
    log = events.read("x", tensorboard([1.5, 1.25], 256))
    assert [(step.number, step.seconds) for step in log.steps] == [(1, 1.5), (2, 1.25)]


@pytest.mark.parametrize("tag", events.TAGS)
def test_both_spellings_of_the_scalar_are_known(tag: str) -> None:
    assert events.read("x", record(event(0, tag, 2.0))).steps[0].seconds == 2.0


def test_tensor_values_of_newer_writers_are_read() -> None:
    tensor = b"\x08\x01\x2a\x04" + struct.pack("<f", 0.5)
    value = b"\x0a\x11train_step_timing\x42" + bytes([len(tensor)]) + tensor
    summary = b"\x0a" + bytes([len(value)]) + value
    data = b"\x10\x07\x2a" + bytes([len(summary)]) + summary
    log = events.read("x", record(data))
    assert [(step.number, step.seconds) for step in log.steps] == [(8, 0.5)]


def test_a_flipped_bit_ends_the_reading_and_is_told() -> None:
    data = bytearray(tensorboard([1.5] * 4, 256))
    data[-10] ^= 1
    log = events.read("x", bytes(data))
    assert len(log.steps) == 3
    assert "checksum" in log.refused[0].reason


def test_a_file_still_being_written_gives_what_is_whole() -> None:
    log = events.read("x", tensorboard([1.5] * 4, 256)[:-3])
    assert len(log.steps) == 3
    assert "cut off" in log.refused[0].reason


def test_nan_and_zero_are_refused() -> None:
    data = b"".join(
        record(event(i, events.TAGS[0], v)) for i, v in enumerate((float("nan"), 0.0, 2.0))
    )
    log = events.read("x", data)
    assert [step.seconds for step in log.steps] == [2.0]
    assert len(log.refused) == 2


def test_a_file_without_the_scalar_says_what_to_switch_on() -> None:
    with pytest.raises(UnusableLog, match="no scalar train_step_timing") as caught:
        events.read("x", record(event(0, "loss", 1.0)))
    assert "log_step_timing" in caught.value.hint


def test_event_files_are_told_by_content_whatever_their_name(tmp_path: Path) -> None:
    file = tmp_path / "2n.log"
    file.write_bytes(tensorboard([1.5], 256))
    assert logs.read(file).family == "TensorBoard"
    other = tmp_path / "events.out.tfevents.1"
    other.write_bytes(b"not an event file")
    with pytest.raises(UnusableLog, match="damaged"):
        logs.read(other)
