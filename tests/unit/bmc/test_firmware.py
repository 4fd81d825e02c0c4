"""BIOS settings and firmware held against what the profile wants of a model."""

from typing import Any

import pytest

from appliance.bmc.checks.firmware import CHECKS, at_least
from appliance.checks.check import View
from appliance.models.bmc import BmcFacts, Machine
from appliance.models.profile import ServerModel
from appliance.models.result import Status
from appliance.models.site import Host, Site
from tests.support.profiles import profile_of

HOST = Host.model_validate({"name": "gpu-1", "roles": ["gpu"], "address": "10.0.0.11"})
SITE = Site(version=1, name="t", hosts=(HOST,), networks={})
SEEN = BmcFacts(
    host="gpu-1",
    taken="",
    seconds=1.0,
    controller_firmware="4.40.10",
    machine=Machine(model="PowerEdge XE8545", bios="2.9.3"),
    firmware={"NIC.Slot.1": "22.31.1014"},
    bios={"NumaNodesPerSocket": "NPS1", "SriovSupport": True},
)


def judged(*servers: dict[str, Any], **seen: Any) -> list[tuple[str, str, str]]:
    view = View(profile_of(servers=list(servers)), SITE, {})
    facts = SEEN.model_copy(update=seen)
    results = [r for check in CHECKS for r in check.results(view, HOST, facts)]
    return [(r.status, r.target, r.cause or str(r.value)) for r in results]


def test_a_profile_that_names_nothing_is_silent() -> None:
    assert judged() == []


def test_all_as_wanted_is_good() -> None:
    wanted = {"NumaNodesPerSocket": "NPS1", "SriovSupport": True}
    least = {"BIOS": "2.9.3", "controller": "4.4.9", "NIC.Slot.1": "22.31.1014"}
    assert judged({"model": "PowerEdge XE8545", "bios": wanted, "firmware": least}) == [
        (Status.PASS, "gpu-1", "2"),
        (Status.PASS, "gpu-1", "3"),
    ]


def test_the_first_model_that_fits_counts() -> None:
    first = {"model": "PowerEdge*", "bios": {"SriovSupport": True}}
    second = {"model": "PowerEdge XE8545", "bios": {"SriovSupport": False}}
    assert judged(first, second) == [(Status.PASS, "gpu-1", "1")]
    assert judged(second, first)[0][0] == Status.FAIL


def test_what_is_not_as_wanted_fails_each_by_name() -> None:
    wanted = {"NumaNodesPerSocket": "NPS4", "SriovSupport": True}
    least = {"BIOS": "2.10.0", "NIC.Slot.1": "22.31.1014"}
    assert judged({"model": "PowerEdge*", "bios": wanted, "firmware": least}) == [
        (Status.FAIL, "gpu-1/NumaNodesPerSocket", "NumaNodesPerSocket is NPS1, expected NPS4"),
        (Status.FAIL, "gpu-1/BIOS", "BIOS is 2.9.3, older than 2.10.0"),
    ]


def test_what_is_not_said_is_not_called_good() -> None:
    server = {"model": "*", "bios": {"NoSuch": 1}, "firmware": {"PSU": "1.2", "BIOS": "U46 v2.9"}}
    assert judged(server) == [
        (Status.NOT_ASSESSED, "gpu-1/NoSuch", "its BMC does not report NoSuch"),
        (Status.NOT_ASSESSED, "gpu-1/PSU", "its BMC lists no PSU"),
        (Status.NOT_ASSESSED, "gpu-1/BIOS", "versions 2.9.3 and U46 v2.9 have different formats"),
    ]
    said = judged(server, bios={}, unread={"bios": "/redfish/v1/Systems/1/Bios answers 500"})
    assert said[0][2] == "/redfish/v1/Systems/1/Bios answers 500"


def test_a_model_that_is_not_named_beside_others_is_told() -> None:
    other = {"model": "AS-4124GO", "bios": {"A": 1}, "firmware": {"BIOS": "1"}}
    why = "profile t lists 1 model, but not PowerEdge XE8545"
    assert judged(other) == [(Status.NOT_ASSESSED, "gpu-1", why)] * 2


def test_a_value_of_another_type_is_no_other_value() -> None:
    server = {"model": "*", "bios": {"SriovSupport": "true", "NumaNodesPerSocket": "NPS1"}}
    why = "SriovSupport is a boolean on the BMC (True), but a text in the profile (true)"
    assert judged(server) == [(Status.NOT_ASSESSED, "gpu-1/SriovSupport", why)]


@pytest.mark.parametrize(
    ("found", "wanted", "enough"),
    [
        ("1.13.2", "1.9.1", True),
        ("1.9.1", "1.13.2", False),
        ("2.9.3", "2.9.3", True),
        ("2.9", "2.9.3", False),
        ("2.9.3", "2.9", True),
        ("U46 v2.78 (03/16/2023)", "U46 v2.76 (11/09/2022)", True),
        ("U46 v2.72 (12/09/2022)", "U46 v2.76 (11/09/2022)", False),
        ("U30 v2.78 (03/16/2023)", "U46 v2.76 (11/09/2022)", None),
        ("2.9.3", "2.9.3b", None),
        ("A47", "B12", None),
        ("2.9.3", "v2.9.3", None),
        ("none", "none", None),
        ("2.9.3b", "2.9.3", None),
        ("v3.0", "v2.9", True),
    ],
)
def test_versions_are_compared_by_their_numbers_alone(found: str, wanted: str, enough: bool | None) -> None:  # fmt: skip
    assert at_least(found, wanted) is enough


@pytest.mark.parametrize("wrong", [{}, {"bios": {}}, {"bios": {"A b": 1}}, {"bios": {"A": None}}, {"bios": {"A": 1.5}}])  # fmt: skip
def test_a_model_of_which_nothing_can_be_wanted_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ServerModel"):
        ServerModel.model_validate({"model": "X", **wrong})
