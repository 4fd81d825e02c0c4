"""The gates of RDMA between hosts: every rail of every host, by the limits that site or profile set."""

from collections.abc import Iterator

from appliance.benchmarks.benchmark import Requirement, Target, per_host
from appliance.benchmarks.gating import gate, gpu_hosts
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.affinity import rails
from appliance.models.bound import Bound
from appliance.report.formatting import fold

BW, LAT, GPU_BW = "perftest.write_bw", "perftest.write_lat", "perftest.gpu_write_bw"
CHECKS = (BW, LAT, GPU_BW)
BOUNDS = {BW: Bound("Gb/s"), LAT: Bound("us"), GPU_BW: Bound("Gb/s")}


def gates(view: View) -> tuple[Requirement, ...]:
    """Every rail of every host, according to its facts. A single host has no pair to measure."""
    hosts, blocked = gpu_hosts(view), ""
    if len(hosts) < 2:
        return ()
    found_rails = {host: list(rails_of(view, host)) for host in hosts}
    targets = tuple(
        Target(f"{host}/{rail.partition(':')[0]}", (host,))
        for host, own in found_rails.items()
        for rail in own
    )
    expected = view.profile.hardware.fabric.ports
    # A rail that is down has no evidence, and would otherwise not be noticed.
    if short := [host for host, own in found_rails.items() if len(own) < max(1, expected)]:
        blocked = (
            f"fewer active ports than the class has ({expected}) on {fold(short)}: appliance health"
        )
    found: tuple[Requirement, ...] = ()
    for check, what in ((BW, "bandwidth"), (LAT, "latency")):
        title = f"RDMA write {what} of every rail"
        bound = view.limit(check)
        chosen = targets or per_host(hosts)
        found += gate(
            view,
            check,
            title,
            Level.FABRIC,
            chosen,
            bound,
            ("fabric",),
            blocked=blocked,
            spans=True,
            of_gpus=False,
        )
    return found


def rails_of(view: View, host: str) -> Iterator[str]:
    """Its fast ports as device:gpu, with the GPU whose rail it is."""
    facts = view.facts.get(host)
    if facts is None:
        return
    fabric = view.profile.hardware.fabric
    near = {device: gpu for gpu, names in rails(facts).items() for device in names}
    for port in facts.ports:
        if port.link_layer == fabric.link_layer and port.state.endswith("ACTIVE"):
            yield f"{port.device}:{near.get(port.device, '')}"
