"""Stage, playbook, role and checks bear the same names, and each name leads to something that is there."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml  # noqa: TID251 - reads the playbooks

from appliance.checks.check import Nature
from appliance.config import data
from appliance.engine.run.cluster_stages import WORK
from appliance.models.site import Role
from appliance.stages import NAMES, OF_CLUSTER, OF_HOSTS
from appliance.stages.catalog import CHECKS, CLUSTER_STAGES, EVERY_STAGE, HARDWARE, STAGES
from appliance.stages.stage import Stage

ROOT = data.root()
BY_NAME = {stage.name: stage for stage in STAGES}
SUBSETS = {
    "distribution": {
        "distribution",
        "distribution_major_version",
        "distribution_release",
        "distribution_version",
        "os_family",
    },
    "platform": {"nodename", "hostname", "fqdn", "architecture", "kernel"},
}
"""What the roles may know of a host, by the part of Ansible's facts that brings it (setup's gather_subset)."""

each_stage = pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)


def plays(stage: Stage) -> list[dict[str, Any]]:
    """The plays of the stage's playbook."""
    found = yaml.safe_load((ROOT / f"playbooks/{stage.name}.yml").read_text())
    assert isinstance(found, list)
    return found


def roles(play: dict[str, Any]) -> list[str]:
    """Names of the roles of a play."""
    named = [entry if isinstance(entry, str) else entry["role"] for entry in play.get("roles", [])]
    imported = [task["ansible.builtin.import_role"] for task in play.get("tasks", [])]
    # The program has checked what it gives a role: Ansible's own task for it costs as much as all of the role's resources.
    assert all(one["rolespec_validate"] is False for one in imported)
    return [*named, *(one["name"] for one in imported)]


def test_every_playbook_is_a_stage() -> None:
    assert {path.stem for path in (ROOT / "playbooks").glob("*.yml")} == set(BY_NAME)
    assert len(BY_NAME) == len(STAGES)


@each_stage
def test_the_playbook_runs_the_stages_roles_and_nothing_else(stage: Stage) -> None:
    found = [name for play in plays(stage) for name in roles(play)]
    assert set(found) == set(stage.ansible_roles)
    assert stage.name in stage.ansible_roles
    assert all((ROOT / f"roles/{name}/tasks/main.yml").exists() for name in found)
    allowed = {
        "name",
        "hosts",
        "strategy",
        "serial",
        "gather_facts",
        "gather_subset",
        "roles",
        "tasks",
    }
    assert [set(play) - allowed for play in plays(stage)] == [set()] * len(plays(stage))


@each_stage
def test_the_playbook_speaks_of_the_stages_hosts(stage: Stage) -> None:
    patterns = [part for play in plays(stage) for part in play["hosts"].split(":")]
    named = {part for part in patterns if not part.startswith("!")}
    assert {part.lstrip("!&") for part in patterns} <= {"all", *Role}
    assert ("all" in named and stage.roles == frozenset(Role)) or named == stage.roles


@each_stage
def test_only_the_facts_its_roles_read_are_gathered(stage: Stage) -> None:
    texts = [
        file.read_text()
        for name in stage.ansible_roles
        for kind in ("tasks", "handlers", "templates", "defaults", "vars")
        for file in (ROOT / "roles" / name / kind).rglob("*")
        if file.is_file()
    ]
    used = {key for text in texts for key in re.findall(r"ansible_facts\['(\w+)'\]", text)}
    for play in plays(stage):
        if not play["gather_facts"]:  # appliance.host.apply asks for both
            assert used <= set().union(*SUBSETS.values())
            continue
        nothing, minimum, *subsets = play["gather_subset"]
        assert (nothing, minimum) == ("!all", "!min")
        assert used <= set().union(*(SUBSETS[subset] for subset in subsets))
        assert all(used & SUBSETS[subset] for subset in subsets)


@each_stage
def test_a_stage_waits_only_for_stages_before_it(stage: Stage) -> None:
    names = [known.name for known in STAGES]
    assert {*stage.after, *stage.facts_from} <= set(names[: names.index(stage.name)])


def test_every_check_speaks_of_the_hardware_or_proves_exactly_one_stage() -> None:
    of_cluster = [check for stage in CLUSTER_STAGES for check in stage.judges]
    assert {check.nature for check in of_cluster} <= {Nature.SYMPTOM}, "they prove nothing of a run"
    named = Counter(name for stage in STAGES for name in (*stage.checks, *stage.symptoms))
    named.update(check.id for check in of_cluster)
    assert {name: times for name, times in named.items() if times > 1} == {}
    hardware = {check.id for check in HARDWARE}
    assert set(named) | hardware == {check.id for check in CHECKS}
    assert set(named) & hardware == set()


def test_check_ids_are_unique_and_say_their_area() -> None:
    assert [i for i, times in Counter(check.id for check in CHECKS).items() if times > 1] == []
    assert {check.id.split(".")[0] for check in CHECKS} <= set(NAMES)


def test_every_package_of_a_stage_is_in_their_order_and_every_stage_has_a_package() -> None:
    found = {path.parent.name for path in (Path(ROOT) / "appliance/stages").glob("*/stage.py")}
    assert found == set(NAMES)
    assert tuple(stage.name for stage in EVERY_STAGE) == NAMES
    assert tuple(stage.name for stage in STAGES) == OF_HOSTS


def test_every_stage_of_the_cluster_has_its_work_and_names_stages_before_it() -> None:
    assert tuple(stage.name for stage in CLUSTER_STAGES) == OF_CLUSTER == tuple(WORK)
    for stage in CLUSTER_STAGES:
        before = set(NAMES[: NAMES.index(stage.name)])
        assert {*stage.after, *stage.noticed_by} <= before
    assert len({stage.receipt for stage in CLUSTER_STAGES}) == len(CLUSTER_STAGES)


@each_stage
def test_each_stage_is_proved_by_something(stage: Stage) -> None:
    assert stage.checks
