"""BIOS settings: what differs, what is told to the controller, the start that brings it, and what is said where it does not come."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from appliance.bmc import bios
from appliance.bmc.bios import Setting, SettingChange, differing
from appliance.bmc.power import Order, Waiting
from appliance.errors import ApplianceError, DeadlineExceeded
from appliance.models.bmc import BiosValue
from tests.redfish_server import QUICK, Bmc, Handler, serve, tree

SYSTEM = "/redfish/v1/Systems/DGX"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
BIOS, PENDING = f"{SYSTEM}/Bios", f"{SYSTEM}/Bios/Settings"
SOON = Setting(Waiting(on=0.4, shut_down=0.4, force_off=0.4, pause=0.02), 0.4, 0.02)
NOW = {
    "NumaNodesPerSocket": "NPS1",
    "SriovSupport": False,
    "FanOffset": 3,
    "BootTimeout": None,
    "SetupPassword": "that of another",
}


def never() -> bool:
    return False


@pytest.fixture
def documents() -> dict[str, Any]:
    """A machine that is on, and keeps its settings as the standard has it."""
    found = tree("nvidia-dgx-h100")
    found[SYSTEM] |= {"Bios": {"@odata.id": BIOS}, "PowerState": "On"}
    settings = {"SettingsObject": {"@odata.id": PENDING}}
    found[BIOS] = {"@odata.id": BIOS, "Attributes": dict(NOW), "@Redfish.Settings": settings}
    found[PENDING] = {"@odata.id": PENDING, "Attributes": {}}
    return found


@pytest.fixture
def bmc(documents: dict[str, Any], pem: Path) -> Iterator[Bmc]:
    """One that obeys: what waits comes with the next start."""

    def obey(path: str, body: object) -> None:
        assert isinstance(body, dict)
        if path == PENDING:
            documents[PENDING]["Attributes"] |= body["Attributes"]
            return
        assert path == RESET
        is_start = body["ResetType"] == "On"
        documents[SYSTEM]["PowerState"] = "On" if is_start else "Off"
        if is_start:
            documents[BIOS]["Attributes"] |= documents[PENDING]["Attributes"]
            documents[PENDING]["Attributes"] = {}

    with serve(Bmc(documents, pem, on_post=obey)) as running:
        yield running


def applied(
    bmc: Bmc,
    wanted: Mapping[str, BiosValue],
    off: Order = Order.SHUT_DOWN,
    stop: Callable[[], bool] = never,
) -> tuple[SettingChange, ...]:
    return bios.apply(bmc.known(), wanted, off, SOON, QUICK, stop)


def test_what_differs_is_set_by_a_start_and_read_back(bmc: Bmc) -> None:
    wanted: dict[str, BiosValue] = {
        "NumaNodesPerSocket": "NPS4",
        "SriovSupport": True,
        "FanOffset": 3,
    }
    assert [str(c) for c in applied(bmc, wanted)] == [
        "NumaNodesPerSocket: NPS1 -> NPS4",
        "SriovSupport: False -> True",
    ]
    assert bmc.bodies == [
        {"Attributes": {"NumaNodesPerSocket": "NPS4", "SriovSupport": True}},
        {"ResetType": "GracefulShutdown"},
        {"ResetType": "On"},
    ]
    seen = bios.look(bmc.known(), QUICK)
    assert seen.settings == wanted, "no password among them"
    assert (seen.model, seen.power) == ("DGXH100", "On")


def test_what_is_as_wanted_is_told_nothing(bmc: Bmc) -> None:
    assert applied(bmc, {"NumaNodesPerSocket": "NPS1"}) == ()
    assert bmc.bodies == []


def test_a_machine_that_was_off_is_off_again(bmc: Bmc, documents: dict[str, Any]) -> None:
    documents[SYSTEM]["PowerState"] = "Off"
    assert applied(bmc, {"NumaNodesPerSocket": "NPS4"})
    assert bmc.bodies[1:] == [{"ResetType": "On"}, {"ResetType": "ForceOff"}]


def test_a_machine_between_states_is_not_changed(bmc: Bmc, documents: dict[str, Any]) -> None:
    documents[SYSTEM]["PowerState"] = "PoweringOn"
    with pytest.raises(
        ApplianceError, match="reports power state PoweringOn, so nothing is changed"
    ):
        applied(bmc, {"NumaNodesPerSocket": "NPS4"})
    assert bmc.bodies == []


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"NumaNodesPerSocket": "NPS4", "SetupPassword": "x"}, "does not report SetupPassword, so nothing"),
        ({"BootTimeout": "x", "NoSuch": 1}, "does not report BootTimeout, NoSuch, so nothing"),
        ({"NumaNodesPerSocket": "NPS4", "NoSuch": "x"}, "does not report NoSuch, so nothing"),
        ({"FanOffset": "3"}, r"FanOffset is a number on the BMC \(3\), but a text in the profile \(3\)"),
        ({"FanOffset": True}, r"FanOffset is a number on the BMC \(3\), but a boolean in the profile"),
        ({"SriovSupport": 0}, r"SriovSupport is a boolean on the BMC \(False\), but a number"),
    ],
)  # fmt: skip
def test_what_is_not_known_now_is_not_changed(wanted: dict[str, BiosValue], why: str, bmc: Bmc) -> None:  # fmt: skip
    with pytest.raises(ApplianceError, match=why) as found:
        applied(bmc, wanted)
    assert "appliance bios show" in found.value.hint
    assert bmc.bodies == []


def test_a_change_of_somebody_else_does_not_come_with_ours(bmc: Bmc, documents: dict[str, Any]) -> None:  # fmt: skip
    documents[PENDING]["Attributes"] = {"FanOffset": 9, "NumaNodesPerSocket": "NPS2"}
    with pytest.raises(ApplianceError, match=r"is pending .*\(FanOffset: 3 -> 9\), so nothing"):
        applied(bmc, {"NumaNodesPerSocket": "NPS4"})
    assert bmc.bodies == []


def test_a_controller_that_shows_all_settings_as_waiting_is_no_change_of_somebody(
    bmc: Bmc, documents: dict[str, Any]
) -> None:
    documents[PENDING]["Attributes"] = dict(NOW)
    assert applied(bmc, {"NumaNodesPerSocket": "NPS4"})


def test_one_that_makes_a_job_of_it_is_told_when(bmc: Bmc, documents: dict[str, Any]) -> None:
    documents[BIOS]["@Redfish.Settings"]["SupportedApplyTimes"] = ["Immediate", "OnReset"]
    applied(bmc, {"NumaNodesPerSocket": "NPS4"})
    assert bmc.bodies[0] == {
        "Attributes": {"NumaNodesPerSocket": "NPS4"},
        "@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"},
    }


@pytest.mark.parametrize("status", [412, 428])
def test_one_that_wants_the_tag_of_what_was_seen_is_given_it(status: int, bmc: Bmc, documents: dict[str, Any]) -> None:  # fmt: skip
    tags: list[str | None] = []

    def guard(handler: Handler) -> None:
        if handler.command == "GET":
            return handler.say(200, documents[PENDING], {"ETag": 'W/"7"'})
        tags.append(handler.headers.get("If-Match"))
        if tags[-1] != 'W/"7"':
            return handler.say(status, {"error": {"code": "Base.1.8.PreconditionRequired"}})
        documents[PENDING]["Attributes"] = {"NumaNodesPerSocket": "NPS4"}
        return handler.say(204, None)

    bmc.before[PENDING] = guard
    assert applied(bmc, {"NumaNodesPerSocket": "NPS4"})
    assert tags == [None, 'W/"7"']


def test_a_setting_that_does_not_come_is_told_in_its_own_words(bmc: Bmc, documents: dict[str, Any]) -> None:  # fmt: skip
    said = [{"MessageId": "x"}, {"Message": "NPS4 needs eight modules of memory"}]
    documents[BIOS]["@Redfish.Settings"]["Messages"] = said
    obey = bmc.on_post
    assert obey

    def forget(path: str, body: object) -> None:
        if path != PENDING:
            obey(path, body)

    bmc.on_post = forget
    with pytest.raises(ApplianceError) as found:
        applied(bmc, {"NumaNodesPerSocket": "NPS4"})
    assert found.value.message == (
        "NumaNodesPerSocket is not NPS4 0.4 s after its start: NPS4 needs eight modules of memory; "
        "the settings are pending on its BMC until the next start"
    )
    assert isinstance(found.value.__cause__, DeadlineExceeded)


def test_a_system_that_ignores_its_shut_down_is_told_with_what_waits(bmc: Bmc) -> None:
    bmc.on_post = None
    with pytest.raises(
        ApplianceError, match=r"GracefulShutdown was sent.*the settings are pending"
    ):
        applied(bmc, {"NumaNodesPerSocket": "NPS4"})


def test_errors_while_it_tests_itself_are_waited_out(bmc: Bmc) -> None:
    asked = 0

    def ill(handler: Handler) -> None:
        nonlocal asked
        asked += 1
        if 2 <= asked <= 4:
            return handler.say(404, {"error": {"code": "Base.1.8.ResourceInStandby"}})
        return handler.say(200, bmc.tree[BIOS])

    bmc.before[BIOS] = ill
    assert applied(bmc, {"NumaNodesPerSocket": "NPS4"})
    assert asked == 5


@pytest.mark.parametrize("odd", [None, [], "text", 7, {}, {"Attributes": [1]}])
def test_one_without_settings_is_told(odd: object, bmc: Bmc, documents: dict[str, Any]) -> None:
    documents[BIOS] = odd
    with pytest.raises(ApplianceError, match=r"BIOS settings|cannot be read|answers 404"):
        bios.look(bmc.known(), QUICK)


def test_one_that_lets_nobody_change_them_is_told(bmc: Bmc, documents: dict[str, Any]) -> None:
    del documents[BIOS]["@Redfish.Settings"]
    with pytest.raises(ApplianceError, match="does not allow changes of BIOS settings"):
        applied(bmc, {"NumaNodesPerSocket": "NPS4"})
    assert bmc.bodies == []


def test_an_interrupt_ends_the_wait_and_says_what_waits(bmc: Bmc) -> None:
    bmc.on_post = None
    with pytest.raises(ApplianceError, match=r"interrupted.*the settings are pending"):
        applied(bmc, {"NumaNodesPerSocket": "NPS4"}, stop=lambda: True)


def test_no_number_is_yes_and_no_text_a_number() -> None:
    assert differing({"A": 1.0}, {"A": 1}) == ()
    with pytest.raises(ApplianceError):
        differing({"A": 1}, {"A": True})


def test_text_of_a_controller_moves_no_cursor(bmc: Bmc, documents: dict[str, Any]) -> None:
    documents[BIOS]["Attributes"] = {"A\x1b[2J": "x\x9b1m\ny", "B": 1}
    documents[SYSTEM]["Model"] = "DGX\x1b]0;y\x07"
    seen = bios.look(bmc.known(), QUICK)
    texts = (seen.model, *seen.settings, *map(str, seen.settings.values()))
    assert len(texts) == 5
    assert all(text.isprintable() for text in texts)
