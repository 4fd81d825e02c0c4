"""Compares values that a log prints about the same thing. A contradiction means that the log gives no result."""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import filterfalse, pairwise
from math import isnan, nan
from statistics import fmean, median

from appliance.benchmarks.gpt3.reference import Reference
from appliance.benchmarks.gpt3.steps import UNNUMBERED, Log, Selection, Steps, UnusableLog
from appliance.benchmarks.gpt3.throughput import Formula, Run, tflops_per_gpu
from appliance.text import plural

BATCH_SLACK = 1.25
FLOPS_SLACK = 1.7
"""Formulas of model FLOPs differ by up to a third (attention, recomputation); errors differ by a factor of two or more."""
CLOCK_SLACK = 1.5
PAUSES = 1.1
BETWEEN = 1.05
"""Maximum ratio of the time by the clock to the printed time. The difference is spent between the steps."""
PAUSED = 8
"""One of this many steps may be followed by a pause: a checkpoint or a validation."""
LOST, LOST_UNDATED = 0.1, 0.02
"""Share of the steps that may be missing from a log. Own choice: without a clock their duration is unknown, but so few cannot hide a slow run."""
SLOW = 1.5
"""Times the median: a checkpoint, a validation or a restart."""
LEAST_SPAN = 20
"""Minimum length of a time span, in units of the clock, before it is compared."""
RISEN = 1.5
UNSTAMPED = "one of them is wrong: use the unmodified log, or train again without validation and checkpoints"


def batch(log: Log, global_batch: int) -> None:
    """Checks that consumed samples grow by the global batch. Raises UnusableLog."""
    found = log.samples.per_step()
    if found is None:
        return
    low, high = found
    if high * BATCH_SLACK < global_batch or low > global_batch * BATCH_SLACK:
        raise UnusableLog(
            f"{log.source}: its consumed samples grow by {(low + high) / 2:,.0f} a step, but the global batch is {global_batch}",
            "correct global_batch in runs.yml: a wrong batch gives a wrong result",
        )


def row(log: Log, selection: Selection) -> None:
    """Checks that the log has every step, or every n-th, from the first counted step to the last. Raises UnusableLog."""
    every, missing, odd = _missing(selection.steps.numbers)
    total = log.steps.dropped + len(log.steps)
    is_hidden = missing > LOST_UNDATED * total and not _is_dated(selection.steps)
    if is_hidden or missing + odd > LOST * total:
        missing += odd
        first, last = selection.steps[0].number, selection.steps[-1].number
        raise UnusableLog(
            f"{log.source}: logs one step in {every:,}; from step {first} to {last}, {plural(missing, 'step is', 'steps are')} missing, {len(selection.steps)} present"
            if every > 1
            else f"{log.source}: from step {first} to {last}, {plural(missing, 'step is', 'steps are')} missing, {len(selection.steps)} present",
            "use the unmodified log, with the same log interval from beginning to end",
        )


def _is_dated(steps: Steps) -> bool:
    """Whether the clock gives the duration of the steps that are missing from the log."""
    return not any(map(isnan, steps.clocks))


def _missing(numbers: Sequence[int]) -> tuple[int, int, int]:
    """Returns the log interval, the number of missing steps, and the number of steps outside the interval. Numbers restart in each epoch."""
    if numbers[0] == UNNUMBERED or numbers[-1] - numbers[0] == len(numbers) - 1:
        return 1, 0, 0
    apart = Counter(after - before for before, after in pairwise(numbers) if after > before)
    if not apart:
        return 1, 0, 0
    most = max(apart.values())
    every = min(by for by, count in apart.items() if count == most)
    missing = sum(count * (-(-by // every) - 1) for by, count in apart.items() if by > every)
    return every, missing, sum(count for by, count in apart.items() if by < every)


def throughput(log: Log, run: Run, reference: Reference) -> None:
    """Checks that printed TFLOPS and the clock agree with the step time. Raises UnusableLog."""
    gpt = reference.models.get(run.model)
    if gpt is not None and log.tflops:
        ours = tflops_per_gpu(run, gpt, Formula.CAUSAL)
        if not log.tflops / FLOPS_SLACK < ours < log.tflops * FLOPS_SLACK:
            raise UnusableLog(
                f"{log.source}: reports {log.tflops:,.4g} TFLOPS per GPU, but step time, batch and {run.gpus} GPUs give {ours:,.4g}",
                "one of model, hosts, batch, sequence and unit of time is wrong: compare runs.yml with the run",
            )


def clock(log: Log, selection: Selection) -> float | None:
    """Seconds per step according to the time stamps of the log; None if they are not sufficient. Raises UnusableLog."""
    _between(log, selection)
    first, last = selection.steps[0], selection.steps[-1]
    if first.number is None or last.number is None or first.clock is None or last.clock is None:
        return None
    steps, span = last.number - first.number, last.clock - first.clock
    if steps <= 0 or span < LEAST_SPAN * log.resolution:
        return None
    by_clock = span / steps
    if selection.seconds > CLOCK_SLACK * by_clock:
        raise UnusableLog(
            f"{log.source}: reports {selection.seconds:,.4g} s a step, but by its clock a step took {by_clock:,.4g} s",
            "check the unit of the step times, milliseconds or seconds",
        )
    return by_clock


def _between(log: Log, selection: Selection) -> None:
    """Checks that the time between steps is the printed step time, except for a few pauses. Raises UnusableLog."""
    if _is_steady(log, selection):
        return
    gaps = list(_gaps(selection.steps))
    every, *_ = _missing(selection.steps.numbers)
    forward = sorted(
        (passed - printed, passed, printed)
        for number, passed, printed in gaps
        if passed >= 0 and number <= every
    )
    # Missing steps are not a pause: the clock includes their time.
    holes = [gap for gap in gaps if gap[1] >= 0 and gap[0] > every]
    most = max(2, len(gaps) // PAUSED)
    if len(gaps) - len(forward) - len(holes) > most:
        raise UnusableLog(f"{log.source}: its time stamps are not in order", UNSTAMPED)
    steady = forward[: max(0, len(forward) - most)] + holes
    passed, printed = (sum(gap[i] for gap in steady) for i in (1, 2))
    slack = 2 * log.resolution
    if passed - slack > BETWEEN * printed:
        hidden = sum(gap[1] - gap[2] for gap in holes)
        if hidden > passed - printed - hidden:
            raise UnusableLog(
                f"{log.source}: steps are missing, and by its time stamps these took {hidden:,.4g} s more than the others",
                "use the complete, unmodified log",
            )
        times = passed / printed
        raise UnusableLog(
            f"{log.source}: reports {selection.seconds:,.4g} s a step, but by its own time stamps most steps took {times:,.3g} times as long",
            UNSTAMPED,
        )
    forward += holes
    all_passed, all_printed = (sum(gap[i] for gap in forward) for i in (1, 2))
    if all_printed >= LEAST_SPAN * log.resolution and (
        (all_passed + slack) * CLOCK_SLACK < all_printed
    ):
        raise UnusableLog(
            f"{log.source}: reports {selection.seconds:,.4g} s a step, but by its clock all steps took {all_passed:,.4g} s",
            "check the unit of the step times, milliseconds or seconds",
        )


def _is_steady(log: Log, selection: Selection) -> bool:
    """Whether all times are as printed, pauses included. This is true of most logs, so that long ones need not be sorted."""
    passed = printed = 0.0
    for _, one, other in _gaps(selection.steps):
        if one < 0:
            return False
        passed, printed = passed + one, printed + other
    return printed / CLOCK_SLACK <= passed <= BETWEEN * printed + log.resolution


def _gaps(steps: Steps) -> Iterator[tuple[int, float, float]]:
    """For each two consecutive steps with number and date: the number of steps, the elapsed seconds, and the printed seconds."""
    columns = zip(steps.numbers, steps.clocks, steps.seconds, strict=True)
    before, then = UNNUMBERED, nan
    for number, clock, seconds in columns:
        known = number != UNNUMBERED and not isnan(clock)
        if known and not isnan(then) and number > before:
            yield number - before, clock - then, seconds * (number - before)
        before, then = (number, clock) if known else (UNNUMBERED, nan)


def diverged(log: Log) -> str:
    """Describes where the training diverged: nan, or a loss that rose. "" for a sound training."""
    if wrong := next((f"{r.reason}, line {r.line}" for r in log.refused.first if r.diverged), ""):
        return wrong
    losses = array("d", filterfalse(isnan, log.steps.losses))
    share = len(losses) // 5
    if share < 2:
        return ""
    began, ended = fmean(losses[:share]), fmean(losses[-share:])
    return f"the loss rose from {began:.3g} to {ended:.3g}" if 0 < began * RISEN < ended else ""


def notes(log: Log, selection: Selection) -> Iterator[str]:
    """Notes that a reader of the result needs."""
    by_clock = clock(log, selection)
    if by_clock is not None:
        pauses = by_clock > PAUSES * selection.seconds
        why = ": it paused between steps (validation, checkpoints)" if pauses else ""
        yield f"by its clock {by_clock:.4g} s a step{why}"
    _, missing, _ = _missing(selection.steps.numbers)
    if missing:
        yield f"{plural(missing, 'step is', 'steps are')} not in the log; {len(selection.steps)} count"
    usual = median(selection.steps.seconds)
    if slow := sum(seconds > SLOW * usual for seconds in selection.steps.seconds):
        yield f"{slow} of {len(selection.steps)} steps took over {SLOW:g} times the median, {usual:.4g} s, and count"
    last = log.steps[-1].number
    if log.total and last and last < log.total - 1:
        yield f"it ends at step {last} of {log.total}"
