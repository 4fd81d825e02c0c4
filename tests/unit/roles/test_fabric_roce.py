"""The program that makes Ethernet ports lossless, on an imitated sysfs with programs that note how they were called."""

from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from appliance.adapters.process import run
from appliance.config import data

TEMPLATE = "roles/fabric/templates/usr/local/sbin/appliance-roce.j2"
WANTED = {"priority": 3, "dscp": 26, "traffic_class": 104, "ecn": True, "mtu": 0, "devices": []}
CONFIG = "sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"
DEVICES = "sys/class/infiniband"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """An Ethernet adapter mlx5_0 with eth2, and an InfiniBand one."""
    grown = {
        f"{DEVICES}/mlx5_0/ports/1/link_layer": "Ethernet\n",
        f"{DEVICES}/mlx5_0/device/net/eth2/mtu": "1500\n",
        f"{DEVICES}/mlx5_1/ports/1/link_layer": "InfiniBand\n",
        f"{DEVICES}/mlx5_1/device/net/ib0/mtu": "2044\n",
        CONFIG: "0\n",
        **{
            f"bin/{name}": f'#!/bin/sh\necho {name} "$@" >>{tmp_path}/said\n'
            for name in ("dcb", "ip", "rmdir", "systemctl")
        },
    }
    for at, text in grown.items():
        path = tmp_path / at
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return tmp_path


def said(host: Path, **changes: Any) -> list[str]:
    """The commands it runs on this host."""
    return called(host, rendered(host, TEMPLATE, fabric_roce={**WANTED, **changes}))


def rendered(host: Path, template: str, **variables: Any) -> Path:
    """A program as the role would write it, kept to the imitated host."""
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    text = environment.from_string((data.root() / template).read_text()).render(**variables)
    for folder in ("/sys/", "/etc/", "/run/"):
        (host / folder.strip("/")).mkdir(exist_ok=True)
        text = text.replace(folder, f"{host}{folder}")
    program = host / "program"
    program.write_text(text)
    program.chmod(0o755)
    return program


def called(host: Path, program: Path, *arguments: str) -> list[str]:
    """The commands it runs."""
    (host / "said").write_text("")
    run((str(program), *arguments), env={"PATH": f"{host}/bin:/usr/bin:/bin"})
    return (host / "said").read_text().splitlines()


def test_ethernet_ports_pause_one_priority_and_trust_its_mark(host: Path) -> None:
    assert said(host) == [
        "dcb pfc set dev eth2 prio-pfc all:off 3:on",
        "dcb app replace dev eth2 dscp-prio 26:3",
    ]
    assert (host / CONFIG).read_text() == "104\n"
    assert said(host, mtu=9000)[-1] == "ip link set dev eth2 mtu 9000"


@pytest.mark.parametrize(("ecn", "written"), [(True, "1\n"), (False, "0\n")])
def test_what_the_driver_shows_beside_is_set_too(host: Path, ecn: bool, written: str) -> None:
    device = host / DEVICES / "mlx5_0"
    halves = [device / f"device/net/eth2/ecn/{half}/enable/3" for half in ("roce_np", "roce_rp")]
    shown = [*halves, device / "tc/1/traffic_class"]
    for path in shown:
        path.parent.mkdir(parents=True)
        path.write_text("")
    said(host, ecn=ecn)
    assert [path.read_text() for path in shown] == [written, written, "104\n"]


def test_a_named_adapter_that_is_not_there_is_an_error(host: Path) -> None:
    assert said(host, devices=["mlx5_0", "mlx5_7"]) != []
    with pytest.raises(Exception, match="no Ethernet port of mlx5_7"):
        said(host, devices=["mlx5_7"])
    assert (host / "said").read_text() == ""


def test_undo_takes_back_what_was_set_and_leaves_nothing_of_itself(host: Path) -> None:
    unit = host / "etc/systemd/system/appliance-roce.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("")
    program = rendered(host, TEMPLATE, fabric_roce=WANTED)
    assert called(host, program, "undo") == [
        "dcb app del dev eth2 dscp-prio 26:3",
        "dcb pfc set dev eth2 prio-pfc all:off",
        f"rmdir {host}/sys/kernel/config/rdma_cm/mlx5_0",
        "systemctl disable --now appliance-roce.service",
        "systemctl daemon-reload",
    ]
    assert not program.exists()
    assert not unit.exists()


IPOIB = "roles/fabric/templates/usr/local/sbin/appliance-ipoib.j2"
NET = f"{DEVICES}/mlx5_1/device/net"


def ipoib(host: Path, pkey: str, address: str = "10.1.0.2/24") -> Path:
    """The program of a host whose mlx5_1 carries IP, and that adapter's interface."""
    for name in ("ib0", f"ib0.{pkey[2:]}") if pkey else ("ib0",):
        for at in (host / NET / name, host / "sys/class/net" / name):
            at.mkdir(parents=True, exist_ok=True)
            (at / "type").write_text("32\n")
            (at / "mode").write_text("datagram\n")
    if pkey:
        (host / NET / f"ib0.{pkey[2:]}" / "parent").write_text("ib0\n")
    given = {"device": "mlx5_1", "mode": "datagram", "mtu": 2044, "address": address}
    return rendered(host, IPOIB, fabric_ipoib={**given, "pkey": pkey})


@pytest.mark.parametrize(("pkey", "interface"), [("", "ib0"), ("0x8010", "ib0.8010")])
def test_ip_on_infiniband_is_set_up_and_taken_away_with_its_partition(
    host: Path, pkey: str, interface: str
) -> None:
    program = ipoib(host, pkey)
    for _ in range(2):
        assert called(host, program)[-1] == f"ip address replace 10.1.0.2/24 dev {interface}"
    assert called(host, program, "undo") == [
        f"ip address del 10.1.0.2/24 dev {interface}",
        "systemctl disable --now appliance-ipoib.service",
        "systemctl daemon-reload",
    ]
    gone = host / "sys/class/net/ib0/delete_child"
    assert (gone.read_text() if gone.exists() else "").strip() == pkey
    assert not program.exists()
    assert list((host / "run").iterdir()) == []


def test_an_address_the_site_gave_before_goes(host: Path) -> None:
    called(host, ipoib(host, ""))
    assert called(host, ipoib(host, "0x8010", "10.1.0.9/24"))[-2:] == [
        "ip address replace 10.1.0.9/24 dev ib0.8010",
        "ip address del 10.1.0.2/24 dev ib0",
    ]
    assert called(host, ipoib(host, "", "10.1.0.3/24"))[-2:] == [
        "ip address replace 10.1.0.3/24 dev ib0",
        "ip address del 10.1.0.9/24 dev ib0.8010",
    ]


def test_undo_needs_no_adapter(host: Path) -> None:
    program = rendered(
        host,
        IPOIB,
        fabric_ipoib={
            "device": "mlx5_9",
            "mode": "datagram",
            "mtu": 2044,
            "address": "10.1.0.2/24",
            "pkey": "",
        },
    )
    assert "systemctl disable --now appliance-ipoib.service" in called(host, program, "undo")
