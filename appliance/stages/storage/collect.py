"""The NFS client of this host, if it has one."""

from __future__ import annotations

import os

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.lines import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts


def collect(ask: Ask) -> Facts:
    """The area ``nfs``."""
    if _in_kernel(ask):
        return {"nfs_client": "kernel"}
    return {"nfs_client": "libnfs" if ask.has("nfs-ls") or ask.has("nfs-cp") else ""}


def _in_kernel(ask: Ask) -> bool:
    """Return whether the kernel has the client or can load it; a container cannot load modules."""
    known = files.read(ask.path("/proc/filesystems")).split()
    if "nfs" in known or "nfs4" in known:
        return True
    if files.text(ask.path("/run/systemd/container")):
        return False
    modules = files.text(ask.path(f"/lib/modules/{os.uname().release}/modules.dep"))
    return any(
        line.partition(":")[0].rpartition("/")[2].startswith("nfs.ko") for line in lines_of(modules)
    )
