"""RDMA ports as sysfs shows them, and the fabric as it is discovered from a host."""

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import (
    BusId,
    Count,
    DeviceName,
    Guid,
    InterfaceName,
    Line,
    Number,
    Real,
)


class RoceState(Model):
    """What makes an Ethernet port lossless, as it is set now; None: not shown or not read."""

    interface: InterfaceName
    mtu: Count | None = None
    pfc: tuple[Number, ...] | None = Field(default=None, description="Priorities that are paused")
    dscp: dict[Line, Number] | None = Field(default=None, description="Priority by DSCP")
    tos: Number | None = Field(
        default=None, description="DSCP of the connection manager's connections"
    )
    traffic_class: Number | None = Field(
        default=None, description="DSCP of all other traffic; few drivers"
    )
    ecn: tuple[Number, ...] | None = Field(
        default=None, description="Priorities with both halves of it on; few drivers"
    )


class Port(Model):
    """One port of an RDMA device from sysfs; rate in Gb/s, counters as the kernel names them."""

    device: DeviceName
    port: Count
    state: Line
    physical: Line
    rate: Real
    link_layer: Line
    guid: Guid = ""
    firmware: Line = ""
    board: Line = ""
    numa_node: Number | None = None
    pci_path: tuple[BusId, ...] = Field(
        default=(), description="PCIe bridges to its adapter, like those of a GPU"
    )
    pcie_width: Number | None = Field(default=None, description="Lanes of its adapter's link")
    pcie_max_width: Number | None = None
    pcie_speed: Real | None = Field(default=None, description="GT/s")
    pcie_max_speed: Real | None = None
    pkeys: tuple[Number, ...] | None = Field(
        default=None, description="Partitions, with the membership bit; None: not read"
    )
    roce: RoceState | None = Field(
        default=None, description="RoCE settings, if the stage configures the port"
    )
    counters: dict[Line, Number] = Field(default_factory=dict)


class SubnetManager(Model):
    """The subnet manager, queried through MADs from this host; ``guid`` of the master."""

    state: Line
    guid: Guid = ""
    priority: Number | None = None


class FabricNode(Model):
    """An end of the fabric found by discovery."""

    guid: Guid
    description: Line
    ports: Count


class Link(Model):
    """A cable as discovered: node description and port at both ends, width and speed ("4x", "HDR")."""

    node: Line
    port: Count
    peer: Line
    peer_port: Count
    width: Line = ""
    speed: Line = ""


class Topology(Model):
    """What ibnetdiscover sees from this host."""

    hcas: tuple[FabricNode, ...] = ()
    switches: tuple[FabricNode, ...] = ()
    links: tuple[Link, ...] = ()
