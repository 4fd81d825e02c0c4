"""Sound steps of Megatron-LM and NeMo 2.x, many lines at once: in a long log of nothing else each costs a fifth so."""

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import accumulate, count, repeat
from math import nan
from operator import add

from appliance.benchmarks.gpt3.families import MEGATRON, NEMO_2, Family
from appliance.benchmarks.gpt3.steps import Steps, half_unit

FURTHER = (
    rb"(?: (?:loss scale|grad norm|num zeros|params norm|load_balancing_loss): +\d[\d.E+-]* \|)*"
)
VALUES = rb"(?: (?:lr|consumed_samples|global_step|peak_memory_usage|memory_allocated|grad_norm|val_loss): -?\d[\d.e+-]* \|)*"
NUMBER = rb"\d{1,9}(?:\.\d{1,15})?(?:e[+-]\d\d)?"
LINES = {
    MEGATRON: re.compile(
        rb" \[(?P<minute>\d{4}-\d\d-\d\d[ T]\d\d:\d\d):(?P<second>[0-5]\d(?:\.\d{1,6})?)\] iteration +(?P<number>\d{1,9})/ *\d{1,9} \|"
        rb" consumed samples: +\d{1,18} \| elapsed time per iteration \(ms\): (?P<seconds>\d{1,12}\.\d) \|"
        rb"(?: throughput per GPU \(TFLOP/s/GPU\): [\d.]+ \|)? learning rate: [\d.E+-]+ \|"
        rb" global batch size: +(?P<batch>\d{1,9}) \| lm loss: (?P<loss>\d\.\d{1,15}E[+-]\d\d) \|"
        + FURTHER
        + rb" number of skipped iterations:   0 \| number of nan iterations:   0 \|\n"
    ),
    NEMO_2: re.compile(
        rb"Training epoch (?P<epoch>\d{1,9}), iteration (?P<number>\d{1,9})/\d{1,9} \|"
        + VALUES
        + rb" global_batch_size: (?P<batch>\d{1,9}) \|"
        + VALUES
        + rb" reduced_train_loss: (?P<loss>"
        + NUMBER
        + rb") \|"
        + VALUES
        + rb" train_step_timing in s: (?P<seconds>"
        + NUMBER
        + rb")(?: \| TFLOPS_per_GPU: [\d.e+-]+)?\n"
    ),
}
"""Of each a line as the program prints it where nothing is wrong; any other line is read by itself."""
GUARDS: dict[bytes, bytes] = {}
"""By mark that of its characters which a text did not have: most texts of a log lack the same, and one character is found 50 times as fast."""


@dataclass(frozen=True)
class Bulk:
    """Steps that follow one another, from ``number`` of ``epoch`` on; ``first`` and ``last`` are the lines of the two ends. ``ends``: of lines in the block."""

    epoch: int
    number: int
    steps: Steps
    batches: frozenset[bytes]
    first: bytes
    last: bytes
    ends: int


def read(family: Family, line: int, block: bytes, marks: Sequence[bytes]) -> Bulk | None:
    """All steps of a block of whole lines; None where it has others, with ``marks``, that must be read one by one."""
    pattern = LINES[family]
    # A list of all groups and of what stands between the steps, without a tuple for each line.
    found = pattern.split(block)
    between = found[:: pattern.groups + 1]
    others = b"\n".join(between)
    if len(found) == 1 or any(_has(others, mark) for mark in marks):
        return None
    column = {
        name: found[group :: pattern.groups + 1] for name, group in pattern.groupindex.items()
    }
    steps = _steps(family, column)
    if steps is None:
        return None
    skipped = [text.count(b"\n") if text else 0 for text in between]
    steps.lines = array("q", [*map(add, count(line), accumulate(skipped[:-1]))])
    whole = block[len(between[0]) : len(block) - len(between[-1])]
    return Bulk(
        epoch=int(column["epoch"][0]) if "epoch" in column else 0,
        number=int(column["number"][0]),
        steps=steps,
        batches=frozenset(column["batch"]),
        first=whole[: whole.find(b"\n")],
        last=whole[whole.rfind(b"\n", 0, -1) + 1 : -1],
        ends=sum(skipped) + len(steps.numbers),
    )


def _has(text: bytes, mark: bytes) -> bool:
    guard = GUARDS.get(mark)
    if guard and guard not in text:
        return False
    for at in range(len(mark)):
        if mark[at : at + 1] not in text:
            GUARDS[mark] = mark[at : at + 1]
            return False
    return mark in text


def _steps(family: Family, column: dict[str, list[bytes]]) -> Steps | None:
    """Without their lines. None where the training does not go on by equal steps, or a value cannot be."""
    steps = Steps()
    behind = 1 - family.first
    steps.numbers = array("q", [int(text) + behind for text in column["number"]])
    scale, digits = repeat(family.scale), repeat(family.significant)
    seconds, halves = zip(*map(_timed, column["seconds"], scale, digits), strict=True)
    # An array of a list is made at once, while extend asks it for one item after the other.
    steps.seconds, steps.halves = array("d", seconds), array("d", halves)
    steps.losses = array("d", [*map(float, column["loss"])])
    if len(set(column.get("epoch", ()))) > 1 or not _goes_on(steps.numbers) or min(seconds) <= 0:
        return None
    if not all(map(int, set(column["batch"]))):
        return None
    if "minute" not in column:
        steps.clocks = array("d", [nan]) * len(seconds)
        return steps
    try:
        steps.clocks = array(
            "d", [*map(add, map(_minute, column["minute"]), map(float, column["second"]))]
        )
    except (ValueError, OverflowError, OSError):
        return None
    return steps


def _goes_on(numbers: "array[int]") -> bool:
    stride = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    return stride > 0 and numbers == array("q", range(numbers[0], numbers[-1] + 1, stride))


@lru_cache(maxsize=1 << 14)
def _timed(text: bytes, scale: float, significant: int) -> tuple[float, float]:
    """Seconds, and half a unit of their last digit: a training prints few different ones."""
    value = text.decode()
    return float(value) * scale, half_unit(value, significant) * scale


@lru_cache(maxsize=64)
def _minute(text: bytes) -> float:
    """Seconds since 1970, by this machine's zone, as a stamp without one is taken."""
    return datetime.fromisoformat(text.decode()).timestamp()
