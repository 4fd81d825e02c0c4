"""A host's processors and PCI bus in the format of sysfs, with configuration spaces of 4096 bytes."""

import struct
from pathlib import Path

ROOT_PORT, SWITCH = "0000:16:01.0", "0000:17:00.0"
GPU, HCA, FUNCTION = "0000:18:00.0", "0000:19:00.0", "0000:19:00.1"
BRIDGE = "pci0000:16/" + ROOT_PORT
EXPRESS_AT, ACS_AT = 0x60, 0x148


def space(control: int = 0x2810, acs: int | None = None) -> bytes:
    """Device Control in a capability at 60h, ACS Control in an extended one at 148h.

    2810h: requests of 512 bytes, payloads of 128, relaxed ordering. (linux/pci_regs.h)
    """
    made = bytearray(4096)
    made[0x06], made[0x34] = 0x10, 0x40
    struct.pack_into("<BB", made, 0x40, 0x01, EXPRESS_AT)
    struct.pack_into("<BB", made, EXPRESS_AT, 0x10, 0)
    struct.pack_into("<H", made, EXPRESS_AT + 8, control)
    struct.pack_into("<I", made, 0x100, 0x0001 | 1 << 16 | ACS_AT << 20)
    if acs is not None:
        struct.pack_into("<I", made, ACS_AT, 0x000D | 1 << 16)
        struct.pack_into("<H", made, ACS_AT + 6, acs)
    return bytes(made)


def pci_host(
    root: Path, *, acs: int = 0x1D, adapter: int = 0x2810, gpu: int = 0x2810, iommu: str = "DMA-FQ"
) -> Path:
    """Two processors, and a GPU and an adapter below one switch; its settings are those of a kernel that nobody tuned.

    ACS 1Dh: SrcValid, ReqRedir, CmpltRedir, UpstreamFwd, as the kernel enables it together with an IOMMU.
    """
    cpus = "sys/devices/system/cpu"
    for n in range(2):
        _put(root, f"{cpus}/cpufreq/policy{n}/scaling_governor", "powersave\n")
        _put(root, f"{cpus}/cpu{n}/power/pm_qos_resume_latency_us", "0\n")
    for n, (name, latency) in enumerate((("POLL", 0), ("C1", 2), ("C1E", 10), ("C6", 170))):
        for field, value in (("name", name), ("latency", latency), ("disable", 0)):
            _put(root, f"{cpus}/cpu0/cpuidle/state{n}/{field}", f"{value}\n")
    _put(root, "sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")
    _put(root, "proc/cmdline", "root=/dev/sda1 secret=x intel_iommu=on pci=realloc=on\n")
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.06  Release Build\n"
    _put(root, "proc/driver/nvidia/version", line)
    for at, kind, config in (
        (f"{BRIDGE}", "0x060400", space(acs=acs)),
        (f"{BRIDGE}/{SWITCH}", "0x060400", space(acs=acs)),
        (f"{BRIDGE}/{SWITCH}/{GPU}", "0x030200", space(gpu)),
        (f"{BRIDGE}/{SWITCH}/{HCA}", "0x020700", space(adapter)),
        (f"{BRIDGE}/{SWITCH}/{FUNCTION}", "0x020700", space(0)),
    ):
        device = root / "sys/devices" / at
        _put(device, "class", kind + "\n")
        _put(device, "vendor", {"0x030200": "0x10de\n"}.get(kind, "0x15b3\n"))
        (device / "config").write_bytes(config)
        if iommu:
            _put(root, f"sys/kernel/iommu_groups/{device.name[5:7]}/type", iommu + "\n")
            (device / "iommu_group").symlink_to(
                root / f"sys/kernel/iommu_groups/{device.name[5:7]}"
            )
        named = root / "sys/bus/pci/devices" / device.name
        named.parent.mkdir(parents=True, exist_ok=True)
        named.symlink_to(device)
    function = root / "sys/devices" / BRIDGE / SWITCH / FUNCTION
    (function / "physfn").symlink_to(root / "sys/devices" / BRIDGE / SWITCH / HCA)
    return root


def _put(root: Path, at: str, text: str) -> None:
    path = root / at
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
