"""Shared by schedulers for the hosts' own watch (appliance/watch): its program, and the requirements of a fit GPU host."""

from base64 import b64encode

from appliance.checks.check import View, failed, not_assessed, passed
from appliance.models.facts import HostFacts
from appliance.models.gpu_counts import gpu_count
from appliance.models.profile import Interconnect
from appliance.models.result import Judgement
from appliance.models.site import Host, Role, Site
from appliance.models.watch import Watch, WatchOptions
from appliance.stages.base import ids as base_ids
from appliance.stages.base.checks.room import FAIL_PERCENT
from appliance.stages.context import RoleContext, Variables
from appliance.stages.fabric.checks.ports import wanted_rate
from appliance.stages.gpu import ids as gpu_ids
from appliance.stages.gpu.checks.xid import RECOVERY
from appliance.stages.gpu.part import gpu_parts
from appliance.stages.gpu.xid_map import xid_map
from appliance.stages.storage.variables import client
from appliance.watch.bundle import executable


def most_out(site: Site, options: WatchOptions) -> int:
    """Return how many GPU hosts of one scheduler may drain themselves at the same time."""
    chosen = options.most_out
    return max(1, len(site.with_role(Role.GPU)) // 10) if chosen is None else chosen


def program(context: RoleContext) -> str:
    """Return the program, in base64."""
    return context.once(_program)


def expected(context: RoleContext) -> Variables:
    """Return the requirements of this host, with the limits of the checks."""
    return {
        **context.once_of_class(_expected),
        "gpus": gpu_count(context.profile, context.host),
        "mounts": _mounts(context),
    }


def judge_stopped(
    host: Host, seen: Watch, limit: float, cause: str, fix: str, names: tuple[str, ...] = ()
) -> Judgement:
    """Report a watch that has not finished a run for more than ``limit`` s. ``cause``, ``fix``, ``names``: if no hung process is known."""
    if seen.held_by:
        names = ()
        cause = f"a later check hangs (process {seen.held_by})"
        fix = f"on {host.name}: ps -o lstart,stat,wchan:30,args {seen.held_by} shows what it waits for; kill -9 {seen.held_by}, or reboot the host"
    ago = f"the host's watch last ran {seen.age_s / 60:.0f} min ago"
    common = {"value": seen.age_s, "unit": "s", "limit": limit}
    return failed(host.name, f"{ago}: {cause}", fix, names=names, **common)


def judge_out(
    host: Host, facts: HostFacts, seen: Watch, area: str, out: str, fix: str, minutes: int | None
) -> Judgement:
    """Report a host that its own watch took out of work. ``out``: the scheduler's word for that; ``minutes``: until it resumes by itself."""
    if not seen.returns:
        return passed(host.name, f"{out}; an operator must resume it")
    if seen.fit is None:
        return not_assessed(host.name, facts.gap(area, "its current state was not read"))
    if not seen.fit:
        return passed(host.name, f"{out}, and not fit yet")
    later = f"; or wait: it resumes automatically after {minutes or 0:g} min without a fault"
    cause = f"it is fit again, but still {out} by its own watch"
    return failed(host.name, cause, fix + later * bool(minutes), value=f"fit, and {out}")


def _program(context: RoleContext) -> str:
    del context
    return b64encode(executable()).decode()


def _expected(context: RoleContext) -> Variables:
    hardware = context.profile.hardware
    view = View(context.profile, context.site, {})
    scratch = context.site.storage.scratch
    switched = hardware.gpu.interconnect is Interconnect.NVSWITCH
    disk = view.number(base_ids.DISK)
    hours = view.number(gpu_ids.XID)
    return {
        "pcie_width": hardware.gpu.pcie_width,
        "nvlinks": _nvlinks(context, view) if switched else {},
        "fabric_manager": switched,
        "scratch": scratch.at if scratch else "",
        "ports": hardware.fabric.ports,
        "link_layer": hardware.fabric.link_layer,
        "rate_gbps": wanted_rate(view)[0],
        **_fatal(view),
        "xid_hours": hours[0] if hours else xid_map().hours,
        "disk_percent": disk[0] if disk else FAIL_PERCENT,
    }


def _nvlinks(context: RoleContext, view: View) -> dict[str, int]:
    """Return the number of NVLinks of each product that the class accepts."""
    own = view.number(gpu_ids.NVLINK)
    found = {name: gpu_parts().find(name) for name in context.profile.hardware.gpu.models}
    known = {name: part.nvlinks for name, part in found.items() if part and part.nvlinks}
    return {name: int(own[0]) if own else links for name, links in known.items()}


def _fatal(view: View) -> Variables:
    """Return codes that fail a host, by map and site; separately those that do so unless the message says nonfatal."""
    table = xid_map()
    verdicts: dict[int, object] = {}
    graded: set[int] = set()
    for row in table.codes:
        verdicts |= dict.fromkeys(row.codes, table.classes[row.kind].verdict)
        if row.nonfatal and table.classes[row.nonfatal].verdict != "fail":
            graded |= set(row.codes)
    chosen = {**view.profile.limits, **view.site.limits}
    for name, limit in chosen.items():
        code = name.removeprefix("gpu.xid.")
        if code.isdigit() and limit.value in ("pass", "warn", "fail"):
            verdicts[int(code)] = limit.value
            graded.discard(int(code))
    fatal = sorted(code for code, verdict in verdicts.items() if verdict == "fail")
    own = f"gpu.xid.{RECOVERY}" in chosen
    actions = () if own else table.recovery.items()
    return {
        "xid_recovery": " ".join(
            str(number) for number, kind in actions if table.classes[kind].verdict == "fail"
        ),
        "xids": " ".join(str(code) for code in fatal if code not in graded),
        "xids_by_severity": " ".join(str(code) for code in fatal if code in graded),
    }


def _mounts(context: RoleContext) -> list[str]:
    """Return required mounts; a container of the rack has no kernel NFS client."""
    if client(context.own) != "kernel":
        return []
    return [mount.at for mount in context.site.storage.mounts]
