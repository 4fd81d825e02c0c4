"""What role gpu stops before it unloads a driver and starts again in this order, at boot too."""

from pathlib import Path

import pytest
import yaml  # noqa: TID251 - reads the role's own files
from jinja2.nativetypes import NativeEnvironment

ROLES = Path(__file__).parents[3] / "roles"


@pytest.mark.parametrize(
    ("fabric_manager", "first"),
    [
        (True, ["nvidia-persistenced.service", "nvidia-fabricmanager.service"]),
        (False, ["nvidia-persistenced.service"]),
    ],
)
def test_gpus_are_divided_again_before_anything_uses_one(
    fabric_manager: bool, first: list[str]
) -> None:
    variables = yaml.safe_load((ROLES / "gpu/vars/main.yml").read_text(encoding="utf-8"))
    environment = NativeEnvironment()
    environment.filters["ternary"] = lambda which, one, other: one if which else other
    known = {
        "gpu_fabric_manager": fabric_manager,
        "__gpu_others": ["nvidia-container-toolkit"],
        "__gpu_exporter_settings": "/etc/x.conf",
        "__gpu_service_units": variables["__gpu_service_units"],
    }
    for name in ("__gpu_first_units", "__gpu_more_units"):
        known[name] = environment.from_string(variables[name]).render(**known)
    clients = list(environment.from_string(variables["__gpu_driver"]["clients"]).render(**known))
    others = ["nvidia-dcgm.service", "nvidia-dcgm-exporter.service", "appliance-cdi.service"]
    # One that serves wishes for parts would load the driver again, or hold it.
    assert clients == [*first, "appliance-mig.service", *others, "appliance-mig-demand.service"]


def test_gpus_are_described_for_containers_once_they_are_divided() -> None:
    unit = (ROLES / "mig/templates/etc/systemd/system/appliance-mig.service.j2").read_text("utf-8")
    before = [
        word
        for line in unit.splitlines()
        if line.startswith("Before=")
        for word in line[7:].split()
    ]
    assert "appliance-cdi.service" in before


def test_a_driver_that_still_lacks_a_reboot_after_it_is_a_failure() -> None:
    tasks = yaml.safe_load((ROLES / "gpu/tasks/main.yml").read_text("utf-8"))
    finish = next(task for task in tasks if task["name"].endswith("Go on after the reboot"))
    holds = NativeEnvironment().compile_expression(finish["failed_when"])
    assert holds(__gpu_finished={"paused": "install | Bring the driver to its release"})
    assert holds(__gpu_finished={"failed": True, "msg": "why"})
    assert not holds(__gpu_finished={"changed": True})
