"""Standby managers, partitions and IP on the fabric: good, faulty and not measured."""

from dataclasses import replace
from typing import Any

from appliance.checks.check import HostCheck, View
from appliance.models.result import Status
from appliance.models.site import Host, Network
from appliance.stages.fabric.checks.services import CHECKS
from appliance.stages.fabric.site import FabricOptions
from tests.support.fabric_facts import facts, one, port, site, view

STORAGE = {"name": "storage", "pkey": 16, "hosts": ["gpu-1"]}


def asking(seen: View, **options: Any) -> View:
    """The same facts of a site that asks for more."""
    fabric = FabricOptions.model_validate(options)
    own = {
        "networks": {
            **seen.site.networks,
            "fabric": Network.model_validate({"cidr": "10.1.0.0/24", "mtu": 2044}),
        },
        "hosts": tuple(
            Host.model_validate({**host.model_dump(), "addresses": {"fabric": "10.1.0.2"}})
            if host.name == "gpu-1"
            else host
            for host in seen.site.hosts
        ),
        "fabric": fabric,
    }
    return replace(seen, site=seen.site.model_copy(update=own))


def with_pkeys(*pkeys: int | None) -> View:
    """gpu-1's ports carry these keys beside the default one; None: not read."""
    ports = [
        port("gpu-1", n, pkeys=None if key is None else [0xFFFF, key])
        for n, key in enumerate(pkeys)
    ]
    return asking(view(facts("gpu-1", ports=ports)), partitions=[STORAGE])


def with_interface(**changes: Any) -> View:
    ib0 = {"name": "ib0", "mtu": 2044, "state": "up", "addresses": ["10.1.0.2/24"], **changes}
    return asking(view(facts("gpu-1", interfaces=[ib0])), ipoib={"network": "fabric"})


def test_a_standby_that_runs_is_good_and_one_that_does_not_is_named() -> None:
    def standing(**units: Any) -> View:
        return asking(view(facts("gpu-1", units=units)), standby=["gpu-1"])

    unit = {"load": "loaded", "active": "active"}
    assert one("fabric.standby", standing(**{"opensm.service": unit})).status is Status.PASS
    dead = one("fabric.standby", standing(**{"opensm.service": {**unit, "active": "failed"}}))
    assert (dead.status, dead.target) == (Status.FAIL, "gpu-1/opensm.service")
    assert "no standby takes over" in dead.cause
    assert one("fabric.standby", standing()).status is Status.NOT_ASSESSED
    unread = standing(**{"opensm.service": {**unit, "active": "unknown"}})
    assert one("fabric.standby", unread).status is Status.NOT_ASSESSED


def test_unread_interfaces_are_no_missing_address() -> None:
    unread = facts("gpu-1", interfaces=[], errors={"network": "no answer within 5 s"})
    result = one("fabric.ipoib", asking(view(unread), ipoib={"network": "fabric"}))
    assert (result.status, result.cause) == (Status.NOT_ASSESSED, "no answer within 5 s")


def test_ports_in_their_partition_are_good() -> None:
    assert one("fabric.partitions", with_pkeys(0x8010, 0x8010)).status is Status.PASS


def test_a_port_without_the_key_or_with_the_lesser_one_is_named() -> None:
    for key in (0x8011, 0x0010):
        result = one("fabric.partitions", with_pkeys(0x8010, key))
        assert (result.status, result.target) == (Status.FAIL, "gpu-1/mlx5_1")
        assert "no full member of storage (0x8010)" in result.cause


def test_unread_keys_and_ports_without_a_link_are_not_assessed() -> None:
    assert "mlx5_1" in one("fabric.partitions", with_pkeys(0x8010, None)).cause
    dark = facts("gpu-1", ports=[port("gpu-1", 0, state="DOWN", physical="Polling")])
    result = one("fabric.partitions", asking(view(dark), partitions=[STORAGE]))
    assert result.status is Status.NOT_ASSESSED


def test_simulated_ports_show_no_keys_and_prove_nothing() -> None:
    own = facts("gpu-1", ports=[port("gpu-1", 0, pkeys=[0xFFFF])], simulated=("fabric",))
    result = one("fabric.partitions", asking(view(own), partitions=[STORAGE]))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)


def test_an_address_on_an_interface_of_the_right_size_is_good() -> None:
    assert one("fabric.ipoib", with_interface()).status is Status.PASS


def test_a_missing_address_a_wrong_size_and_a_link_that_is_down_are_told() -> None:
    assert "no interface has 10.1.0.2/24" in one("fabric.ipoib", with_interface(addresses=[])).cause
    assert "MTU is 4092, not 2044" in one("fabric.ipoib", with_interface(mtu=4092)).cause
    down = one("fabric.ipoib", with_interface(state="down"))
    assert (down.status, down.target) == (Status.FAIL, "gpu-1/ib0")


def test_a_container_has_no_interface_to_judge() -> None:
    system = facts("gpu-1").os.model_copy(update={"container": "systemd-nspawn"})
    result = one(
        "fabric.ipoib", asking(view(facts("gpu-1", os=system)), ipoib={"network": "fabric"})
    )
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)


def test_a_site_that_asks_for_none_of_it_hears_nothing_of_it() -> None:
    assert site().fabric.standby == ()
    seen = view()
    for check in CHECKS:
        assert isinstance(check, HostCheck)
        assert list(check.results(seen, seen.site.host("gpu-1"), seen.facts["gpu-1"])) == []
