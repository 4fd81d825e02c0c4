"""Minimum values: the limit of site or profile, otherwise the published one of the GPU product, otherwise a share of the wire rate."""

from appliance.benchmarks.benchmark import gpu_models
from appliance.checks.check import View
from appliance.models.profile import Limit
from appliance.stages.gpu.part import GpuPart, gpu_parts

OF_WIRE = 0.9
"""Share of the wire that collectives of large messages reach: NVIDIA measured 192 of 200 GB/s over eight HDR ports
(nccl#812, nccl#1576), Together AI accepts 92 % over eight NDR ports (CRE ADR-021)."""
PORT_GBPS = {200: 180.0, 400: 380.0}
"""ib_write_bw a port must reach, by its rate (Azure NHC)."""
OF_NO_PRODUCT = {
    "perftest.write_lat": Limit(
        value=5,
        unit="us",
        source="oracle-quickstart oci-hpc: ib_write_lat at most 5 us",
        date="2025",
    )
}
"""The published values of a check, for all GPU products."""


def floor(view: View, check: str) -> Limit | None:
    """Returns the bound for a check; None if none is set or published, or if hosts have GPUs of several products."""
    if own := view.limit(check):
        return own
    ways = {view.profile.hardware.gpu.interconnect, None}
    for part in _only(view):
        for row in part.floors:
            if row.check == check and row.interconnect in ways:
                source = f"{row.source} ({part.name})"
                return Limit(value=row.value, unit=row.unit, source=source, date=row.date)
    return OF_NO_PRODUCT.get(check)


def _only(view: View) -> list[GpuPart]:
    """Returns the one product of all hosts, if it is known."""
    names = gpu_models(view)
    return [part for name in names if (part := gpu_parts().find(name))] if len(names) == 1 else []


def of_fabric(view: View, check: str) -> Limit | None:
    """Bus bandwidth between hosts in GB/s; None without a fabric."""
    fabric = view.profile.hardware.fabric
    if own := view.limit(check):
        return own
    if not fabric.ports or not fabric.rate_gbps:
        return None
    wire = fabric.ports * fabric.rate_gbps / 8
    source = f"{OF_WIRE:g} of {fabric.ports} ports x {fabric.rate_gbps} Gb/s / 8 = {wire:g} GB/s"
    return Limit(value=round(OF_WIRE * wire, 1), unit="GB/s", source=source)


def of_port(view: View, check: str) -> Limit | None:
    """Write bandwidth of one port in Gb/s; None without a fabric."""
    rate = view.profile.hardware.fabric.rate_gbps
    if own := view.limit(check):
        return own
    if not rate:
        return None
    if rate in PORT_GBPS:
        source = f"Azure NHC, ib_write_bw over a port of {rate} Gb/s"
        return Limit(value=PORT_GBPS[rate], unit="Gb/s", source=source, date="2025")
    return Limit(value=rate * OF_WIRE, unit="Gb/s", source=f"{OF_WIRE:g} of {rate} Gb/s")
