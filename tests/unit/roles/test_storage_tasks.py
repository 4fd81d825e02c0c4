"""Role storage: disks are judged first, and every unit must be active."""

from pathlib import Path
from typing import Any

import yaml  # noqa: TID251 - reads the role's own files

TASKS = Path(__file__).parents[3] / "roles/storage/tasks"


def entries() -> list[dict[str, Any]]:
    """What the role applies."""
    (apply,) = yaml.safe_load((TASKS / "main.yml").read_text("utf-8"))
    found: list[dict[str, Any]] = apply["appliance.host.apply"]["resources"]
    return found


def test_scratch_devices_are_judged_before_anything_is_changed() -> None:
    first, *others = entries()
    (make,) = [one for one in others if "scratch" in one]
    assert first["scratch"] == {"state": "judged", **make["scratch"]}
    assert make["name"].startswith("configure | ")
    assert first["when"] == make["when"] == "storage_scratch_devices | length > 0"


def test_one_active_unit_does_not_stand_for_the_others() -> None:
    (verify,) = [one for one in entries() if one["name"].startswith("verify | ")]
    # systemctl(1): is-active ends with 0 if at least one is active.
    assert verify["command"]["lines"] == "{{ ['active'] * (__storage_units | length) }}"
