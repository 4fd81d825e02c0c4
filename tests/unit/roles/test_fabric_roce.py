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
            for name in ("dcb", "ip")
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
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((data.root() / TEMPLATE).read_text())
    text = template.render(fabric_roce={**WANTED, **changes}).replace("/sys/", f"{host}/sys/")
    (host / "said").write_text("")
    run(("sh", "-c", text), env={"PATH": f"{host}/bin:/usr/bin:/bin"})
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
