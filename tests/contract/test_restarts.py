"""What stages say that they restart is what their roles restart: units with a condition, static pods, and commands."""

import re

import pytest

from appliance.config.data import root
from appliance.stages.catalog import STAGES
from appliance.stages.stage import Stage
from tests.support.role_units import RoleText

PLUGINS = root() / "playbooks/collections/ansible_collections/appliance/host/plugins"
CALLS = re.compile(r"\bappliance\.host\.(\w+)")
SHARES = re.compile(r"plugins\.module_utils\.(\w+) import")
VERBS = re.compile(
    r"""["'](?:try-)?(?:restart|reload|reload-or-restart|stop|kill)["']"""
    r"""|"kubeadm".*"upgrade"|"init", "phase"|"--install\""""
)
COMMANDS = re.compile(r"\b(pkill|killall|kill|reboot|restart|try-restart|reload|stop|rollout)\b")
SYSTEMD_READS = "daemon-reload"
NO_RESTART = {
    "units": "its units are held against the declaration one by one",
    "swap": "stops and masks what makes swap, and starts nothing",
    "ssh_for_jobs": "stops a timer of its own that guards the change",
    "reboot": "the plan names reboots",
}
each_stage = pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
PAIRS = [(stage, role) for stage in STAGES for role in stage.ansible_roles]
each_role = pytest.mark.parametrize(
    ("stage", "role"), PAIRS, ids=[f"{stage.name}-{role}" for stage, role in PAIRS]
)


PROGRAMS = {"mig_layout": "its program stops who holds a GPU, and starts them again"}
"""Modules that restart something by a program of ours."""


def restarting_modules() -> set[str]:
    """Modules of the collection that restart something, themselves or by what they share with others."""
    found = set(PROGRAMS)
    for file in (PLUGINS / "module_utils/resources").glob("*.py"):
        text = file.read_text()
        shared = [PLUGINS / "module_utils" / f"{name}.py" for name in SHARES.findall(text)]
        if any(VERBS.search(part) for part in (text, *(path.read_text() for path in shared))):
            found.add(file.stem)
    return found


@each_role
def test_each_unit_that_a_role_restarts_is_declared_with_its_files(stage: Stage, role: str) -> None:
    declared: dict[str, set[str]] = {}
    for one in stage.restarts:
        declared.setdefault(one.unit, set()).update(one.files)
    found = RoleText(role).units
    assert {unit for unit in found if unit not in declared} == set()
    assert {unit: one.files - declared[unit] for unit, one in found.items()} == {
        unit: set() for unit in found
    }


@each_role
def test_each_option_that_comes_into_such_a_file_is_declared(stage: Stage, role: str) -> None:
    declared: dict[str, set[str]] = {}
    for one in stage.restarts:
        declared.setdefault(one.unit, set()).update(one.variables, one.presence, one.maybe)
    missing = {
        unit: sorted(one.options - declared.get(unit, set()))
        for unit, one in RoleText(role).units.items()
    }
    assert {unit: options for unit, options in missing.items() if options} == {}


@each_role
def test_a_unit_that_a_condition_restarts_says_by_what(stage: Stage, role: str) -> None:
    said = {one.unit for one in stage.restarts if one.by}
    assert {unit for unit, one in RoleText(role).units.items() if one.condition} <= said


@each_stage
def test_nothing_is_declared_that_no_role_has(stage: Stage) -> None:
    roles = [RoleText(name) for name in stage.ansible_roles]
    options = {name for role in roles for name in role.options}
    files = {path for role in roles for one in role.units.values() for path in one.files}
    for one in stage.restarts:
        assert one.variables | one.presence | one.maybe <= options, one.unit
        assert set(one.files) <= files, one.unit


@each_stage
def test_each_module_that_restarts_something_is_declared(stage: Stage) -> None:
    called = {name for role in stage.ansible_roles for name in _called(role)}
    declared = {by for one in stage.restarts for by in one.by} | NO_RESTART.keys()
    assert called & restarting_modules() <= declared


def _called(role: str) -> set[str]:
    """Modules of the collection that tasks call; live restarts something only where it moves files away."""
    found = set()
    for task in RoleText(role).tasks:
        for name in filter(None, (CALLS.fullmatch(key) for key in task)):
            if name[1] != "live" or "strangers" in task[name[0]]:
                found.add(name[1])
    return found


@each_stage
def test_each_command_that_restarts_something_is_declared(stage: Stage) -> None:
    declared = {by for one in stage.restarts for by in one.by} | NO_RESTART.keys()
    for role in stage.ansible_roles:
        for task in RoleText(role).tasks:
            command = task.get("ansible.builtin.command", {})
            words = " ".join(map(str, command.get("argv", []))).replace(SYSTEMD_READS, "")
            assert set(COMMANDS.findall(words)) <= declared, task["name"]
            assert not any("handler" in key or key == "notify" for key in task), task["name"]


def test_modules_that_restart_are_found_by_their_verbs() -> None:
    known = {"units", "live", "gpu_driver", "kubernetes_upgrade", "kubeadm_control", "helm_release"}
    assert known <= restarting_modules()
