"""What becomes of profile and site in the variables of role fabric."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from appliance.models.facts import HostFacts
from appliance.models.profile import FabricExpectation, Profile
from appliance.stages.context import RoleContext
from appliance.stages.fabric.variables import variables
from tests.support.sites import site_of


def of(
    host: str, link_layer: Any = "InfiniBand", manager: str = "opensm", container: str = ""
) -> dict[str, Any]:
    """The variables of one host of a site with two control hosts and a GPU host."""
    hosts = ("head-1", "head-2", "gpu-1")
    site = site_of(*hosts, fabric={"subnet_manager": manager})
    fabric = FabricExpectation(link_layer=link_layer, ports=8, rate_gbps=200)
    profile = cast(Profile, SimpleNamespace(hardware=SimpleNamespace(fabric=fabric)))
    known = cast(HostFacts, SimpleNamespace(os=SimpleNamespace(container=container), ports=[]))
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


GUIDS = {"gpu-1": ["0x11", "0x12"], "head-1": ["0x01"]}


def fabric_of(host: str, container: str = "", **options: Any) -> dict[str, Any]:
    """The variables of one host of a site that asks for more; gpu-1 has two ports, gpu-2 was never reached."""
    networks = {
        "management": {"cidr": "10.0.0.0/24"},
        "fabric": {"cidr": "10.1.0.0/24", "mtu": 4092},
    }
    first = {"name": "gpu-1", "addresses": {"fabric": "10.1.0.3"}}
    site = site_of("head-1", first, "gpu-2", networks=networks, fabric=options)
    expected = FabricExpectation(link_layer="InfiniBand", ports=8, rate_gbps=200)
    profile = cast(Profile, SimpleNamespace(hardware=SimpleNamespace(fabric=expected)))
    known = {
        name: cast(
            HostFacts,
            SimpleNamespace(
                os=SimpleNamespace(container=container),
                ports=[
                    SimpleNamespace(device=f"mlx5_{n}", port=1, guid=guid, link_layer="InfiniBand")
                    for n, guid in enumerate(guids)
                ],
            ),
        )
        for name, guids in GUIDS.items()
    }
    return variables(RoleContext(profile, site, site.host(host), {}, known))


def test_a_standby_has_the_next_priority_and_serves_one_port() -> None:
    master, standby = (fabric_of(h, standby=["gpu-1"]) for h in ("head-1", "gpu-1"))
    assert standby["fabric_opensm"] is True
    assert standby["fabric_opensm_priority"] == master["fabric_opensm_priority"] - 1
    assert (master["fabric_opensm_guids"], standby["fabric_opensm_guids"]) == (["0x01"], ["0x11"])
    assert fabric_of("gpu-2", standby=["gpu-1"])["fabric_opensm"] is False


def test_every_manager_has_the_partitions_with_all_ports_of_their_members() -> None:
    storage = {"name": "storage", "pkey": 16, "hosts": ["gpu-1", "gpu-2"], "membership": "limited"}
    expected = [{"name": "storage", "pkey": 16, "full": False, "guids": ["0x11", "0x12"]}]
    options: dict[str, Any] = {"partitions": [storage], "standby": ["gpu-1"]}
    assert fabric_of("head-1", **options)["fabric_partitions"] == expected
    assert fabric_of("gpu-1", **options)["fabric_partitions"] == expected
    assert fabric_of("gpu-2", **options)["fabric_partitions"] == []


def test_ip_goes_to_hosts_with_an_address_for_it() -> None:
    found = fabric_of("gpu-1", ipoib={"network": "fabric"})["fabric_ipoib"]
    assert found == {
        "device": "mlx5_0",
        "mode": "datagram",
        "mtu": 4092,
        "address": "10.1.0.3/24",
        "pkey": "",
    }
    assert fabric_of("gpu-2", ipoib={"network": "fabric"})["fabric_ipoib"] == {}
    assert fabric_of("gpu-1", "systemd-nspawn", ipoib={"network": "fabric"})["fabric_ipoib"] == {}


def test_ip_in_a_partition_has_its_key_with_the_membership_bit() -> None:
    storage = {"name": "storage", "pkey": 16, "hosts": ["gpu-1"]}
    found = fabric_of(
        "gpu-1", partitions=[storage], ipoib={"network": "fabric", "partition": "storage"}
    )
    assert found["fabric_ipoib"]["pkey"] == "0x8010"


def test_lossless_ethernet_is_for_gpu_hosts_that_are_machines() -> None:
    assert fabric_of("gpu-1")["fabric_roce"] == {}
    assert fabric_of("head-1", roce={})["fabric_roce"] == {}
    assert fabric_of("gpu-1", "systemd-nspawn", roce={})["fabric_roce"] == {}
    assert fabric_of("gpu-1", roce={"priority": 4, "dscp": 34})["fabric_roce"] == {
        "priority": 4,
        "dscp": 34,
        "traffic_class": 136,
        "ecn": True,
        "mtu": 0,
        "devices": [],
    }


def test_doca_comes_in_the_sites_release_from_its_repository_and_not_to_containers() -> None:
    source = {"mirror": "http://m.example/doca/3.1.0/", "fingerprint": "A" * 40}

    def asked(driver: str, container: str = "") -> dict[str, Any]:
        site = site_of("gpu-1", fabric={"driver": driver}, repositories={"doca": source})
        fabric = FabricExpectation(link_layer="InfiniBand", ports=8, rate_gbps=200)
        hardware, software = SimpleNamespace(fabric=fabric), SimpleNamespace(doca_ofed="3.1")
        profile = cast(Profile, SimpleNamespace(hardware=hardware, software=software))
        known = cast(HostFacts, SimpleNamespace(os=SimpleNamespace(container=container), ports=[]))
        return variables(RoleContext(profile, site, site.host("gpu-1"), {}, {"gpu-1": known}))

    found = asked("doca")
    assert (found["fabric_driver"], found["fabric_doca_release"]) == ("doca", "3.1")
    assert found["fabric_doca_mirror"] == "http://m.example/doca/3.1.0"
    assert found["fabric_doca_key"] == "GPG-KEY-Mellanox.pub"
    assert asked("inbox")["fabric_driver"] == "inbox"
    assert asked("doca", "podman")["fabric_driver"] == "inbox"
