"""Power: orders that fit the machine's state, watched to their end, and what is said where that does not come."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.bmc import media
from appliance.bmc.power import Order, Waiting, state, switch
from appliance.config import data
from appliance.errors import ApplianceError, DeadlineExceeded
from tests.redfish_server import QUICK, Bmc, serve, tree
from tests.support.redfish_emulator import emulator

SYSTEM = "/redfish/v1/Systems/DGX"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
SOON = Waiting(on=0.4, shut_down=0.4, force_off=0.4, pause=0.02)
CYCLE = (Order.SHUT_DOWN, Order.ON)


def never() -> bool:
    return False


@pytest.fixture
def documents() -> dict[str, Any]:
    return tree("nvidia-dgx-h100")


@pytest.fixture
def bmc(documents: dict[str, Any], pem: Path) -> Iterator[Bmc]:
    """One that obeys at once."""

    def obey(path: str, body: object) -> None:
        assert path == RESET
        assert isinstance(body, dict)
        documents[SYSTEM]["PowerState"] = "On" if body["ResetType"] == "On" else "Off"

    with serve(Bmc(documents, pem, on_post=obey)) as running:
        yield running


def told(bmc: Bmc, *orders: Order, stop: Callable[[], bool] = never) -> None:
    switch(bmc.known(), orders, SOON, QUICK, stop)


def test_a_cycle_is_off_and_then_on(bmc: Bmc) -> None:
    told(bmc, *CYCLE)
    assert bmc.bodies == [{"ResetType": "GracefulShutdown"}, {"ResetType": "On"}]
    assert state(bmc.known(), QUICK) == "On"


def test_what_is_on_already_is_told_nothing(bmc: Bmc) -> None:
    told(bmc, Order.ON)
    assert bmc.bodies == []


def test_a_machine_that_never_comes_on_is_told(bmc: Bmc, documents: dict[str, Any]) -> None:
    documents[SYSTEM]["PowerState"] = "Off"
    bmc.on_post = None
    with pytest.raises(DeadlineExceeded) as found:
        told(bmc, Order.ON)
    assert found.value.message == "On was sent, but its BMC reports power state Off after 0.4 s"
    assert "console" in found.value.hint


def test_a_controller_that_cannot_switch_it_is_told_with_what_to_do(bmc: Bmc, documents: dict[str, Any]) -> None:  # fmt: skip
    documents[SYSTEM]["PowerState"] = "Off"
    bmc.before[RESET] = lambda handler: handler.say(500, {"error": {"message": "no power supply"}})
    with pytest.raises(ApplianceError) as found:
        told(bmc, Order.ON)
    assert found.value.message == f"{RESET} answers 500: no power supply"
    assert "event log" in found.value.hint


def test_a_system_that_ignores_its_shut_down_is_not_switched_on_either(bmc: Bmc) -> None:
    bmc.on_post = None
    with pytest.raises(DeadlineExceeded) as found:
        told(bmc, *CYCLE)
    assert "--hard" in found.value.hint
    assert bmc.bodies == [{"ResetType": "GracefulShutdown"}]


def test_an_order_the_controller_does_not_take_is_not_given(
    bmc: Bmc, documents: dict[str, Any]
) -> None:
    documents[SYSTEM]["Actions"]["#ComputerSystem.Reset"] = {
        "target": RESET,
        "ResetType@Redfish.AllowableValues": ["On", "ForceOff"],
    }
    with pytest.raises(
        ApplianceError, match="does not support GracefulShutdown, only 'ForceOff', 'On'"
    ):
        told(bmc, Order.SHUT_DOWN)
    assert bmc.bodies == []


def test_what_may_be_told_is_read_where_the_action_refers_to_it(
    bmc: Bmc, documents: dict[str, Any]
) -> None:
    info = documents[SYSTEM]["Actions"]["#ComputerSystem.Reset"]["@Redfish.ActionInfo"]
    documents[info] = {"Parameters": [{"Name": "ResetType", "AllowableValues": ["On"]}]}
    with pytest.raises(ApplianceError, match="does not support ForceOff"):
        told(bmc, Order.FORCE_OFF)


@pytest.mark.parametrize("actions", [None, {}, {"#ComputerSystem.Reset": {"target": None}}])
def test_a_controller_without_a_switch_is_told(
    actions: object, bmc: Bmc, documents: dict[str, Any]
) -> None:
    documents[SYSTEM]["Actions"] = actions
    with pytest.raises(ApplianceError, match="does not support power control"):
        told(bmc, Order.FORCE_OFF)


def test_a_target_on_another_machine_is_refused(bmc: Bmc, documents: dict[str, Any]) -> None:
    documents[SYSTEM]["Actions"]["#ComputerSystem.Reset"]["target"] = "https://198.51.100.1/off"
    with pytest.raises(ApplianceError, match="a link leads to"):
        told(bmc, Order.FORCE_OFF)


def test_an_interrupt_ends_the_watch(bmc: Bmc) -> None:
    bmc.on_post = None
    with pytest.raises(ApplianceError, match="interrupted"):
        told(bmc, Order.FORCE_OFF, stop=lambda: True)


def test_the_emulators_machine_comes_on_and_goes_off(tmp_path: Path, pem: Path) -> None:
    with emulator(tmp_path, pem) as bmc:
        assert state(bmc.known(), QUICK) == "Off"
        waiting = Waiting(on=20.0, force_off=20.0, pause=0.2)
        switch(bmc.known(), (Order.ON, Order.FORCE_OFF), waiting, QUICK, never)
        assert state(bmc.known(), QUICK) == "Off"


def test_the_profile_for_validators_asks_for_what_machines_are_told() -> None:
    asked = json.loads((data.root() / "docs/redfish-profile.json").read_text())["Resources"]
    reset = asked["ComputerSystem"]["ActionRequirements"]["Reset"]["Parameters"]["ResetType"]
    assert set(reset["ParameterValues"]) == set(Order)
    actions = {f"#VirtualMedia.{name}" for name in asked["VirtualMedia"]["ActionRequirements"]}
    assert actions == {media.INSERT, media.EJECT}
