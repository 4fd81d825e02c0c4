"""Faults of hardware after which only an operator, or a deployment, resumes a host."""

from __future__ import annotations

from appliance.stages.base import ids as base_ids
from appliance.stages.gpu import ids as gpu_ids

BY_OPERATORS = (
    *(gpu_ids.COUNT, gpu_ids.ERROR, gpu_ids.ECC, gpu_ids.REMAP, gpu_ids.XID, gpu_ids.PCIE),
    *(base_ids.MEMORY_ERRORS, base_ids.PCIE_ERRORS, base_ids.NVME),
)
"""Faults that a reboot or reset hides without fixing: an operator resumes the host, or a deployment proves it."""
