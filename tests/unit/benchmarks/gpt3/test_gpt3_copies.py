"""One training makes one figure, however often and in whatever form its log is given."""

import random
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from appliance.benchmarks.gpt3 import copies
from appliance.benchmarks.gpt3.recorded import from_logs, runs_of
from appliance.benchmarks.gpt3.steps import Log, Step, Steps, UnusableLog
from appliance.models.result import CheckResult, Status, Verdict, overall
from tests.support.gpt3_logs import EVENTS, WRITERS, bridge, megatron, nemo1

BATCH = 2048
BARE, POD = "bare-metal", "kubernetes"


def times(mean: float, seed: int, steps: int = 40, spread: float = 0.004) -> list[float]:
    """Seconds of a training: a slow start, then noise of its own; a tenth step that collects garbage."""
    noise = random.Random(seed)
    start = [mean * (2 - 0.2 * i) for i in range(5)]
    rest = [mean * noise.gauss(1.03 if i % 10 == 0 else 1, spread) for i in range(steps - 5)]
    return start + rest


GOOD = times(85.7, 1)
LOG = megatron(GOOD, BATCH)


def put(folder: Path, platform: str, **logs: bytes) -> None:
    """Logs of the 5B model on one host, by the ends of their names."""
    cell = folder / "5b" / platform
    cell.mkdir(parents=True, exist_ok=True)
    for name, content in logs.items():
        ending = "log" if content[:1].isascii() and b"\0" not in content[:64] else "tfevents"
        (cell / f"1n-{name}.{ending}").write_bytes(content)
    (folder / "runs.yml").write_text("gpu: A100-SXM4-80GB\ngpus_per_node: 8\n")


def judged(folder: Path) -> list[CheckResult]:
    return [r for r in from_logs([folder])[0] if r.id == "gpt3.throughput"]


def renumbered(text: bytes) -> bytes:
    """As if its first step had been the hundred-and-first."""
    for i in range(60, 0, -1):
        text = text.replace(b"iteration %8d/" % i, b"iteration %8d/" % (i + 100))
    return text


def rounded(text: bytes) -> bytes:
    """Another last digit of every step time."""
    return b"".join(
        line.replace(b"0 | learning", b"3 | learning").replace(b"5 | learning", b"6 | learning")
        for line in text.splitlines(keepends=True)
    )


LINES = LOG.splitlines(keepends=True)
COPIES: dict[str, Callable[[], bytes]] = {
    "the same file": lambda: LOG,
    "one line end more": lambda: LOG + b"\n",
    "a line before": lambda: b"[NeMo I] starting\n" + LOG,
    "other losses": lambda: LOG.replace(b"lm loss: 7", b"lm loss: 6"),
    "other dates": lambda: LOG.replace(b"2023-06-01", b"2023-06-02"),
    "other last digits": lambda: rounded(LOG),
    "other numbers": lambda: renumbered(LOG),
    "some steps altered": lambda: megatron(
        [s * 1.001 if i % 12 == 0 else s for i, s in enumerate(GOOD)], BATCH
    ),
    "its first half": lambda: b"".join(LINES[:20]),
    "its second half": lambda: b"".join(LINES[20:]),
    "every second step": lambda: b"".join(LINES[1::2]),
    **{
        f"as {kind}": lambda writer=writer: writer(GOOD, BATCH)  # type: ignore[misc]
        for kind, writer in WRITERS.items()
    },
}


@pytest.mark.parametrize("what", COPIES)
def test_a_run_given_for_two_platforms_counts_for_none(tmp_path: Path, what: str) -> None:
    put(tmp_path, BARE, a=LOG)
    put(tmp_path, POD, b=COPIES[what]())
    found = judged(tmp_path)
    assert [(r.status, r.required) for r in found] == [(Status.NOT_ASSESSED, True)] * 2
    assert overall(found) is Verdict.INCOMPLETE
    for result in found:
        assert "one training is given as 2 results" in result.cause
        assert "1n-a.log (5b bare-metal 1n)" in result.cause
    with pytest.raises(UnusableLog, match="one training"):
        runs_of(tmp_path)


@pytest.mark.parametrize("what", COPIES)
def test_copies_for_one_figure_count_once(tmp_path: Path, what: str) -> None:
    put(tmp_path, BARE, a=LOG, b=COPIES[what]())
    (found,) = judged(tmp_path)
    assert "mean of 2 runs" not in found.evidence
    assert "from the same training, not counted again: " in found.evidence
    assert found.status is Status.PASS


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind not in (*EVENTS, "bridge")])
@pytest.mark.parametrize(
    "of",
    [
        lambda i: i < 20,
        lambda i: i < 20 or None if i < 23 else False,
        lambda i: i % 2 == 0,
        lambda i: i // 7 % 2 == 0,
    ],
)
def test_parts_of_a_run_are_no_two_runs(
    tmp_path: Path, kind: str, of: Callable[[int], bool | None]
) -> None:
    """Halves, halves without what lies between, every second step, blocks in turn."""
    text = WRITERS[kind](GOOD, BATCH)
    lines = [
        line
        for line in re.split(rb"(?<=[\n])|(?=\rEpoch)", text)
        if b"train_step" in line or b"elapsed" in line
    ]
    each = len(lines) // 40
    halves = [
        b"".join(line for i, line in enumerate(lines) if of(i // each) is wanted)
        for wanted in (True, False)
    ]
    put(tmp_path, BARE, a=halves[0], b=halves[1])
    assert {r.status for r in judged(tmp_path)} == {Status.NOT_ASSESSED}
    put(tmp_path / "x", BARE, a=halves[0])
    put(tmp_path / "x", POD, b=halves[1])
    found = judged(tmp_path / "x")
    assert {r.status for r in found} == {Status.NOT_ASSESSED}
    # Blocks in turn have holes: each is no log by itself.
    assert re.search("one training is given as 2 results|from step .* missing", found[0].cause)


@pytest.mark.parametrize(("first", "stride"), [(1, 1), (1, 10), (4096, 4096)])
def test_a_part_of_a_long_log_is_found(first: int, stride: int) -> None:
    numbers = range(first, first + 40_000 * stride, stride)
    whole, other = (
        [Step(number, noise.gauss(85.7, 0.4), 1, half=5e-5) for number in numbers]
        for noise in (random.Random(1), random.Random(2))
    )
    part = traced(whole[17_000:24_000])
    assert copies.same(traced(whole), part)
    assert copies.same(part, traced(whole))
    assert not copies.same(traced(other), part)
    assert not copies.same(traced(other), traced(whole))


def traced(steps: list[Step]) -> copies.Trace:
    return copies.trace(Log("x", "y", Steps(steps)))


def test_a_bad_run_is_not_hidden_among_copies_of_a_good_one(tmp_path: Path) -> None:
    bad = megatron(times(140, 2), BATCH)
    again = {f"c{i}": LOG + b"\n" * i for i in range(8)}
    again |= {f"d{i}": list(COPIES.values())[i]() for i in (3, 4, 5, 6)}
    put(tmp_path, BARE, bad=bad, **again)
    (found,) = judged(tmp_path)
    assert found.status is Status.FAIL
    assert "mean of 2 runs" in found.evidence


def test_a_bad_run_is_not_hidden_among_other_good_ones(tmp_path: Path) -> None:
    """The mean of them all is within the tolerance."""
    good = {f"g{seed}": megatron(times(85, seed), BATCH) for seed in range(10, 40)}
    put(tmp_path, BARE, **good)
    assert [r.status for r in judged(tmp_path)] == [Status.PASS]
    put(tmp_path, BARE, bad=megatron(times(140, 2), BATCH))
    (found,) = judged(tmp_path)
    assert (found.status, found.required) == (Status.NOT_ASSESSED, True)
    assert "its runs are 6" in found.cause
    assert "mean of 31 runs" in found.evidence


def test_of_copies_the_slowest_counts(tmp_path: Path) -> None:
    """A log cut before it became slow hides nothing of the whole one."""
    whole = megatron([*GOOD, *times(140, 3)], BATCH)
    put(tmp_path, BARE, a=b"".join(whole.splitlines(keepends=True)[:40]), b=whole)
    (found,) = judged(tmp_path)
    assert found.status is Status.FAIL


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind not in EVENTS])
@pytest.mark.parametrize("mean", [85.7, 22.6])
def test_trainings_of_one_speed_are_no_copies(tmp_path: Path, kind: str, mean: float) -> None:
    write = WRITERS[kind]
    logs = {f"n{seed}": write(times(mean, seed), BATCH) for seed in range(4)}
    put(tmp_path, BARE, **logs)
    (found,) = judged(tmp_path)
    assert "mean of 4 runs" in found.evidence


def test_logs_of_few_digits_are_no_copies_of_each_other(tmp_path: Path) -> None:
    """0.57 s, step after step: two trainings print the same, and that says nothing."""
    put(
        tmp_path,
        BARE,
        a=bridge(times(0.57, 1), BATCH) + b"a\n",
        b=bridge(times(0.57, 2, spread=0.001), BATCH) + b"b\n",
        c=nemo1(times(0.57, 3, spread=0.0001), BATCH),
    )
    (found,) = judged(tmp_path)
    assert "mean of 3 runs" in found.evidence


LONG = times(85.7, 1, 60)


def part(kind: str, first: int, last: int) -> bytes:
    """Some steps of one training of sixty, the first of them 0."""
    if kind in EVENTS:
        each = 3 if kind == "tensorboard" else 4
        whole = list(_records(WRITERS[kind](LONG, BATCH)))
        return b"".join([whole[0], *whole[1 + each * first : 1 + each * (last + 1)]])
    kind, _, change = kind.partition(" ")
    lines = WRITERS[kind](LONG, BATCH).splitlines(keepends=True)[kind == "dllogger" :]
    kept = lines[first : last + 1]
    return b"".join(re.sub(rb"^ \[[^]]*\]", b"", x) if change == "undated" else x for x in kept)


def _records(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at : at + 8], "little")
        found.append(data[at:end])
        at = end
    return found


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (("nemo2", 0, 19), ("nemo2", 40, 59)),
        (("nemo2", 0, 19), ("nemo2", 22, 59)),
        (("nemo2", 0, 25), ("nemo2", 20, 59)),
        (("megatron undated", 0, 19), ("megatron undated", 40, 59)),
        (("megatron", 0, 19), ("megatron undated", 40, 59)),
        (("megatron undated", 0, 19), ("megatron", 40, 59)),
        (("megatron", 0, 19), ("megatron", 40, 59)),
        (("megatron", 0, 22), ("megatron", 20, 59)),
        (("megatron", 0, 29), ("dllogger", 30, 59)),
        (("dllogger", 0, 29), ("megatron", 30, 59)),
        (("megatron", 0, 29), ("tensorboard", 30, 59)),
        (("megatron", 0, 29), ("megatron events", 30, 59)),
        (("nemo2", 0, 29), ("dllogger", 35, 59)),
        (("nemo2", 0, 29), ("tensorboard", 30, 59)),
    ],
)
def test_parts_of_a_run_in_any_format_are_no_two_results(
    tmp_path: Path, ours: tuple[str, int, int], theirs: tuple[str, int, int]
) -> None:
    put(tmp_path, BARE, a=part(*ours))
    put(tmp_path, POD, b=part(*theirs))
    found = judged(tmp_path)
    assert [r.status for r in found] == [Status.NOT_ASSESSED] * 2
    assert "one training is given as 2 results" in found[0].cause
    undated = any(what.startswith("nemo2") or "undated" in what for what in (ours[0], theirs[0]))
    assert ("at least one log has no dates" in found[0].cause) is undated


def test_a_cut_at_a_checkpoint_makes_no_two_trainings(tmp_path: Path) -> None:
    put(tmp_path, BARE, a=part("megatron", 0, 29))
    put(tmp_path, POD, b=_later(part("megatron", 30, 59), minutes=50))
    assert {r.status for r in judged(tmp_path)} == {Status.NOT_ASSESSED}


def test_a_training_that_went_on_elsewhere_the_next_day_is_another(tmp_path: Path) -> None:
    put(tmp_path, BARE, a=part("megatron", 0, 29))
    put(tmp_path, POD, b=_later(part("megatron", 30, 59), minutes=24 * 60))
    assert {r.status for r in judged(tmp_path)} == {Status.PASS}


def _later(text: bytes, minutes: int) -> bytes:
    def moved(found: re.Match[bytes]) -> bytes:
        at = datetime.fromisoformat(found[1].decode()) + timedelta(minutes=minutes)
        return f" [{at:%Y-%m-%d %H:%M:%S}]".encode()

    return re.sub(rb" \[(2023[^]]*)\]", moved, text)


@pytest.mark.parametrize("kind", ["nemo2", "megatron", "megatron undated"])
def test_trainings_that_both_begin_at_the_first_step_are_two(tmp_path: Path, kind: str) -> None:
    """Of other lengths, and of another log interval."""
    text = part(kind, 0, 39)
    name, _, change = kind.partition(" ")
    other = WRITERS[name](times(85.7, 9, 200), BATCH)
    if change:
        other = re.sub(rb"(?m)^ \[[^]]*\]", b"", other)
    put(tmp_path, BARE, a=text)
    put(tmp_path, POD, b=b"".join(other.splitlines(keepends=True)[4::5]))
    assert {r.status for r in judged(tmp_path)} == {Status.PASS}
