"""What becomes of a site's section base in the variables of role base."""

from ipaddress import IPv4Address, IPv4Network
from typing import Any, cast

import pytest

from appliance.models.secret import SecretRef
from appliance.models.site import Bmc, Network
from appliance.stages.base import variables as base
from appliance.stages.base.variables import variables
from appliance.stages.context import RoleContext
from tests.support.facts import facts_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of

BMC = Bmc(address=IPv4Address("10.0.0.1"), user="admin", password=SecretRef(env="X"))
DISK = {"name": "sda", "size": 1 << 39}
ROOM = {"type": "ext4", "size": 1 << 38, "free": 1 << 37, "inodes_free": 9999}


def of(strict: bool, *, transport: str = "sata", at: str = "/") -> dict[str, Any]:
    """The variables of a host with one disk, a file system of which is mounted there."""
    site = site_of("head", "gpu-1", base={"strict": strict})
    mounted = {"at": at, "source": "/dev/sda2", **ROOM}
    known = facts_of("gpu-1", disks=[{**DISK, "transport": transport}], filesystems=[mounted])
    return variables(RoleContext(profile_of(), site, site.host("gpu-1"), {}, {"gpu-1": known}))


def test_only_a_strict_site_keeps_modules_out_and_asks_for_more_of_the_kernel() -> None:
    loose, strict = of(strict=False), of(strict=True)
    assert loose["base_modules_off"] == []
    assert "usb-storage" in strict["base_modules_off"]
    more = set(strict["base_sysctl"]) - set(loose["base_sysctl"])
    assert "net.ipv4.conf.all.log_martians" in more
    assert strict["base_sysctl"]["net.ipv6.conf.all.accept_redirects"] == "0"


@pytest.mark.parametrize(("at", "kept_out"), [("/", False), ("/boot/efi", False), ("/mnt", True)])
def test_a_system_that_lies_on_a_stick_can_still_start(at: str, kept_out: bool) -> None:
    found = of(strict=True, transport="usb", at=at)["base_modules_off"]
    assert ("usb-storage" in found) is kept_out
    assert "cramfs" in found


@pytest.mark.parametrize(
    ("source", "kept_out"),
    [
        ("/dev/sdb1", True),
        ("/dev/nvme0n1p2", True),
        ("/dev/sda1", False),
        ("/dev/mapper/vg-root", False),
        ("/dev/md0", False),
        ("/dev/sdba1", False),
    ],
)
def test_beside_a_stick_a_system_that_may_lie_there_can_still_start(
    source: str, kept_out: bool
) -> None:
    others = [{**DISK, "name": name, "transport": "sata"} for name in ("sdb", "nvme0n1")]
    disks = [{**DISK, "transport": "usb"}, *others]
    mounted = {"at": "/", "source": source, **ROOM}
    known = facts_of("gpu-1", disks=disks, filesystems=[mounted])
    site = site_of("head", "gpu-1", base={"strict": True})
    found = variables(RoleContext(profile_of(), site, site.host("gpu-1"), {}, {"gpu-1": known}))
    assert ("usb-storage" in cast(list[str], found["base_modules_off"])) is kept_out


def test_a_host_nobody_has_asked_yet_has_its_strict_modules() -> None:
    site = site_of("head", "gpu-1", base={"strict": True})
    found = variables(RoleContext(profile_of(), site, site.host("gpu-1"), {}, {}))
    assert "usb-storage" in cast(list[str], found["base_modules_off"])


@pytest.mark.parametrize(
    ("networks", "bmcs", "closed"),
    [
        ({}, {}, []),
        ({"bmc": "10.0.8.0/24"}, {"gpu-1": "10.0.8.11"}, ["10.0.8.0/24"]),
        ({"bmc": "10.0.8.0/24"}, {}, ["10.0.8.0/24"]),
        ({}, {"gpu-1": "10.9.0.12", "head": "10.9.0.11"}, ["10.9.0.11", "10.9.0.12"]),
    ],
)
def test_the_firewall_knows_where_bmcs_are(
    networks: dict[str, str], bmcs: dict[str, str], closed: list[str]
) -> None:
    site = site_of("head", "gpu-1")
    hosts = tuple(
        host.model_copy(update={"bmc": BMC.model_copy(update={"address": IPv4Address(at)})})
        if (at := bmcs.get(host.name))
        else host
        for host in site.hosts
    )
    more = {name: Network(cidr=IPv4Network(cidr)) for name, cidr in networks.items()}
    found = site.model_copy(update={"hosts": hosts, "networks": {**site.networks, **more}})
    assert base.bmcs(found) == closed


def test_only_addresses_are_closed_where_hosts_and_bmcs_share_a_network() -> None:
    site = site_of("head", "gpu-1")
    shared = Network(cidr=IPv4Network(f"{site.hosts[0].address}/24", strict=False))
    bmc = BMC.model_copy(update={"address": site.hosts[0].address + 100})
    hosts = (site.hosts[0].model_copy(update={"bmc": bmc}), *site.hosts[1:])
    found = site.model_copy(update={"hosts": hosts, "networks": {**site.networks, "bmc": shared}})
    assert base.bmcs(found) == [str(bmc.address)]
