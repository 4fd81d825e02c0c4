"""Each fault of a host makes it unfit by one cause, named after the check that tells the same; what only slows it does not."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from appliance.stages.catalog import CHECKS
from appliance.stages.slurm.checks.idle import MOST_GIB
from appliance.watch import rules
from tests.support.judging import ids_in
from tests.support.watch_expects import EXPECTS

ACTIVE = {"active": "active"}


def gpu(index: int) -> dict[str, Any]:
    return {
        "index": index,
        "name": "A100",
        "bus_id": f"00000000:0{index}:00.0",
        "pcie_width": 16,
        "nvlinks_active": 12,
        "ecc_uncorrected": 0,
        "remap_failed": False,
    }


def port(device: str) -> dict[str, Any]:
    return {
        "device": device,
        "port": 1,
        "state": "ACTIVE",
        "physical": "LinkUp",
        "rate": 200.0,
        "link_layer": "InfiniBand",
    }


def disk(at: str, kind: str = "ext4", free: int = 90) -> dict[str, Any]:
    return {
        "at": at,
        "type": kind,
        "size": 100,
        "free": free,
        "read_only": False,
        "turned": False,
    }


def xid(code: int, age: float | None = 60.0, bus: str = "0000:01:00") -> dict[str, Any]:
    text = f"NVRM: Xid (PCI:{bus}): {code}, pid=7, name=State=IDLE, Uncontained: LTC"
    return {"code": code, "bus_id": bus, "age": age, "text": text}


def link(**counts: int) -> dict[str, Any]:
    none = {"fatal": 0, "nonfatal": 0, "correctable": 0}
    return {"at": "0000:17:00.0", "device": "mlx5_0", **none, **counts}


def drive(**said: Any) -> dict[str, Any]:
    return {"name": "nvme0", "warning": 0, "used": 3, "media_errors": 0, **said}


SOUND: dict[str, Any] = {
    "pci_gpus": 2,
    "gpus": {"devices": [gpu(0), gpu(1)]},
    "xid_events": [],
    "switch_events": [],
    "ports": [port("mlx5_0"), port("mlx5_1")],
    "filesystems": [disk("/"), disk("/scratch"), disk("/shared", "nfs4", 0)],
    "units": {"munge.service": ACTIVE, "nvidia-fabricmanager.service": ACTIVE},
    "clock": {"offset": 0.001},
    "memory_errors": {"corrected": 0, "uncorrected": 0, "modules": []},
    "pcie_errors": {"devices": 20, "errors": []},
    "nvme": {"drives": 2, "notable": []},
    "errors": {},
}
FATAL = "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 28"


def said(change: dict[str, Any], **expects: Any) -> list[str]:
    """Causes of a sound host in which the values at these paths are others; a path of None is taken away."""
    facts = deepcopy(SOUND)
    for path, value in change.items():
        at: Any = facts
        *folders, last = (int(word) if word.isdigit() else word for word in path.split("."))
        for word in folders:
            at = at[word]
        if value is None:
            del at[last]
        else:
            at[last] = value
    return [str(cause) for cause in rules.causes(facts, {**EXPECTS, **expects})]


def test_a_sound_host_is_fit() -> None:
    assert said({}) == []


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (
            {"pci_gpus": 1, "gpus.devices.1": None},
            "gpu.count 1 GPU is on the PCI bus, the class has 2",
        ),
        ({"gpus.devices.1": None}, "gpu.count the driver lists 1 of 2 GPUs"),
        ({"gpus": None}, "gpu.driver no driver answers: none is loaded"),
        ({"gpus.devices.1.error": "GPU is lost"}, "gpu.error GPU 1: the driver cannot reach it"),
        ({"gpus.devices.1.bus_id": ""}, "gpu.error GPU 1: the driver cannot reach it: no address"),
        ({"gpus.devices.1.ecc_uncorrected": 2}, "gpu.ecc GPU 1: 2 memory errors"),
        ({"gpus.devices.1.sram_exceeded": True}, "gpu.ecc GPU 1: its on-chip memory"),
        ({"gpus.devices.1.sram_uncorrected": 5}, "gpu.ecc GPU 1: its on-chip memory"),
        ({"gpus.devices.1.remap_failed": True}, "gpu.remap GPU 1: a failing memory row"),
        ({"gpus.devices.1.pcie_width": 8}, "gpu.pcie GPU 1: it runs at x8 of x16"),
        ({"gpus.devices.1.nvlinks_active": 11}, "gpu.nvlink GPU 1: 1 of 12 NVLinks are down"),
        ({"xid_events": [xid(95)]}, "gpu.xid GPU 1: Xid 95, Uncontained: LTC"),
        ({"xid_events": [xid(95, None)]}, "gpu.xid GPU 1: Xid 95"),
        (
            {"switch_events": [{"code": 20034, "bus_id": "0000:c3:00.0", "age": 1, "text": FATAL}]},
            "gpu.xid NVSwitch 0000:c3:00.0: SXid 20034, fatal",
        ),
        ({"units.munge.service": {"active": "failed"}}, "slurm.munge munge is failed"),
        ({"ports.1": None}, "fabric.ports 1 InfiniBand port, the class has 2"),
        ({"ports.1.physical": "Polling", "ports.1.state": "DOWN"}, "fabric.state mlx5_1: port 1"),
        ({"ports.1.state": "INIT"}, "fabric.active mlx5_1: port 1 is INIT"),
        ({"ports.1.rate": 100.0}, "fabric.rate mlx5_1: 100 of 200 Gb/s"),
        ({"filesystems.2": None}, "storage.mount nothing is mounted at /shared"),
        ({"filesystems.2.read_only": True}, "storage.mount /shared is read-only"),
        ({"filesystems.1": None}, "storage.scratch nothing is mounted at /scratch"),
        ({"filesystems.0.turned": True}, "base.disk / is read-only"),
        ({"filesystems.0.free": 4, "filesystems.1.free": 4}, "base.disk / has 4.0 % free"),
        ({"clock.offset": -200.0}, "base.clock the clock is 200 s off"),
        (
            {"memory_errors.uncorrected": 2},
            "base.memory_errors 2 memory errors could not be corrected",
        ),
        (
            {"memory_errors": {"uncorrected": 2, "modules": [{"label": "A1", "uncorrected": 2}]}},
            "base.memory_errors A1: 2 memory errors could not be corrected",
        ),
        (
            {"pcie_errors.errors": [link(fatal=1)]},
            "base.pcie_errors 0000:17:00.0: 1 fatal PCIe error of mlx5_0",
        ),
        ({"nvme.notable": [drive(dead=True)]}, "base.nvme nvme0: the kernel disabled the drive"),
        ({"nvme.notable": [drive(warning=0x08)]}, "base.nvme nvme0: it is read-only"),
        ({"nvme.notable": [drive(warning=0x04)]}, "base.nvme nvme0: it is read-only, or reports"),
    ],
)
def test_a_fault_is_one_cause(change: dict[str, Any], cause: str) -> None:
    change = {path.replace("munge.service", "munge:service"): v for path, v in change.items()}
    if "units.munge:service" in change:
        change = {"units": {**SOUND["units"], "munge.service": change["units.munge:service"]}}
    (found,) = said(change)
    assert found.startswith(cause)
    assert "State=" not in found


@pytest.mark.parametrize(
    ("said_so", "out"),
    [
        (["0x1 (GPU Reset Required)"], True),
        (["0x2 (Node Reboot Required)"], True),
        (["0x1 (GPU Reset Required)", "0x0 (None)"], False),
        (["0x0 (None)"], False),
        (["0x9 (Something New)"], False),
        (["something new"], False),
    ],
)
def test_the_driver_s_last_recommendation_is_followed(said_so: list[str], out: bool) -> None:
    events = [
        {
            **xid(154),
            "text": f"NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed to {one}",
        }
        for one in said_so
    ]
    found = said({"xid_events": events}, xid_recovery="1 2 3 4")
    assert [one.partition(",")[0] for one in found] == ["gpu.xid GPU 1: Xid 154"] * out
    assert said({"xid_events": events}) == []


def test_a_fabric_manager_that_stopped_and_a_device_that_is_gone() -> None:
    stopped = {**SOUND["units"], "nvidia-fabricmanager.service": {"active": "inactive"}}
    assert said({"units": stopped}) == ["gpu.fabric_manager the fabric manager is inactive"]
    assert said({"units": stopped}, fabric_manager=False) == []
    gone = ["/dev/null", "/nowhere/0", "/nowhere/1"]
    assert said({}, devices=gone) == ["slurm.gres the device /nowhere/0 and 1 more is missing"]


@pytest.mark.parametrize(
    "change",
    [
        {"xid_events": [xid(95, 25 * 3600.0), xid(13)]},
        {"xid_events": [xid(79, bus="0000:09:00")]},
        {"gpus.devices.1.remap_pending": True},
        {"gpus.devices.1.temperature": 99},
        {"gpus.devices.1.nvlinks_active": 0, "gpus.devices.1.mig_enabled": True},
        {"clock.offset": 3.0},
        {"memory_errors.corrected": 9000},
        {"pcie_errors.errors": [link(nonfatal=3, correctable=9000)]},
        {"nvme.notable": [drive(used=120, warning=0x01, media_errors=4)]},
        {"memory_errors": None, "pcie_errors": None, "nvme": None},
        {"filesystems": None, "ports": None, "gpus.devices.1.pcie_width": None},
    ],
)
def test_what_is_old_slow_known_otherwise_or_not_known_takes_nobody_out(
    change: dict[str, Any],
) -> None:
    assert said(change) == []


GIB = 1 << 30


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        ({}, []),
        ({"processes": 0, "memory_used": GIB}, []),
        ({"processes": 1}, ["slurm.idle_gpus GPU 1: 1 process of an ended job left"]),
        (
            {"processes": None, "memory_used": 30 * GIB},
            ["slurm.idle_gpus GPU 1: 30.0 GiB of memory in use after its job ended"],
        ),
        ({"processes": 2, "mig_enabled": True}, []),
        ({"processes": 2, "error": "lost"}, []),
        ({"processes": 2, "minor": 7}, []),
    ],
)
def test_what_a_job_leaves_is_looked_for_on_its_own_gpus(
    change: dict[str, Any], causes: list[str]
) -> None:
    facts = {"gpus": {"devices": [{**gpu(0), "processes": 5}, {**gpu(1), **change}]}}
    assert [str(cause) for cause in rules.leftovers(facts, {"1"}, EXPECTS)] == causes
    assert list(rules.leftovers({"gpus": None}, {"1"}, EXPECTS)) == []


def test_the_limit_of_memory_in_use_is_the_check_s_own() -> None:
    assert rules.IDLE_GIB == MOST_GIB
    facts = {"gpus": {"devices": [{**gpu(1), "memory_used": 30 * GIB}]}}
    assert list(rules.leftovers(facts, {"1"}, {**EXPECTS, "idle_gib": 40.0})) == []


def test_what_was_not_to_be_had_is_a_gap() -> None:
    assert rules.gaps({"errors": {"xids": "no kernel log"}}) == ["xids: no kernel log"]


def test_what_takes_a_host_out_bears_the_id_of_a_check() -> None:
    told = ids_in(Path(rules.__file__))
    assert told <= {c.id for c in CHECKS}
    assert len(told) >= 18


UNPLUGGED = {"physical": "2: Polling", "state": "1: DOWN"}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ([port("mlx5_1"), {**port("mlx5_2"), **UNPLUGGED}], []),
        (
            [{**port("mlx5_1"), **UNPLUGGED}, {**port("mlx5_2"), **UNPLUGGED}],
            ["fabric.state 1 of 3 ports have a link, the class has 2"],
        ),
    ],
)
def test_a_port_beyond_the_class_takes_nobody_out_while_the_class_has_its_links(
    more: list[dict[str, Any]], told: list[str]
) -> None:
    facts = {**SOUND, "ports": [port("mlx5_0"), *more]}
    assert [str(cause) for cause in rules.causes(facts, EXPECTS)] == told
