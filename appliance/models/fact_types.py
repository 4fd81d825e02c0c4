"""What a fact may be. A host says what it likes: what others are configured with is refused unless it looks as it must.

What is only shown is a ``Line``, which is cleaned instead: a serial number with odd bytes costs no host.
"""

from datetime import datetime
from ipaddress import IPv4Network
from sys import intern
from typing import Annotated

from pydantic import AfterValidator, Field

from appliance.models.line import Line

__all__ = [
    "BusId",
    "Count",
    "DeviceFile",
    "DeviceName",
    "GpuUuid",
    "Guid",
    "InterfaceName",
    "Line",
    "MigProfile",
    "Moment",
    "NodeName",
    "Number",
    "PackageName",
    "PackageVersion",
    "Real",
    "Route",
    "Stamp",
    "StateText",
    "SysctlKey",
    "UnitName",
]


def _said_by_all(text: str) -> str:
    """A name that most hosts say lies in memory once."""
    return intern(str(text))


GpuUuid = Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9/-]{0,79})?$")]
"""GPU-5c89d2e8-..., MIG-5c89d2e8-..., MIG-GPU-5c89d2e8-.../7/0 of older drivers; empty where NVML gives none."""
BusId = Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9:._-]{0,63})?$")]
"""00000000:07:00.0, pci0000:00; empty where it is not known."""
Guid = Annotated[str, Field(pattern=r"^((0x)?[0-9A-Fa-f][0-9A-Fa-f:]{0,39})?$")]
"""0x0c42a10300010001, 0c42:a103:0001:0001; empty where it is not known."""
MigProfile = Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+_-]{0,31}$")]
"""3g.40gb, 1g.10gb+me, 1c.2g.20gb, 1g.24gb+me.all."""
DeviceFile = Annotated[str, Field(pattern=r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}){1,6}$")]
"""/dev/nvidia-caps/nvidia-cap21."""
DeviceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:!-]{0,63}$")]
"""As sysfs lists it: mlx5_bond_0, nvme0n1, cciss!c0d0."""
InterfaceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:@+~-]{1,15}$")]
"""eno1np0, ib0.8001; the kernel takes up to 15 bytes."""
NodeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$")]
"""Of a host as its scheduler calls it."""
PackageName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_+.:-]{0,254}$")]
"""As dpkg and rpm have it, with its architecture where dpkg needs that: libc6:amd64."""
PackageVersion = Annotated[str, Field(pattern=r"^([A-Za-z0-9(][A-Za-z0-9()+.:~^_-]{0,254})?$")]
"""Of dpkg or rpm: 1:4.3-2+deb12u3~bpo, 5.14.0-503.el9^1."""
UnitName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9:_.\\@-]{1,255}$"), AfterValidator(_said_by_all)
]
"""systemd.unit(5): letters, digits, and : - _ . \\ @."""
SysctlKey = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./*-]{0,254}$"), AfterValidator(_said_by_all)
]
"""net.ipv4.tcp_rmem."""
StateText = Annotated[str, Field(max_length=65536)]
"""Of a resource's state; it is compared and never shown, so that it stays as it is."""

Count = Annotated[int, Field(ge=0, le=2**62)]
"""How many of something, bytes among them."""
Number = Annotated[int, Field(ge=-(2**63), le=2**64)]
"""A counter or a reading; a driver's "not known" may be all 64 bits set."""
Real = Annotated[float, Field(ge=-1e18, le=1e18, allow_inf_nan=False)]
"""Seconds, W or Gb/s."""
LAST = 253402300799.0
"""The end of the year 9999, in s since the epoch: the last that a calendar here knows."""


def _within(seconds: float) -> float:
    """A date of a file is whatever its owner says, and costs nobody anything."""
    return min(max(seconds, 0.0), LAST)


def _stamped(text: str) -> str:
    """Refuses what is no date, no time or of no zone."""
    told = datetime.fromisoformat(text)
    if told.tzinfo is None:
        raise ValueError("a time without a zone")
    return text


def _way(text: str) -> str:
    """Refuses what begins with no network."""
    IPv4Network(text.partition(" ")[0])
    return text


Moment = Annotated[Real, AfterValidator(_within)]
"""A point in time in s since the epoch; one that no calendar knows is the nearest that it does."""
Stamp = Annotated[
    str, Field(pattern=r"^[12][0-9]{3}-[0-9T:.+Z-]{15,40}$"), AfterValidator(_stamped)
]
"""2026-11-29T12:00:00Z."""
Route = Annotated[
    str, Field(pattern=r"^[0-9.]{7,15}/[0-9]{1,2} [!-~]{1,15}$"), AfterValidator(_way)
]
"""A network and the interface to it: 10.0.0.0/24 eno1."""
