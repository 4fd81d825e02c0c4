"""The management port is found by its address; no port is guessed."""

from pathlib import Path

import pytest

from appliance.provision.ramdisk import ports
from appliance.provision.ramdisk.shared import Refused


def port(net: Path, name: str, mac: str, carrier: str = "0", kind: str = "1") -> None:
    (net / name / "device").mkdir(parents=True)
    for field, text in (("address", mac), ("carrier", carrier), ("type", kind)):
        (net / name / field).write_text(f"{text}\n")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    port(tmp_path, "eno1", "aa:00:00:00:00:01")
    port(tmp_path, "eno2", "aa:00:00:00:00:02")
    port(tmp_path, "ib0", "80:00:00:00:00:03", "1", "32")
    (tmp_path / "lo").mkdir()
    return tmp_path


def test_the_port_with_the_sites_mac_is_taken(net: Path) -> None:
    assert ports.find("AA:00:00:00:00:02", net) == "eno2"


def test_a_mac_that_is_not_there_is_refused_with_those_that_are(net: Path) -> None:
    with pytest.raises(
        Refused, match=r"has the MAC address .*; there is eno1 aa:00:00:00:00:01, eno2"
    ):
        ports.find("aa:00:00:00:00:09", net)


def test_without_a_mac_the_only_port_that_carries_is_taken(net: Path) -> None:
    (net / "eno1/carrier").write_text("1\n")
    assert ports.find(None, net) == "eno1"


def test_of_two_that_carry_none_is_guessed(net: Path) -> None:
    for name in ("eno1", "eno2"):
        (net / name / "carrier").write_text("1\n")
    with pytest.raises(Refused, match="2 ports could be the management port"):
        ports.find(None, net)
