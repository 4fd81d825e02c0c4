"""RDMA ports as sysfs shows them, and the fabric as it is discovered from a host."""

from pydantic import Field

from appliance.models.base import Model


class RoceState(Model):
    """What makes an Ethernet port lossless, as it is set now; None: not shown or not read."""

    interface: str
    mtu: int | None = None
    pfc: tuple[int, ...] | None = Field(default=None, description="Priorities that are paused")
    dscp: dict[str, int] | None = Field(default=None, description="Priority by DSCP")
    tos: int | None = Field(default=None, description="Of the connection manager's connections")
    traffic_class: int | None = Field(default=None, description="Of all others; few drivers")
    ecn: tuple[int, ...] | None = Field(
        default=None, description="Priorities with both halves of it on; few drivers"
    )


class Port(Model):
    """One port of an RDMA device from sysfs; rate in Gb/s, counters as the kernel names them."""

    device: str
    port: int
    state: str
    physical: str
    rate: float
    link_layer: str
    lid: int | None = None
    sm_lid: int | None = None
    guid: str = ""
    firmware: str = ""
    board: str = ""
    numa_node: int | None = None
    pci_path: tuple[str, ...] = Field(default=(), description="Bridges to its adapter, as a GPU's")
    pkeys: tuple[int, ...] | None = Field(
        default=None, description="Partitions, with the membership bit; None: not read"
    )
    roce: RoceState | None = Field(default=None, description="Where the stage sets it up")
    counters: dict[str, int] = Field(default_factory=dict)


class SubnetManager(Model):
    """The subnet manager as asked through MADs from this host; ``guid`` of the master."""

    state: str
    guid: str = ""
    priority: int | None = None


class FabricNode(Model):
    """An end of the fabric found by discovery."""

    guid: str
    description: str
    ports: int


class Link(Model):
    """A cable as discovered: node description and port at both ends, width and speed ("4x", "HDR")."""

    node: str
    port: int
    peer: str
    peer_port: int
    width: str = ""
    speed: str = ""


class Topology(Model):
    """What ibnetdiscover sees from this host."""

    hcas: tuple[FabricNode, ...] = ()
    switches: tuple[FabricNode, ...] = ()
    links: tuple[Link, ...] = ()
