"""Operating system: release, kernel, container, boot, cgroups and systemd's state."""

from __future__ import annotations

import os

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.lines import lines_of
from appliance.probe.mounts import TABLE, rows
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

MODULES = ("nvidia", "nouveau", "mlx5_core", "nvidia_peermem", "gdrdrv")
"""Drivers that stages install, replace or unload."""
FIRST = ("pid:[4026531836]", "uts:[4026531838]")
"""Namespaces of processes and of the host's name that a machine starts with (Linux, include/linux/proc_ns.h)."""
DEFAULT = "/etc/systemd/system/default.target"
OPTIONAL = frozenset({"nofail", "noauto", "x-systemd.automount"})
"""Options of fstab(5) with which the boot continues without the device."""
BY_TAG = {
    "UUID": "/dev/disk/by-uuid",
    "LABEL": "/dev/disk/by-label",
    "PARTUUID": "/dev/disk/by-partuuid",
    "PARTLABEL": "/dev/disk/by-partlabel",
}
MOST_LOST = 10
UNKNOWN = {
    "id": "unknown",
    "version_id": "",
    "kernel": "",
    "boot_id": "",
    "hostname": "",
    "cgroup": "",
}
"""The value of a failed area, whose error contains the reason."""


def collect(ask: Ask) -> Facts:
    """The areas ``os`` and ``modules``."""
    release = os_release(files.read(ask.path("/etc/os-release")))
    kernel = os.uname()
    state, failed = _systemd(ask)
    return {
        "os": {
            "id": release.get("ID", "linux"),
            "version_id": release.get("VERSION_ID", ""),
            "codename": release.get("VERSION_CODENAME", ""),
            "like": release.get("ID_LIKE", "").split(),
            "kernel": files.text(ask.path("/proc/sys/kernel/osrelease")) or kernel.release,
            "container": _container(ask),
            "boot_id": files.text(ask.path("/proc/sys/kernel/random/boot_id")),
            "hostname": files.text(ask.path("/proc/sys/kernel/hostname")) or kernel.nodename,
            "timezone": _timezone(ask),
            "cgroup": cgroup(files.data(ask.path(TABLE))),
            "state": state,
            "failed_units": failed,
            "boots_into": (files.link(ask.path(DEFAULT)) or "").rpartition("/")[2],
            "lost_at_boot": lost_at_boot(ask),
        },
        "modules": modules(ask),
    }


def lost_at_boot(ask: Ask) -> list[str]:
    """Return mount points of fstab(5) that the boot waits for and whose device is missing."""
    lost = []
    mounted: set[str] | None = None
    for line in lines_of(files.text(ask.path("/etc/fstab"))):
        words = line.partition("#")[0].split()
        if len(words) < 4 or words[2] == "swap" or OPTIONAL.intersection(words[3].split(",")):
            continue
        tag, _, name = words[0].partition("=")
        device = f"{BY_TAG[tag]}/{name}" if tag in BY_TAG else words[0]
        if not device.startswith("/dev/") or "\\" in line or files.exists(ask.path(device)):
            continue
        if mounted is None:
            mounted = {row.at for row in rows(files.data(ask.path(TABLE)))[0]}
        if words[1] not in mounted:
            lost.append(words[1])
    return lost[:MOST_LOST]


def modules(ask: Ask) -> dict[str, dict[str, str]]:
    """Return the loaded ones of MODULES with their version."""
    at = f"{ask.sys}/module/"
    return {
        name: {"version": files.text(f"{at}{name}/version")}
        for name in MODULES
        if files.exists(f"{at}{name}")
    }


def os_release(text: str) -> dict[str, str]:
    """Return the assignments of an os-release file, without quotes."""
    found = {}
    for line in lines_of(text):
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            found[name] = value.strip("\"'")
    return found


def cgroup(mountinfo: bytes) -> str:
    """Return which cgroup hierarchy is mounted: v1, v2, hybrid, or "" if none is."""
    found, _ = rows(mountinfo)
    types = {row.at: row.type for row in found if row.at.startswith("/sys/fs/cgroup")}
    if types.get("/sys/fs/cgroup") == "cgroup2":
        return "v2"
    if "cgroup2" in types.values() and "cgroup" in types.values():
        return "hybrid"
    return "v1" if "cgroup" in types.values() else ""


def _container(ask: Ask) -> str:
    """systemd's name for the container; /run/host/container-manager is older systemd's place for it."""
    for at in ("/run/systemd/container", "/run/host/container-manager"):
        name = files.text(ask.path(at))
        if name:
            return name
    if files.exists(ask.path("/run/.containerenv")):
        return "podman"
    # Systems of machines are made of images of containers, too (Warewulf, bootc), and keep this file.
    # A container may share its machine's processes (docker run --pid=host), and has a name of its own then.
    own = (files.link(ask.path(f"/proc/self/ns/{kind}")) for kind in ("pid", "uts"))
    of_machine = tuple(own) == FIRST
    return "docker" if files.exists(ask.path("/.dockerenv")) and not of_machine else ""


def _timezone(ask: Ask) -> str:
    target = files.link(ask.path("/etc/localtime")) or ""
    _, found, zone = target.partition("zoneinfo/")
    return zone if found else files.text(ask.path("/etc/timezone"))


def _systemd(ask: Ask) -> tuple[str, list[str]]:
    """State of the manager and its failed units; "offline" where the host was not booted with systemd."""
    if not files.exists(ask.path("/run/systemd/system")):
        return "offline", []
    try:
        said = ask.systemctl("show", "--property=SystemState,NFailedUnits")
        shown = dict(line.partition("=")[::2] for line in lines_of(said))
        failed = [] if shown.get("NFailedUnits") == "0" else _failed(ask)
        return shown.get("SystemState", ""), failed
    except Unreadable as error:
        ask.problem("os", error)
        return "", []


def _failed(ask: Ask) -> list[str]:
    listed = ask.run(
        ["systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--full"]
    )
    return [line.split()[0] for line in lines_of(listed) if line.strip()]
