"""Faults of a rack host's simulated memory, PCIe links and NVMe drives."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from appliance.errors import ApplianceError, ConfigError
from appliance.lab import board, sysfs
from appliance.lab.fault import Action, Fault
from appliance.lab.spec import Rack, RackHost
from appliance.stages.base import ids as base_ids

CORRECTED = "500"
MOST = 10**6
REPEATED = "5000"
MODULE = board.module_label(0, 2)


def _counting(kind: str, usual: str) -> tuple[Action, Action]:
    """Memory errors of a module, in addition to those of other faults."""

    def count(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
        _write_memory(rack, host, arguments[0], kind, _number(arguments, usual))

    def forget(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
        _write_memory(rack, host, arguments[0], kind, 0)

    return count, forget


def _number(arguments: Sequence[str], usual: str) -> int:
    wanted = arguments[1] if len(arguments) > 1 else usual
    if not wanted.isdigit() or int(wanted) > MOST:
        raise ConfigError(f'"{wanted}" is not a count of errors', f"0 to {MOST}")
    return int(wanted)


def _write_memory(rack: Rack, host: RackHost, module: str, kind: str, number: int) -> None:
    known = [
        board.module_label(controller, index)
        for controller in range(rack.hardware_of(host.name).numa_nodes)
        for index in range(board.MODULES)
    ]
    if module not in known:
        raise ApplianceError(f"{host.name} has no module {module}", f"it has {', '.join(known)}")
    kept = host.folder / "memory_errors.json"
    errors: dict[str, dict[str, int]] = (
        json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    )
    errors.setdefault(module, {})[kind] = number
    kept.write_text(json.dumps(errors), encoding="utf-8")
    for name, text in board.memory(rack.hardware_of(host.name), errors).items():
        (host.root / sysfs.ROOT / name).write_text(text, encoding="utf-8")


def _repeat(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _write_link(host, arguments[0], {"BadTLP": _number(arguments, REPEATED)})


def _repeat_no_more(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _write_link(host, arguments[0], {})


def _write_link(host: RackHost, device: str, errors: Mapping[str, int]) -> None:
    at = host.root / sysfs.ROOT / "class/infiniband" / device / "device"
    if "/" in device or not at.is_dir():
        raise ApplianceError(f"{host.name} has no {device}")
    text = board.pcie_counters(aer_dev_correctable=errors)["aer_dev_correctable"]
    (at / "aer_dev_correctable").write_text(f"{text}\n", encoding="utf-8")


def _answering(page: bytes) -> Action:
    """The drive answers with this page from now on."""

    def answer(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
        _page(host, arguments[0]).write_bytes(page)

    return answer


def _page(host: RackHost, drive: str) -> Path:
    known = [f"nvme{index}" for index in range(board.DRIVES)]
    if drive not in known:
        raise ApplianceError(f"{host.name} has no drive {drive}", f"it has {', '.join(known)}")
    return host.root / board.PAGES / drive


BOARD_FAULTS = (
    Fault(
        "edac-uncorrected",
        "a memory module has errors that could not be corrected (default 2)",
        *_counting("dimm_ue_count", "2"),
        "MODULE [COUNT]",
        1,
        (MODULE,),
        base_ids.MEMORY_ERRORS,
        f"HOST/{MODULE}",
        f"2 memory errors of {MODULE} could not be corrected since the host was started",
        drains=True,
    ),
    Fault(
        "edac-corrected",
        f"a memory module has errors that were corrected (default {CORRECTED} in a day)",
        *_counting("dimm_ce_count", CORRECTED),
        "MODULE [COUNT]",
        1,
        (MODULE,),
        base_ids.MEMORY_ERRORS,
        f"HOST/{MODULE}",
        f"{CORRECTED} memory errors of {MODULE} were corrected in *: the module is likely to produce uncorrectable errors soon",
    ),
    Fault(
        "aer-corrected",
        f"the link of an adapter repeats damaged packets (default {REPEATED} times)",
        _repeat,
        _repeat_no_more,
        "DEVICE [COUNT]",
        1,
        ("mlx5_4",),
        base_ids.PCIE_ERRORS,
        "HOST/0000:8d:00.0",
        f"{REPEATED} PCIe errors of mlx5_4 were corrected in *: a bad link",
    ),
    Fault(
        "nvme-worn",
        "an NVMe drive is at the end of its life",
        _answering(board.health_page(used=104)),
        _answering(board.health_page()),
        "DRIVE",
        1,
        ("nvme1",),
        base_ids.NVME,
        "HOST/nvme1",
        "104 % of its rated life is used",
    ),
    Fault(
        "nvme-read-only",
        "an NVMe drive has no spare blocks and is read-only",
        _answering(board.health_page(warning=0x09, spare=0, used=131, media_errors=17)),
        _answering(board.health_page()),
        "DRIVE",
        1,
        ("nvme1",),
        base_ids.NVME,
        "HOST/nvme1",
        "spare blocks (0 %) are below the drive's threshold (10 %); the drive is read-only",
        drains=True,
    ),
)
