"""Checks whether GPUs are divided as the site declares."""

from collections.abc import Iterable, Iterator

from appliance.checks.check import GPU_HOSTS, Check, HostCheck, View, judged, not_assessed
from appliance.models.facts import HostFacts
from appliance.models.gpu_counts import gpu_count
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.stages.gpu.checks.each import (
    GpuResult,
    bad,
    devices,
    each,
    good,
    is_simulated,
    unknown,
)
from appliance.stages.gpu.facts import Gpu
from appliance.stages.mig import ids
from appliance.stages.mig.layouts import declared, document
from appliance.stages.mig.table import Layout, written

UNITS = ("appliance-mig.service",)
"""What the probe must read."""

DEPLOY = "appliance mig apply"
MAKE = f"{DEPLOY}; GPUs in use are not changed, and their processes are listed"


def judge_mig(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge instances and placements of every GPU in the site's layout, and the unit that creates them at boot."""
    wanted = declared(view.profile, view.site, host)
    if not wanted:
        return
    count, all_there = gpu_count(view.profile, host), len(devices(facts))
    alike = len(wanted) == count and len({written(layout) for layout in wanted.values()}) == 1
    if 0 < all_there < count and not alike:
        cause = f"{all_there} of {count} GPUs answer, and GPU numbers change if one is missing (gpu.count)"
        yield not_assessed(host.name, cause, simulated=is_simulated(facts))
        return
    places = _places(view, host)

    def judge(gpu: Gpu) -> GpuResult:
        if gpu.index not in wanted:
            return good("left alone")
        return _judge(gpu, wanted[gpu.index], places[gpu.index])

    yield from each(host, facts, judge)
    yield from _unit(host, facts)


def _judge(gpu: Gpu, layout: Layout, places: frozenset[tuple[int, int]]) -> GpuResult:
    limit = written(layout)
    if gpu.mig_enabled is None:
        return unknown("the driver does not report whether it is divided")
    if gpu.mig is None:
        return unknown("its MIG devices were not read: reading them needs root")
    found = _layout_text(gpu)
    if gpu.mig_pending is not None and gpu.mig_pending != gpu.mig_enabled:
        mode = "on" if gpu.mig_pending else "off"
        cause = f"MIG mode {mode} waits for a reset of the GPU"
        return bad(found, cause, "reboot the host, or stop what uses the GPU and " + DEPLOY, limit)
    whole = all(len(one.parts) == 1 for one in gpu.mig)
    there = frozenset((one.profile_id, one.start) for one in gpu.mig)
    if gpu.mig_enabled == bool(layout) and there == places and whole:
        return good(found, limit)
    if found == limit:
        cause = f"divided into {found}, but not with the declared placements, or not fully usable"
    else:
        cause = f"{_is(gpu, found)}, declared {limit}"
    return bad(found, cause, MAKE, limit, "section mig of the site")


def _layout_text(gpu: Gpu) -> str:
    counts: dict[str, int] = {}
    for one in sorted(gpu.mig or (), key=lambda one: (-one.size, one.start)):
        counts[one.profile] = counts.get(one.profile, 0) + 1
    return written(counts)


def _is(gpu: Gpu, found: str) -> str:
    if not gpu.mig_enabled:
        return "not divided"
    return f"divided into {found}" if gpu.mig else "in MIG mode without instances"


def _places(view: View, host: Host) -> dict[int, frozenset[tuple[int, int]]]:
    said = document(view.profile, view.site, host)["gpus"]
    assert isinstance(said, dict)
    return {
        int(index): frozenset((spot["id"], spot["start"]) for spot in spots)
        for index, spots in said.items()
    }


def _unit(host: Host, facts: HostFacts) -> Iterator[Judgement]:
    """Judge the unit that recreates instances after a reboot, which must be enabled."""
    unit = facts.units.get(UNITS[0])
    if unit is None or unit.active == "unknown":
        why = facts.gap("units", f"the state of {UNITS[0]} was not read")
        yield not_assessed(place(host.name, UNITS[0]), why)
    elif unit.enabled != "enabled":
        yield judged(
            place(host.name, UNITS[0]),
            bad(None, "", "").status,
            value=unit.enabled or unit.load,
            limit="enabled",
            cause="the instances would be gone after a reboot: nothing creates them at boot",
            fix=DEPLOY,
        )


CHECKS: tuple[Check, ...] = (
    HostCheck(
        id=ids.MIG,
        title="GPUs divided as declared",
        roles=GPU_HOSTS,
        judge=judge_mig,
        limit="section mig of the site, else stages.mig of the profile",
        explain="MIG mode, instances and their placement on every GPU in the site's layout, and the unit that creates them at boot. Instances are "
        "lost at every reboot and reset of the GPU. Usual causes: a GPU was divided by hand, a process prevented the change, or a mode "
        "waits for a reset because a daemon uses the GPU.",
    ),
)
