"""The site's section ``fabric``: its manager, cabling, partitions, and IP."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.models.base import Model
from appliance.models.text_types import (
    Few,
    Fingerprint,
    HostName,
    KeyFile,
    Many,
    MirrorUrl,
    NetworkName,
    PerCable,
    PerHost,
    Switch,
)

ADAPTER = r"^[a-z][a-z0-9_]{0,63}$"
FIRMWARE = r"^[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,5}$"
PARTITION_NAME = r"^[A-Za-z][A-Za-z0-9_-]{0,31}$"
DEFAULT_PARTITION = "Default"
FULL_MEMBER = 0x8000
"""The highest bit of a PKey: full members reach all members, limited members only full ones (IB specification 10.9)."""


class Cable(Model):
    """The cable of one adapter of a GPU host: its switch and port."""

    host: HostName = Field(description="A GPU host of this site")
    hca: str = Field(pattern=ADAPTER, description="Its adapter, such as mlx5_0")
    switch: Switch = Field(description="The switch, by its name in the fabric or GUID")
    port: int = Field(ge=1, le=254, description="Port of the switch")


class Trunk(Model):
    """The cables between two switches."""

    switch: Switch = Field(description="One switch, by its name in the fabric or GUID")
    peer: Switch = Field(description="The other switch")
    cables: int = Field(default=1, ge=1, le=254, description="Number of cables between them")


class FabricPartition(Model):
    """A partition in addition to the default one; its key is written without the membership bit."""

    name: str = Field(pattern=PARTITION_NAME, description="Unique name")
    pkey: int = Field(ge=1, le=0x7FFE, description="Its key, 1 to 32766")
    hosts: PerHost[HostName] = Field(min_length=1, description="Members, with all their ports")
    membership: Literal["full", "limited"] = Field(
        default="full", description="limited: members reach full members, but not each other"
    )


class Ipoib(Model):
    """IP over InfiniBand on one port of every host that has an address in its network."""

    network: NetworkName = Field(description="Its network; addresses are in hosts[].addresses")
    device: str = Field(default="mlx5_0", pattern=ADAPTER, description="Adapter to use")
    mode: Literal["datagram", "connected"] = Field(
        default="datagram", description="connected allows an MTU of up to 65520"
    )
    partition: Annotated[str, Field(pattern=PARTITION_NAME)] | None = Field(
        default=None, description="A partition of fabric.partitions; default: the default partition"
    )


class Roce(Model):
    """RDMA over Ethernet on the GPU hosts: the lossless traffic class and its marks."""

    priority: int = Field(default=3, ge=0, le=7, description="Lossless priority (PFC)")
    dscp: int = Field(
        default=26,
        ge=0,
        le=63,
        description="DSCP of RDMA packets; the traffic class is four times this value",
    )
    ecn: bool = Field(default=True, description="Congestion control by marked packets (DCQCN)")
    mtu: int | None = Field(
        default=None,
        ge=1280,
        le=9216,
        description="Bytes, for the ports' interfaces; default: unchanged",
    )
    devices: Few[Annotated[str, Field(pattern=ADAPTER)]] = Field(
        default=(), description="Adapters to configure; default: all with Ethernet ports"
    )

    @property
    def traffic_class(self) -> int:
        """The byte of the IP header: DSCP is its upper six bits, the adapter sets the lower two."""
        return self.dscp << 2


class FabricOptions(Model):
    """Stage fabric. The subnet manager runs on the control hosts unless a switch or UFM does it."""

    driver: Literal["inbox", "doca"] = Field(
        default="inbox",
        description="Driver of the adapters: the kernel's own, or DOCA-OFED in release software.doca_ofed",
    )
    subnet_manager: Literal["opensm", "external", "none"] = Field(
        default="opensm", description="opensm on the control hosts, or external: a switch or UFM"
    )
    standby: Few[HostName] = Field(
        default=(),
        description="Hosts, other than control hosts, that take over the subnet manager, in this order",
    )
    partitions: Many[FabricPartition] = Field(
        default=(), description="In addition to the default partition, which contains every port"
    )
    ipoib: Ipoib | None = Field(default=None, description="IP over InfiniBand")
    roce: Roce | None = Field(default=None, description="Lossless Ethernet on the hosts")
    firmware_minimum: Few[Annotated[str, Field(pattern=FIRMWARE)]] = Field(
        default=(),
        description="Minimum firmware of adapters, such as 20.43.8002: the first number identifies "
        "the adapter type; default: from NVIDIA's security bulletins",
    )
    cabling: Literal["unstated", "rail-optimised", "listed"] = Field(
        default="unstated",
        description="Cabling scheme: adapters of one name on one leaf, or as listed in cables",
    )
    cables: PerCable[Cable] = Field(default=(), description="Every cable, with cabling: listed")
    trunks: PerCable[Trunk] = Field(
        default=(), description="Cables between switches; default: every leaf has the same number"
    )


class DocaRepository(Model):
    """The source of DOCA-OFED. NVIDIA publishes no fingerprint of its key that could be built in."""

    mirror: MirrorUrl = Field(
        description="DOCA's repository of the release for the hosts' system, or a mirror of it"
    )
    key: KeyFile = Field(
        default="GPG-KEY-Mellanox.pub", description="File of the signing key in the mirror"
    )
    fingerprint: Fingerprint = Field(
        description="Fingerprint of the signing key, 40 hexadecimal digits: gpg --show-keys FILE"
    )


WORDS = {
    FIRMWARE: ("a firmware version of an adapter", "as 20.43.8002"),
    ADAPTER: ("an adapter's name", "such as mlx5_0"),
    PARTITION_NAME: ("a partition's name", 'letters, digits, "_" and "-", such as storage'),
}
"""For each pattern, the kind of text and an example."""
