"""Memory errors as the kernel's EDAC drivers count them since the host was started."""

from __future__ import annotations

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

CONTROLLERS = "/devices/system/edac/mc"
MODULES = ("dimm", "rank")
"""Folders of a controller's modules; a driver without modules has ranks."""


def collect(ask: Ask) -> Facts:
    """The area ``edac``. Modules are read only if their controller has counted errors."""
    if borrowed(ask):
        return {"memory_errors": None}
    top = ask.sys + CONTROLLERS
    corrected, uncorrected, modules, since = 0, 0, [], []
    names = [name for name in files.names(top) if name[:2] == "mc" and name[2:].isdigit()]
    for name in names:
        at = f"{top}/{name}/"
        counts = _count(at + "ce_count"), _count(at + "ue_count")
        corrected, uncorrected = corrected + counts[0], uncorrected + counts[1]
        if any(counts):
            seconds = files.number(at + "seconds_since_reset")
            since += [seconds] if seconds is not None else []
            modules += _modules(name, at)
    return {
        "memory_errors": {
            "controllers": len(names),
            "corrected": corrected,
            "uncorrected": uncorrected,
            "since_s": min(since) if since else None,
            "modules": modules,
        }
    }


def borrowed(ask: Ask) -> bool:
    """Return whether the host is a container; its machine's hardware is judged on the machine."""
    return ask.sys == ask.path("/sys") and bool(files.text(ask.path("/run/systemd/container")))


def _modules(controller: str, at: str) -> list[Facts]:
    """Return modules with errors, by label, or by place if they have none."""
    found = []
    for name in files.names(at):
        if name.startswith(MODULES):
            counts = _count(f"{at}{name}/dimm_ce_count"), _count(f"{at}{name}/dimm_ue_count")
            label = files.text(f"{at}{name}/dimm_label") or f"{controller} {name}"
            found += [{"label": label, "corrected": counts[0], "uncorrected": counts[1]}] * any(
                counts
            )
    return found


def _count(at: str) -> int:
    """Raises Unreadable: an unreadable counter is not zero."""
    number = files.number(at)
    if number is None:
        raise Unreadable(f"{at} holds no number")
    return number
