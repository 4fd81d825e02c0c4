"""Tables of data that come with the program, from YAML to their model."""

from functools import cache
from pathlib import Path
from typing import TypeVar

from appliance.config.data import PACKAGE
from appliance.config.document import read
from appliance.config.finding import InvalidConfig
from appliance.config.schema import check
from appliance.models.base import Model
from appliance.models.gpu_part import GpuParts
from appliance.models.hca_firmware import HcaFirmware
from appliance.models.mig import MigTable
from appliance.models.xid import XidMap

M = TypeVar("M", bound=Model)


@cache
def xid_map() -> XidMap:
    """What Xid messages mean. Raises InvalidConfig if the file is damaged, as the others do."""
    return load(PACKAGE / "checks/xid.yml", XidMap)


@cache
def gpu_parts() -> GpuParts:
    """Data sheets of GPUs."""
    return load(PACKAGE / "checks/gpu_parts.yml", GpuParts)


@cache
def hca_firmware() -> HcaFirmware:
    """From which firmware on adapters are good."""
    return load(PACKAGE / "checks/hca_firmware.yml", HcaFirmware)


@cache
def mig_table() -> MigTable:
    """Which MIG instances fit where."""
    return load(PACKAGE / "config/mig.yml", MigTable)


def load(file: Path, model: type[M]) -> M:
    """A file as its model. Raises InvalidConfig."""
    checked = check(read(file), model)
    if checked.model is None or checked.findings:
        raise InvalidConfig(checked.findings)
    return checked.model
