"""Decides whether a host is unfit for work. Each cause has the id of the check that reports it in ``appliance health``.

Faults that only slow a host down, or that need a plan (heat, a slow PCIe generation, firmware, a cable in the wrong
leaf), do not take a host out of work: only health reports them.
"""

from __future__ import annotations

import os
import re

from appliance.stages.base import ids as base_ids
from appliance.stages.fabric import ids as fabric_ids
from appliance.stages.gpu import ids as gpu_ids
from appliance.stages.slurm import ids as slurm_ids
from appliance.stages.storage import ids as storage_ids
from appliance.watch.conditions import areas
from appliance.watch.verdict import Cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Facts = dict[str, Any]

HOUR = 3600
FELL_OFF, RECOVERY = 79, 154
RECOMMENDED = re.compile(r" to 0x([0-9a-fA-F]{1,4})\b")
"""In "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"."""
PROCESS = re.compile(r"\bpid=.*?, (?:name=.*?, )?")
"""Chosen by a user; it must not appear in a drain reason."""
SRAM_MOST = 4
GIB = 1 << 30
IDLE_GIB = 2.0
"""As check slurm.idle_gpus has it: above the use of the driver and monitoring."""
RUNNING = frozenset({"active", "restarting", "unknown"})
"""States of a unit that take no host out of work. One that ends again and again is soon in another."""
LOST = 0x04 | 0x08
"""Warnings of an NVMe drive after which work on it fails: reliability degraded, read-only."""
CLOCK_SECONDS = 150.0
"""Half of the clock skew that munge tolerates between two hosts."""
LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "overlay"})


def causes(facts: Facts, expects: Facts) -> Iterator[Cause]:
    """All causes; hardware first."""
    yield from _gpus(facts, expects)
    yield from _xids(facts, expects)
    yield from _devices(expects)
    yield from _board(facts)
    yield from _units(facts, expects)
    yield from _ports(facts, expects)
    yield from _mounts(facts, expects)
    yield from _disk(facts, expects)
    yield from _clock(facts)


def gaps(facts: Facts) -> list[str]:
    """What could not be judged. It takes no host out of work."""
    return [f"{area}: {why}" for area, why in sorted(facts.get("errors", {}).items())]


def kept(facts: Facts, found: Sequence[Cause], before: Facts) -> Iterator[Cause]:
    """Causes of the last run in areas that this run could not read: a sensor that does not answer repairs nothing."""
    known, blind = {cause.key for cause in found}, set(facts.get("errors", {}))
    for one in before.get("causes", ()):
        if one["key"] not in known and blind.intersection(areas(one["check"])):
            yield Cause(one["check"], one["cause"], one["part"], known=one["key"])


def _gpus(facts: Facts, expects: Facts) -> Iterator[Cause]:
    wanted = expects["gpus"]
    on_bus = facts.get("pci_gpus")
    if on_bus is not None and on_bus < wanted:
        yield Cause(
            gpu_ids.COUNT,
            f"{_plural(on_bus, 'GPU is', 'GPUs are')} on the PCI bus, the class has {wanted}",
        )
    if not facts.get("gpus"):
        if wanted and on_bus:
            said = facts.get("errors", {}).get("gpus", "none is loaded")
            yield Cause(gpu_ids.DRIVER, f"no driver answers: {said}")
        return
    devices = facts["gpus"]["devices"]
    if on_bus is not None and len(devices) < on_bus <= wanted:
        yield Cause(gpu_ids.COUNT, f"the driver lists {len(devices)} of {on_bus} GPUs")
    for gpu in devices:
        for check, said in _gpu(gpu, expects):
            yield Cause(check, said, f"GPU {gpu['index']}")


def _gpu(gpu: Facts, expects: Facts) -> Iterator[tuple[str, str]]:
    """At most one cause per check."""
    if gpu.get("error") or not gpu["bus_id"]:
        yield gpu_ids.ERROR, f"the driver cannot reach it: {gpu.get('error') or 'no address'}"
        return
    if gpu.get("sram_exceeded") or (gpu.get("sram_uncorrected") or 0) > SRAM_MOST:
        yield gpu_ids.ECC, "its on-chip memory (SRAM) has failed"
    elif gpu.get("ecc_uncorrected"):
        yield (
            gpu_ids.ECC,
            f"{_plural(gpu['ecc_uncorrected'], 'memory error')} could not be corrected",
        )
    if gpu.get("remap_failed"):
        yield gpu_ids.REMAP, "a failing memory row could not be replaced"
    width = gpu.get("pcie_width")
    if width and width < expects["pcie_width"]:
        yield gpu_ids.PCIE, f"it runs at x{width} of x{expects['pcie_width']}"
    links, active = expects["nvlinks"].get(gpu.get("name"), 0), gpu.get("nvlinks_active")
    if active is not None and active < links and not gpu.get("mig_enabled"):
        yield gpu_ids.NVLINK, f"{links - active} of {links} NVLinks are down"


def leftovers(facts: Facts, gpus: set[str], expects: Facts) -> Iterator[Cause]:
    """What a job has left on its GPUs, ``gpus`` by their numbers. A GPU with MIG reports neither, and is not judged."""
    for gpu in (facts.get("gpus") or {}).get("devices", ()):
        number = gpu["index"] if gpu.get("minor") is None else gpu["minor"]
        if str(number) not in gpus or gpu.get("error") or gpu.get("mig_enabled"):
            continue
        used = (gpu.get("memory_used") or 0) / GIB
        count = gpu.get("processes")
        if count:
            said = f"{_plural(count, 'process', 'processes')} of an ended job left"
            yield Cause(slurm_ids.IDLE_GPUS, said, f"GPU {number}")
        elif used > expects.get("idle_gib", IDLE_GIB):
            said = f"{used:.1f} GiB of memory in use after its job ended"
            yield Cause(slurm_ids.IDLE_GPUS, said, f"GPU {number}")


def _plural(count: int, noun: str, many: str = "") -> str:
    return f"{count} {noun if count == 1 else many or noun + 's'}"


def _xids(facts: Facts, expects: Facts) -> Iterator[Cause]:
    """The last of each fatal code of each GPU, and fatal NVSwitch errors."""
    young = expects["xid_hours"] * HOUR
    told: dict[tuple[str, str], Cause] = {}
    for part, event in _fatal(facts, expects):
        if event["code"] == FELL_OFF and not part.startswith("GPU "):
            continue  # The link count reports the same fault.
        words = PROCESS.sub("", event["text"].partition("): ")[2])[:80]
        told[part, str(event["code"])] = Cause(gpu_ids.XID, f"Xid {words}", part, event["age"])
    for event in facts.get("switch_events") or ():
        if ", Fatal" in event["text"] and (event["age"] is None or event["age"] <= young):
            part = f"NVSwitch {event['bus_id']}"
            said = f"SXid {event['code']}, fatal"
            told[part, str(event["code"])] = Cause(gpu_ids.XID, said, part, event["age"])
    yield from told.values()


def xids(facts: Facts, expects: Facts) -> list[tuple[str, int]]:
    """Fatal codes in the kernel log, each once per GPU, for the metrics."""
    return sorted({(part, event["code"]) for part, event in _fatal(facts, expects)})


def _fatal(facts: Facts, expects: Facts) -> Iterator[tuple[str, Facts]]:
    """Messages that fail a GPU, oldest first: by code, some unless they are marked nonfatal."""
    codes = set(map(int, expects["xids"].split()))
    by_severity = set(map(int, expects.get("xids_by_severity", "").split()))
    young, advised = expects["xid_hours"] * HOUR, _advised(facts, expects)
    for event in facts.get("xid_events") or ():
        graded = event["code"] in by_severity and event.get("severity") != "Nonfatal"
        if event["age"] is not None and event["age"] > young:
            continue
        if event["code"] in codes or graded or event in advised:
            yield _of(facts, event["bus_id"]), event


def _advised(facts: Facts, expects: Facts) -> list[Facts]:
    """The driver's last recommendation for each GPU, where it is one of those that fail a host."""
    known = facts.get("xid_events") or ()
    last = {event["bus_id"]: event for event in known if event["code"] == RECOVERY}
    actions = expects.get("xid_recovery", "").split()
    found = ((RECOMMENDED.search(event["text"]), event) for event in last.values())
    return [event for match, event in found if match and str(int(match[1], 16)) in actions]


def _of(facts: Facts, bus_id: str) -> str:
    """The GPU by its index if the driver still lists it; a kernel message leaves the PCI function out."""
    devices = (facts.get("gpus") or {}).get("devices", ())
    at = bus_id.lower().partition(".")[0]
    known = (g["index"] for g in devices if at in g["bus_id"].lower())
    index = next(known, None)
    return bus_id if index is None else f"GPU {index}"


def _devices(expects: Facts) -> Iterator[Cause]:
    """The devices in gres.conf, whole GPUs and MIG instances; slurmd does not start without them."""
    gone = [at for at in expects.get("devices", ()) if not os.path.exists(at)]  # noqa: PTH110
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        yield Cause(slurm_ids.GRES, f"the device {gone[0]}{more} is missing")


def _board(facts: Facts) -> Iterator[Cause]:
    """Failures of memory, PCIe and drives; corrected errors and wear are reported by health only."""
    memory = facts.get("memory_errors")
    if memory and memory["uncorrected"]:
        bad = [module["label"] for module in memory["modules"] if module["uncorrected"]]
        said = f"{_plural(memory['uncorrected'], 'memory error')} could not be corrected"
        yield Cause(base_ids.MEMORY_ERRORS, said, ", ".join(bad))
    for device in (facts.get("pcie_errors") or {}).get("errors", ()):
        if device["fatal"]:
            said = f"{_plural(device['fatal'], 'fatal PCIe error')} of {device['device']}"
            yield Cause(base_ids.PCIE_ERRORS, said, device["at"])
    for drive in (facts.get("nvme") or {}).get("notable", ()):
        if drive.get("dead"):
            yield Cause(base_ids.NVME, "the kernel disabled the drive", drive["name"])
        elif drive["warning"] & LOST:
            yield Cause(
                base_ids.NVME, "it is read-only, or reports degraded reliability", drive["name"]
            )


def _units(facts: Facts, expects: Facts) -> Iterator[Cause]:
    units = facts.get("units", {})
    munge = units.get("munge.service", {})
    if expects.get("munge", True) and munge.get("active", "active") not in RUNNING:
        yield Cause(slurm_ids.MUNGE, f"munge is {munge['active']}")
    manager = units.get("nvidia-fabricmanager.service", {})
    if expects["fabric_manager"] and manager.get("active", "active") not in RUNNING:
        yield Cause(gpu_ids.FABRIC_MANAGER, f"the fabric manager is {manager['active']}")


def _ports(facts: Facts, expects: Facts) -> Iterator[Cause]:
    if "ports" not in facts or not expects["ports"]:
        return
    ports = [port for port in facts["ports"] if port["link_layer"] == expects["link_layer"]]
    if len(ports) < expects["ports"]:
        said = f"{_plural(len(ports), expects['link_layer'] + ' port')}, the class has {expects['ports']}"
        yield Cause(fabric_ids.PORTS, said)
    if len(ports) > expects["ports"]:
        # More ports than in the class: the host alone cannot know which of them belong to the fabric.
        every, ports = len(ports), [p for p in ports if "LINKUP" in p["physical"].upper()]
        if len(ports) < expects["ports"]:
            said = f"{len(ports)} of {every} ports have a link, the class has {expects['ports']}"
            yield Cause(fabric_ids.STATE, said)
    if expects["link_layer"] == "Ethernet" and len(ports) > expects["ports"]:
        ports = [port for port in ports if port["state"].upper().endswith("ACTIVE")]
    for port in ports:
        if "LINKUP" not in port["physical"].upper():
            yield Cause(fabric_ids.STATE, f"port {port['port']} is {port['state']}", port["device"])
        elif not port["state"].upper().endswith("ACTIVE"):
            yield Cause(
                fabric_ids.ACTIVE, f"port {port['port']} is {port['state']}", port["device"]
            )
        elif 0 < (port["rate"] or 0) < expects["rate_gbps"]:
            said = f"{port['rate']:g} of {expects['rate_gbps']:g} Gb/s"
            yield Cause(fabric_ids.RATE, said, port["device"])


def _mounts(facts: Facts, expects: Facts) -> Iterator[Cause]:
    if "filesystems" not in facts:
        return
    known = {found["at"]: found for found in facts["filesystems"]}
    wanted = [(storage_ids.MOUNT, at) for at in expects["mounts"]]
    if expects["scratch"]:
        wanted.append((storage_ids.SCRATCH, expects["scratch"]))
    for check, at in wanted:
        if at not in known:
            yield Cause(check, f"nothing is mounted at {at}, or it does not answer")
        elif known[at]["read_only"]:
            yield Cause(check, f"{at} is read-only")


def _disk(facts: Facts, expects: Facts) -> Iterator[Cause]:
    """One cause per file system, however it is detected."""
    told = set()
    for found in facts.get("filesystems", ()):
        if found["type"] not in LOCAL or not found["size"]:
            continue
        if found["turned"] or (found["at"] == "/" and found["read_only"]):
            yield Cause(base_ids.DISK, f"{found['at']} is read-only: errors of its disk")
        same = (found["size"], found["free"])
        percent = 100 * found["free"] / found["size"]
        if not found["read_only"] and percent < expects["disk_percent"] and same not in told:
            told.add(same)
            yield Cause(base_ids.DISK, f"{found['at']} has {percent:.1f} % free")


def _clock(facts: Facts) -> Iterator[Cause]:
    offset = facts.get("clock", {}).get("offset")
    if offset is not None and abs(offset) > CLOCK_SECONDS:
        yield Cause(base_ids.CLOCK, f"the clock is {abs(offset):.0f} s off")
