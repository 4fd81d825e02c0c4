"""The driver as the kernel has it: loaded, in use, unloadable, allowed by secure boot."""

from __future__ import annotations

import glob
import os
from typing import Any

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of

MODULES = ("nvidia_peermem", "nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia")
"""In the order in which they can be unloaded."""

LOADED = "/sys/module/nvidia"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
OWNER_KEYS = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub")
"""What DKMS signs modules with on Ubuntu, and on Debian and the RHEL family."""
MAKE_A_KEY = "the host has none yet: docs/gpu.md, Secure boot, makes it; confirm it"

ASK = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")


class Kernel:
    """The door to the kernel's modules."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def answers(self) -> tuple[list[str], str]:
        """The driver's version as each GPU gives it, and what was said instead of an answer."""
        if self.module.get_bin_path("nvidia-smi") is None:
            return [], "nvidia-smi is not installed"
        code, out, err = self._run(*ASK)
        said = " ".join((out if code else err).split())
        return ([] if code else [line.strip() for line in lines_of(out) if line.strip()]), said

    def is_loaded(self) -> bool:
        """Whether the kernel has the driver, be it silent."""
        return os.path.isdir(LOADED)

    def load(self) -> str:
        """Load the driver; gives why it does not load, or ""."""
        code, out, err = self._run("modprobe", "nvidia")
        return "" if not code else " ".join((err or out).split()) or "modprobe nvidia failed"

    def unload(self) -> str:
        """Unload the driver; gives why it does not go, or ""."""
        code, out, err = self._run("modprobe", "-r", *MODULES)
        return "" if not code else " ".join((err or out).split()) or "modprobe -r nvidia failed"

    def holders(self) -> list[str]:
        """Processes that have a GPU open, as "python3 (4711)"."""
        found = set()
        for link in glob.glob("/proc/[0-9]*/fd/*"):
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if target.startswith("/dev/nvidia"):
                found.add(link.split("/")[2])
        return [f"{_name(pid)} ({pid})" for pid in sorted(found, key=int)]

    def evict_nouveau(self) -> bool:
        """Unload the free driver of the graphics stack; gives whether it is gone."""
        if os.path.isdir("/sys/module/nouveau"):
            self._run("modprobe", "-r", "nouveau")
        return not os.path.isdir("/sys/module/nouveau")

    def refusal(self) -> str:
        """Why secure boot would not let modules built here load; "" where it would."""
        try:
            with open(SECURE_BOOT, "rb") as variable:
                on = variable.read()[-1:] == b"\1"
        except OSError:
            on = False
        keys = [key for key in OWNER_KEYS if os.path.exists(key)]
        if not on or any(self._enrolled(key) for key in keys):
            return ""
        # DKMS makes its key with the first module it builds, and none is built here yet.
        way = f"mokutil --import {keys[0]}, confirm it" if keys else MAKE_A_KEY
        return (
            "secure boot is on and no machine owner key is enrolled, so the kernel would refuse the driver's modules:"
            f" enrol one ({way} at the console during the next boot) or turn secure boot off, then deploy again"
        )

    def _enrolled(self, key: str) -> bool:
        # It ends with 1 for a key that is enrolled, so only its words tell (mokutil 0.6).
        _, out, err = self._run("mokutil", "--test-key", key)
        return "already enrolled" in out + err

    def _run(self, *words: str) -> tuple[int, str, str]:
        answer: tuple[int, str, str] = self.module.run_command(
            ["timeout", "120", *words], environ_update={"LC_ALL": "C"}
        )
        return answer


def _name(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return "?"
