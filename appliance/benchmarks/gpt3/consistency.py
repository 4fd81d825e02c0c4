"""Holds what a log prints of one thing against what it prints of another: a contradiction makes no figure."""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import filterfalse, pairwise
from math import isnan, nan
from statistics import fmean, median

from appliance.benchmarks.gpt3.reference import Reference
from appliance.benchmarks.gpt3.steps import UNNUMBERED, Log, Selection, Steps, UnusableLog
from appliance.benchmarks.gpt3.throughput import Formula, Run, tflops_per_gpu

BATCH_SLACK = 1.25
FLOPS_SLACK = 1.7
"""Formulas of model FLOPs differ by up to a third (attention, recomputation), mistakes by two at least."""
CLOCK_SLACK = 1.5
PAUSES = 1.1
BETWEEN = 1.05
"""Steps that take longer by the clock than the log prints: so much is spent between them."""
PAUSED = 8
"""One step in so many may be followed by a pause: a checkpoint, a validation."""
SLOW = 1.5
"""Times the median; a checkpoint, a validation or a restart."""
LEAST_SPAN = 20
"""Units of the clock that a span must have to be held against anything."""
RISEN = 1.5
UNSTAMPED = "one of both is wrong: give the log as the program wrote it, or train again without validation and checkpoints"


def batch(log: Log, global_batch: int) -> None:
    """Consumed samples must grow by the global batch. Raises UnusableLog."""
    found = log.samples.per_step()
    if found is None:
        return
    low, high = found
    if high * BATCH_SLACK < global_batch or low > global_batch * BATCH_SLACK:
        raise UnusableLog(
            f"{log.source}: its consumed samples grow by {(low + high) / 2:,.0f} a step, and the global batch is {global_batch}",
            "correct global_batch in runs.yml: a wrong batch makes a wrong figure",
        )


def row(log: Log, selection: Selection) -> None:
    """From the first step that counts to the last the log must have each, or each n-th. Raises UnusableLog."""
    every, missing = _missing(selection.steps.numbers)
    if missing * 10 > log.steps.dropped + len(log.steps):
        first, last = selection.steps[0].number, selection.steps[-1].number
        raise UnusableLog(
            f"{log.source}: logs every {every:,}. step, and from step {first} to {last} lacks {missing} beside {len(selection.steps)}"
            if every > 1
            else f"{log.source}: from step {first} to {last} lacks {missing} beside {len(selection.steps)}",
            "give the log as the program wrote it, with one log interval from its beginning to its end",
        )


def _missing(numbers: Sequence[int]) -> tuple[int, int]:
    """The log interval, and how many steps of it are not there or are out of it. Numbers begin anew with an epoch."""
    if numbers[0] == UNNUMBERED or numbers[-1] - numbers[0] == len(numbers) - 1:
        return 1, 0
    apart = Counter(after - before for before, after in pairwise(numbers) if after > before)
    if not apart:
        return 1, 0
    most = max(apart.values())
    every = min(by for by, count in apart.items() if count == most)
    return every, sum(
        count * (-(-by // every) - 1 if by > every else 1)
        for by, count in apart.items()
        if by != every
    )


def throughput(log: Log, run: Run, reference: Reference) -> None:
    """TFLOPS that the program prints, and its clock, must agree with the step time. Raises UnusableLog."""
    gpt = reference.models.get(run.model)
    if gpt is not None and log.tflops:
        ours = tflops_per_gpu(run, gpt, Formula.CAUSAL)
        if not log.tflops / FLOPS_SLACK < ours < log.tflops * FLOPS_SLACK:
            raise UnusableLog(
                f"{log.source}: prints {log.tflops:,.4g} TFLOPS per GPU, and step time, batch and {run.gpus} GPUs give {ours:,.4g}",
                "one of model, hosts, batch, sequence and unit of time is wrong: compare runs.yml with the run",
            )


def clock(log: Log, selection: Selection) -> float | None:
    """Seconds a step by the time stamps of the log; None where they do not tell. Raises UnusableLog."""
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
            f"{log.source}: prints {selection.seconds:,.4g} s a step, and by its clock a step took {by_clock:,.4g} s",
            "look at the units of the step times, milliseconds or seconds",
        )
    return by_clock


def _between(log: Log, selection: Selection) -> None:
    """What passes from one step to the next must be what the log prints, save for a few pauses. Raises UnusableLog."""
    if _is_steady(log, selection):
        return
    gaps = list(_gaps(selection.steps))
    forward = sorted((passed - printed, passed, printed) for passed, printed in gaps if passed >= 0)
    most = max(2, len(gaps) // PAUSED)
    if len(gaps) - len(forward) > most:
        raise UnusableLog(f"{log.source}: its time stamps run backwards", UNSTAMPED)
    steady = forward[: max(0, len(forward) - most)]
    passed, printed = (sum(gap[i] for gap in steady) for i in (1, 2))
    slack = 2 * log.resolution
    if passed - slack > BETWEEN * printed:
        times = passed / printed
        raise UnusableLog(
            f"{log.source}: prints {selection.seconds:,.4g} s a step, and by its own time stamps most steps took {times:,.3g} times as long",
            UNSTAMPED,
        )
    all_passed, all_printed = (sum(gap[i] for gap in forward) for i in (1, 2))
    if all_printed >= LEAST_SPAN * log.resolution and (
        (all_passed + slack) * CLOCK_SLACK < all_printed
    ):
        raise UnusableLog(
            f"{log.source}: prints {selection.seconds:,.4g} s a step, and by its clock all steps took {all_passed:,.4g} s",
            "look at the units of the step times, milliseconds or seconds",
        )


def _is_steady(log: Log, selection: Selection) -> bool:
    """Whether all is as printed, pauses included: most logs are so, and long ones are not sorted then."""
    passed = printed = 0.0
    for one, other in _gaps(selection.steps):
        if one < 0:
            return False
        passed, printed = passed + one, printed + other
    return printed / CLOCK_SLACK <= passed <= BETWEEN * printed + log.resolution


def _gaps(steps: Steps) -> Iterator[tuple[float, float]]:
    """Between each two steps that are numbered and dated: the seconds that passed, and those that are printed."""
    columns = zip(steps.numbers, steps.clocks, steps.seconds, strict=True)
    before, then = UNNUMBERED, nan
    for number, clock, seconds in columns:
        known = number != UNNUMBERED and not isnan(clock)
        if known and not isnan(then) and number > before:
            yield clock - then, seconds * (number - before)
        before, then = (number, clock) if known else (UNNUMBERED, nan)


def diverged(log: Log) -> str:
    """Where the training went wrong: nan, or a loss that rose; "" for a sound one."""
    if wrong := next((f"{r.reason}, line {r.line}" for r in log.refused.first if r.diverged), ""):
        return wrong
    losses = array("d", filterfalse(isnan, log.steps.losses))
    share = len(losses) // 5
    if share < 2:
        return ""
    began, ended = fmean(losses[:share]), fmean(losses[-share:])
    return f"the loss rose from {began:.3g} to {ended:.3g}" if 0 < began * RISEN < ended else ""


def notes(log: Log, selection: Selection) -> Iterator[str]:
    """What a reader of the figure should know of the run."""
    by_clock = clock(log, selection)
    if by_clock is not None:
        pauses = by_clock > PAUSES * selection.seconds
        why = ": it paused between steps (validation, checkpoints)" if pauses else ""
        yield f"by its clock {by_clock:.4g} s a step{why}"
    usual = median(selection.steps.seconds)
    if slow := sum(seconds > SLOW * usual for seconds in selection.steps.seconds):
        yield f"{slow} of {len(selection.steps)} steps took over {SLOW:g} times the median, {usual:.4g} s, and count"
    last = log.steps[-1].number
    if log.total and last and last < log.total - 1:
        yield f"it ends at step {last} of {log.total}"
