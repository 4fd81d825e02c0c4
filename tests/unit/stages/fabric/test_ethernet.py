"""Lossless Ethernet: set as the site wants it, set otherwise, and not measured."""

from dataclasses import replace
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.stages.fabric.site import FabricOptions
from tests.support.fabric_facts import facts, judge, one, port, profile, view

GOOD = {"interface": "eth2", "mtu": 9000, "pfc": [3], "dscp": {"26": 3}, "tos": 104}


def asking(own: HostFacts, **roce: Any) -> View:
    """A class with Ethernet whose site wants lossless ports; gpu-1 has these facts."""
    seen = view(own, profile_=profile("Ethernet"))
    fabric = FabricOptions.model_validate({"roce": roce})
    return replace(seen, site=seen.site.model_copy(update={"fabric": fabric}))


def ethernet(roce: dict[str, Any] | None, **changes: Any) -> HostFacts:
    return facts("gpu-1", ports=[port("gpu-1", 0, link_layer="Ethernet", roce=roce)], **changes)


def found(state: dict[str, Any], **roce: Any) -> CheckResult:
    return one("fabric.roce", asking(ethernet({**GOOD, **state}), **roce))


def test_a_port_set_as_the_site_wants_it_is_good_and_says_what_the_driver_hides() -> None:
    result = found({}, mtu=9000)
    assert (result.status, result.target) == (Status.PASS, "gpu-1/mlx5_0")
    assert "does not report ECN" in result.evidence
    assert found({"ecn": [3], "traffic_class": 104}).evidence == "eth2"
    assert found({"ecn": []}, ecn=False).status is Status.PASS


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"pfc": []}, "PFC pauses priority none, not 3"),
        ({"pfc": [0, 3]}, "PFC pauses priority 0, 3, not 3"),
        ({"dscp": {}}, "DSCP 26 goes to no priority, not 3"),
        ({"dscp": {"26": 0}}, "DSCP 26 goes to priority 0, not 3"),
        ({"tos": 0}, "connections have traffic class 0, not 104"),
        ({"traffic_class": 0}, "queue pairs have traffic class 0, not 104"),
        ({"ecn": [0]}, "ECN of priority 3 is off"),
        ({"mtu": 1500}, "its MTU is 1500, not 9000"),
    ],
)
def test_what_is_set_otherwise_is_told(state: dict[str, Any], said: str) -> None:
    result = found(state, mtu=9000)
    assert (result.status, result.cause) == (Status.FAIL, f"eth2: {said}")


def test_a_fault_is_told_although_something_else_could_not_be_read() -> None:
    assert found({"pfc": None, "tos": 0}).status is Status.FAIL


@pytest.mark.parametrize("name", ["pfc", "dscp", "tos", "mtu"])
def test_what_could_not_be_read_is_not_assessed(name: str) -> None:
    own = ethernet({**GOOD, name: None}, errors={"fabric": "dcb failed with 1"})
    result = one("fabric.roce", asking(own, mtu=9000))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
    assert f"{name} could not be read: dcb failed with 1" in result.cause


def test_a_port_nothing_was_read_of_and_a_host_without_ports_are_not_assessed() -> None:
    for own in (ethernet(None), facts("gpu-1", ports=[])):
        result = one("fabric.roce", asking(own))
        assert (result.status, result.required) == (Status.NOT_ASSESSED, True)


def test_a_named_adapter_that_is_not_there_is_not_assessed() -> None:
    seen = asking(ethernet(GOOD), devices=["mlx5_0", "mlx5_9"])
    missing, there = judge("fabric.roce", seen)
    assert (missing.target, missing.status) == ("gpu-1/mlx5_9", Status.NOT_ASSESSED)
    assert there.status is Status.PASS


def test_simulated_ports_and_containers_prove_nothing() -> None:
    system = facts("gpu-1").os.model_copy(update={"container": "systemd-nspawn"})
    for own in (ethernet(GOOD, simulated=("fabric",)), ethernet(GOOD, os=system)):
        result = one("fabric.roce", asking(own))
        assert (result.status, result.required) == (Status.NOT_ASSESSED, False)


def test_other_adapters_than_the_named_ones_are_left_out() -> None:
    own = facts(
        "gpu-1",
        ports=[
            port("gpu-1", 0, link_layer="Ethernet", roce=GOOD),
            port("gpu-1", 1, link_layer="Ethernet"),
        ],
    )
    assert one("fabric.roce", asking(own, devices=["mlx5_0"])).status is Status.PASS


def test_an_infiniband_port_is_no_port_to_be_lossless() -> None:
    both = [port("gpu-1", 0, link_layer="Ethernet", roce=GOOD), port("gpu-1", 1)]
    assert one("fabric.roce", asking(facts("gpu-1", ports=both))).target == "gpu-1/mlx5_0"


def test_a_site_that_does_not_ask_and_a_class_with_infiniband_hear_nothing_of_it() -> None:
    assert judge("fabric.roce", view(ethernet(GOOD), profile_=profile("Ethernet"))) == []
    assert judge("fabric.roce", replace(asking(ethernet(GOOD)), profile=profile())) == []
