"""Which backups stay."""

from appliance.backup.retention import stamp, surplus

NOW = 1_800_000_000
HOUR, DAY = 3600, 86400


def names(*ages: int) -> list[str]:
    return sorted(stamp(NOW - age) for age in ages)


def test_all_of_the_last_day_and_one_of_each_day_before() -> None:
    recent = names(0, 900, HOUR, 23 * HOUR)
    older = names(25 * HOUR, 3 * DAY)
    spare = names(30 * HOUR, 3 * DAY + 2 * HOUR)
    assert surplus([*recent, *older, *spare], stamp(NOW), 14) == spare


def test_the_oldest_go() -> None:
    assert surplus(names(0, 13 * DAY, 14 * DAY), stamp(NOW), 14) == names(14 * DAY)


def test_a_clock_that_was_ahead_removes_nothing_of_the_last_day() -> None:
    assert surplus([stamp(NOW + 400 * DAY), *names(0, 900)], stamp(NOW), 14) == []
