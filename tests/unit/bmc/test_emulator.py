"""Against sushy-tools' emulator, a Redfish service of others: TLS, password, inventory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.config.secrets import Secret
from appliance.engine.look.controllers import ask
from appliance.models.bmc import BmcFacts
from tests.redfish_server import QUICK, Bmc
from tests.support.redfish_emulator import MAC, SYSTEM, emulator


@pytest.fixture(scope="module")
def bmc(tmp_path_factory: pytest.TempPathFactory, pem: Path) -> Iterator[Bmc]:
    with emulator(tmp_path_factory.mktemp("emulator"), pem) as running:
        yield running


@pytest.fixture(scope="module")
def facts(bmc: Bmc) -> BmcFacts:
    found = ask({"gpu-1": bmc.known()}, QUICK)
    assert not found.unanswered
    return found.facts["gpu-1"]


def test_the_machine_is_read(facts: BmcFacts) -> None:
    assert facts.redfish == "1.5.0"
    assert facts.machine.uuid == SYSTEM
    assert facts.machine.power == "Off"
    assert [port.mac for port in facts.interfaces] == [MAC]


def test_what_the_emulator_lacks_is_a_gap_with_its_reason(facts: BmcFacts) -> None:
    assert {"memory", "events"} <= facts.unread.keys()
    assert all(facts.unread.values())


def test_a_wrong_password_is_refused(bmc: Bmc) -> None:
    found = ask({"gpu-1": bmc.known(password=Secret("wrong"))}, QUICK)
    assert "rejected user admin or its password" in found.unanswered["gpu-1"].cause


def test_a_certificate_that_is_not_pinned_is_refused(bmc: Bmc) -> None:
    found = ask({"gpu-1": bmc.known(fingerprint="0" * 64)}, QUICK)
    assert "differs from the pinned one" in found.unanswered["gpu-1"].cause
