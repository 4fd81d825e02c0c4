"""The system disk: exactly one must match, and its content is known before it is written."""

import json
import re
import subprocess  # noqa: TID251 - the ramdisk has nothing of this program
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from appliance.provision.ramdisk.shared import Refused, run

Disk = Mapping[str, Any]
"""One of lsblk's block devices; sizes in bytes."""

SETTLED_S = 60.0
LOOK_S = 3.0
PROBED = 1 << 20
"""Bytes at both ends of a disk, where tables and file systems have their signatures."""
COLUMNS = "NAME,PATH,TYPE,SIZE,RM,RO,TRAN,MODEL,SERIAL,WWN"
NAME_IT = "name it by serial, WWN or path: hosts[].disk in site.yml"


def find(wanted: Mapping[str, Any], least: int) -> Disk:
    """Waits until no more disks appear, then chooses. ``least``: bytes of the image. Raises Refused."""
    ends = time.monotonic() + SETTLED_S
    before: list[str] = []
    while True:
        disks = candidates(run("lsblk", "--json", "--bytes", "--nodeps", "--output", COLUMNS))
        names = sorted(disk["name"] for disk in disks)
        # Storage controllers detect drives one by one: a second candidate must not appear after the first was chosen.
        if (names and names == before) or time.monotonic() > ends:
            return choose(disks, places(), wanted, least)
        before = names
        time.sleep(LOOK_S)


def candidates(listed: str) -> list[Disk]:
    """The disks of ``lsblk --json --bytes`` that can hold a system: not removable, not read-only, not USB."""
    return [
        disk
        for disk in json.loads(listed)["blockdevices"]
        if disk["type"] == "disk"
        and not (disk["rm"] or disk["ro"] or disk.get("tran") == "usb")
        and int(disk["size"] or 0) > 0
    ]


def places(folder: Path = Path("/dev/disk/by-path")) -> dict[str, list[str]]:
    """By kernel name, the names of disks by their path: pci-0000:41:00.0-nvme-1."""
    found: dict[str, list[str]] = {}
    for link in folder.glob("*") if folder.is_dir() else ():
        found.setdefault(link.resolve().name, []).append(link.name)
    return found


def choose(
    disks: Sequence[Disk],
    at: Mapping[str, Sequence[str]],
    wanted: Mapping[str, Any],
    least: int,
) -> Disk:
    """The one matching disk. Raises Refused: none matches, several do, or it is smaller than the image."""
    fitting = [disk for disk in disks if is_meant(disk, at.get(disk["name"], ()), wanted)]
    there = "it has " + (", ".join(shown(disk) for disk in disks) or "no disk")
    if not fitting:
        raise Refused(f"no disk matches hosts[].disk of the site; {there}", NAME_IT)
    if len(fitting) > 1:
        raise Refused(f"{len(fitting)} disks could be the system disk; {there}", NAME_IT)
    if int(fitting[0]["size"]) < least:
        small = f"{shown(fitting[0])} is smaller than the image, {least / 1e9:.1f} GB"
        raise Refused(f"disk {small}", NAME_IT)
    return fitting[0]


def is_meant(disk: Disk, at: Sequence[str], wanted: Mapping[str, Any]) -> bool:
    """Whether this disk matches everything the site declares."""
    gb = int(disk["size"]) / 1e9
    return all(
        (
            "path" not in wanted or wanted["path"] in at,
            "wwn" not in wanted or _plain(wanted["wwn"]) == _plain(disk.get("wwn")),
            "serial" not in wanted or _plain(wanted["serial"]) == _plain(disk.get("serial")),
            "model" not in wanted or _plain(wanted["model"]) in _plain(disk.get("model")),
            gb >= wanted.get("min_gb", 0),
            gb <= wanted.get("max_gb", float("inf")),
        )
    )


def _plain(value: object) -> str:
    """Vendors pad serials, and mix upper and lower case."""
    return re.sub(r"\s+", " ", str(value or "")).strip().lower()


def shown(disk: Disk) -> str:
    """A disk's distinguishing features, for people."""
    words = (disk.get("model"), disk.get("serial") and f"serial {disk['serial']}")
    inner = ", ".join(str(word).strip() for word in words if word)
    return f"{disk['name']} of {int(disk['size']) / 1e9:.0f} GB" + (f" ({inner})" if inner else "")


def carries(device: str) -> str:
    """The content of a disk, "" if it is blank. Raises Refused if that cannot be determined."""
    try:
        with Path(device).open("rb", buffering=0) as disk:
            # For an unreadable disk, blkid reports that nothing was found.
            for at in (0, max(0, disk.seek(0, 2) - PROBED)):
                disk.seek(at)
                disk.read(PROBED)
    except OSError as error:
        why = error.strerror or "it cannot be read"
        raise Refused(f"the content of {device} cannot be determined: {why}") from None
    done = subprocess.run(
        ("blkid", "-p", "-o", "export", device), capture_output=True, text=True, check=False
    )
    if done.returncode == 8:  # blkid(8): ambivalent results
        return "several file systems at once"
    if done.returncode not in (0, 2):  # 2: nothing was found
        raise Refused(
            f"the content of {device} cannot be determined: blkid ended with {done.returncode}"
        )
    pairs = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if "PTTYPE" in pairs:
        return f"a partition table ({pairs['PTTYPE']})"
    return pairs.get("TYPE", "")
