"""A playbook as it is run tells of each host when it is through, after the last play the host takes part in."""

from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.ansible import LAST_PLAY, THROUGH
from appliance.config import data
from appliance.engine.run.playbook import last_plays, matching, plays_of
from appliance.errors import AnsibleFailed
from appliance.stages.catalog import STAGES
from appliance.stages.stage import Stage

HOSTS: dict[str, object] = dict.fromkeys(("head", "nas", "gpu-1", "gpu-2"))
GROUPS = {
    "control": ("head",),
    "storage": ("nas", "head"),
    "gpu": ("gpu-1", "gpu-2"),
    "login": (),
}


@pytest.mark.parametrize(
    ("pattern", "hosts"),
    [
        ("all", ["head", "nas", "gpu-1", "gpu-2"]),
        ("control:gpu", ["head", "gpu-1", "gpu-2"]),
        ("control,gpu", ["head", "gpu-1", "gpu-2"]),
        ("all:!control", ["nas", "gpu-1", "gpu-2"]),
        ("!control:all", ["nas", "gpu-1", "gpu-2"]),
        ("gpu:control:login:!storage", ["gpu-1", "gpu-2"]),
        ("storage:&control", ["head"]),
        ("login", []),
        ("gpu-2", ["gpu-2"]),
    ],
)
def test_patterns_mean_what_they_mean_to_ansible(pattern: str, hosts: list[str]) -> None:
    assert matching(pattern, HOSTS, GROUPS) == hosts


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_every_host_of_a_stage_has_a_last_play(stage: Stage) -> None:
    file = data.root() / f"playbooks/{stage.name}.yml"
    concerned = {h: None for role in stage.roles for h in GROUPS[role]}
    assert set(last_plays(plays_of(file), concerned, GROUPS)) == set(concerned)


def test_host_is_through_after_the_last_play_it_takes_part_in(tmp_path: Path) -> None:
    file = tmp_path / "x.yml"
    file.write_text(
        "- hosts: all\n  roles: [a]\n"
        "- hosts: control\n  roles: [b]\n  post_tasks: [{name: mine}]\n"
        "- hosts: nobody\n  roles: [c]\n"
    )
    plays = plays_of(file)
    assert last_plays(plays, HOSTS, GROUPS) == {"head": 1, "nas": 0, "gpu-1": 0, "gpu-2": 0}
    ends: list[Any] = [play["post_tasks"] for play in plays]
    names = [[task["name"] for task in tasks] for tasks in ends]
    assert names == [[THROUGH], ["mine", THROUGH], [THROUGH]]
    assert ends[1][-1]["when"] == f"{LAST_PLAY} == 1"


def test_free_plays_wait_for_results_and_need_no_worker_to_tell_an_end(tmp_path: Path) -> None:
    file = tmp_path / "x.yml"
    file.write_text("- hosts: all\n  strategy: ansible.builtin.free\n- hosts: all\n")
    free, linear = plays_of(file)
    assert free["strategy"] == "appliance.host.free"
    assert "strategy" not in linear
    ends: list[Any] = [play["post_tasks"] for play in (free, linear)]
    assert [set(tasks[-1]) - {"name", "when"} for tasks in ends] == [
        {"ansible.builtin.meta"},
        {"ansible.builtin.debug"},
    ]


def test_what_is_no_playbook_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_text("hosts: all\n")
    with pytest.raises(AnsibleFailed, match="not a list of plays"):
        plays_of(tmp_path / "x.yml")
