"""A controller's inventory as facts; what it does not say is a gap with its reason, never an error."""

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
    named,
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
"""Of BIOS; makers have 100 to 1,500."""
EVENT_LOGS = ("sel", "iml", "eventlog", "platformlog", "log1")
"""Ids of the log of the machine itself: Dell, Lenovo and AMI Sel or SEL, HPE IML, OpenBMC EventLog, Supermicro Log1."""
BASEBOARD = "HGX_"
"""NVIDIA's controllers show the GPU baseboard as a second system."""
NVIDIA, MELLANOX = "0x10de", "0x15b3"
GPU_CLASSES = frozenset({"DisplayController", "ProcessingAccelerators", "Coprocessor"})
STACKED = "HBM"


def inventory(known: Controller, patience: Patience | None = None) -> BmcFacts:
    """Asks one controller for all there is. Raises ApplianceError where it answers nothing at all."""
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
    """The machine, and boards that are shown beside it. Raises ConnectionFailed where there is no system."""
    systems = list(reader.members(BmcArea.SYSTEM, link(root, "Systems")))
    if not systems and reader.lost:
        raise reader.lost
    if not systems:
        why = reader.unread.get(BmcArea.SYSTEM, "it lists none")
        raise ConnectionFailed(
            f"its controller shows no system: {why}", "restart the controller, then try again"
        )
    main = min(systems, key=_is_beside)
    return main, [system for system in systems if system is not main]


def _is_beside(system: Document) -> bool:
    return text(system, "Id").startswith(BASEBOARD)


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
        # Dell's own number is the service tag, which stands in SKU.
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
    """The controller itself, as one of its managers; empty where none is shown."""
    area = BmcArea.MANAGER
    at = links(section(system, "Links"), "ManagedBy")
    if at and (found := reader.maybe(area, at[0])):
        return found
    return next(reader.members(area, link(root, "Managers")), {})


def _processors(reader: Reader, system: Document) -> Iterator[Processor]:
    for item in reader.of(BmcArea.PROCESSORS, system, "Processors"):
        if text(item, "ProcessorType") in {"", "CPU"} and not is_absent(item):
            yield Processor(
                **named(item),
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
                **named(item, "DeviceLocator", "Name"),
                condition=condition(item),
                capacity_mib=capacity,
                maker=text(item, "Manufacturer"),
                part=text(item, "PartNumber"),
                serial=text(item, "SerialNumber"),
            )


def _devices(reader: Reader, systems: list[Document], chassis: list[Document]) -> Iterator[Device]:
    """GPUs as processors where the controller lists them so, else as PCIe devices; HCAs and the rest beside them."""
    gpus = [g for system in systems for g in _gpus(reader, system)]
    yield from gpus
    hcas = list(adapters(reader, chassis))
    yield from hcas
    listed_here = list(_pcie(reader, systems, chassis))
    if not (gpus or hcas or listed_here):
        reader.note(BmcArea.DEVICES, "no PCIe device is listed")
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
                **named(item),
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
        **named(item),
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
    """By a collection, or by links as before schema 1.4 of PCIeDevice."""
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
        **named(item),
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
                **named(item),
                condition=condition(item),
                mac=text(item, "PermanentMACAddress", "MACAddress").lower().replace("-", ":"),
                speed=whole(item, "SpeedMbps"),
            )


def _firmware(reader: Reader, root: Document) -> dict[str, str]:
    """What is installed; makers list the version kept for going back beside it (Dell's Previous-...)."""
    area = BmcArea.FIRMWARE
    at = link(root, "UpdateService")
    if not at:
        reader.note(area, "the controller has no UpdateService")
        return {}
    found: dict[str, str] = {}
    for item in reader.of(area, reader.maybe(area, at), "FirmwareInventory"):
        name, version = named(item)["name"], text(item, "Version")
        if version and not text(item, "Id").startswith("Previous"):
            found.setdefault(name, version)
    return found


def _bios(reader: Reader, system: Document) -> Document:
    area = BmcArea.BIOS
    at = link(system, "Bios")
    if not at:
        reader.note(area, "the controller shows no BIOS settings")
        return {}
    found = reader.maybe(area, at)
    if found and not bios_settings(found):
        reader.note(area, f"{at} names no setting")
    return found


def bios_settings(bios: Document) -> dict[str, BiosValue]:
    """Settings with a value; of one that is null the controller does not say it.

    A password shall be null (Bios schema). One that is not belongs into no report, and is not compared.
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
        reader.note(area, "the controller has no event log")
    for owner in owners:
        for log in reader.of(area, owner, "LogServices"):
            if text(log, "Id").lower() in EVENT_LOGS:
                yield from _entries(reader, link(log, "Entries"))
                return


def _entries(reader: Reader, at: str) -> Iterator[BmcEvent]:
    """The last ones; of a log that lists links fewer, for each is a question of its own."""
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
