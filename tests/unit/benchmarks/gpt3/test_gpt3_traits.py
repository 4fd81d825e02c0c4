"""Traits of logs that people have shown in public (names as OWNER/REPOSITORY#ISSUE), and what they do to a file on its way.

Elsewhere: nan.0 and 9e+3 of NeMo#7957, no timing of NeMo-Framework-Launcher#55, ANSI, labels of srun, redrawn bars, cut numbers, gzip and
UTF-16 (test_gpt3_logs.py); damaged event files (test_gpt3_events.py); world size, sequence, batch, GPU's name (test_gpt3_recorded.py);
several ranks, restarts that go back, clocks, skipped steps (test_gpt3_consistency.py).
"""

import struct
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from appliance.benchmarks.gpt3 import events, logs
from appliance.benchmarks.gpt3.consistency import notes
from appliance.benchmarks.gpt3.once import Once
from appliance.benchmarks.gpt3.steps import UnusableLog, select
from tests.support.gpt3_logs import dllogger, megatron, nemo1, nemo2, tensorboard

STEPS = [0.9, 0.8, 0.7, 0.65, 0.62] + [0.6] * 10
Change = Callable[[bytes], bytes]


def without_stamps(text: bytes) -> bytes:
    return b"".join(b" " + line.split(b"] ", 1)[1] for line in text.splitlines(keepends=True))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text.replace(b"\n", b"\r\n"), id="line ends of Windows"),
        pytest.param(lambda text: b"\0" * 4096 + text + b"\0" * 4096, id="padding after a crash"),
        pytest.param(
            lambda text: text.replace(b"\n", b"\n\0\0\0\0", 3), id="padding between the lines"
        ),
        pytest.param(lambda text: b"\xef\xbb\xbf" + text, id="byte order mark"),
        pytest.param(lambda text: b"caf\xe9 \xff\xfe\n" + text, id="bytes of no encoding"),
        pytest.param(
            lambda text: text.replace(b"\n", b"\n[NeMo I 2026-08-22 10:00:00 x:1] a word\n"),
            id="NeMo's words between",
        ),
        pytest.param(lambda text: b"\x1b[2K\x1b[1A" + text, id="cursor up"),
        pytest.param(lambda text: text + b"Traceback (most recent call last):\n", id="a crash"),
    ],
)
@pytest.mark.parametrize("writer", [nemo1, nemo2, megatron, dllogger])
def test_what_happens_to_a_file_changes_no_step(
    writer: Callable[[list[float], int], bytes], change: Change, tmp_path: Path
) -> None:
    (tmp_path / "1n.log").write_bytes(change(writer(STEPS, 256)))
    read = [step.seconds for step in logs.read(tmp_path / "1n.log").steps]
    assert read == pytest.approx(STEPS, rel=1e-7)


@pytest.mark.parametrize(
    "change",
    [
        # epfLLM/Megatron-LLM#11 and NVIDIA/nccl#743: no time stamp.
        pytest.param(without_stamps, id="no stamp"),
        # NVIDIA/Megatron-LM#756 and newer: throughput, other losses, more numbers behind.
        pytest.param(
            lambda text: text.replace(
                b"| learning rate", b"| throughput per GPU (TFLOP/s/GPU): 98.1 | learning rate"
            ),
            id="throughput",
        ),
        pytest.param(
            lambda text: text.replace(b"| loss scale", b"| mtp_1 loss: 8.1E+00 | loss scale"),
            id="a second loss",
        ),
        pytest.param(
            lambda text: text.replace(
                b"| number of skipped",
                b"| num zeros: 0.0 | params norm: 210.315 | number of skipped",
            ),
            id="norms",
        ),
    ],
)
def test_every_form_of_megatrons_line_is_read(change: Change) -> None:
    log = logs.parse(change(megatron(STEPS, 256)).decode(), "x")
    assert [step.seconds for step in log.steps] == pytest.approx(STEPS)
    assert (log.global_batch, log.refused.count) == (256, 0)
    assert log.steps[0].loss == 7.9


def test_the_line_of_2019_is_refused_and_not_guessed() -> None:
    """It counts no samples, so that nothing says which step a time is of."""
    old = megatron(STEPS, 256).replace(b" consumed samples:", b" seen:")
    with pytest.raises(UnusableLog, match="no line in a supported training log format"):
        logs.parse(old.decode(), "x")


def test_a_run_that_skips_every_iteration_has_no_figure() -> None:
    text = megatron([0.6] * 50, 256).replace(b"skipped iterations:   0", b"skipped iterations:   1")
    with pytest.raises(UnusableLog, match="1 skipped iterations"):
        logs.parse(text.decode(), "x")


def test_a_restart_that_does_not_go_back_is_told_by_its_slow_steps() -> None:
    log = logs.parse(megatron([86.0] * 20 + [190.0, 150.0] + [86.0] * 18, 256).decode(), "x")
    assert "2 of 32 steps took over 1.5 times the median" in " ".join(notes(log, select(log)))


def _torn(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _zeros(data: bytes) -> bytes:
    return data + b"\0" * 4096


def _doubled(data: bytes) -> bytes:
    return data + data


def _header(data: bytes) -> bytes:
    at = len(data) * 2 // 3
    return data[:at] + b"\xff" * 40 + data[at + 40 :]


def _step(data: bytes) -> bytes:
    return data + struct.pack("<Q", 12)


@pytest.mark.parametrize("damage", [_torn, _zeros, _doubled, _header, _step])
def test_of_a_damaged_event_file_no_step_is_made_up(damage: Change) -> None:
    log = events.read("x", Once(BytesIO(damage(tensorboard(STEPS, 256)))))
    assert {round(step.seconds, 6) for step in log.steps} <= set(STEPS)
    assert log.refused.count or "restarted" in " ".join(log.notes)
