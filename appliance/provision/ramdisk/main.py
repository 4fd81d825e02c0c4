"""Installs the host that this ramdisk was started on, and reports progress on its console and to the control machine."""

import json
import subprocess  # noqa: TID251 - the ramdisk has nothing of this program
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from appliance.provision.ramdisk import dhcp, disks, images, ports, system
from appliance.provision.ramdisk.server import Server
from appliance.provision.ramdisk.shared import Refused, run

SETTINGS = Path("/appliance/host.json")
"""Written for this host into the boot medium (``appliance.provision.settings``)."""
MEDIUM = Path("/dev/disk/by-label/APPLIANCE")
MEDIUM_AT = Path("/medium")
EVERY_S = 5.0
CLOCK_OFF_S = 60.0

Settings = Mapping[str, Any]


def say(text: str) -> None:
    """A line on the console."""
    sys.stdout.write(f"appliance: {text}\n")
    sys.stdout.flush()


class Teller:
    """Reports every step on the console, and to the control machine if there is one."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self._next = 0.0
        self._said = -1

    def step(self, state: str, **more: Any) -> float:
        """Another step; returns the control machine's time, 0 without one."""
        details = " ".join(f"{key}={value}" for key, value in more.items())
        say(f"{state} {details}".rstrip())
        return self.server.report({"state": state, **more}) if self.server else 0.0

    def percent(self, done: int) -> None:
        """The percentage of the image that is written; a lost report does not matter."""
        if done != self._said and time.monotonic() >= self._next:
            self._said, self._next = done, time.monotonic() + EVERY_S
            with suppress(Refused):
                self.step("writing", percent=done)


def main() -> None:
    """The whole installation. Powers off on success, or if the control machine received the error."""
    teller = Teller()
    try:
        install(json.loads(SETTINGS.read_text(encoding="utf-8")), teller)
    except Refused as error:
        if _reported(teller, error):
            power_off()
    except Exception as error:  # noqa: BLE001 - any error must be reported
        if _reported(teller, Refused(f"the installer failed: {type(error).__name__}: {error}")):
            power_off()
    else:
        power_off()


def _reported(teller: Teller, error: Refused) -> bool:
    say(f"NOT INSTALLED: {error.message}")
    say(error.remedy)
    if teller.server is None:
        return False
    with suppress(Refused):
        teller.server.report({"state": "refused", "message": error.message, "fix": error.remedy})
        return True
    return False


def install(settings: Settings, teller: Teller) -> None:
    """Finds port and disk, writes the image, configures the system for the host. Raises Refused."""
    port, mac = _port(settings, teller)
    network = {**settings["network"], "mac": mac}
    asking = dhcp.Asking(port, mac)
    image = settings["image"]
    disk = disks.find(settings["disk"], int(image["disk_bytes"]))
    device = str(disk["path"])
    found = disks.carries(device)
    if found and not settings["reinstall"]:
        raise Refused(
            f"disk {disks.shown(disk)} holds {found}",
            f"to erase it: appliance provision install --reinstall {settings['host']}",
        )
    teller.step("disk", disk=disks.shown(disk))
    began = time.monotonic()
    source = teller.server.image() if teller.server else _medium().open("rb")
    images.install(source, image, device, teller.percent)
    images.reread(device)
    boot, root = (images.partition(device, number) for number in (1, 2))
    images.grow(device, root)
    teller.step("written", seconds=round(time.monotonic() - began), dhcp=asking.answer())
    new = system.new_identity(root, image["root_uuid"])
    with system.mounted(root, boot) as target:
        key = system.configure(
            target, {**settings, "network": network}, {"old": image["root_uuid"], "new": new}
        )
    run("sync")
    teller.step("installed", host_key=key)


def _port(settings: Settings, teller: Teller) -> tuple[str, str]:
    """Brings up the management port and finds the control machine; returns the port's name and MAC address."""
    network = settings["network"]
    ports.raise_all()
    time.sleep(0 if network.get("mac") else 5)
    name = ports.find(network.get("mac"))
    ports.configure(name, network)
    if settings.get("server"):
        teller.server = Server(settings["server"])
        _set_clock(teller.step("started"))
    return name, (ports.NET / name / "address").read_text(encoding="ascii").strip()


def _set_clock(now: float) -> None:
    """A new machine's clock may be years off; its system takes the time from the hardware clock."""
    if abs(now - time.time()) > CLOCK_OFF_S:
        time.clock_settime(time.CLOCK_REALTIME, now)
        with suppress(Refused, FileNotFoundError):
            run("hwclock", "--systohc", "--utc")


def _medium() -> Path:
    """The image on the boot medium itself, for sites without a connection to the control machine."""
    MEDIUM_AT.mkdir(exist_ok=True)
    run("mount", "-t", "iso9660", "-o", "ro", str(MEDIUM), str(MEDIUM_AT))
    return MEDIUM_AT / "disk.raw.zst"


def power_off() -> None:
    """At once: there is no system to shut down. By system call, because the ramdisk has no init."""
    sys.stdout.flush()
    subprocess.run(("sync",), check=False)
    Path("/proc/sysrq-trigger").write_text("o", encoding="ascii")
    time.sleep(60)
