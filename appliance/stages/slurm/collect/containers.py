"""Containers in Slurm jobs: the plugin that srun loads, enroot and its requirements."""

from __future__ import annotations

import json
import os

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.collectors import packages
from appliance.probe.problems import Absent, Unreadable
from appliance.probe.state import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

NOTE = "/var/lib/appliance/slurm-containers.json"
"""File that records what role slurm built and installed."""
PLUGSTACK = "/etc/slurm/plugstack.conf.d/pyxis.conf"
PACKAGES = ("enroot", "enroot-hardened")
OPTION = "--container-image"
NEEDED = ("mksquashfs", "unsquashfs", "nvidia-container-cli")
KERNEL = (
    "user/max_user_namespaces",
    "user/max_mnt_namespaces",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
)


def collect(ask: Ask) -> Facts:
    """The area ``containers``; none without enroot and our plugin."""
    note = _note(ask)
    if not note and not ask.has("enroot"):
        return {"containers": None}
    found: Facts = {"slurm": _slurm(ask), "enroot": _enroot(ask)}
    if note.get("plugin"):
        found["plugin"] = _plugin(ask, note)
    if found["enroot"]:
        found["lacks"] = [name for name in NEEDED if not ask.has(name)]
        found["kernel"] = _kernel(ask)
        found["overlay"] = _overlay(ask)
    if note.get("at"):
        found["folder"] = str(note["at"])
        found["free"] = _free(ask.path(found["folder"]))
    return {"containers": found}


def _note(ask: Ask) -> Facts:
    said = files.text(ask.path(NOTE))
    if not said:
        return {}
    try:
        note = json.loads(said)
        if isinstance(note, dict):
            return note
    except ValueError:
        pass
    raise Unreadable(NOTE + " cannot be read")


def _slurm(ask: Ask) -> str:
    # srun itself does not even tell its version with a plugin it refuses.
    try:
        return (ask.run(["scontrol", "--version"]).split() or [""])[-1]
    except Absent:
        return ""


def _enroot(ask: Ask) -> str:
    # Its own "enroot version" may make folders, and the probe makes nothing.
    if not ask.has("enroot"):
        return ""
    known = packages.query(ask, PACKAGES)
    versions = [version for status, version, _ in known.values() if status == "installed"]
    return versions[0] if versions else "of no package"


def _plugin(ask: Ask, note: Facts) -> Facts:
    path = str(note["plugin"])
    found: Facts = {
        "path": path,
        "there": _is_as_built(ask.path(path), str(note.get("plugin_sha256"))),
        "configured": path in files.text(ask.path(PLUGSTACK)).split(),
        "release": str(note.get("pyxis") or ""),
        "built_for": str(note.get("slurm") or ""),
    }
    try:
        found["offers"] = OPTION in ask.run(["srun", "--help"])
    except Absent:
        pass
    except Unreadable as error:
        found["problem"] = str(error)
    return found


def _is_as_built(path: str, wanted: str) -> bool:
    try:
        return digest(path) == wanted
    except OSError:
        return False


def _kernel(ask: Ask) -> dict[str, str]:
    found = {}
    for name in KERNEL:
        value = files.text(ask.path("/proc/sys/" + name)).strip()
        if value:
            found[name.replace("/", ".")] = value
    return found


def _overlay(ask: Ask) -> bool | None:
    loaded = files.text(ask.path("/proc/filesystems"))
    if not loaded:
        return None
    if "overlay" in loaded.split() or ask.has("fuse-overlayfs"):
        return True
    modules = ask.path("/lib/modules/" + os.uname().release)
    lists = [files.text(modules + name) for name in ("/modules.dep", "/modules.builtin")]
    return any("/overlay.ko" in text for text in lists) if any(lists) else None


def _free(folder: str) -> int | None:
    try:
        room = os.statvfs(folder)
    except OSError:
        return None
    return room.f_bavail * room.f_frsize
