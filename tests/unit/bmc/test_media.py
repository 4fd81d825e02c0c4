"""Virtual media of controllers as makers build them: what is told to them, and what is said where they cannot."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.redfish import Redfish, ResourceFailed
from appliance.bmc.media import Drive, Source
from appliance.errors import ApplianceError
from tests.redfish_server import QUICK, Bmc, Handler, serve, tree

SYSTEM = "/redfish/v1/Systems/DGX"
MEDIA = f"{SYSTEM}/VirtualMedia"
CD = f"{MEDIA}/Cd"
INSERT, EJECT = (f"{CD}/Actions/VirtualMedia.{verb}Media" for verb in ("Insert", "Eject"))
URL = "https://10.0.0.5:8443/medium/secret/gpu-1.iso"


@pytest.fixture
def documents() -> dict[str, Any]:
    found = tree("nvidia-dgx-h100")
    found[SYSTEM]["VirtualMedia"] = {"@odata.id": MEDIA}
    found[MEDIA] = {"Members": [{"@odata.id": f"{MEDIA}/Floppy"}, {"@odata.id": CD}]}
    found[f"{MEDIA}/Floppy"] = {"@odata.id": f"{MEDIA}/Floppy", "MediaTypes": ["Floppy"]}
    found[CD] = {
        "@odata.id": CD,
        "MediaTypes": ["CD", "DVD"],
        "Inserted": False,
        "Actions": {
            "#VirtualMedia.InsertMedia": {"target": INSERT},
            "#VirtualMedia.EjectMedia": {"target": EJECT},
        },
    }
    return found


@pytest.fixture
def bmc(documents: dict[str, Any], pem: Path) -> Iterator[Bmc]:
    with serve(Bmc(documents, pem)) as running:
        yield running


def asked(bmc: Bmc) -> list[tuple[str, object]]:
    paths = [path for verb, path in bmc.asked if verb == "POST" and "Sessions" not in path]
    return list(zip(paths, bmc.bodies, strict=False))


def insert(bmc: Bmc) -> bool:
    with Redfish(bmc.known(), QUICK) as controller:
        drive = Drive(controller)
        drive.insert(URL, "PEM")
        drive.start_once(Source.DISC)
        return drive.is_verified


def test_a_disc_is_put_in_and_started_from_once(bmc: Bmc) -> None:
    assert not insert(bmc)
    boot = {
        "BootSourceOverrideEnabled": "Once",
        "BootSourceOverrideTarget": "Cd",
        "BootSourceOverrideMode": "UEFI",
    }
    assert asked(bmc) == [
        (INSERT, {"Image": URL, "Inserted": True, "WriteProtected": True}),
        (SYSTEM, {"Boot": boot}),
    ]


def test_what_was_in_is_taken_out_first(bmc: Bmc, documents: dict[str, Any]) -> None:
    documents[CD] |= {"Inserted": True, "Image": "http://old"}
    insert(bmc)
    assert [path for path, _ in asked(bmc)] == [EJECT, INSERT, SYSTEM]


def test_a_controller_that_can_compares_the_servers_certificate(bmc: Bmc, documents: dict[str, Any]) -> None:  # fmt: skip
    old = f"{CD}/Certificates/1"
    documents[CD]["Certificates"] = {"@odata.id": f"{CD}/Certificates"}
    documents[f"{CD}/Certificates"] = {"Members": [{"@odata.id": old}]}
    assert insert(bmc)
    assert ("DELETE", old) in bmc.asked
    assert asked(bmc)[:2] == [
        (f"{CD}/Certificates", {"CertificateString": "PEM", "CertificateType": "PEM"}),
        (CD, {"VerifyCertificate": True}),
    ]


def test_a_controller_that_knows_no_authority_of_ours_is_told_not_to_compare(bmc: Bmc, documents: dict[str, Any]) -> None:  # fmt: skip
    documents[CD]["VerifyCertificate"] = True
    assert not insert(bmc)
    assert asked(bmc)[0] == (CD, {"VerifyCertificate": False})


def test_a_mode_that_cannot_be_set_is_left_out(bmc: Bmc) -> None:
    def refuse(handler: Handler) -> None:
        if len([path for _, path in bmc.asked if path == SYSTEM]) == 2:
            return handler.say(400, {"error": {"code": "Base.1.8.PropertyNotWritable"}})
        return handler.say(200, documents_of(bmc)[SYSTEM])

    bmc.before[SYSTEM] = refuse
    insert(bmc)


def documents_of(bmc: Bmc) -> dict[str, Any]:
    return dict(bmc.tree)


def test_the_drive_of_the_manager_is_taken_where_the_system_has_none(bmc: Bmc, documents: dict[str, Any]) -> None:  # fmt: skip
    del documents[SYSTEM]["VirtualMedia"]
    manager = next(path for path in documents if path.count("/") == 4 and "/Managers/" in path)
    documents[manager]["VirtualMedia"] = {"@odata.id": MEDIA}
    insert(bmc)
    assert asked(bmc)[0][0] == INSERT


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"VirtualMedia": None}, "has no virtual drive for discs: none is listed"),
        ({"VirtualMedia": {"@odata.id": "/redfish/v1/none"}}, "no virtual drive .* answers 404"),
    ],
)
def test_a_machine_without_a_drive_is_told(bmc: Bmc, documents: dict[str, Any], broken: dict[str, Any], told: str) -> None:  # fmt: skip
    documents[SYSTEM] |= broken
    with pytest.raises(ApplianceError, match=told) as found:
        insert(bmc)
    assert "appliance provision media" in found.value.hint


def test_a_drive_without_the_action_is_told(bmc: Bmc, documents: dict[str, Any]) -> None:
    documents[CD]["Actions"] = None
    with pytest.raises(ResourceFailed, match="cannot fetch a disc"):
        insert(bmc)


def test_afterwards_the_machine_starts_from_its_disk(bmc: Bmc) -> None:
    with Redfish(bmc.known(), QUICK) as controller:
        Drive(controller).start_once(Source.DISK)
    assert asked(bmc)[-1][1] == {
        "Boot": {
            "BootSourceOverrideEnabled": "Once",
            "BootSourceOverrideTarget": "Hdd",
            "BootSourceOverrideMode": "UEFI",
        }
    }


def nothing(handler: Handler) -> None:
    handler.raw(200, b"", {"Content-Type": "application/json"})


def test_a_drive_that_answers_nothing_is_an_empty_drive(bmc: Bmc) -> None:
    bmc.before[CD] = nothing
    insert(bmc)
    assert [path for path, _ in asked(bmc)] == [INSERT, SYSTEM]


def test_a_drive_that_says_what_it_is_comes_before_one_that_answers_nothing(bmc: Bmc) -> None:
    bmc.before[f"{MEDIA}/Floppy"] = nothing
    insert(bmc)
    assert asked(bmc)[0][0] == INSERT


@pytest.mark.parametrize("listed", [False, True])
def test_where_a_console_may_hold_the_drive_that_is_said(bmc: Bmc, documents: dict[str, Any], listed: bool) -> None:  # fmt: skip
    if listed:
        bmc.before[INSERT] = lambda handler: handler.say(409, {"error": {"code": "InUse"}})
    else:
        documents[MEDIA]["Members"] = []
    with pytest.raises(ApplianceError) as found:
        insert(bmc)
    assert "remote console" in found.value.hint


@pytest.mark.parametrize("linked", [False, True])
def test_an_idrac_is_told_by_its_own_setting_to_start_from_the_virtual_disc(documents: dict[str, Any], pem: Path, linked: bool) -> None:  # fmt: skip
    dell = tree("dell-idrac9")
    system, manager = (
        "/redfish/v1/Systems/System.Embedded.1",
        "/redfish/v1/Managers/iDRAC.Embedded.1",
    )
    dell[system]["VirtualMedia"] = {"@odata.id": MEDIA}
    dell |= {path: documents[path] for path in (MEDIA, CD, f"{MEDIA}/Floppy")}
    settings = f"{manager}/Attributes"
    if linked:
        settings = f"{manager}/Oem/Dell/DellAttributes/iDRAC.Embedded.1"
        others = [f"{manager}/Oem/Dell/DellAttributes/System.Embedded.1", settings]
        found = {"DellAttributes": [{"@odata.id": path} for path in others]}
        dell[manager]["Links"] = {"Oem": {"Dell": found}}
    with serve(Bmc(dell, pem)) as running:
        insert(running)
        own = {"ServerBoot.1.BootOnce": "Enabled", "ServerBoot.1.FirstBootDevice": "VCD-DVD"}
        assert asked(running)[-1] == (settings, {"Attributes": own})
        with Redfish(running.known(), QUICK) as controller:
            Drive(controller).start_once(Source.DISK)
        assert asked(running)[-1][0] == system


@pytest.mark.parametrize(
    ("maker", "allowed", "target"),
    [
        ("Supermicro", ["Cd", "UsbCd", "Hdd"], "UsbCd"),
        ("Super Micro Computer", ["Cd", "UsbCd"], "UsbCd"),
        ("Supermicro", ["Cd", "Hdd"], "Cd"),
        ("NVIDIA", ["Cd", "UsbCd"], "Cd"),
        ("NVIDIA", ["UsbCd", "Hdd"], "UsbCd"),
        ("Supermicro", "UsbCd", "Cd"),
    ],
)
def test_the_virtual_drive_has_the_name_that_its_maker_gives_it(bmc: Bmc, documents: dict[str, Any], maker: str, allowed: Any, target: str) -> None:  # fmt: skip
    name = "BootSourceOverrideTarget@Redfish.AllowableValues"
    documents[SYSTEM] |= {"Manufacturer": maker, "Boot": {name: allowed}}
    insert(bmc)
    found: Any = asked(bmc)[-1][1]
    assert found["Boot"]["BootSourceOverrideTarget"] == target
    with Redfish(bmc.known(), QUICK) as controller:
        Drive(controller).start_once(Source.DISK)
    found = asked(bmc)[-1][1]
    assert found["Boot"]["BootSourceOverrideTarget"] == "Hdd"
