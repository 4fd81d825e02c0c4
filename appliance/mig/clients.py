"""Monitoring daemons that keep a new MIG mode from taking effect: stopped during the change."""

from __future__ import annotations

import os
import subprocess  # noqa: TID251 - this program runs on hosts and has its own door
from typing import TYPE_CHECKING

from appliance.probe import files

if TYPE_CHECKING:
    from collections.abc import Sequence

WATCHERS = (
    "dcgm-exporter.service",
    "nvidia-dcgm-exporter.service",
    "nvidia-dcgm.service",
    "dcgm.service",
    "nvsm.service",
    "nvsm-core.service",
)
"""Units that NVIDIA's mig-parted stops, too, in this order."""
UNIT = "appliance-mig.service"
UNIT_FILE = "/etc/systemd/system/" + UNIT
RUN = os.environ.get("APPLIANCE_MIG_RUN", "/run")
STOPPED = RUN + "/appliance-mig.stopped"
"""The units that are stopped now, for the next run if this one is killed."""
SECONDS = 60


def _run(*argv: str) -> bool:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def stop() -> list[str]:
    """Stop the running monitoring units; return them."""
    found = [unit for unit in WATCHERS if _run("systemctl", "is-active", "--quiet", unit)]
    if found:
        _note(sorted({*found, *_noted()}, key=WATCHERS.index))
        _run("systemctl", "stop", *found)
    return found


def start_again() -> None:
    """Start the units that this run, or a killed one, had stopped."""
    noted = _noted()
    if noted:
        _run("systemctl", "start", *reversed(noted))
        os.unlink(STOPPED)  # noqa: PTH108


def retire() -> None:
    """Remove the unit that divides GPUs at boot, which has nothing left to do."""
    _run("systemctl", "disable", "--now", UNIT)
    if files.exists(UNIT_FILE):
        os.unlink(UNIT_FILE)  # noqa: PTH108
        _run("systemctl", "daemon-reload")


def reset(index: int) -> bool:
    """Reset an unused GPU, which activates a pending mode."""
    return _run("nvidia-smi", "--gpu-reset", "-i", str(index))


def _noted() -> list[str]:
    return [unit for unit in files.text(STOPPED).split() if unit in WATCHERS]


def _note(units: Sequence[str]) -> None:
    with open(STOPPED, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write("\n".join(units))
