"""Conditions of role storage: what counts as active, and what a run that was cut off leaves to do."""

from pathlib import Path
from typing import Any

import pytest
import yaml  # noqa: TID251 - reads the role's own files
from jinja2 import Environment

TASKS = Path(__file__).parents[3] / "roles/storage/tasks"


def task(file: str, name: str) -> dict[str, Any]:
    """A task of the role by the end of its name."""
    found: list[dict[str, Any]] = yaml.safe_load((TASKS / file).read_text(encoding="utf-8"))
    return next(one for one in found if one["name"].endswith(name))


def holds(condition: str, **variables: object) -> bool:
    """What Ansible makes of a condition."""
    return bool(Environment().compile_expression(condition)(**variables))


UNITS = [{"name": "nfs-server.service"}, {"name": "data.mount"}]


@pytest.mark.parametrize(
    ("states", "fails"),
    [
        (["active", "active"], False),
        (["active", "failed"], True),
        (["inactive", "active"], True),
        ([], True),
    ],
)
def test_one_active_unit_does_not_stand_for_the_others(states: list[str], fails: bool) -> None:
    verify = task("verify.yml", "Server and mounts are active")
    # systemctl(1): is-active ends with 0 if at least one is active.
    answer = {"rc": 0 if "active" in states else 3, "stdout_lines": states}
    condition = verify["failed_when"]
    assert holds(condition, __storage_active=answer, __storage_units=UNITS) is fails


@pytest.mark.parametrize(
    ("devices", "blank", "joins"),
    [
        (["/dev/a", "/dev/b"], ["/dev/a", "/dev/b"], True),
        # An array was made, and the run cut off before its file system was.
        (["/dev/a", "/dev/b"], [], False),
        (["/dev/a"], ["/dev/a"], False),
    ],
)
def test_an_array_without_a_file_system_gets_one(
    devices: list[str], blank: list[str], joins: bool
) -> None:
    given = {"storage_scratch_devices": devices, "__storage_blank": blank}
    assert holds(task("configure.yml", "on blank scratch devices")["when"], **given)
    assert holds(task("scratch.yml", "into one array")["when"], **given) is joins
    make = task("scratch.yml", "Make the file system")
    # What is there already is left alone.
    assert "when" not in make
    assert make["ansible.builtin.command"]["creates"] == "/dev/disk/by-label/{{ __storage_label }}"


def test_a_host_without_scratch_devices_makes_none() -> None:
    when = task("configure.yml", "on blank scratch devices")["when"]
    assert not holds(when, storage_scratch_devices=[], __storage_blank=[])
