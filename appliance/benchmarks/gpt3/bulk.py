"""Reads valid steps of Megatron-LM, NeMo 2.x and NeMo's DLLogger, many lines at a time. In a long log of such lines, a step costs a fifth of a single read."""

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from operator import add

from appliance.benchmarks.gpt3.families import DLLOGGER, MEGATRON, NEMO_2, Family
from appliance.benchmarks.gpt3.steps import half_unit
from appliance.benchmarks.gpt3.stretch import BETWEEN, MINUTES, Known, Stretch

# Possessive quantifiers (++): if the next character does not match, no shorter run can match either.
FURTHER = (
    rb"(?: (?:loss scale|grad norm|num zeros|params norm|load_balancing_loss): ++\d[\d.E+-]*+ \|)*"
)
VALUES = rb"(?: (?:lr|consumed_samples|global_step|peak_memory_usage|memory_allocated|grad_norm|val_loss): -?\d[\d.e+-]*+ \|)*"
NUMBER = rb"\d{1,9}+(?:\.\d{1,15}+)?(?:e[+-]\d\d)?"
EXACT = rb"\d{1,9}+(?:\.\d{1,22}+)?(?:e[+-]\d\d)?"
# NeMo's usual keys first: this is faster than a negative lookahead for each. Then any other logged value.
ENTRIES = (
    rb'(?:"(?:lr|global_step|consumed_samples|train_backward_timing in s|grad_norm)": [\d.e+-]++, '
    rb'|"(?!train_step_timing in s"|reduced_train_loss")[^"\\\n]++": -?\d[\d.e+-]*+, )*+'
)
LINES = {
    MEGATRON: re.compile(
        rb" \[(?P<minute>2\d{3}-\d\d-\d\d[ T]\d\d:\d\d):(?P<second>[0-5]\d(?:\.\d{1,6}+)?)\]"
        rb" iteration ++(?P<number>\d{1,9}+)/ *+\d{1,9}+ \| consumed samples: ++\d{1,18}+ \|"
        rb" elapsed time per iteration \(ms\): (?P<seconds>\d{1,12}+\.\d) \|"
        rb"(?: throughput per GPU \(TFLOP/s/GPU\): [\d.]++ \|)? learning rate: [\d.E+-]++ \|"
        rb" global batch size: ++(?P<batch>\d{1,9}+) \| lm loss: (?P<loss>\d\.\d{1,15}+E[+-]\d\d) \|"
        + FURTHER
        + rb" number of skipped iterations:   0 \| number of nan iterations:   0 \|\n"
    ),
    NEMO_2: re.compile(
        rb"Training epoch (?P<epoch>\d{1,9}+), iteration (?P<number>\d{1,9}+)/\d{1,9}+ \|"
        + VALUES
        + rb" global_batch_size: (?P<batch>\d{1,9}+) \|"
        + VALUES
        + rb" reduced_train_loss: (?P<loss>"
        + NUMBER
        + rb") \|"
        + VALUES
        + rb" train_step_timing in s: (?P<seconds>"
        + NUMBER
        + rb")(?: \| TFLOPS_per_GPU: [\d.e+-]++)?\n"
    ),
    DLLOGGER: re.compile(
        rb'DLLL \{"timestamp": "(?P<since>\d{1,12}+\.\d{1,9}+)", "datetime": "[^"\n]*+", "elapsedtime": "[^"\n]*+",'
        rb' "type": "LOG", "step": (?P<number>\d{1,9}+), "data": \{'
        + ENTRIES
        + rb'"reduced_train_loss": (?P<loss>'
        + EXACT
        + rb"), "
        + ENTRIES
        + rb'"train_step_timing in s": (?P<seconds>'
        + EXACT
        + rb')(?:, "(?!train_step_timing in s")[^"\\\n]++": -?\d[\d.e+-]*+)*+\}\}\n'
    ),
}
"""By family, the pattern of a line as the program prints it without errors. Any other line is read separately."""


class _Times:
    """Seconds of the printed numbers of one program, and half a unit of their last digit."""

    def __init__(self, family: Family) -> None:
        scale, digits = family.scale, family.significant
        self.precision = family.precision
        self._seconds = Known(lambda text: float(text) * scale)
        self._halves = Known(lambda text: half_unit(text.decode(), digits) * scale)

    def of(self, texts: Sequence[bytes]) -> tuple[list[float], list[float]]:
        """Both values of each number. If all digits are printed, almost no two numbers are equal, so they are not cached."""
        if self.precision:
            seconds = [*map(float, texts)]
            return seconds, [one * self.precision for one in seconds]
        return [*map(self._seconds.__getitem__, texts)], [*map(self._halves.__getitem__, texts)]


TIMES = {family: _Times(family) for family in LINES}
GUARDS: dict[bytes, bytes] = {}
"""By mark, the character of it that did not occur in an earlier text. Most texts of a log lack the same marks, and searching one character is 50 times as fast."""


@dataclass(frozen=True)
class Bulk:
    """Steps from ``number`` of ``epoch`` on. ``first`` and ``last`` are the first and the last line; ``ends`` is the number of lines in the block."""

    epoch: int
    number: int
    steps: Stretch
    batches: frozenset[bytes]
    first: bytes
    last: bytes
    ends: int


def read(family: Family, line: int, block: bytes, marks: Sequence[bytes]) -> Bulk | None:
    """Returns all steps of a block of whole lines, or None if it contains other lines with ``marks``, which must be read one by one."""
    pattern = LINES[family]
    # One list of all groups and of the text between the steps, without a tuple per line.
    found = pattern.split(block)
    between = found[:: pattern.groups + 1]
    others = b"\n".join(between)
    if len(found) == 1 or any(_has(others, mark) for mark in marks):
        return None
    column = {
        name: found[group :: pattern.groups + 1] for name, group in pattern.groupindex.items()
    }
    skipped = [text.count(b"\n") if text else 0 for text in between]
    lines = array("q", [*map(add, count(line), accumulate(skipped[:-1]))])
    steps = _steps(family, column, lines)
    if steps is None:
        return None
    whole = block[len(between[0]) : len(block) - len(between[-1])]
    return Bulk(
        epoch=int(column["epoch"][0]) if "epoch" in column else 0,
        number=int(column["number"][0]),
        steps=steps,
        batches=frozenset(column.get("batch", ())),
        first=whole[: whole.find(b"\n")],
        last=whole[whole.rfind(b"\n", 0, -1) + 1 : -1],
        ends=sum(skipped) + len(steps),
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


def _steps(
    family: Family, column: Mapping[str, Sequence[bytes]], lines: "array[int]"
) -> Stretch | None:
    """Returns None if the step numbers are not evenly spaced, or if a value is impossible."""
    # An array from a list is created in one call; from an iterator, it requests one item after the other.
    numbers = [*map(int, column["number"])]
    if behind := 1 - family.first:
        numbers = [number + behind for number in numbers]
    seconds, halves = TIMES[family].of(column["seconds"])
    if len(set(column.get("epoch", ()))) > 1 or not _goes_on(numbers):
        return None
    if min(seconds) <= 0 or not all(map(int, set(column.get("batch", ())))):
        return None
    try:
        minutes = [*map(MINUTES.__getitem__, column.get("minute", ()))]
    except (ValueError, OverflowError, OSError):
        return None
    return Stretch(
        numbers=array("q", numbers),
        seconds=array("d", seconds),
        halves=array("d", halves),
        lines=lines,
        losses=BETWEEN.join(column["loss"]),
        minutes=array("d", minutes or map(float, column.get("since", ()))),
        clock_seconds=BETWEEN.join(column.get("second", ())),
    )


def _goes_on(numbers: list[int]) -> bool:
    stride = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    return stride > 0 and numbers == [*range(numbers[0], numbers[-1] + 1, stride)]
