"""The kernel log of a host's simulated GPUs, in the records of /dev/kmsg."""

import time
from pathlib import Path

FILE = "var/lib/appliance-lab/kmsg"
FIRST = "5,0,0,-;Linux (simulated)\n"
ERROR = 3

UNKNOWN = "pid='<unknown>', name=<unknown>"
XIDS = {
    13: "pid=1896, name=python3, Graphics SM Warp Exception on (GPC 0, TPC 0, SM 0): Out Of Range Address",
    31: "pid=1896, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0",
    43: "pid=1896, name=python3, Ch 00000008",
    48: f"{UNKNOWN}, DBE (double bit error) ECC Error",
    63: "pid=1896, name=python3, Row Remapper: New row marked for remapping, reset gpu to activate.",
    64: f"{UNKNOWN}, Row Remapper: Error recording a row remapping",
    74: f"{UNKNOWN}, NVLink: fatal error detected on link 0(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: f"{UNKNOWN}, GPU has fallen off the bus.",
    94: "pid=1896, name=python3, Contained: SM (0x1). RST: No, D-RST: No",
    95: f"{UNKNOWN}, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    119: f"{UNKNOWN}, Timeout after 6s of waiting for RPC response from GPU0 GSP!",
}
"""The driver's text after the number; for other codes only its format."""


def clear(root: Path) -> None:
    """The log of a host that has just started: the kernel's first record alone."""
    (root / FILE).parent.mkdir(parents=True, exist_ok=True)
    (root / FILE).write_text(FIRST, encoding="utf-8")


def add_xid(root: Path, address: str, xid: int) -> None:
    """Let the driver complain of the GPU at a PCI address."""
    microseconds = int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
    with (root / FILE).open("a", encoding="utf-8") as log:
        record = f"{ERROR},{microseconds // 1000},{microseconds},-"
        log.write(f"{record};{_said(address, xid)}, {XIDS.get(xid, UNKNOWN)}\n")


def remove_xid(root: Path, address: str, xid: int) -> None:
    """Forget every such complaint."""
    try:
        lines = (root / FILE).read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return
    kept = [line for line in lines if _said(address, xid) + "," not in line]
    (root / FILE).write_text("".join(kept), encoding="utf-8")


def _said(address: str, xid: int) -> str:
    """The driver leaves the PCI function out."""
    return f"NVRM: Xid (PCI:{address.partition('.')[0]}): {xid}"
