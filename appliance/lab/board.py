"""Simulates memory, PCIe devices and drives of a rack host's main board: in sysfs, and as the answer of a drive.

A container has no drive that answers an ioctl: the health page of a drive is in a file, and the host's mark names its folder.
"""

from collections.abc import Mapping

from appliance.lab.hardware import Hardware

PAGES = "var/lib/appliance-lab/nvme"
"""Health pages by the name of the drive, as log page 02h of NVM Express has them."""
MEMORY = "devices/system/edac/mc"
MODULES = 4
"""Modules of a memory controller; there is one controller for each NUMA node."""
DRIVES = 2
PAGE = 512
CORRECTABLE = (
    "RxErr",
    "BadTLP",
    "BadDLLP",
    "Rollover",
    "Timeout",
    "NonFatalErr",
    "CorrIntErr",
    "HeaderOF",
)
UNCORRECTABLE = (
    "Undefined",
    "DLP",
    "SDES",
    "TLP",
    "FCP",
    "CmpltTO",
    "CmpltAbrt",
    "UnxCmplt",
    "RxOF",
    "MalfTLP",
    "ECRC",
    "UnsupReq",
    "ACSViol",
    "UncorrIntErr",
    "BlockedTLP",
    "AtomicOpBlocked",
    "TLPBlockedErr",
    "PoisonTLPBlocked",
)
TOTALS = {
    "aer_dev_correctable": (CORRECTABLE, "TOTAL_ERR_COR"),
    "aer_dev_fatal": (UNCORRECTABLE, "TOTAL_ERR_FATAL"),
    "aer_dev_nonfatal": (UNCORRECTABLE, "TOTAL_ERR_NONFATAL"),
}


def pcie_counters(**counts: Mapping[str, int]) -> dict[str, str]:
    """The files of a device's errors, without a newline at the end: ``aer_dev_fatal={"SDES": 1}``; of the rest nothing."""
    found = {}
    for file, (kinds, total) in TOTALS.items():
        known = counts.get(file, {})
        lines = [f"{kind} {known.get(kind, 0)}" for kind in kinds]
        found[file] = "\n".join([*lines, f"{total} {sum(known.values())}"])
    return found


def module_label(controller: int, module: int) -> str:
    """The label of a module in Intel's drivers."""
    return f"CPU_SrcID#{controller}_MC#0_Chan#{module}_DIMM#0"


def memory(
    hardware: Hardware, errors: Mapping[str, Mapping[str, int]] | None = None
) -> dict[str, str]:
    """Files of the memory controllers in sysfs; ``errors`` by module's label: {"dimm_ue_count": 2}."""
    found = {}
    for controller in range(hardware.numa_nodes):
        at = f"{MEMORY}/mc{controller}"
        totals = {"ce": 0, "ue": 0}
        for module in range(MODULES):
            label = module_label(controller, module)
            found[f"{at}/dimm{module}/dimm_label"] = f"{label}\n"
            for kind in totals:
                count = (errors or {}).get(label, {}).get(f"dimm_{kind}_count", 0)
                found[f"{at}/dimm{module}/dimm_{kind}_count"] = f"{count}\n"
                totals[kind] += count
        found |= {f"{at}/{kind}_count": f"{count}\n" for kind, count in totals.items()}
        found[f"{at}/seconds_since_reset"] = "86400\n"
    return found


def drives() -> dict[str, str]:
    """Files of the drives in sysfs."""
    return {
        f"class/nvme/nvme{index}/{name}": f"{text}\n"
        for index in range(DRIVES)
        for name, text in {
            "model": "Simulated NVMe drive",
            "serial": f"SIM{index:04}",
            "state": "live",
            "transport": "pcie",
        }.items()
    }


def health_page(
    *, warning: int = 0, spare: int = 100, used: int = 3, media_errors: int = 0
) -> bytes:
    """A drive's answer: for a good one 308 K, 3 % used, 1,000 power-on hours."""
    page = bytearray(PAGE)
    page[0:6] = warning, *(308).to_bytes(2, "little"), spare, 10, used
    page[112:128] = (12).to_bytes(16, "little")
    page[128:144] = (1000).to_bytes(16, "little")
    page[160:176] = media_errors.to_bytes(16, "little")
    return bytes(page)
