"""What becomes of profile and site in the variables of role fabric."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from appliance.config.roles.context import RoleContext
from appliance.config.roles.fabric import variables
from appliance.models.facts import HostFacts
from appliance.models.profile import FabricExpectation, Profile
from appliance.models.site import Site


def of(
    host: str, link_layer: Any = "InfiniBand", manager: str = "opensm", container: str = ""
) -> dict[str, Any]:
    """The variables of one host of a site with two control hosts and a GPU host."""
    site = Site.model_validate(
        {
            "version": 1,
            "name": "s",
            "networks": {"management": {"cidr": "10.0.0.0/24"}},
            "hosts": [
                {"name": "gpu-1", "roles": ["gpu"], "address": "10.0.0.3"},
                {"name": "head-1", "roles": ["control"], "address": "10.0.0.1"},
                {"name": "head-2", "roles": ["control"], "address": "10.0.0.2"},
            ],
            "fabric": {"subnet_manager": manager},
        }
    )
    fabric = FabricExpectation(link_layer=link_layer, ports=8, rate_gbps=200)
    profile = cast(Profile, SimpleNamespace(hardware=SimpleNamespace(fabric=fabric)))
    known = cast(HostFacts, SimpleNamespace(os=SimpleNamespace(container=container)))
    return variables(RoleContext(profile, site, site.host(host), {}, {host: known}))


def test_the_first_control_host_is_master_and_the_second_stands_by() -> None:
    first, second = of("head-1"), of("head-2")
    assert first["fabric_opensm"] is second["fabric_opensm"] is True
    assert 0 < second["fabric_opensm_priority"] < first["fabric_opensm_priority"] < 15


def test_a_gpu_host_never_manages_the_subnet() -> None:
    assert of("gpu-1")["fabric_opensm"] is False
    assert of("gpu-1")["fabric_opensm_priority"] == 0


@pytest.mark.parametrize("manager", ["external", "none"])
def test_somebody_elses_subnet_manager_keeps_ours_out(manager: str) -> None:
    assert of("head-1", manager=manager)["fabric_opensm"] is False


@pytest.mark.parametrize("link_layer", ["Ethernet", "none"])
def test_without_infiniband_there_is_no_subnet_to_manage(link_layer: str) -> None:
    assert of("head-1", link_layer)["fabric_opensm"] is False


def test_modules_are_for_machines() -> None:
    assert of("gpu-1")["fabric_kernel_modules"] == ["ib_umad", "ib_ipoib", "rdma_ucm"]
    assert of("gpu-1", "Ethernet")["fabric_kernel_modules"] == ["rdma_ucm"]
    assert of("gpu-1", container="systemd-nspawn")["fabric_kernel_modules"] == []
