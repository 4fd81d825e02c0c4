"""Inventories of seven makers' shapes: what is there is read, what is missing, null or of another type is a gap."""

from pathlib import Path

import pytest

from appliance.bmc.inventory import inventory
from appliance.models.bmc import BmcArea, DeviceKind
from tests.redfish_server import QUICK, VENDORS, Bmc, expected, judged, serve, tree


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_makers_controller_is_judged_as_written_down(vendor: str, pem: Path) -> None:
    with serve(Bmc(tree(vendor), pem)) as bmc:
        assert judged(bmc) == expected(vendor), "read it, then: make golden"


@pytest.mark.parametrize("vendor", VENDORS)
def test_no_field_of_a_maker_is_needed(vendor: str, pem: Path) -> None:
    """Every document but the root and the list of systems has the first half of its fields."""
    whole = tree(vendor)
    thin = {
        path: dict(list(document.items())[: len(document) // 2])
        if isinstance(document, dict)
        and path.rstrip("/") not in {"/redfish/v1", "/redfish/v1/Systems"}
        else document
        for path, document in whole.items()
    }
    with serve(Bmc(thin, pem)) as bmc:
        assert inventory(bmc.known(), QUICK).unread


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("odd", [None, [], "text", 7, {"@odata.id": 3}, [None, 1, "x", {}]])
def test_any_field_may_be_of_any_type(vendor: str, odd: object, pem: Path) -> None:
    kept = {"/redfish/v1/", "/redfish/v1/Systems", "/redfish/v1/Systems/"}
    broken = {
        path: dict.fromkeys(document, odd) if isinstance(document, dict) else document
        for path, document in tree(vendor).items()
        if path not in kept
    }
    with serve(Bmc({p: d for p, d in tree(vendor).items() if p in kept} | broken, pem)) as bmc:
        found = inventory(bmc.known(), QUICK)
    assert set(found.unread) >= {BmcArea.PROCESSORS, BmcArea.MEMORY, BmcArea.DRIVES}


def test_gpus_of_a_baseboard_beside_the_system_are_the_machines(pem: Path) -> None:
    with serve(Bmc(tree("nvidia-dgx-h100"), pem)) as bmc:
        found = inventory(bmc.known(), QUICK)
    assert found.machine.model == "DGXH100"
    assert len(found.of_kind(DeviceKind.GPU)) == 8
    assert len(found.of_kind(DeviceKind.HCA)) == 8
    assert sum(m.capacity_mib or 0 for m in found.modules) == 2 << 20
    assert len({d.name for d in found.devices}) == len(found.devices)


def test_pages_are_followed_and_old_versions_left_out(pem: Path) -> None:
    with serve(Bmc(tree("dell-idrac9"), pem)) as bmc:
        found = inventory(bmc.known(), QUICK)
    assert [event.severity for event in found.events] == ["OK", "Critical"]
    assert found.firmware["BIOS"] == "1.13.2"
    assert found.machine.serial == "7XJ2KQ3"


def test_text_of_a_controller_moves_no_cursor(pem: Path) -> None:
    with serve(Bmc(tree("gigabyte-megarac"), pem)) as bmc:
        found = inventory(bmc.known(), QUICK)
    assert "\x1b" not in found.events[1].message
    assert found.modules[0].capacity_mib == 65536


def test_the_session_is_given_back(pem: Path) -> None:
    with serve(Bmc(tree("openbmc"), pem)) as bmc:
        inventory(bmc.known(), QUICK)
        assert bmc.asked[-1] == ("DELETE", "/redfish/v1/SessionService/Sessions/1")
