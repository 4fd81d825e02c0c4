"""The JSON lines of NeMo's DLLogger: all digits of a step time, also where they stand between other lines."""

from datetime import timedelta

import pytest

from appliance.benchmarks.gpt3 import logs
from appliance.benchmarks.gpt3.consistency import batch
from appliance.benchmarks.gpt3.steps import Log, UnusableLog
from tests.support.gpt3_logs import BEGAN, dllogger, nemo1

STEPS = [0.9, 0.8, 0.7, 0.65, 0.62] + [0.6] * 10


def parsed(text: bytes) -> Log:
    return logs.parse(text.decode(), "x")


def test_each_line_is_a_step_counted_from_zero_with_its_loss_and_time() -> None:
    log = parsed(dllogger([1.5, 1.25], 256))
    assert log.family == "NeMo's DLLogger"
    assert [(s.number, s.seconds, s.loss) for s in log.steps] == [(1, 1.5, 8.0), (2, 1.25, 7.9)]
    assert log.steps[0].clock == BEGAN.timestamp() + 61.5
    assert log.printed.began == BEGAN
    assert (log.refused.count, log.global_batch) == (0, None)


def test_the_digits_of_single_precision_are_what_a_value_may_be_off() -> None:
    """Of 2.0 one decimal is printed, and it is no value between 1.95 and 2.05."""
    (step,) = parsed(dllogger([2.0], 256)).steps
    assert step.half == 2.0**-23


def test_the_batch_is_held_against_the_samples_it_counts() -> None:
    log = parsed(dllogger(STEPS, 256))
    batch(log, 256)
    with pytest.raises(UnusableLog, match="consumed samples grow by 256 a step"):
        batch(log, 512)


def test_steps_of_an_epoch_count_and_sums_do_not() -> None:
    text = dllogger([1.5, 1.25], 256)
    of_epoch = text.replace(b'"step": 0,', b'"step": [0, 0],').replace(
        b'"step": 1,', b'"step": [0, 1],'
    )
    assert [s.number for s in parsed(of_epoch).steps] == [1, 2]
    for of_sum in (b'"step": [0],', b'"step": [],', b'"step": "PARAMETER",'):
        log = parsed(text.replace(b'"step": 1,', of_sum))
        assert [s.seconds for s in log.steps] == [1.5]


@pytest.mark.parametrize("fewer", [0, 7])
def test_beside_the_bar_of_the_same_run_all_digits_count(fewer: int) -> None:
    """The last lines may not be written yet; few lines of many steps are not what the run was."""
    exact = dllogger(STEPS[: len(STEPS) - fewer], 256).splitlines(keepends=True)
    bar = nemo1(STEPS, 256)
    log = parsed(exact[0] + bar + b"".join(exact[1:]))
    assert (log.family, len(log.steps)) == ("NeMo's DLLogger", len(STEPS) - fewer)
    few = parsed(bar + b"".join(exact[:7]))
    assert (few.family, len(few.steps)) == ("NeMo 1.21-1.23", len(STEPS))


@pytest.mark.parametrize(
    ("was", "becomes", "said", "diverged"),
    [
        (b"7.9", b"NaN", "loss is NaN", True),
        (b"1.25", b"NaN", "train_step_timing in s is NaN", False),
        (b"1.25", b"0.0", "train_step_timing in s is 0.0", False),
        (b"1.25", b"-1.25", "train_step_timing in s is -1.25", False),
        (b"1.25", b"null", "train_step_timing in s reads 'null', which is not a number", False),
        (b'1.25, "epoch": 0}}\n', b"1.2", "train_step_timing in s is cut off", False),
    ],
)
def test_a_value_that_cannot_be_is_refused(
    was: bytes, becomes: bytes, said: str, diverged: bool
) -> None:
    text = dllogger([1.5, 1.25], 256)
    assert was in text
    log = parsed(text.replace(was, becomes))
    assert [s.seconds for s in log.steps] == [1.5]
    assert (log.refused.first[0].reason, log.refused.diverged) == (said, diverged)


def test_lines_without_a_step_time_say_so() -> None:
    text = dllogger([1.5], 256).replace(b"train_step_timing", b"other_timing")
    with pytest.raises(UnusableLog, match="NeMo's DLLogger log without a usable step time"):
        parsed(text)


@pytest.mark.parametrize("elapsed", ["8e-06", "8.7e-05", "0.00011", "0"])
def test_the_first_line_is_written_at_once(elapsed: str) -> None:
    """Python prints so few seconds with an exponent."""
    text = dllogger([1.5], 256).decode().replace('"60.000000"', f'"{elapsed}"')
    began = logs.parse(text, "x").printed.began
    assert began is not None
    assert abs(began - BEGAN - timedelta(seconds=60)) < timedelta(milliseconds=1)


def test_a_time_no_calendar_has_dates_nothing() -> None:
    text = dllogger([1.5], 256).decode()
    since = f"{(BEGAN + timedelta(seconds=60)).timestamp():.6f}"
    assert since in text
    assert logs.parse(text.replace(since, "999999999999.0"), "x").printed.began is None
