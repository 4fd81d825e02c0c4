"""A BMC's inventory of its machine over Redfish; available also while the machine is off.

Names of fields follow the schemas of DMTF (DSP8010). Vendors omit fields freely: None means "not reported", and an area
of ``unread`` is known partly or not at all.
"""

from enum import StrEnum

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import Count, Line, Real


class BmcArea(StrEnum):
    """A part of the inventory that is read separately."""

    SYSTEM = "system"
    MANAGER = "manager"
    PROCESSORS = "processors"
    MEMORY = "memory"
    DEVICES = "devices"
    DRIVES = "drives"
    INTERFACES = "interfaces"
    FIRMWARE = "firmware"
    BIOS = "bios"
    SUPPLIES = "supplies"
    SENSORS = "sensors"
    EVENTS = "events"


class Condition(StrEnum):
    """Status.Health of a part (Redfish Resource); UNKNOWN: not reported."""

    OK = "OK"
    WARNING = "Warning"
    CRITICAL = "Critical"
    UNKNOWN = ""


class DeviceKind(StrEnum):
    """The function of a PCIe device."""

    GPU = "gpu"
    HCA = "hca"
    OTHER = "other"


class Part(Model):
    """A named part with a health state; ``id``: distinguishes it from similar parts."""

    name: Line
    id: Line = ""
    condition: Condition = Condition.UNKNOWN


class Processor(Part):
    """A populated socket."""

    model: Line = ""
    cores: Count | None = None


class Module(Part):
    """A populated memory slot; MiB."""

    capacity_mib: Count | None = None
    maker: Line = ""
    part: Line = ""
    serial: Line = ""


class Device(Part):
    """A GPU, an HCA, or another PCIe device; ``lanes`` in use."""

    kind: DeviceKind = DeviceKind.OTHER
    model: Line = ""
    serial: Line = ""
    firmware: Line = ""
    lanes: Count | None = None


class BmcDrive(Part):
    """A local drive; bytes. ``failing``: it predicts its own failure."""

    model: Line = ""
    serial: Line = ""
    capacity: Count | None = None
    failing: bool | None = None


class BmcInterface(Part):
    """A network port of the machine, not of the BMC; Mb/s."""

    mac: Line = ""
    speed: Count | None = None


class Supply(Part):
    """A power supply; ``present``: whether its bay contains one."""

    present: bool | None = None
    model: Line = ""
    serial: Line = ""


class Sensor(Part):
    """A fan or a temperature."""

    reading: Real | None = None
    unit: Line = ""


class BmcEvent(Model):
    """An entry of the machine's event log. ``created`` by the BMC's clock."""

    created: Line = ""
    severity: Condition = Condition.UNKNOWN
    message: Line = ""
    resolved: bool = False


class Machine(Model):
    """The system itself."""

    maker: Line = ""
    model: Line = ""
    serial: Line = ""
    uuid: Line = ""
    bios: Line = ""
    power: Line = Field(default="", description="On, Off, PoweringOn, PoweringOff or empty")
    condition: Condition = Condition.UNKNOWN
    processors: Count | None = Field(default=None, description="ProcessorSummary.Count")
    memory_gib: Real | None = Field(default=None, description="MemorySummary.TotalSystemMemoryGiB")


BiosValue = bool | int | float | Line


class BmcFacts(Model):
    """One BMC's inventory. ``unread``: area -> why it is unknown or incomplete."""

    host: Line
    taken: Line
    seconds: Real
    redfish: Line = ""
    controller: Line = ""
    controller_firmware: Line = ""
    machine: Machine = Machine()
    processors: tuple[Processor, ...] = ()
    modules: tuple[Module, ...] = ()
    devices: tuple[Device, ...] = ()
    drives: tuple[BmcDrive, ...] = ()
    interfaces: tuple[BmcInterface, ...] = ()
    firmware: dict[Line, Line] = Field(default_factory=dict, description="Component -> version")
    bios: dict[Line, BiosValue] = Field(default_factory=dict, description="BIOS setting -> value")
    supplies: tuple[Supply, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    events: tuple[BmcEvent, ...] = ()
    must_change_password: bool = False
    default_password: bool = Field(default=False, description="It is a vendor's default")
    unread: dict[Line, Line] = Field(default_factory=dict)

    def of_kind(self, kind: DeviceKind) -> tuple[Device, ...]:
        """The devices of one kind."""
        return tuple(device for device in self.devices if device.kind is kind)
