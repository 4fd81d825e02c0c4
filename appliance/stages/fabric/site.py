"""The site's section ``fabric``: who manages it, how it is cabled, who may speak with whom, and IP on it."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.models.base import Model
from appliance.models.texts import (
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
"""The highest bit of a PKey: full members speak with all, limited ones with full ones only (IB specification 10.9)."""


class Cable(Model):
    """The cable of one adapter of a GPU host: into which port of which switch it belongs."""

    host: HostName = Field(description="A GPU host of this site")
    hca: str = Field(pattern=ADAPTER, description="Its adapter, as mlx5_0")
    switch: Switch = Field(description="The switch, by its name in the fabric or GUID")
    port: int = Field(ge=1, le=254, description="Port of the switch")


class Trunk(Model):
    """The cables between two switches."""

    switch: Switch = Field(description="One switch, by its name in the fabric or GUID")
    peer: Switch = Field(description="The other")
    cables: int = Field(default=1, ge=1, le=254, description="How many connect them")


class FabricPartition(Model):
    """A partition besides the default one; its key is written with the membership bit left out."""

    name: str = Field(pattern=PARTITION_NAME, description="A name of its own")
    pkey: int = Field(ge=1, le=0x7FFE, description="Its key, 1 to 32766")
    hosts: PerHost[HostName] = Field(min_length=1, description="Members, with all their ports")
    membership: Literal["full", "limited"] = Field(
        default="full", description="limited: members reach full ones, not each other"
    )


class Ipoib(Model):
    """IP over InfiniBand on one port of every host that has an address in its network."""

    network: NetworkName = Field(description="The network its addresses are in; hosts[].addresses")
    device: str = Field(default="mlx5_0", pattern=ADAPTER, description="Adapter that carries it")
    mode: Literal["datagram", "connected"] = Field(
        default="datagram", description="connected allows an MTU of up to 65520"
    )
    partition: Annotated[str, Field(pattern=PARTITION_NAME)] | None = Field(
        default=None, description="A partition of fabric.partitions; without: the default one"
    )


class Roce(Model):
    """RDMA over Ethernet on the GPU hosts: the class of traffic that is lossless, and its marks."""

    priority: int = Field(default=3, ge=0, le=7, description="The priority that is paused (PFC)")
    dscp: int = Field(
        default=26,
        ge=0,
        le=63,
        description="Marks RDMA packets; the traffic class is four times it",
    )
    ecn: bool = Field(default=True, description="Adapters slow down on marked packets (DCQCN)")
    mtu: int | None = Field(
        default=None,
        ge=1280,
        le=9216,
        description="Bytes, of the ports' interfaces; without: left alone",
    )
    devices: Few[Annotated[str, Field(pattern=ADAPTER)]] = Field(
        default=(), description="Adapters concerned; empty: all with Ethernet ports"
    )

    @property
    def traffic_class(self) -> int:
        """The byte of the IP header: DSCP is its upper six bits, the adapter sets the lower two."""
        return self.dscp << 2


class FabricOptions(Model):
    """Stage fabric. The subnet manager runs on the control hosts unless a switch or UFM does it."""

    driver: Literal["inbox", "doca"] = Field(
        default="inbox",
        description="Of the adapters: the kernel's own, or DOCA-OFED in release software.doca_ofed",
    )
    subnet_manager: Literal["opensm", "external", "none"] = Field(
        default="opensm", description="opensm on the control hosts, or external: a switch or UFM"
    )
    standby: Few[HostName] = Field(
        default=(),
        description="Hosts that are no control hosts and take over the subnet, in this order",
    )
    partitions: Many[FabricPartition] = Field(
        default=(), description="Besides the default one, which holds every port"
    )
    ipoib: Ipoib | None = Field(default=None, description="IP over InfiniBand")
    roce: Roce | None = Field(default=None, description="Lossless Ethernet on the host's side")
    firmware_minimum: Few[Annotated[str, Field(pattern=FIRMWARE)]] = Field(
        default=(),
        description="Firmware adapters must have at least, as 20.43.8002: the first number names "
        "their kind; of others NVIDIA's security bulletins",
    )
    cabling: Literal["unstated", "rail-optimised", "listed"] = Field(
        default="unstated",
        description="How it is cabled: adapters of one name on one leaf, or as in cables",
    )
    cables: PerCable[Cable] = Field(default=(), description="Every cable, where it is listed")
    trunks: PerCable[Trunk] = Field(
        default=(), description="Between switches; empty: every leaf has as many as the others"
    )


class DocaRepository(Model):
    """Where DOCA-OFED comes from. NVIDIA publishes no fingerprint of its key that could be known here."""

    mirror: MirrorUrl = Field(
        description="DOCA's repository of the release for the hosts' system, or a mirror of it"
    )
    key: KeyFile = Field(
        default="GPG-KEY-Mellanox.pub", description="File of the signing key in the mirror"
    )
    fingerprint: Fingerprint = Field(
        description="Of the signing key, 40 hexadecimal digits: gpg --show-keys FILE"
    )


WORDS = {
    FIRMWARE: ("a version of an adapter's firmware", "as 20.43.8002"),
    ADAPTER: ("an adapter's name", "as mlx5_0"),
    PARTITION_NAME: ("a partition's name", 'letters, digits, "_" and "-", as storage'),
}
"""What a text of each pattern is, and how to write one."""
