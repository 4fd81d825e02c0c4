"""Decides which facts of one host may reach the files of other hosts, for all stages.

A host is trusted about itself. Only processors, memory, GPUs, their MIG layout, InfiniBand ports and whether it
exports GPU metrics reach other hosts, and only as accepted before, or as its class and its peers allow. Linear
in the number of hosts.
"""

from collections.abc import Mapping
from functools import cache

from appliance.engine.look.shared_gpus import model_of, shareable_gpus
from appliance.engine.look.shared_ports import ports_of
from appliance.engine.look.shared_sizes import sizes_of
from appliance.models.facts import HostFacts, Unit
from appliance.models.facts_host import Cpu, Memory
from appliance.models.profile import Profile
from appliance.models.shared_facts import Contradiction, SharedFacts
from appliance.models.site import Host, Role, Site
from appliance.stages.gpu.facts import Gpus
from appliance.stages.observe.variables import DCGM_EXPORTER
from appliance.stages.slurm.variables import holds_jobs
from appliance.stages.slurm.variables.logins import unheld
from appliance.stages.units import RUNS

Facts = Mapping[str, HostFacts]

SEEN = {DCGM_EXPORTER: Unit(load="loaded", active="active")}
"""Facts of a host on which dcgm-exporter was seen running."""


def shareable_facts(
    profile: Profile,
    site: Site,
    said: Facts,
    accepted: Facts | None = None,
    accepting: frozenset[str] = frozenset(),
) -> SharedFacts:
    """``accepted``: what standing() returned when each host was last proved. ``accepting``: hosts whose new hardware the operator accepts."""
    known = {name: f for name, f in (accepted or {}).items() if name not in accepting}
    found: dict[str, list[Contradiction]] = {}
    sizes = sizes_of(profile, site, said, known, accepting, found)
    left_out = frozenset(name for name, size in sizes.items() if size is None)
    ports = ports_of(profile, site, said, known, found)
    systems = _systems(site, said, known)
    exporters = _exporters(site, said, known)
    made: dict[str, HostFacts] = {}
    for host in site.hosts:
        answer, before = said.get(host.name), known.get(host.name)
        if (answer is None and before is None) or host.name in left_out:
            continue
        sockets, cores, threads, memory = sizes.get(host.name) or (0, 0, 0, 0)
        made[host.name] = blank_facts().model_copy(
            update={
                "host": host.name,
                "simulated": ("gpu",)
                if "gpu" in (before or answer or blank_facts()).simulated
                else (),
                "os": systems[host.name],
                "cpu": Cpu(model="", sockets=sockets, cores=cores, threads=threads),
                "memory": Memory(total=memory, available=0),
                "gpus": _gpus(
                    site.profile_of(host.name, profile), site, host, answer, before, found
                ),
                "ports": ports.get(host.name, ()),
                "units": exporters.get(host.name, {}),
                "topology": answer.topology if answer and Role.CONTROL in host.roles else None,
            }
        )
    if site.slurm is not None and holds_jobs(site, made):
        for name in made.keys() & {h.name for h in site.with_role(Role.GPU)} & said.keys():
            if said[name].os.cgroup and (why := unheld(said[name])):
                found.setdefault(name, []).append(_isolation(why))
    return SharedFacts(made, left_out, {name: tuple(what) for name, what in found.items()})


def _isolation(why: str) -> Contradiction:
    fix = (
        "boot it with systemd.unified_cgroup_hierarchy=1 on the kernel's command line; "
        "or set slurm.constrain: false, which disables isolation of jobs on all hosts"
    )
    return Contradiction(
        "isolation", f"that it {why}", "the site isolates jobs with cgroup v2", fix
    )


NEVER = "1970-01-01T00:00:00Z"


@cache
def blank_facts() -> HostFacts:
    """Facts of a host that reports nothing."""
    return HostFacts.model_validate(
        {
            **{"version": 1, "host": "", "taken": NEVER, "cpu_seconds": 0.0, "user": ""},
            "os": dict.fromkeys(
                ("id", "version_id", "kernel", "boot_id", "hostname", "cgroup"), ""
            ),
            "cpu": {"model": "", "sockets": 0, "cores": 0, "threads": 0},
            "memory": {"total": 0, "available": 0},
            "clock": {"time": 0.0},
        }
    )


def _gpus(
    profile: Profile,
    site: Site,
    host: Host,
    said: HostFacts | None,
    known: HostFacts | None,
    found: dict[str, list[Contradiction]],
) -> Gpus | None:
    if Role.GPU not in host.roles:
        return None
    told: list[Contradiction] = []
    model = model_of(profile, said, known, told)
    devices = shareable_gpus(profile, site, host, model, said, known, told)
    if told:
        found.setdefault(host.name, []).extend(told)
    return Gpus(driver="", nvml="", devices=devices) if devices else None


def _systems(site: Site, said: Facts, known: Facts) -> dict[str, object]:
    """Return by host its operating system, as far as it decides whether jobs are contained. Most GPU hosts decide
    that, never one.
    An answer overrides what was accepted only if more than half of the hosts give it.
    """
    names = [h.name for h in site.with_role(Role.GPU)]
    now = {n: not unheld(said[n]) for n in names if n in said}
    before = {n: not unheld(known[n]) for n in names if n in known}
    agreed = next((v for v in (True, False) if 2 * list(now.values()).count(v) > len(names)), None)
    trusts_now = agreed is not None and (agreed or len(names) > 1 or not before)
    made: dict[str, object] = {}
    for host in site.hosts:
        name = host.name
        answer, kept = said.get(name), known.get(name)
        source = (answer if trusts_now else None) or kept or answer or blank_facts()
        os = source.os
        if trusts_now and name in now and now[name] != agreed and kept:
            os = kept.os
        fields = {
            **{"id": os.id, "version_id": os.version_id, "container": os.container},
            **{"cgroup": os.cgroup, "hostname": _hostname(name, os.hostname)},
        }
        made[name] = blank_facts().os.model_copy(update=fields)
    return made


def _hostname(name: str, said: str) -> str:
    """Return the host's own name, with a domain if it has one; never another host's."""
    return said if said.startswith(f"{name}.") else name


def _exporters(site: Site, said: Facts, known: Facts) -> dict[str, dict[str, Unit]]:
    """Return hosts on which dcgm-exporter was seen running. One host cannot remove itself from the list; most hosts can."""
    names = [h.name for h in site.with_role(Role.GPU)]
    now = {n for n in names if n in said and _exports(said[n])}
    before = {n for n in names if n in known and _exports(known[n])}
    gone = {n for n in before if n in said and n not in now}
    kept = before - gone if len(gone) > 1 and 2 * len(gone) > len(before) else before
    return dict.fromkeys(now | kept, SEEN)


def _exports(facts: HostFacts) -> bool:
    unit = facts.units.get(DCGM_EXPORTER)
    return unit is not None and unit.active in RUNS
