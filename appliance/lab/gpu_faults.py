"""Faults of a host's simulated GPUs: each kind is a row of a table.

Active faults are recorded, and the GPUs are created from them each time. Faults therefore add up,
and removing one does not change the others.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from appliance.adapters.process import run
from appliance.errors import ApplianceError, ConfigError
from appliance.lab import board, cgroups, kernel_log, nvml, sysfs
from appliance.lab.fault import Fault
from appliance.lab.hardware import DRIVERS
from appliance.lab.nvml import State, Value
from appliance.lab.spec import Rack, RackHost
from appliance.stages.base import ids as base_ids
from appliance.stages.gpu import ids as gpu_ids

OTHER_DRIVER, OTHER_CUDA = DRIVERS["535"]
MOST_XID = 999
FALLEN_OFF = 79
MANAGER = "usr/local/sbin/nv-fabricmanager"
MANAGER_UNIT = "nvidia-fabricmanager.service"
EXAMPLE = ("3",)

# Bits of NVML's clock event reasons.
SLOWDOWN, THERMAL, POWER_BRAKE = 0x8, 0x40, 0x80
REASONS = "throttle_reasons"
UNDER_LOAD: Mapping[str, Value] = {"utilization": 98, "power_mw": 280_000, REASONS: 0}


@dataclass(frozen=True)
class Symptom:
    """The effect of a fault on a GPU: in the NVML state, in sysfs, in the kernel log; or the GPU is missing.

    ``check``, ``target``, ``says`` and ``drains`` are those of its ``Fault``.
    """

    kind: str
    summary: str
    state: Mapping[str, Value] = field(default_factory=dict)
    sysfs: Mapping[str, str] = field(default_factory=dict)
    on_bus: bool = True
    xid: int | None = None
    check: str = ""
    target: str = "HOST/GPU 3"
    says: str = ""
    drains: bool = False


SYMPTOMS = (
    Symptom(
        "gpu-lost",
        "the driver has lost the GPU",
        {"lost": 1},
        check=gpu_ids.ERROR,
        says="the driver cannot reach it: DeviceGetHandleByIndex_v2: GPU is lost",
        drains=True,
    ),
    Symptom(
        "gpu-off-bus",
        "the GPU dropped off the PCI bus",
        {"off_bus": 1},
        on_bus=False,
        xid=FALLEN_OFF,
        check=gpu_ids.COUNT,
        target="HOST",
        says="7 GPUs are on the PCI bus, the class has 8; none at 0000:4e:00.0, where the other hosts have one",
        drains=True,
    ),
    Symptom(
        "ecc",
        "the GPU's memory has uncorrectable errors",
        {"ecc_uncorrected_volatile": 2, "ecc_uncorrected_aggregate": 2},
        check=gpu_ids.ECC,
        says="2 memory errors could not be corrected since the driver was loaded",
        drains=True,
    ),
    Symptom(
        "remap-pending",
        "a row of the GPU's memory is pending a remap",
        {"remap_pending": 1, "remapped_uncorrectable": 1},
        check=gpu_ids.REMAP,
        says="a failing memory row is replaced at the next reset; running jobs are safe",
    ),
    Symptom(
        "remap-failed",
        "a row of the GPU's memory could not be remapped",
        {"remap_failed": 1, "remapped_uncorrectable": 8},
        check=gpu_ids.REMAP,
        says="a failing memory row could not be replaced",
        drains=True,
    ),
    Symptom(
        "sram-exceeded",
        "the GPU's on-chip memory has more errors than the driver tolerates",
        {"sram_exceeded": 1},
        check=gpu_ids.ECC,
        says="its on-chip memory (SRAM) has failed: its errors exceed the GPU's threshold",
        drains=True,
    ),
    Symptom(
        "thermal",
        "the GPU slows down because it is too hot",
        {**UNDER_LOAD, REASONS: SLOWDOWN | THERMAL, "temperature": 90, "sm_clock": 345},
        check=gpu_ids.TEMPERATURE,
        says="90 °C: it slows down from 89 °C",
    ),
    Symptom(
        "power-brake",
        "the GPU slows down because its power is cut back from outside",
        {**UNDER_LOAD, REASONS: SLOWDOWN | POWER_BRAKE, "sm_clock": 345},
        check=gpu_ids.CLOCKS,
        says="the host's power supply slows it down (power brake)",
    ),
    Symptom(
        "nvlink-down",
        "one NVLink of the GPU is down",
        {"nvlinks_down": 1},
        check=gpu_ids.NVLINK,
        says="1 of 12 NVLinks are down",
        drains=True,
    ),
    Symptom(
        "pcie-narrow",
        "the GPU's PCIe link has 8 lanes",
        {"pcie_width": 8},
        {"current_link_width": "8"},
        check=gpu_ids.PCIE,
        says="it runs at x8, its maximum is x16",
        drains=True,
    ),
    Symptom(
        "pcie-slow",
        "the GPU's PCIe link stays at generation 1 under load",
        {**UNDER_LOAD, "pcie_generation": 1},
        {"current_link_speed": sysfs.SPEEDS[1]},
        check=gpu_ids.PCIE,
        says="it runs at Gen1 under load (98 % busy), the class has Gen4",
    ),
    Symptom(
        "aer-fatal",
        "the GPU's PCIe link was lost for a moment",
        sysfs=board.pcie_counters(aer_dev_fatal={"SDES": 1}),
        check=base_ids.PCIE_ERRORS,
        target="HOST/0000:4e:00.0",
        says="1 fatal PCIe error of the GPU since it came up: its link was lost or reset",
        drains=True,
    ),
)


class Standing(NamedTuple):
    """An active fault of a host: its kind and its GPU, or the driver's version instead of the GPU."""

    kind: str
    where: int | str


def effect(rack: Rack, host: RackHost, standing: Iterable[Standing]) -> State:
    """The NVML state of a host with these faults."""
    state = nvml.without_driver(nvml.healthy_state(host.name, rack.hardware_of(host.name)))
    for fault in standing:
        if fault.kind == DRIVER.kind:
            state["system"] |= nvml.system(str(fault.where), OTHER_CUDA)
        else:
            _add(state[f"gpu{fault.where}"], _symptom(fault.kind).state)
    return state


def _add(gpu: dict[str, Value], change: Mapping[str, Value]) -> None:
    """Reasons for a slow clock are combined; any other fault replaces the previous value."""
    known = int(gpu[REASONS])
    gpu.update(change)
    if REASONS in change:
        gpu[REASONS] = (known & ~nvml.IDLE) | int(change[REASONS])


def _inflict(rack: Rack, host: RackHost, fault: Standing) -> None:
    standing = _standing(host)
    if fault not in standing:
        _settle(rack, host, [*standing, fault])


def _clear(rack: Rack, host: RackHost, fault: Standing) -> None:
    _settle(rack, host, [other for other in _standing(host) if other != fault])


def _settle(rack: Rack, host: RackHost, standing: Sequence[Standing]) -> None:
    """Make the host's GPUs what these faults make of them."""
    changes: dict[int, Mapping[str, str] | None] = {}
    for fault in standing:
        if isinstance(fault.where, int):
            symptom = _symptom(fault.kind)
            known = changes.get(fault.where, {})
            keeps = symptom.on_bus and known is not None
            changes[fault.where] = {**(known or {}), **symptom.sysfs} if keeps else None
    nvml.write(host.root, effect(rack, host, standing))
    sysfs.write_gpus(host.root, rack.hardware_of(host.name), changes)
    _file(host).write_text(json.dumps(standing), encoding="utf-8")


def _standing(host: RackHost) -> list[Standing]:
    try:
        return [Standing(*fault) for fault in json.loads(_file(host).read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []


def _file(host: RackHost) -> Path:
    return host.folder / "gpu_faults.json"


def _symptom(kind: str) -> Symptom:
    return next(symptom for symptom in SYMPTOMS if symptom.kind == kind)


def _fault(symptom: Symptom) -> Fault:
    """The row of the table of faults that a symptom makes."""

    def inflict(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
        gpu = _gpu(rack, host, arguments[0])
        if "nvlinks_down" in symptom.state and rack.hardware_of(host.name).interconnect == "pcie":
            raise ApplianceError(f"no NVLink of {host.name} is up: its cards have no bridges")
        _inflict(rack, host, Standing(symptom.kind, gpu))
        if symptom.xid is not None:
            _forget_xid(rack, host, (str(symptom.xid), str(gpu)))
            _log_xid(rack, host, (str(symptom.xid), str(gpu)))

    def clear(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
        gpu = _gpu(rack, host, arguments[0])
        _clear(rack, host, Standing(symptom.kind, gpu))
        if symptom.xid is not None:
            _forget_xid(rack, host, (str(symptom.xid), str(gpu)))

    return Fault(
        symptom.kind,
        symptom.summary,
        inflict,
        clear,
        "GPU",
        1,
        EXAMPLE,
        symptom.check,
        symptom.target,
        symptom.says,
        symptom.drains,
    )


def _log_xid(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    address, xid = _complaint(rack, host, arguments)
    kernel_log.add_xid(host.root, address, xid)


def _forget_xid(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    address, xid = _complaint(rack, host, arguments)
    kernel_log.remove_xid(host.root, address, xid)


def _complaint(rack: Rack, host: RackHost, arguments: Sequence[str]) -> tuple[str, int]:
    gpu = _gpu(rack, host, arguments[1] if len(arguments) > 1 else "0")
    if not arguments[0].isdigit() or not 0 < int(arguments[0]) <= MOST_XID:
        raise ConfigError(f'"{arguments[0]}" is not an Xid', f"a number from 1 to {MOST_XID}")
    return rack.hardware_of(host.name).gpu_place(gpu).address, int(arguments[0])


def _change_driver(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _gpu(rack, host, "0")
    others = [fault for fault in _standing(host) if fault.kind != DRIVER.kind]
    version = arguments[0] if arguments else OTHER_DRIVER
    _settle(rack, host, [*others, Standing(DRIVER.kind, version)])


def _restore_driver(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _gpu(rack, host, "0")
    _settle(rack, host, [fault for fault in _standing(host) if fault.kind != DRIVER.kind])


def _change_manager(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    """A program of the same name that precedes the package's own in PATH, as left by a runfile."""
    _gpu(rack, host, "0")
    version = arguments[0] if arguments else OTHER_DRIVER
    program = host.root / MANAGER
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        f"#!/bin/sh\n# Simulated.\necho 'Fabric Manager version is : {version}'\n", encoding="utf-8"
    )
    program.chmod(0o755)


def _restore_manager(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _gpu(rack, host, "0")
    (host.root / MANAGER).unlink(missing_ok=True)


def _stop_manager(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _gpu(rack, host, "0")
    _systemctl(host, "stop", MANAGER_UNIT)


def _start_manager(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _gpu(rack, host, "0")
    _systemctl(host, "start", MANAGER_UNIT)


def _systemctl(host: RackHost, *words: str) -> None:
    init = cgroups.init(host)
    if init is None:
        raise ApplianceError(f"{host.name} does not run", "appliance lab up starts it")
    done = run(("nsenter", "--target", str(init), "--all", "systemctl", *words), check=False)
    if done.returncode:
        raise ApplianceError(
            f"{host.name}: {done.stderr.strip()[-120:]}",
            "stage gpu installs it: appliance deploy --until gpu",
        )


def _gpu(rack: Rack, host: RackHost, text: str) -> int:
    count = rack.hardware_of(host.name).gpus if host.is_gpu else 0
    if not text.isdigit() or int(text) >= count:
        known = (
            f"it has GPUs 0 to {count - 1}" if count else "only hosts with the role gpu have any"
        )
        raise ApplianceError(f'{host.name} has no GPU "{text}"', known)
    return int(text)


XID = Fault(
    "xid",
    "the driver has logged this Xid (of GPU 0 if none is named)",
    _log_xid,
    _forget_xid,
    "NUMBER [GPU]",
    1,
    ("95", "3"),
    gpu_ids.XID,
    "HOST/GPU 3",
    "Xid 95: an uncorrectable memory error spread beyond the job it hit, * min ago",
    True,
)
DRIVER = Fault(
    "wrong-driver",
    f"the host runs another driver (default {OTHER_DRIVER})",
    _change_driver,
    _restore_driver,
    "[VERSION]",
    check=gpu_ids.DRIVER,
    says=f"driver {OTHER_DRIVER} is not of branch 580",
)
WRONG_MANAGER = Fault(
    "wrong-fabric-manager",
    f"the host has a fabric manager of another version (default {OTHER_DRIVER})",
    _change_manager,
    _restore_manager,
    "[VERSION]",
    check=gpu_ids.FABRIC_MANAGER,
    says=f"fabric manager {OTHER_DRIVER} does not match driver *: it refuses to start",
)
STOPPED_MANAGER = Fault(
    "fabric-manager-stopped",
    "the fabric manager does not run",
    _stop_manager,
    _start_manager,
    check=gpu_ids.FABRIC_MANAGER,
    says="the fabric manager is inactive, enabled at boot",
    drains=True,
)
GPU_FAULTS = (
    *(_fault(symptom) for symptom in SYMPTOMS),
    XID,
    DRIVER,
    WRONG_MANAGER,
    STOPPED_MANAGER,
)
