"""Types of facts. A host can report anything: values that configure other hosts are refused unless they match a pattern.

Values that are only displayed are a ``Line``, which is sanitized instead: an odd serial number does not exclude a host.
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


def _interned(text: str) -> str:
    """A name that most hosts report is kept in memory once."""
    return intern(str(text))


GpuUuid = Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9/-]{0,79})?$")]
"""GPU-5c89d2e8-..., MIG-5c89d2e8-..., MIG-GPU-5c89d2e8-.../7/0 of older drivers; empty if NVML reports none."""
BusId = Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9:._-]{0,63})?$")]
"""00000000:07:00.0, pci0000:00; empty if unknown."""
Guid = Annotated[str, Field(pattern=r"^((0x)?[0-9A-Fa-f][0-9A-Fa-f:]{0,39})?$")]
"""0x0c42a10300010001, 0c42:a103:0001:0001; empty if unknown."""
MigProfile = Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+_-]{0,31}$")]
"""3g.40gb, 1g.10gb+me, 1c.2g.20gb, 1g.24gb+me.all."""
DeviceFile = Annotated[str, Field(pattern=r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}){1,6}$")]
"""/dev/nvidia-caps/nvidia-cap21."""
DeviceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:!-]{0,63}$")]
"""As listed by sysfs: mlx5_bond_0, nvme0n1, cciss!c0d0."""
InterfaceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:@+~-]{1,15}$")]
"""eno1np0, ib0.8001; the kernel allows up to 15 bytes."""
NodeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$")]
"""A host's name in its scheduler."""
PackageName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_+.:-]{0,254}$")]
"""A package name of dpkg or rpm, with its architecture if dpkg needs it: libc6:amd64."""
PackageVersion = Annotated[str, Field(pattern=r"^([A-Za-z0-9(][A-Za-z0-9()+.:~^_-]{0,254})?$")]
"""A version of dpkg or rpm: 1:4.3-2+deb12u3~bpo, 5.14.0-503.el9^1."""
UnitName = Annotated[str, Field(pattern=r"^[A-Za-z0-9:_.\\@-]{1,255}$"), AfterValidator(_interned)]
"""systemd.unit(5): letters, digits, and : - _ . \\ @."""
SysctlKey = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./*-]{0,254}$"), AfterValidator(_interned)
]
"""net.ipv4.tcp_rmem."""
StateText = Annotated[str, Field(max_length=65536)]
"""Of a resource's state; it is compared and never displayed, so it is kept unchanged."""

Count = Annotated[int, Field(ge=0, le=2**62)]
"""A count, also of bytes."""
Number = Annotated[int, Field(ge=-(2**63), le=2**64)]
"""A counter or a reading; a driver may report "unknown" as 64 set bits."""
Real = Annotated[float, Field(ge=-1e18, le=1e18, allow_inf_nan=False)]
"""Seconds, W or Gb/s."""
LAST = 253402300799.0
"""The end of the year 9999, in s since the epoch: the last that the calendar library supports."""


def _within(seconds: float) -> float:
    """The owner of a file can set any date on it; an invalid one must not refuse the facts."""
    return min(max(seconds, 0.0), LAST)


def _stamped(text: str) -> str:
    """Refuses invalid dates, invalid times and times without a time zone."""
    told = datetime.fromisoformat(text)
    if told.tzinfo is None:
        raise ValueError("a time without a time zone")
    return text


def _way(text: str) -> str:
    """Refuses what does not begin with a network."""
    IPv4Network(text.partition(" ")[0])
    return text


Moment = Annotated[Real, AfterValidator(_within)]
"""A point in time in s since the epoch; one out of range becomes the nearest valid one."""
Stamp = Annotated[
    str, Field(pattern=r"^[12][0-9]{3}-[0-9T:.+Z-]{15,40}$"), AfterValidator(_stamped)
]
"""2026-11-29T12:00:00Z."""
Route = Annotated[
    str, Field(pattern=r"^[0-9.]{7,15}/[0-9]{1,2} [!-~]{1,15}$"), AfterValidator(_way)
]
"""A network and the interface to it: 10.0.0.0/24 eno1."""
