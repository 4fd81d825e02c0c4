"""Mistakes planted into sound logs: each is refused or told, none makes a figure in silence."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from appliance.benchmarks.gpt3 import consistency
from appliance.benchmarks.gpt3.recorded import from_logs
from appliance.benchmarks.gpt3.reference import load
from appliance.benchmarks.gpt3.steps import (
    Log,
    Refusal,
    Samples,
    Step,
    Steps,
    UnusableLog,
    select,
)
from appliance.benchmarks.gpt3.throughput import Formula, Run, tflops_per_gpu
from appliance.models.result import CheckResult, Status
from tests.support.gpt3_logs import (
    BEGAN,
    megatron,
    nemo1,
    nemo2,
    step_times,
    tensorboard,
)

FIVE = step_times(85.7)
Change = Callable[[str], str]


def judged(tmp_path: Path, content: bytes, name: str = "1n.log", said: str = "") -> CheckResult:
    folder = tmp_path / "5b" / "bare-metal"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(content)
    (tmp_path / "runs.yml").write_text(f"gpu: A100-SXM4-80GB\ngpus_per_node: 8\n{said}")
    results, _, _ = from_logs([tmp_path])
    return next(r for r in results if r.id == "gpt3.throughput")


def test_the_sound_log_passes_with_no_word_of_doubt(tmp_path: Path) -> None:
    result = judged(tmp_path, megatron(FIVE, 2048, tflops=192.4))
    assert (result.status, result.value) == (Status.PASS, 48_941)
    assert "median" not in result.evidence
    assert "by its clock 85." in result.evidence


def swap(old: str, new: str) -> Change:
    return lambda text: text.replace(old, new)


@pytest.mark.parametrize(
    ("content", "name", "status", "told"),
    [
        # Seconds under the name of milliseconds, and the other way round.
        (megatron([s / 1000 for s in FIVE], 2048), "1n.log", Status.ERROR, "is impossible"),
        (nemo1([s * 1000 for s in FIVE], 2048), "1n.log", Status.ERROR, "no GPU trains so slowly"),
        (
            megatron(FIVE, 2048).replace(b"(ms): 8", b"(ms): 88"),
            "1n.log",
            Status.NOT_ASSESSED,
            "by its clock",
        ),
        # A batch that the counted samples contradict.
        (
            megatron(FIVE, 2048).replace(b"size:  2048", b"size:  4096"),
            "1n.log",
            Status.NOT_ASSESSED,
            "consumed samples grow by 2,048 a step, but the global batch is 4096",
        ),
        (nemo1(FIVE, 1024), "1n.log", Status.NOT_ASSESSED, "the global batch is 2048"),
        (tensorboard(FIVE, 1024), "1n.tfevents", Status.NOT_ASSESSED, "global batch is 2048"),
        # Twice the GPUs, so half the TFLOPS that the program printed.
        (
            megatron(FIVE, 2048, tflops=96.2),
            "1n.log",
            Status.NOT_ASSESSED,
            "reports 96.2 TFLOPS per GPU",
        ),
        # Too few steps for a figure.
        (megatron(FIVE[:10], 2048), "1n.log", Status.NOT_ASSESSED, "7 are needed"),
        # No step that changed a weight.
        (
            megatron(FIVE, 2048).replace(b"skipped iterations:   0", b"skipped iterations:   1"),
            "1n.log",
            Status.NOT_ASSESSED,
            "1 skipped iterations",
        ),
    ],
)
def test_a_planted_mistake_is_no_pass(
    tmp_path: Path, content: bytes, name: str, status: Status, told: str
) -> None:
    result = judged(tmp_path, content, name)
    assert result.status is status
    assert told in result.cause


def test_a_log_that_mostly_cannot_be_believed_is_refused(tmp_path: Path) -> None:
    lines = megatron(step_times(85.7) * 2, 2048).splitlines(keepends=True)
    spoilt = [
        line.replace(b"(ms): 8", b"(ms): x") if i % 2 else line for i, line in enumerate(lines)
    ]
    result = judged(tmp_path, b"".join(spoilt))
    assert result.status is Status.NOT_ASSESSED
    assert "values are invalid, " in result.cause


def test_a_rising_loss_is_a_diverged_training(tmp_path: Path) -> None:
    lines = megatron(FIVE, 2048).decode().splitlines()
    rising = [
        line.split("lm loss:")[0]
        + f"lm loss: {2 + i * 1.3:.6E} | loss"
        + line.split("| loss", 1)[1]
        for i, line in enumerate(lines)
    ]
    result = judged(tmp_path, ("\n".join(rising) + "\n").encode())
    assert result.status is Status.FAIL
    assert "the loss rose from" in result.cause


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("window:1-10", "count the warm-up"),
        ("window:10-12", "7 are needed"),
        ("window:15-24", "are missing"),
    ],
)
def test_a_window_neither_counts_the_warm_up_nor_is_too_short(
    tmp_path: Path, rule: str, told: str
) -> None:
    result = judged(tmp_path, megatron(FIVE, 2048), said=f"rule: {rule}\n")
    assert result.status is Status.NOT_ASSESSED
    assert told in result.cause


def test_of_a_resumed_log_the_repeated_steps_count_once(tmp_path: Path) -> None:
    whole = megatron(FIVE, 2048).splitlines(keepends=True)
    again = [*whole[:18], *megatron(step_times(91.0), 2048).splitlines(keepends=True)[5:]]
    result = judged(tmp_path, b"".join(again))
    assert result.status is Status.FAIL or "restarted at line 19" in result.evidence
    assert "restarted at line 19" in result.evidence


def test_a_start_between_the_steps_is_a_new_beginning(tmp_path: Path) -> None:
    whole = megatron([86.0] * 30, 2048).splitlines(keepends=True)
    start = b"using world size: 8, data-parallel size: 8\n"
    result = judged(tmp_path, b"".join([*whole[:10], start, *whole[10:]]))
    assert "restarted at line 11" in result.evidence
    assert "of 20" in result.evidence


def test_ranks_that_print_the_same_steps_are_no_new_beginning(tmp_path: Path) -> None:
    whole = megatron([86.0] * 30, 2048).splitlines(keepends=True)
    skewed = [line for i in range(0, 30, 2) for line in (*whole[i : i + 2], *whole[i : i + 2])]
    result = judged(tmp_path, b"".join(skewed))
    assert result.status is Status.PASS
    assert "lines of steps were out of order" in result.evidence


def test_slow_steps_and_an_early_end_are_told(tmp_path: Path) -> None:
    seconds = [85.7] * 40
    seconds[20] = 190.0
    text = megatron(seconds, 2048).replace(b"/      40", b"/     200")
    result = judged(tmp_path, text)
    assert "1 of 32 steps took over 1.5 times the median, 85.7 s" in result.evidence
    assert "it ends at step 40 of 200" in result.evidence


def test_a_limit_within_what_the_digits_leave_open_is_not_judged(tmp_path: Path) -> None:
    """0.0 to 0.1 % about the limit: three digits cannot tell, event files can."""
    limit = 85.7 / 0.95
    result = judged(tmp_path, nemo1([limit] * 20, 2048))
    assert result.status is Status.NOT_ASSESSED
    assert "too coarse to judge" in result.cause
    assert "TensorBoard" in result.fix


def _log(seconds: list[float], passed: float | None, number: int | None = 1) -> Log:
    """Steps of these times, each printed so many s after the last."""
    return Log(
        "x",
        "y",
        Steps(
            Step(
                number=None if number is None else number + i,
                seconds=value,
                line=i + 1,
                clock=None if passed is None else passed * i,
            )
            for i, value in enumerate(seconds)
        ),
    )


def _paused(seconds: list[float], pause: float) -> Log:
    """The same, with a pause behind one step that counts."""
    log = _log(seconds, seconds[0])
    steps = (replace(s, clock=(s.clock or 0) + (pause if s.line > 20 else 0)) for s in log.steps)
    return replace(log, steps=Steps(steps))


def restamped(text: bytes, at: Callable[[int], float]) -> bytes:
    """The same log with other time stamps; ``at``: seconds from the first step to this one."""
    lines = text.decode().splitlines()
    made = [
        f" [{BEGAN + timedelta(seconds=at(i)):%Y-%m-%d %H:%M:%S}]{line.split(']', 1)[1]}"
        for i, line in enumerate(lines)
    ]
    return ("\n".join(made) + "\n").encode()


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (lambda i: 1200.0 * i, "as long"),
        (lambda i: 92.0 * i, "by its own time stamps most steps took 1.07 times as long"),
        (lambda i: 1200.0 * i if i < 19 else 85.7 * i, "as long"),
        (lambda i: 85.7 * i + 600 * (i // 3), "as long"),
        (lambda i: 0.0, "by its clock all steps took 0 s"),
        (lambda i: -85.7 * i, "not in order"),
    ],
)
def test_time_stamps_that_contradict_the_step_times_make_no_verdict(
    tmp_path: Path, at: Callable[[int], float], told: str
) -> None:
    result = judged(tmp_path, restamped(megatron(FIVE, 2048), at))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
    assert told in result.cause


def test_a_checkpoint_and_a_validation_contradict_nothing(tmp_path: Path) -> None:
    at = [85.7 * i + (400 if i > 9 else 0) + (900 if i > 14 else 0) for i in range(20)]
    result = judged(tmp_path, restamped(megatron(FIVE, 2048), at.__getitem__))
    assert result.status is Status.PASS
    assert "it paused between steps" in result.evidence


def test_short_steps_are_held_against_a_coarse_clock(tmp_path: Path) -> None:
    """0.57 s printed and 1.2 s by the clock, over no more than 17 s."""
    content = megatron(step_times(0.57), 256)
    assert "as long" in alone(tmp_path / "a", restamped(content, lambda i: 1.2 * i)).cause
    assert alone(tmp_path / "b", content).status is Status.PASS


def alone(folder: Path, content: bytes) -> CheckResult:
    cell = folder / "126m" / "bare-metal"
    cell.mkdir(parents=True)
    (cell / "1n.log").write_bytes(content)
    (folder / "runs.yml").write_text("gpu: A100-SXM4-80GB\ngpus_per_node: 8\n")
    return next(r for r in from_logs([folder])[0] if r.id == "gpt3.throughput")


@pytest.mark.parametrize(
    ("per_step", "batch"), [(100.0, 125), (125.0, 100), (125.5, 100), (100.0, 126)]
)
def test_consumed_samples_may_be_a_quarter_off_and_no_more(per_step: float, batch: int) -> None:
    log = replace(_log([1.0] * 20, None), samples=Samples((0, 0, 0), (10, 10 * per_step, 0)))
    if max(per_step, batch) > 125:
        with pytest.raises(UnusableLog, match="consumed samples"):
            consistency.batch(log, batch)
    else:
        consistency.batch(log, batch)


@pytest.mark.parametrize(("passed", "number"), [(None, 1), (1.0, None), (0.5, 1)])
def test_a_clock_that_does_not_tell_says_nothing(passed: float | None, number: int | None) -> None:
    """None, steps without numbers, and a span of under twenty seconds."""
    log = _log([1.0] * 20, passed, number)
    assert consistency.clock(log, select(log)) is None


def test_pauses_and_slow_steps_are_told_from_their_bounds_on() -> None:
    def told(log: Log) -> str:
        return " ".join(consistency.notes(log, select(log)))

    assert "it paused" in told(_paused([2.0] * 40, 8.0))
    assert "it paused" not in told(_paused([2.0] * 40, 4.0))
    assert "times the median" in told(_log([2.0] * 39 + [3.1], None))
    assert "times the median" not in told(_log([2.0] * 39 + [3.0], None))


@pytest.mark.parametrize(("total", "told"), [(30, False), (31, False), (32, True)])
def test_only_a_run_that_lacks_more_than_its_last_step_ended_early(total: int, told: bool) -> None:
    """NeMo counts from 0: its last step is one less than it was to have."""
    log = replace(_log([0.5] * 30, None), total=total)
    assert any("it ends at" in note for note in consistency.notes(log, select(log))) is told


@pytest.mark.parametrize(("steps", "said"), [(9, ""), (10, "the loss rose from 1 to 2")])
def test_a_fifth_of_two_losses_is_enough_to_tell_a_rise(steps: int, said: str) -> None:
    losses = [1.0] * (steps // 2) + [2.0] * (steps - steps // 2)
    made = Steps(Step(i, 0.5, i, loss) for i, loss in enumerate(losses, 1))
    assert consistency.diverged(Log(source="x", family="x", steps=made)) == said


@pytest.mark.parametrize(("began", "ended"), [(0.1, 0.16), (0.5, 0.76), (4.0, 6.1)])
def test_a_loss_may_rise_by_half_however_small(began: float, ended: float) -> None:
    def said(last: float) -> str:
        losses = [began] * 5 + [last] * 5
        made = Steps(Step(i, 0.5, i, loss) for i, loss in enumerate(losses, 1))
        return consistency.diverged(Log(source="x", family="x", steps=made))

    assert said(ended) == f"the loss rose from {began:.3g} to {ended:.3g}"
    assert said(began * 1.5) == ""


def test_a_step_that_diverged_is_told_before_any_loss() -> None:
    log = _log([1.0] * 20, None)
    log.refused.add(Refusal(3, "value x is no number"))
    assert consistency.diverged(log) == ""
    log.refused.add(Refusal(7, "loss is nan", diverged=True))
    assert consistency.diverged(log) == "loss is nan, line 7"


@pytest.mark.parametrize(
    ("printed", "sound"), [(1.69, True), (1.71, False), (1 / 1.69, True), (1 / 1.71, False)]
)
def test_printed_tflops_may_be_off_by_a_formula_and_not_by_two(printed: float, sound: bool) -> None:
    reference = load()
    gpt = reference.models["5b"]
    shape: dict[str, object] = {"model": "5b", "platform": "bare-metal", "nodes": 1}
    shape |= {"global_batch": gpt.global_batch, "sequence": gpt.sequence}
    shape |= {"gpus_per_node": 8, "seconds": 85.7}
    run = Run.model_validate(shape)
    ours = tflops_per_gpu(run, gpt, Formula.CAUSAL)
    log = replace(_log([85.7] * 20, None), tflops=ours * printed)
    if sound:
        consistency.throughput(log, run, reference)
    else:
        with pytest.raises(UnusableLog, match="TFLOPS per GPU"):
            consistency.throughput(log, run, reference)


@pytest.mark.parametrize(("passed", "sound"), [(2.0, True), (1.99, False)])
def test_a_step_may_take_half_as_long_again_as_by_the_clock_and_no_longer(
    passed: float, sound: bool
) -> None:
    log = _log([3.0] * 40, passed)
    if sound:
        assert consistency.clock(log, select(log)) == passed
    else:
        with pytest.raises(UnusableLog, match=r"by its clock a step took 1\.99 s"):
            consistency.clock(log, select(log))


@pytest.mark.parametrize(
    ("passed", "resolution", "told"),
    [(1.0, 1.0, True), (0.99, 1.0, False), (10.0, 10.0, True), (9.9, 10.0, False)],
)
def test_a_clock_is_asked_over_twenty_of_its_units(
    passed: float, resolution: float, told: bool
) -> None:
    """27 steps, of which 21 count: twenty lie between the first and the last."""
    log = replace(_log([passed] * 27, passed), resolution=resolution)
    assert consistency.clock(log, select(log)) == (passed if told else None)


def test_the_clock_is_that_of_the_steps_that_count_from_first_to_last() -> None:
    log = _log([2.0] * 40, 2.0)
    clocks = [100.0 if i < 8 else 100.0 + (i - 7) * 2 if i < 39 else 200.0 for i in range(40)]
    odd = Steps(replace(step, clock=clock) for step, clock in zip(log.steps, clocks, strict=True))
    again = replace(log, steps=odd)
    assert consistency.clock(again, select(again)) == (200.0 - 102.0) / 31


def numbered(numbers: list[int]) -> Log:
    return replace(
        _log([85.7] * len(numbers), None), steps=Steps(Step(n, 85.7, n) for n in numbers)
    )


HONEST: dict[str, list[int]] = {
    "every step": list(range(1, 41)),
    "every fifth": list(range(5, 205, 5)),
    "every tenth from the first": list(range(1, 401, 10)),
    "resumed": list(range(1001, 1041)),
    "a fiftieth is lost": [n for n in range(1, 122) if n not in {50, 70}],
    "resumed out of step": [*range(10, 210, 10), *range(205, 405, 10)],
    "two epochs": [*range(1, 21), *range(1, 21)],
}
DELETED: dict[str, list[int]] = {
    "an irregular third": [n for n in range(1, 61) if n * n % 7 > 1],
    "every second, then an irregular third": [n for n in range(1, 121, 2) if n * n % 7 > 1],
    "a block": [*range(1, 21), *range(30, 51)],
    "two of three": [n for n in range(1, 121) if n * n * n % 19 < 5],
    "in turn": [n for n in range(1, 61) if n % 3],
    "a tenth and more": [n for n in range(1, 61) if n % 8],
    "a tenth, and no clock": [n for n in range(1, 45) if n % 11],
}


@pytest.mark.parametrize("what", HONEST)
def test_steps_at_one_log_interval_are_a_row(what: str) -> None:
    log = numbered(HONEST[what])
    consistency.row(log, select(log))


@pytest.mark.parametrize("what", DELETED)
def test_a_log_with_holes_makes_no_figure(what: str) -> None:
    log = numbered(DELETED[what])
    with pytest.raises(UnusableLog, match="missing"):
        consistency.row(log, select(log))


def _without_slow(log: bytes, seconds: list[float]) -> bytes:
    """The log without the lines of its slow steps."""
    lines = log.splitlines(keepends=True)
    return b"".join(line for line, s in zip(lines, seconds, strict=True) if s < 100)


HIDDEN = [485.7 if i > 25 and i % 11 == 10 else 85.7 for i in range(120)]
"""Eight slow steps of 120: the run has 72 % of the tokens/s that the other steps show."""


def test_a_few_slow_lines_are_not_taken_out_of_a_log_without_a_clock(tmp_path: Path) -> None:
    result = judged(tmp_path, _without_slow(nemo2(HIDDEN, 2048), HIDDEN))
    assert result.status is Status.NOT_ASSESSED
    assert "8 steps are missing" in result.cause


def test_the_clock_has_the_time_of_lines_that_were_taken_out(tmp_path: Path) -> None:
    result = judged(tmp_path, _without_slow(megatron(HIDDEN, 2048), HIDDEN))
    assert result.status is Status.NOT_ASSESSED
    assert "steps are missing, and by its time stamps these took 3,200 s more" in result.cause


def test_lines_that_were_lost_of_a_steady_log_are_told(tmp_path: Path) -> None:
    lines = megatron(FIVE, 2048).splitlines(keepends=True)
    del lines[-10]
    result = judged(tmp_path, b"".join(lines))
    assert result.status is Status.PASS
    assert "1 step is not in the log" in result.evidence


def test_a_log_without_its_slow_lines_does_not_pass(tmp_path: Path) -> None:
    """Every second step and an irregular third of the others were slow."""
    seconds = [85.7 if i % 2 and i * i % 7 > 1 else 140.0 for i in range(120)]
    lines = nemo2(seconds, 2048).splitlines(keepends=True)
    kept = [line for line, s in zip(lines, seconds, strict=True) if s < 100]
    result = judged(tmp_path, b"".join(kept))
    assert result.status is Status.NOT_ASSESSED
    assert "logs one step in 2" in result.cause


@pytest.mark.parametrize("every", [1, 5, 10])
@pytest.mark.parametrize(
    "dressed",
    [
        lambda line, i: b"3: [default0]:" + line,
        lambda line, i: b"\x1b[32m" + line.rstrip(b"\n") + b"\x1b[0m\n",
        lambda line, i: line.replace(b"\n", b"\r\n"),
        lambda line, i: line + line,
        lambda line, i: line + b"validation loss at iteration %d | lm loss value: 2.0\n" % i,
    ],
)
def test_honest_logs_pass_whatever_stands_about_their_lines(
    tmp_path: Path, every: int, dressed: Callable[[bytes, int], bytes]
) -> None:
    lines = megatron([85.7] * 40 * every, 2048).splitlines(keepends=True)[every - 1 :: every]
    result = judged(tmp_path, b"".join(dressed(line, i) for i, line in enumerate(lines)))
    assert result.status is Status.PASS
