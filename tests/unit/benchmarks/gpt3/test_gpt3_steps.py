"""Which steps count, said in words, and what is refused."""

import pytest

from appliance.benchmarks.gpt3.steps import Log, Step, Steps, UnusableLog, select


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
