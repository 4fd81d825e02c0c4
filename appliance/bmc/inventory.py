"""A BMC's inventory as facts; what it does not report is a gap with a reason, never an error."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

from appliance.adapters.redfish import Controller, Document, Patience, Redfish
from appliance.bmc.chassis import adapters, chassis_of, fans_and_temperatures, power_supplies
from appliance.bmc.document import (
    LARGEST,
    condition,
    condition_of,
    distinct,
    is_absent,
    link,
    links,
    named_fields,
    objects,
    real,
    section,
    text,
    truth,
    whole,
)
from appliance.bmc.reader import Reader
from appliance.errors import ConnectionFailed
from appliance.models.bmc import (
    BiosValue,
    BmcArea,
    BmcDrive,
    BmcEvent,
    BmcFacts,
    BmcInterface,
    Device,
    DeviceKind,
    Machine,
    Module,
    Processor,
)
from appliance.text import one_line

EVENTS, LINKED_EVENTS = 200, 20
SETTINGS = 4000
"""Of BIOS settings; vendors have 100 to 1,500."""
EVENT_LOGS = ("sel", "iml", "eventlog", "platformlog", "log1")
"""Ids of the log of the machine itself: Dell, Lenovo and AMI Sel or SEL, HPE IML, OpenBMC EventLog, Supermicro Log1."""
BASEBOARD = "HGX_"
BESIDE = frozenset({"Virtual", "OS", "VirtuallyPartitioned", "DPU"})
"""Types of systems (SystemType of ComputerSystem) that are not physical machines."""
"""NVIDIA's BMCs show the GPU baseboard as a second system."""
NVIDIA, MELLANOX = "0x10de", "0x15b3"
GPU_CLASSES = frozenset({"DisplayController", "ProcessingAccelerators", "Coprocessor"})
STACKED = "HBM"


def inventory(known: Controller, patience: Patience | None = None) -> BmcFacts:
    """Reads the whole inventory of one BMC. Raises ApplianceError if it answers nothing at all."""
    started = time.monotonic()
    with Redfish(known, patience) as controller:
        root = controller.root()
        controller.log_in(root)
        facts = _read(Reader(controller), root, known.host)
        told = {
            "seconds": round(time.monotonic() - started, 2),
            "must_change_password": controller.must_change_password,
        }
    return facts.model_copy(update=told)


def main_system(reader: Reader, root: Document) -> tuple[Document, list[Document]]:
    """The machine, and boards that are shown next to it. Raises ConnectionFailed if there is no system, or more than one."""
    systems = list(_systems(reader, root))
    if not systems and reader.lost:
        raise reader.lost
    if not systems:
        why = reader.unread.get(BmcArea.SYSTEM, "it lists none")
        raise ConnectionFailed(f"its BMC shows no system: {why}", "restart the BMC, then try again")
    machines = [(name, one) for name, one in systems if not _is_beside(name, one)] or systems[:1]
    if len(machines) > 1:
        names = ", ".join(name for name, _ in machines)
        raise ConnectionFailed(
            f"its BMC shows {len(machines)} machines ({names}), but does not identify this host among them",
            "set hosts[].bmc.address to the BMC of this machine; a chassis manager manages all of them",
        )
    _, main = machines[0]
    return main, [system for _, system in systems if system is not main]


def _systems(reader: Reader, root: Document) -> Iterator[tuple[str, Document]]:
    """Readable systems, with the names they are listed by."""
    for item in reader.entries(BmcArea.SYSTEM, link(root, "Systems")):
        at = text(item, "@odata.id")
        if found := item if len(item) > 2 else reader.maybe(BmcArea.SYSTEM, at):
            yield at.rstrip("/").rpartition("/")[2], found


def _is_beside(name: str, system: Document) -> bool:
    """A board of GPUs, or something that runs on the machine: a hypervisor, a container."""
    return name.startswith(BASEBOARD) or text(system, "SystemType") in BESIDE


def _read(reader: Reader, root: Document, host: str) -> BmcFacts:
    system, boards = main_system(reader, root)
    chassis = chassis_of(reader, root, system)
    manager = manager_of(reader, root, system)
    found = BmcFacts(
        host=host,
        taken=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=0.0,
        redfish=text(root, "RedfishVersion"),
        controller=text(manager, "Model", "Name", "Id"),
        controller_firmware=text(manager, "FirmwareVersion"),
        machine=_machine(system),
        processors=distinct(_processors(reader, system)),
        modules=distinct(_modules(reader, system)),
        devices=distinct(_devices(reader, [system, *boards], chassis)),
        drives=distinct(_drives(reader, system)),
        interfaces=distinct(_interfaces(reader, system)),
        firmware=_firmware(reader, root),
        bios=bios_settings(_bios(reader, system)),
        supplies=distinct(power_supplies(reader, chassis)),
        sensors=distinct(fans_and_temperatures(reader, chassis)),
        events=tuple(_events(reader, system, manager)),
    )
    return found.model_copy(update={"unread": dict(reader.unread)})


def _machine(system: Document) -> Machine:
    return Machine(
        maker=text(system, "Manufacturer"),
        model=text(system, "Model"),
        # Dell's own number is the service tag, in SKU.
        serial=text(system, "SKU", "SerialNumber")
        if text(system, "Manufacturer").startswith("Dell")
        else text(system, "SerialNumber"),
        uuid=text(system, "UUID"),
        bios=text(system, "BiosVersion"),
        power=text(system, "PowerState"),
        condition=condition(system),
        processors=whole(section(system, "ProcessorSummary"), "Count"),
        memory_gib=real(section(system, "MemorySummary"), "TotalSystemMemoryGiB"),
    )


def manager_of(reader: Reader, root: Document, system: Document) -> Document:
    """The BMC itself, as one of its managers; empty if none is shown."""
    area = BmcArea.MANAGER
    at = links(section(system, "Links"), "ManagedBy")
    if at and (found := reader.maybe(area, at[0])):
        return found
    return next(reader.members(area, link(root, "Managers")), {})


def _processors(reader: Reader, system: Document) -> Iterator[Processor]:
    for item in reader.of(BmcArea.PROCESSORS, system, "Processors"):
        if text(item, "ProcessorType") in {"", "CPU"} and not is_absent(item):
            yield Processor(
                **named_fields(item),
                condition=condition(item),
                model=text(item, "Model"),
                cores=whole(item, "TotalCores", "TotalEnabledCores"),
            )


def _modules(reader: Reader, system: Document) -> Iterator[Module]:
    for item in reader.of(BmcArea.MEMORY, system, "Memory"):
        capacity = whole(item, "CapacityMiB")
        # Lenovo and AMI list empty slots with a size of 0 or null and no state.
        is_empty = is_absent(item) or (not capacity and not text(item, "SerialNumber"))
        if not is_empty and not text(item, "MemoryDeviceType").startswith(STACKED):
            yield Module(
                **named_fields(item, "DeviceLocator", "Name"),
                condition=condition(item),
                capacity_mib=capacity,
                maker=text(item, "Manufacturer"),
                part=text(item, "PartNumber"),
                serial=text(item, "SerialNumber"),
            )


def _devices(reader: Reader, systems: list[Document], chassis: list[Document]) -> Iterator[Device]:
    """GPUs as processors if the BMC lists them so, else as PCIe devices; HCAs and other devices in addition."""
    gpus = [g for system in systems for g in _gpus(reader, system)]
    yield from gpus
    hcas = list(adapters(reader, chassis))
    yield from hcas
    listed_here = list(_pcie(reader, systems, chassis))
    if not (gpus or hcas or listed_here):
        reader.note(BmcArea.DEVICES, "no PCIe devices are listed")
    for item in listed_here:
        device = _pcie_device(reader, item)
        listed = {DeviceKind.GPU: gpus, DeviceKind.HCA: hcas}.get(device.kind)
        if not listed:
            yield device


def _gpus(reader: Reader, system: Document) -> Iterator[Device]:
    at = link(system, "Processors")
    for item in reader.members(BmcArea.DEVICES, at) if at else ():
        if text(item, "ProcessorType") == "GPU" and not is_absent(item):
            yield Device(
                **named_fields(item),
                condition=condition(item),
                kind=DeviceKind.GPU,
                model=text(item, "Model", "Name"),
                serial=text(item, "SerialNumber"),
                firmware=text(item, "FirmwareVersion"),
                lanes=whole(section(item, "SystemInterface", "PCIe"), "LanesInUse"),
            )


def _pcie(reader: Reader, systems: list[Document], chassis: list[Document]) -> Iterator[Document]:
    area = BmcArea.DEVICES
    seen: set[str] = set()
    for owner in (*systems, *chassis):
        listed = owner.get("PCIeDevices")
        found = (
            reader.linked(area, owner, "PCIeDevices")
            if isinstance(listed, list)
            else reader.of(area, owner, "PCIeDevices")
            if listed
            else ()
        )
        for item in found:
            at = text(item, "@odata.id")
            if at not in seen and not is_absent(item):
                seen.add(at)
                yield item


def _pcie_device(reader: Reader, item: Document) -> Device:
    return Device(
        **named_fields(item),
        condition=condition(item),
        kind=_kind(reader, item),
        model=text(item, "Model", "Name"),
        serial=text(item, "SerialNumber"),
        firmware=text(item, "FirmwareVersion"),
        lanes=whole(section(item, "PCIeInterface"), "LanesInUse"),
    )


def _kind(reader: Reader, item: Document) -> DeviceKind:
    function = next(_functions(reader, item), {})
    vendor, of_class = text(function, "VendorId").lower(), text(function, "DeviceClass")
    if vendor == NVIDIA and of_class in GPU_CLASSES:
        return DeviceKind.GPU
    return DeviceKind.HCA if vendor == MELLANOX and "Network" in of_class else DeviceKind.OTHER


def _functions(reader: Reader, item: Document) -> Iterator[Document]:
    """From a collection, or from links as before schema 1.4 of PCIeDevice."""
    area = BmcArea.DEVICES
    if at := link(item, "PCIeFunctions"):
        yield from reader.members(area, at)
    else:
        yield from reader.linked(area, section(item, "Links"), "PCIeFunctions")


def _drives(reader: Reader, system: Document) -> Iterator[BmcDrive]:
    area = BmcArea.DRIVES
    if link(system, "Storage"):
        for storage in reader.of(area, system, "Storage"):
            yield from (
                _drive(d) for d in reader.linked(area, storage, "Drives") if not is_absent(d)
            )
        return
    for storage in reader.of(area, system, "SimpleStorage"):
        yield from (_drive(d) for d in objects(storage, "Devices") if not is_absent(d))


def _drive(item: Document) -> BmcDrive:
    return BmcDrive(
        **named_fields(item),
        condition=condition(item),
        model=text(item, "Model"),
        serial=text(item, "SerialNumber"),
        capacity=whole(item, "CapacityBytes"),
        failing=truth(item, "FailurePredicted"),
    )


def _interfaces(reader: Reader, system: Document) -> Iterator[BmcInterface]:
    for item in reader.of(BmcArea.INTERFACES, system, "EthernetInterfaces"):
        if not is_absent(item):
            yield BmcInterface(
                **named_fields(item),
                condition=condition(item),
                mac=text(item, "PermanentMACAddress", "MACAddress").lower().replace("-", ":"),
                speed=whole(item, "SpeedMbps"),
            )


def _firmware(reader: Reader, root: Document) -> dict[str, str]:
    """Installed firmware; vendors also list the version kept for a rollback (Dell's Previous-...)."""
    area = BmcArea.FIRMWARE
    at = link(root, "UpdateService")
    if not at:
        reader.note(area, "the BMC has no UpdateService")
        return {}
    found: dict[str, str] = {}
    for item in reader.of(area, reader.maybe(area, at), "FirmwareInventory"):
        name, version = named_fields(item)["name"], text(item, "Version")
        if version and not text(item, "Id").startswith("Previous"):
            found.setdefault(name, version)
    return found


def _bios(reader: Reader, system: Document) -> Document:
    area = BmcArea.BIOS
    at = link(system, "Bios")
    if not at:
        reader.note(area, "the BMC shows no BIOS settings")
        return {}
    found = reader.maybe(area, at)
    if found and not bios_settings(found):
        reader.note(area, f"{at} lists no settings")
    return found


def bios_settings(bios: Document) -> dict[str, BiosValue]:
    """Settings with a value; null means that the BMC does not report it.

    Passwords must be null (Bios schema). A password with a value is neither reported nor compared.
    """
    found: dict[str, BiosValue] = {}
    for name, value in islice(section(bios, "Attributes").items(), SETTINGS):
        if "password" in name.lower():
            continue
        if isinstance(value, bool | str) or (
            isinstance(value, int | float) and abs(value) <= LARGEST
        ):
            found[one_line(name)] = one_line(value) if isinstance(value, str) else value
    return found


def _events(reader: Reader, system: Document, manager: Document) -> Iterator[BmcEvent]:
    area = BmcArea.EVENTS
    owners = [d for d in (system, manager) if link(d, "LogServices")]
    if not owners:
        reader.note(area, "the BMC has no event log")
    for owner in owners:
        for log in reader.of(area, owner, "LogServices"):
            if text(log, "Id").lower() in EVENT_LOGS:
                yield from _entries(reader, link(log, "Entries"))
                return


def _entries(reader: Reader, at: str) -> Iterator[BmcEvent]:
    """The last entries; fewer from a log that lists links, because each needs a request."""
    area = BmcArea.EVENTS
    listed = list(reader.entries(area, at))[-EVENTS:]
    for item in listed:
        if len(item) == 1:
            if len(listed) - listed.index(item) > LINKED_EVENTS:
                continue
            item = reader.maybe(area, text(item, "@odata.id"))
        if item:
            yield BmcEvent(
                created=text(item, "Created"),
                severity=condition_of(text(item, "Severity")),
                message=text(item, "Message", "MessageId"),
                resolved=truth(item, "Resolved") or False,
            )
