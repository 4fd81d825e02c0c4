"""TensorBoard event files: framing, checksums, the scalar, and damage."""

import struct
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.benchmarks.gpt3 import events, logs
from appliance.benchmarks.gpt3.families import RUNNING_MEAN
from appliance.benchmarks.gpt3.once import Once
from appliance.benchmarks.gpt3.steps import Log, UnusableLog
from tests.support.gpt3_logs import (
    BEGAN,
    event,
    megatron_events,
    record,
    tensorboard,
)


def _read(data: bytes) -> Log:
    return events.read("x", Once(BytesIO(data)))


def test_checksum_is_crc32c_masked_as_tfrecord_does() -> None:
    """0xE3069283 is the check value of CRC-32C (RFC 3720's polynomial) over 123456789."""
    crc = 0xE3069283
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert events.masked_crc(b"123456789") == masked


def test_timing_scalars_become_steps_counted_from_one() -> None:
    log = _read(tensorboard([1.5, 1.25], 256))
    assert [(step.number, step.seconds) for step in log.steps] == [(1, 1.5), (2, 1.25)]


@pytest.mark.parametrize(
    "tag", ["train_step_timing", "train_step_timing in s", "train_step_timing_in_s"]
)
def test_all_spellings_of_the_scalar_are_known(tag: str) -> None:
    assert _read(record(event(0, tag, 2.0))).steps[0].seconds == 2.0


def test_tensor_values_of_newer_writers_are_read() -> None:
    tensor = b"\x08\x01\x2a\x04" + struct.pack("<f", 0.5)
    value = b"\x0a\x11train_step_timing\x42" + bytes([len(tensor)]) + tensor
    summary = b"\x0a" + bytes([len(value)]) + value
    data = b"\x10\x07\x2a" + bytes([len(summary)]) + summary
    log = _read(record(data))
    assert [(step.number, step.seconds) for step in log.steps] == [(8, 0.5)]


def test_a_flipped_bit_ends_the_reading_and_is_told() -> None:
    data = bytearray(tensorboard([1.5] * 4, 256))
    data[-10] ^= 1
    log = _read(bytes(data))
    assert len(log.steps) == 3
    assert "checksum" in log.refused.first[0].reason


def test_a_file_still_being_written_gives_what_is_whole() -> None:
    log = _read(tensorboard([1.5] * 4, 256)[:-3])
    assert len(log.steps) == 3
    assert "cut off" in log.refused.first[0].reason


def test_nan_and_zero_are_refused() -> None:
    data = b"".join(
        record(event(i, events.TIMING, v)) for i, v in enumerate((float("nan"), 0.0, 2.0))
    )
    log = _read(data)
    assert [step.seconds for step in log.steps] == [2.0]
    assert log.refused.count == 2


def test_a_file_without_the_scalar_says_what_to_switch_on() -> None:
    with pytest.raises(UnusableLog, match="no scalar train_step_timing") as caught:
        _read(record(event(0, "loss", 1.0)))
    assert "log_step_timing" in caught.value.hint


def test_event_files_are_told_by_content_whatever_their_name(tmp_path: Path) -> None:
    file = tmp_path / "2n.log"
    file.write_bytes(tensorboard([1.5], 256))
    assert logs.read(file).family == "TensorBoard"
    other = tmp_path / "events.out.tfevents.1"
    other.write_bytes(b"not an event file")
    with pytest.raises(UnusableLog, match="damaged"):
        logs.read(other)


def test_a_record_too_long_to_be_one_and_a_step_that_is_none_are_refused() -> None:
    long = record(b"x")
    head = struct.pack("<Q", events.LARGEST + 1)
    long = head + struct.pack("<I", events.masked_crc(head)) + long[12:]
    log = _read(record(event(events.MOST, events.TIMING, 1.5)) + tensorboard([2.5], 256) + long)
    assert [step.seconds for step in log.steps] == [2.5]
    assert "not a valid step number" in log.refused.first[0].reason
    assert "record of 67,108,865 bytes" in log.refused.first[1].reason


@pytest.mark.parametrize("spoilt", [b"", b"what follows is no record, and nobody reads it" * 9999])
def test_the_digest_is_of_the_whole_file(spoilt: bytes) -> None:
    data = tensorboard([0.5] * 20, 256) + spoilt
    log = _read(data)
    assert (log.sha256, log.size) == (sha256(data).hexdigest(), len(data))


def test_megatrons_scalars_are_steps_from_one_with_batch_and_loss() -> None:
    log = _read(megatron_events([1.5, 1.25], 256))
    assert [(s.number, s.seconds) for s in log.steps] == [(1, 1.5), (2, 1.25)]
    assert [s.loss for s in log.steps] == pytest.approx([7.9, 7.8])
    assert (log.global_batch, log.refused.count) == (256, 0)
    assert "a mean over the log interval" in log.notes[0]
    assert "running mean of 5 steps" in _read(tensorboard([1.5], 256)).notes[0]


def test_of_two_scalars_of_time_the_first_counts_and_none_counts_twice() -> None:
    other = b"".join(record(event(i, "train_step_timing", 9.0)) for i in (1, 2))
    log = _read(record(event(1, "iteration-time", 2.0)) + other)
    assert [(s.number, s.seconds) for s in log.steps] == [(1, 2.0)]


def test_a_batch_that_grows_is_refused_and_one_that_is_none_told() -> None:
    with pytest.raises(UnusableLog, match=r"the global batch changes \(256, 512\)"):
        _read(megatron_events([1.5], 256) + record(event(2, "batch-size", 512)))
    for size, said in ((float("nan"), "nan"), (float("inf"), "inf"), (0.0, "0")):
        log = _read(megatron_events([1.5], 256) + record(event(2, "batch-size", size)))
        assert (log.global_batch, log.refused.first[0].reason) == (256, f"batch-size is {said}")


def test_a_loss_of_megatrons_that_is_nan_is_a_diverged_run() -> None:
    log = _read(megatron_events([1.5], 256) + record(event(2, "lm loss", float("nan"))))
    assert (log.refused.diverged, log.refused.first[0].reason) == (True, "loss is nan")


def test_the_first_event_that_has_a_time_dates_the_run_and_each_step_has_its_own() -> None:
    log = _read(tensorboard([1.5, 1.25], 256))
    assert log.printed.began == BEGAN + timedelta(seconds=1.5)
    assert [s.clock for s in log.steps] == [
        BEGAN.timestamp() + 1.5,
        BEGAN.timestamp() + 2.75,
    ]
    assert log.notes == (f"lines are record numbers; {RUNNING_MEAN}",)


@pytest.mark.parametrize("wall", [0.0, float("nan"), float("inf"), 1e300, -1e300])
def test_a_time_no_calendar_has_dates_nothing(wall: float) -> None:
    odd = event(0, events.TIMING, 2.0)[9:]
    log = _read(record(b"\x09" + struct.pack("<d", wall) + odd))
    assert (log.printed.began, log.steps[0].seconds) == (None, 2.0)


def test_only_the_first_events_date_a_run() -> None:
    undated = record(event(0, "lr", 1.0)[9:])
    late = tensorboard([1.5], 256)
    assert _read(undated * (events.DATED - 3) + late).printed.began is not None
    assert _read(undated * events.DATED + late).printed.began is None


def test_a_step_that_is_written_again_counts_once_and_one_that_goes_back_begins_anew() -> None:
    again = record(event(1, events.TIMING, 1.251))
    log = _read(tensorboard([1.5, 1.25], 256) + again)
    assert [(s.number, round(s.seconds, 3)) for s in log.steps] == [(1, 1.5), (2, 1.251)]
    assert len(log.notes) == 1
    back = _read(tensorboard([1.5, 1.25], 256) + tensorboard([3.0], 256))
    assert [(s.number, s.seconds) for s in back.steps] == [(1, 3.0)]
    assert "restarted at record 11" in back.notes[1]


def test_a_step_with_two_times_is_refused() -> None:
    mean = tensorboard([1.5, 1.3], 256)
    with pytest.raises(UnusableLog, match=r"step 1 has two times, 1\.3 s and 0\.85 s"):
        _read(mean + record(event(1, events.TIMING, 0.85)))


def test_samples_are_those_after_the_step_and_a_loss_is_that_of_its_step() -> None:
    log = _read(tensorboard([1.5, 1.25], 256))
    assert log.samples.first == (1, 256.0, 256 * 2.0**-24)
    assert log.samples.last == (2, 512.0, 512 * 2.0**-24)
    other = record(event(4, "reduced_train_loss", 3.0)) + record(event(5, events.TIMING, 2.0))
    assert _read(other).steps[0].loss is None
    nan = record(event(0, "consumed_samples", float("nan"))) + tensorboard([1.5], 256)
    assert _read(nan).samples.first == (1, 256.0, 256 * 2.0**-24)


def test_a_batch_of_one_is_one() -> None:
    assert _read(megatron_events([1.5], 1)).global_batch == 1


def test_a_checksum_that_is_cut_off_is_no_record() -> None:
    for cut in (1, 4, 5):
        log = _read(tensorboard([1.5, 1.25], 256)[:-cut])
        assert [s.seconds for s in log.steps] == [1.5]
        assert "cut off" in log.refused.first[0].reason


@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_no_record_of_others_breaks_the_reader_or_moves_a_step(noise: bytes) -> None:
    log = _read(record(noise) + tensorboard([1.5, 1.25], 256))
    assert [s.seconds for s in log.steps] == [1.5, 1.25]


@settings(max_examples=200)
@given(st.integers(0, 400), st.binary(min_size=1, max_size=6))
def test_a_sound_checksum_makes_no_sound_event(at: int, noise: bytes) -> None:
    """Octets of an event are others, and its frame is right."""
    sound = event(3, events.TIMING, 1.5)
    spoilt = sound[: at % len(sound)] + noise + sound[at % len(sound) :]
    with suppress(UnusableLog):
        assert len(_read(record(spoilt)).steps) == 1


def test_a_number_without_an_end_is_read_for_ten_bytes() -> None:
    """As a number of all of them each byte would cost as much as all before."""
    value, at = events._varint(b"\xff" * 1000, 0)
    assert (at, value.bit_length()) == (10, 70)
