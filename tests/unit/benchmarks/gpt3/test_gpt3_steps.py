"""Which steps count, said in words, and what is refused."""

import pytest

from appliance.benchmarks.gpt3.steps import (
    KEPT,
    Log,
    Refusal,
    Refusals,
    Samples,
    Step,
    Steps,
    UnusableLog,
    half_unit,
    select,
)


def log(*seconds: float, first: int = 1) -> Log:
    steps = (Step(number=i, seconds=s, line=i) for i, s in enumerate(seconds, first))
    return Log(source="x.log", family="any", steps=Steps(steps))


def test_default_drops_five_of_a_short_run_and_a_fifth_of_a_long_one() -> None:
    short = select(log(*[9.0] * 5, *[1.0] * 15))
    assert (short.seconds, len(short.steps)) == (1.0, 15)
    assert short.rule == "default: dropped the first 5 of 20"
    assert len(select(log(*[1.0] * 100)).steps) == 80


def test_more_than_six_must_remain() -> None:
    assert len(select(log(*[1.0] * 12)).steps) == 7
    with pytest.raises(UnusableLog, match="6 left after the first 5 are dropped; 7 are needed"):
        select(log(*[1.0] * 11))


def test_second_half_is_the_performance_callbacks_rule() -> None:
    assert select(log(*[9.0] * 10, *[1.0] * 10), "second-half").seconds == 1.0


def test_a_window_takes_its_steps_and_all_of_them() -> None:
    values = [1.0] * 50
    values[34:44] = [2.0] * 10
    assert select(log(*values), "window:35-44").seconds == 2.0
    with pytest.raises(UnusableLog, match="steps 41, 42, 43, 44 of 35-44 are missing"):
        select(log(*[1.0] * 40), "window:35-44")


@pytest.mark.parametrize("rule", ["", "first", "window:9-3", "window:a-b"])
def test_other_rules_are_refused(rule: str) -> None:
    with pytest.raises(UnusableLog):
        select(log(*[1.0] * 50), rule)


def test_spread_and_lines_are_told() -> None:
    chosen = select(log(*[5.0] * 5, *[1.0, 3.0] * 5))
    assert (chosen.seconds, chosen.deviation, chosen.lines) == (2.0, 1.0, "6-15")


def test_of_refused_lines_the_first_are_kept_and_the_first_that_diverged() -> None:
    refused = Refusals()
    assert (refused.count, refused.diverged) == (0, False)
    for line in range(KEPT + 5):
        refused.add(Refusal(line, "x"))
    assert (len(refused.first), refused.diverged) == (KEPT, False)
    for line in (900, 901):
        refused.add(Refusal(line, "nan", diverged=True))
    assert (refused.count, refused.diverged) == (KEPT + 7, True)
    assert [one.line for one in refused.first[-2:]] == [KEPT - 1, 900]


def test_a_log_of_which_more_than_a_tenth_is_refused_gives_nothing() -> None:
    sound = log(*[1.0] * 50)
    for line in range(5):
        sound.refused.add(Refusal(line, "x"))
    assert select(sound).seconds == 1.0
    sound.refused.add(Refusal(6, "x"))
    with pytest.raises(UnusableLog, match="6 values are invalid, 50 are valid"):
        select(sound)
    sound.refused.add(Refusal(7, "nan", diverged=True))
    assert select(sound).seconds == 1.0


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (None, None, None),
        ((1, 0.0, 0.0), None, None),
        ((5, 9.0, 0.0), (5, 9.0, 0.0), None),
        ((5, 9.0, 0.0), (4, 10.0, 0.0), None),
        ((0, 0.0, 0.0), (10, 100.0, 0.0), (10.0, 10.0)),
        ((10, 100.0, 1.0), (20, 300.0, 4.0), (19.5, 20.5)),
    ],
)
def test_samples_a_step_follow_from_two_steps_and_their_digits(
    first: tuple[int, float, float] | None,
    last: tuple[int, float, float] | None,
    expected: tuple[float, float] | None,
) -> None:
    assert Samples(first, last).per_step() == expected


def test_the_first_and_the_last_samples_count() -> None:
    seen = Samples()
    for step in (1, 2, 3):
        seen.add(step, 10.0 * step, 0.5)
    assert (seen.first, seen.last) == ((1, 10.0, 0.5), (3, 30.0, 0.5))
    assert Samples.counted(4.0, 100.0, 0.01).per_step() == (24.75, 25.25)


@pytest.mark.parametrize("rule", ["default", "second-half"])
def test_steps_that_were_let_go_of_count_as_dropped(rule: str) -> None:
    kept = log(*[1.0] * 20)
    kept.steps.dropped = 80
    chosen = select(kept, rule)
    assert len(chosen.steps) == 20
    assert chosen.rule.endswith("dropped the first 80 of 100")
    kept.steps.dropped = 3
    assert select(kept).rule == "default: dropped the first 5 of 23"
    assert len(select(kept).steps) == 18


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("window:6-12", ""),
        ("window:5-12", "count the warm-up: the run began at step 1"),
        ("window:6-11", "are 6; 7 are needed"),
        ("window:12-6", "steps none of 12-6 are missing"),
    ],
)
def test_a_window_begins_behind_the_warm_up_and_has_seven_steps(rule: str, told: str) -> None:
    if told:
        with pytest.raises(UnusableLog, match=told):
            select(log(*[1.0] * 40), rule)
    else:
        assert len(select(log(*[1.0] * 40), rule).steps) == 7


@pytest.mark.parametrize("text", ["0e9999", "0.0e+400", "-0e-9999"])
@pytest.mark.parametrize("significant", [0, 3])
def test_of_a_nought_the_exponent_says_nothing(text: str, significant: int) -> None:
    mantissa = text.partition("e")[0]
    assert half_unit(text, significant) == half_unit(mantissa, significant) <= 0.5
