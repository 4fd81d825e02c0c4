"""Parts of the chassis: adapters, power supplies, fans and temperatures."""

from collections.abc import Iterator

from appliance.adapters.redfish import Document
from appliance.bmc.document import (
    condition,
    is_absent,
    link,
    named_fields,
    objects,
    real,
    section,
    text,
)
from appliance.bmc.reader import Reader
from appliance.models.bmc import BmcArea, Device, DeviceKind, Sensor, Supply

MELLANOX = ("mellanox", "nvidia")
PRODUCTS = ("ConnectX", "InfiniBand", "MCX")


def chassis_of(reader: Reader, root: Document, system: Document) -> list[Document]:
    """The chassis of a system, else all that the BMC shows."""
    area = BmcArea.SENSORS
    found = list(reader.linked(area, section(system, "Links"), "Chassis"))
    return found or list(reader.members(area, link(root, "Chassis")))


def adapters(reader: Reader, chassis: list[Document]) -> Iterator[Device]:
    """HCAs by their vendor; other network adapters are not part of the fabric."""
    area = BmcArea.DEVICES
    for case in chassis:
        at = link(case, "NetworkAdapters")
        for item in reader.members(area, at) if at else ():
            if _is_hca(item) and not is_absent(item):
                control = next(objects(item, "Controllers"), {})
                yield Device(
                    **named_fields(item),
                    condition=condition(item),
                    kind=DeviceKind.HCA,
                    model=text(item, "Model", "PartNumber"),
                    serial=text(item, "SerialNumber"),
                    firmware=text(control, "FirmwarePackageVersion"),
                )


def _is_hca(item: Document) -> bool:
    """By its vendor, or without one by its product name."""
    maker, product = (
        text(item, "Manufacturer").lower(),
        f"{text(item, 'Name')} {text(item, 'Model')}",
    )
    return maker.startswith(MELLANOX) or (not maker and any(p in product for p in PRODUCTS))


def power_supplies(reader: Reader, chassis: list[Document]) -> Iterator[Supply]:
    """From PowerSubsystem if the BMC has it, else from Power, which it replaces (schema 2020.4)."""
    area = BmcArea.SUPPLIES
    seen: set[str] = set()
    for item in _parts(reader, area, chassis, "PowerSubsystem", "PowerSupplies", "Power"):
        at = text(item, "@odata.id")
        if at and at in seen:
            continue
        seen.add(at)
        state = text(section(item, "Status"), "State")
        yield Supply(
            **named_fields(item),
            condition=condition(item),
            present=not is_absent(item) if state else None,
            model=text(item, "Model"),
            serial=text(item, "SerialNumber"),
        )


def fans_and_temperatures(reader: Reader, chassis: list[Document]) -> Iterator[Sensor]:
    """Fans and temperatures; not the hundreds of single sensors, each of which needs a request."""
    area = BmcArea.SENSORS
    for item in _parts(reader, area, chassis, "ThermalSubsystem", "Fans", "Thermal"):
        if not is_absent(item):
            yield Sensor(
                **named_fields(item, "Name", "FanName"),
                condition=condition(item),
                reading=real({**section(item, "SpeedPercent"), **item}, "Reading"),
                unit=text(item, "ReadingUnits"),
            )
    for case in chassis:
        if at := link(case, "Thermal"):
            for item in objects(reader.maybe(area, at), "Temperatures"):
                if not is_absent(item):
                    yield Sensor(
                        **named_fields(item),
                        condition=condition(item),
                        reading=real(item, "ReadingCelsius"),
                        unit="Cel",
                    )


def _parts(
    reader: Reader, area: BmcArea, chassis: list[Document], subsystem: str, key: str, before: str
) -> Iterator[Document]:
    """Parts in the new form, else in the old one, from every chassis; none at all is a gap."""
    found = False
    for case in chassis:
        if at := link(case, subsystem):
            parts = reader.of(area, reader.maybe(area, at), key)
        elif at := link(case, before):
            parts = objects(reader.maybe(area, at), key)
        else:
            continue
        for item in parts:
            found = True
            yield item
    if not found:
        reader.note(area, f"no {key} are listed")
