"""The plan adds up."""

import pytest

from appliance.models.plan import Action, HostStage, Plan
from appliance.report import symbols

CELLS = (
    HostStage(stage="base", host="b", action=Action.RUN, minutes=4),
    HostStage(stage="base", host="a", action=Action.REPAIR, minutes=2, reboot=True),
    HostStage(stage="gpu", host="a", action=Action.SKIP, minutes=30, reboot=True),
    HostStage(stage="gpu", host="b", action=Action.UNKNOWN),
    HostStage(stage="slurm", host="a", action=Action.RUN, minutes=1),
)
PLAN = Plan(site="s", profile="p", hosts=("a", "b"), stages=("base", "gpu", "slurm"), cells=CELLS)


def test_minutes_are_the_slowest_host_of_each_stage_that_runs() -> None:
    assert PLAN.minutes == 5


def test_waves_take_their_time_one_after_the_other() -> None:
    turns = {"a": 0, "b": 1, "c": 1, "d": 2}
    cells = tuple(
        HostStage(stage="gpu", host=host, action=Action.RUN, minutes=8, wave=wave)
        for host, wave in turns.items()
    )
    plan = Plan(site="s", profile="p", hosts=tuple(turns), stages=("gpu",), cells=cells)
    assert plan.minutes == 24


def test_only_cells_that_change_a_host_count_and_reboot() -> None:
    assert PLAN.changes == 3
    assert [(c.stage, c.host) for c in PLAN.pending()] == [
        ("base", "a"),
        ("base", "b"),
        ("slurm", "a"),
    ]
    assert PLAN.reboots == ("a",)
    assert PLAN.unreachable == ("b",)


def test_cells_are_found_by_stage_and_by_host_in_order() -> None:
    assert [c.host for c in PLAN.by_stage("base")] == ["a", "b"]
    assert [c.stage for c in PLAN.by_host("a")] == ["base", "gpu", "slurm"]
    assert PLAN.cell("slurm", "b") is None
    assert PLAN.cell("slurm", "a") == CELLS[4]


@pytest.mark.parametrize(
    ("action", "known", "reboot", "mark"),
    [
        (Action.RUN, False, False, "+"),
        (Action.RUN, True, False, "~"),
        (Action.REPAIR, True, False, "~"),
        (Action.RUN, False, True, "!"),
        (Action.SKIP, True, True, "·"),
        (Action.NOT_CONCERNED, False, False, "-"),
        (Action.UNKNOWN, False, False, "?"),
        (Action.BLOCKED, False, True, "#"),
    ],
)
def test_each_action_has_its_own_sign(action: Action, known: bool, reboot: bool, mark: str) -> None:
    cell = HostStage(stage="s", host="h", action=action, known=known, reboot=reboot)
    assert symbols.planned(cell).mark == mark


def test_a_host_without_a_cell_is_not_concerned() -> None:
    assert symbols.planned(None) is symbols.NOT_CONCERNED
