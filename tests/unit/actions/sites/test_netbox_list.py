"""A new site from NetBox: hosts, BMCs, racks and cables as it has them; a stand-in answers, not NetBox itself."""

from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.sites import init as action
from appliance.actions.sites import netbox_list
from appliance.actions.sites.machine_list import MachineList
from appliance.actions.sites.machine_lists import read_list
from appliance.adapters import netbox as adapter
from appliance.config.finding import InvalidConfig
from appliance.errors import ConfigError, ConnectionFailed
from tests.redfish_server import certificate
from tests.support.netbox_emulator import TOKEN, Emulated, Handler, serve

NETWORK = IPv4Network("10.0.0.0/24")
LISTS = ("dcim/devices", "dcim/interfaces", "ipam/ip-addresses")


def port(lists: dict[str, Any], device: int, name: str, **more: Any) -> dict[str, Any]:
    made = {
        "id": len(lists["dcim/interfaces"]) + 1,
        "device": {"id": device},
        "name": name,
        "type": {"value": "1000base-t"},
        "mgmt_only": False,
        "mac_address": None,
        "connected_endpoints": None,
    } | more
    lists["dcim/interfaces"].append(made)
    return made


def address(lists: dict[str, Any], at: dict[str, Any], text: str) -> dict[str, Any]:
    made = {
        "id": len(lists["ipam/ip-addresses"]) + 1,
        "address": text,
        "assigned_object_type": "dcim.interface",
        "assigned_object_id": at["id"],
        "assigned_object": {"device": at["device"]},
    }
    lists["ipam/ip-addresses"].append(made)
    return {"id": made["id"], "address": text}


def host(lists: dict[str, Any], number: int, name: str, role: str, **more: Any) -> dict[str, Any]:
    port_one = port(lists, number, "eno1", mac_address=f"52:54:00:00:00:{number:02X}")
    made = {
        "id": number,
        "name": name,
        "role": {"slug": role},
        "tags": [],
        "site": {"slug": "hall-1"},
        "rack": {"name": "R1"},
        "position": float(number),
        "serial": f"SN{number}",
        "custom_fields": {},
        "primary_ip4": address(lists, port_one, f"10.9.0.{number}/24"),
        "oob_ip": None,
    } | more
    address(lists, port(lists, number, "bmc", mgmt_only=True), f"10.9.16.{number}/24")
    lists["dcim/devices"].append(made)
    return made


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("pem"))


@pytest.fixture
def lists() -> dict[str, Any]:
    """A head, 60 GPU hosts of two rails each, a switch, a firewall, and a host of another hall."""
    found: dict[str, Any] = {name: [] for name in LISTS}
    host(found, 10, "HEAD", "control-storage", tags=[{"slug": "login"}])
    for number in range(11, 71):
        host(found, number, f"gpu-{number}.example.org", "gpu")
        for rail in range(2):
            far = {"device": {"name": f"leaf-{rail}"}, "name": f"IB1/{number}"}
            kind = {"value": "infiniband-ndr"}
            port(found, number, f"mlx5_{rail}", type=kind, connected_endpoints=[far])
    host(found, 80, "leaf-0", "leaf")
    host(found, 81, "fw-1", "firewall")
    host(found, 90, "gpu-90", "gpu", site={"slug": "hall-2"})
    return found


@pytest.fixture
def netbox(lists: dict[str, Any], pem: Path) -> Iterator[Emulated]:
    with serve(Emulated(lists, pem, largest=25)) as running:
        yield running


def read(netbox: Emulated, query: str = "?site=hall-1", token: str = TOKEN) -> MachineList:
    return netbox_list.read(netbox.address + query, token, netbox.pem)


def test_hosts_cables_and_addresses_are_those_of_netbox(netbox: Emulated, tmp_path: Path) -> None:
    machines = read(netbox)
    site = action.init(tmp_path / "acme", 0, "hpc", None, NETWORK, machines=machines).site
    assert [h.name for h in site.hosts] == ["head", *(f"gpu-{n}" for n in range(11, 71))]
    assert [role.value for role in site.hosts[0].roles] == ["control", "storage", "login"]
    for number, one in enumerate(site.hosts, 10):
        assert one.bmc
        placed = str(one.address), one.mac, str(one.bmc.address), one.rack, one.unit, one.serial
        wanted = f"10.9.0.{number}", f"52:54:00:00:00:{number:02x}", f"10.9.16.{number}"
        assert placed == (*wanted, "R1", number, f"SN{number}")
    assert str(site.networks["management"].cidr) == "10.9.0.0/24"
    assert {(c.host, c.hca, c.switch, c.port) for c in site.fabric.cables} == {
        (f"gpu-{n}", f"mlx5_{rail}", f"leaf-{rail}", n) for n in range(11, 71) for rail in range(2)
    }
    assert list(machines.missing()) == ["not imported, because its role is firewall: fw-1"]


def test_lists_are_read_page_by_page_from_the_same_server(netbox: Emulated) -> None:
    read(netbox)
    pages = [path for path in netbox.asked if path.startswith("/api/dcim/devices/")]
    assert len(pages) == 3, "63 devices, 25 on a page"
    assert [p.rpartition("offset=")[2] for p in pages] == ["0", "25", "50"]


def test_what_netbox_lacks_is_named(netbox: Emulated, lists: dict[str, Any]) -> None:
    one, two = lists["dcim/devices"][1:3]
    one |= {"rack": None, "position": None, "serial": ""}
    for at in lists["dcim/interfaces"]:
        if at["device"]["id"] == two["id"]:
            at |= {"mac_address": None, "mgmt_only": False, "connected_endpoints": None}
    far = {"device": {"name": "leaf-0"}, "name": "IB2/1/1"}
    port(lists, 13, "mlx5_2", type={"value": "infiniband-ndr"}, connected_endpoints=[far])
    assert list(read(netbox).missing()) == [
        "no MAC address, which provision needs: gpu-12",
        "no BMC: gpu-12",
        "no rack: gpu-11",
        "no unit: gpu-11",
        "no serial number: gpu-11",
        "no fabric cable: gpu-12",
        "not imported, because its role is firewall: fw-1",
        "no cable to a switch: gpu-12 mlx5_0",
        "no cable to a switch: gpu-12 mlx5_1",
        "port without a clear number, cable left out: leaf-0 IB2/1/1",
    ]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"primary_ip4": None}, "gpu-11: address"),
        ({"primary_ip4": {"id": 1, "address": "2001:db8::1/64"}}, "gpu-11: address"),
        ({"name": "gpu 11"}, "gpu 11: name"),
        ({"serial": "x{{y}}"}, "gpu-11: serial"),
        ({"custom_fields": {"appliance_class": "none/such.yml"}}, "gpu-11: class"),
        ({"serial": "SN12"}, "gpu-12: serial"),
        ({"position": 12.0}, "gpu-12: unit"),
    ],
)
def test_a_bad_device_is_named(change: dict[str, Any], key: str, netbox: Emulated, lists: dict[str, Any], tmp_path: Path) -> None:  # fmt: skip
    lists["dcim/devices"][1] |= change
    with pytest.raises(InvalidConfig) as refused:
        action.init(tmp_path / "acme", 0, "hpc", None, NETWORK, machines=read(netbox))
    assert key in {finding.key for finding in refused.value.findings}
    assert not (tmp_path / "acme").exists()


@pytest.mark.parametrize("odd", [None, 7, "text", [], {}, True])
@pytest.mark.parametrize("name", ["role", "tags", "rack", "position", "serial", "custom_fields", "primary_ip4", "oob_ip", "name"])  # fmt: skip
def test_fields_of_any_type_end_in_a_list_or_a_message(odd: object, name: str, netbox: Emulated, lists: dict[str, Any]) -> None:  # fmt: skip
    del lists["dcim/devices"][3:]
    lists["dcim/devices"][1][name] = odd
    for at in lists["dcim/interfaces"][:9]:
        at["connected_endpoints"] = at["type"] = odd
    with suppress(InvalidConfig):
        read(netbox)


def test_a_token_that_is_refused_is_not_shown(netbox: Emulated) -> None:
    with pytest.raises(ConnectionFailed, match=r"rejected the token \(403\)") as refused:
        read(netbox, token="wrong-token")
    assert "wrong-token" not in str(refused.value)


def test_a_filter_that_netbox_refuses_is_named(netbox: Emulated) -> None:
    body = b'{"site": ["Select a valid choice."]}'
    netbox.instead = lambda handler: handler.raw(400, body)
    with pytest.raises(ConfigError, match=r"refuses the filter: .*Select a valid choice"):
        read(netbox, "?site=hall-9")


def test_an_unknown_certificate_is_refused(netbox: Emulated) -> None:
    with pytest.raises(ConnectionFailed, match=r"certificate of .* is not trusted") as refused:
        netbox_list.read(netbox.address, TOKEN)
    assert "--authority" in refused.value.hint
    assert netbox.asked == []


@pytest.mark.parametrize(
    "answer",
    [
        lambda h: h.raw(200, b"<html>"),
        lambda h: h.raw(200, b"[]"),
        lambda h: h.raw(200, b'{"results": [1]}'),
        lambda h: h.raw(200, b'{"results": []', Content_Length="999"),
        lambda h: h.raw(500, b"oops"),
        lambda h: h.raw(302, b"", Location="https://127.0.0.1:1/"),
        lambda h: h.wfile.write(b"no HTTP\r\n\r\n"),
        lambda h: h.raw(200, b"[" * 9999),
    ],
)
def test_another_answer_ends_in_one_message(answer: Any, netbox: Emulated) -> None:
    netbox.instead = answer
    with pytest.raises(ConnectionFailed) as refused:
        read(netbox)
    assert "\n" not in refused.value.message
    assert refused.value.hint
    assert len(netbox.asked) == 1


def test_answers_are_bounded(netbox: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(handler: Handler) -> None:
        handler.say(200, {"next": "more", "results": [{"id": 1}] * 200})

    monkeypatch.setattr(adapter, "MOST", 1000)
    netbox.instead = endless
    with pytest.raises(ConnectionFailed, match="more than 1000 objects"):
        read(netbox)
    monkeypatch.setattr(adapter, "LONGEST", 1000)
    with pytest.raises(ConnectionFailed, match="a page is larger"):
        read(netbox)


@pytest.mark.parametrize(
    "text",
    [
        "netbox",
        "http://netbox.example.org/",
        "ftp://netbox.example.org/",
        "https://user:secret@netbox.example.org/",
        "https://netbox.example.org/?sites=hall-1",
        "https://netbox.example.org/?site=",
        "https://netbox.example.org/#x",
        "https://netbox.example.org/\n",
    ],
)
def test_an_unusable_address_is_refused_before_anything_is_sent(text: str) -> None:
    with pytest.raises(ConfigError):
        netbox_list.address_of(text)


def test_the_token_is_read_from_a_private_file_or_the_environment(
    netbox: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, file = netbox.address + "?site=hall-1", tmp_path / "token"
    monkeypatch.delenv("NETBOX_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="NETBOX_TOKEN is not set"):
        read_list((), at, None, netbox.pem)
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="mode 0644"):
        read_list((), at, file, netbox.pem)
    assert netbox.asked == []
    file.chmod(0o600)
    assert read_list((), at, file, netbox.pem)
    monkeypatch.setenv("NETBOX_TOKEN", TOKEN)
    assert read_list((), at, None, netbox.pem)
    monkeypatch.setenv("NETBOX_TOKEN", "two words")
    with pytest.raises(ConfigError, match="NETBOX_TOKEN is not a token") as refused:
        read_list((), at, None, netbox.pem)
    assert "two words" not in str(refused.value)
