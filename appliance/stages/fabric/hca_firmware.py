"""Minimum firmware versions of network adapters, as data."""

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from appliance.config.tables import load
from appliance.models.base import Model

Version = tuple[int, ...]
NUMBERS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})*")
"""Pattern of a version, which is untrusted: Python refuses "²" and 5,000 digits as numbers."""


class AdapterFirmware(Model):
    """One kind of adapter, identified by the first number of its firmware version.

    Good are ``minimum`` and newer; in older branches (first two numbers), the versions in ``branches`` and newer.
    """

    name: str
    minimum: str
    branches: tuple[str, ...] = ()
    source: str
    date: str

    def accepts(self, version: str) -> bool:
        """Whether a version is new enough."""
        found = numbers(version)
        if found >= numbers(self.minimum):
            return True
        kept = (numbers(branch) for branch in self.branches)
        return any(found[:2] == own[:2] and found >= own for own in kept)


class HcaFirmware(Model):
    """All known kinds."""

    version: Literal[1]
    adapters: tuple[AdapterFirmware, ...]

    def of(self, version: str) -> AdapterFirmware | None:
        """Return the kind of adapter with such a version."""
        kind = numbers(version)[:1]
        return next((a for a in self.adapters if numbers(a.minimum)[:1] == kind), None)


@lru_cache(1024)
def numbers(version: str) -> Version:
    """ "20.43.8002" as numbers; empty for other formats."""
    return tuple(map(int, version.split("."))) if NUMBERS.fullmatch(version) else ()


@cache
def hca_firmware() -> HcaFirmware:
    """Return the minimum firmware versions."""
    return load(Path(__file__).with_name("hca_firmware.yml"), HcaFirmware)
