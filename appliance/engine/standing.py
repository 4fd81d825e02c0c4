"""What facts of one host may reach files of other hosts: the one place that decides, for all stages.

A host is believed about itself. Of what it says only processors, memory, GPUs, their division, InfiniBand ports and whether it
exports figures of GPUs reach others, and only as it was accepted before, or as its class and its equals allow. Linear in hosts.
"""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from statistics import median_low

from appliance.engine.standing_gpus import divided, model_of
from appliance.models.facts import HostFacts, Unit
from appliance.models.facts_host import Cpu, Memory
from appliance.models.profile import Profile
from appliance.models.site import Host, Role, Site
from appliance.models.standing import Contradiction, Standing
from appliance.stages.fabric.cabling import INFINIBAND, number
from appliance.stages.fabric.facts import Port
from appliance.stages.gpu.facts import Gpus
from appliance.stages.observe.variables import DCGM_EXPORTER
from appliance.stages.slurm.variables import holds_jobs
from appliance.stages.slurm.variables.logins import unheld

Facts = Mapping[str, HostFacts]
Size = tuple[int, int, int, int]
"""Sockets, cores, threads, and bytes of memory."""

GIB = 1 << 30
SAME_MEMORY = 0.03
"""Another kernel, or firmware, keeps that much more or less of the memory to itself."""
OF_CLASS = 8
"""A figure of a class is a lower bound; nothing of that class has so many times as much, or so small a part of it."""
OF_EQUALS = 2
"""Hosts of one class differ from most of them by less."""
EQUALS = 3
"""Fewer hosts have no middle that one of them cannot move."""
MOST_CPUS = 65_000
"""slurm.conf(5): CPUs, Sockets, CoresPerSocket and ThreadsPerCore are 16 bits each."""
MOST_MEMORY = (1 << 20) * GIB
"""As much as a profile may name."""
MOST_THREADS = 8
"""Of a core: POWER has 8, x86 2."""
SEEN = {DCGM_EXPORTER: Unit(load="loaded", active="active")}
"""Of a host whose dcgm-exporter was seen running."""
MOST_PORTS = 32
MOST_GUID = 2**64 - 1


def standing(
    profile: Profile,
    site: Site,
    said: Facts,
    accepted: Facts | None = None,
    accepting: frozenset[str] = frozenset(),
) -> Standing:
    """``accepted``: what standing() gave when each host was proved last. ``accepting``: hosts whose new hardware the operator accepts."""
    known = {name: f for name, f in (accepted or {}).items() if name not in accepting}
    found: dict[str, list[Contradiction]] = {}
    sizes = _sizes(profile, site, said, known, accepting, found)
    left_out = frozenset(name for name, size in sizes.items() if size is None)
    ports = _ports(profile, site, said, known, found)
    systems = _systems(site, said, known)
    exporters = _exporters(site, said, known)
    made: dict[str, HostFacts] = {}
    for host in site.hosts:
        answer, before = said.get(host.name), known.get(host.name)
        if (answer is None and before is None) or host.name in left_out:
            continue
        sockets, cores, threads, memory = sizes.get(host.name) or (0, 0, 0, 0)
        made[host.name] = blank().model_copy(
            update={
                "host": host.name,
                "simulated": ("gpu",) if "gpu" in (before or answer or blank()).simulated else (),
                "os": systems[host.name],
                "cpu": Cpu(model="", sockets=sockets, cores=cores, threads=threads),
                "memory": Memory(total=memory, available=0),
                "gpus": _gpus(profile, site, host, answer, before, found),
                "ports": ports.get(host.name, ()),
                "units": exporters.get(host.name, {}),
                "topology": answer.topology if answer and Role.CONTROL in host.roles else None,
            }
        )
    if holds_jobs(site, made):
        for name in made.keys() & {h.name for h in site.with_role(Role.GPU)} & said.keys():
            if said[name].os.cgroup and (why := unheld(said[name])):
                found.setdefault(name, []).append(_isolation(why))
    return Standing(made, left_out, {name: tuple(what) for name, what in found.items()})


def _isolation(why: str) -> Contradiction:
    fix = (
        "boot it with systemd.unified_cgroup_hierarchy=1 on the kernel's command line; "
        "or write slurm.constrain: false, which ends isolation of jobs on all hosts"
    )
    return Contradiction("isolation", f"that it {why}", "the site holds jobs by cgroup v2", fix)


@cache
def blank() -> HostFacts:
    """A host that says nothing."""
    return HostFacts.model_validate(
        {
            **{"version": 1, "host": "", "taken": "", "cpu_seconds": 0.0, "user": ""},
            "os": dict.fromkeys(
                ("id", "version_id", "kernel", "boot_id", "hostname", "cgroup"), ""
            ),
            "cpu": {"model": "", "sockets": 0, "cores": 0, "threads": 0},
            "memory": {"total": 0, "available": 0},
            "clock": {"time": 0.0},
        }
    )


# Processors and memory


def _size(facts: HostFacts | None) -> Size | None:
    """None where it was not read."""
    if facts is None or not (facts.cpu.threads and facts.memory.total):
        return None
    cpu = facts.cpu
    return cpu.sockets, cpu.cores, cpu.threads, facts.memory.total


def _sizes(
    profile: Profile,
    site: Site,
    said: Facts,
    known: Facts,
    accepting: frozenset[str],
    found: dict[str, list[Contradiction]],
) -> dict[str, Size | None]:
    """By GPU host; None for one that is left out. A host that does not know its own is not here."""
    names = [h.name for h in site.with_role(Role.GPU)]
    before = {n: size for n in names if (size := _size(known.get(n)))}
    now = {n: size for n in names if (size := _size(said.get(n)))}
    moved = _moved(before, now, len(names))
    contained = sum(bool(said[n].os.container) for n in now)
    shares = bool(site.simulated) or 2 * contained > len(now)
    wrong = {
        n: why
        for n, size in now.items()
        if n not in before and (why := _beyond(profile, shares, size, n in accepting))
    }
    equals = [
        size
        for n in names
        if (size := before.get(n) or (now.get(n) if n not in wrong else None)) is not None
    ]
    middle = (
        (median_low(s[2] for s in equals), median_low(s[3] for s in equals))
        if len(equals) >= EQUALS
        else None
    )
    made: dict[str, Size | None] = {}
    for name in names:
        old, new = before.get(name), now.get(name)
        if old and new and not _same(old, new):
            if moved and _same(moved, new):
                old = new
            else:
                found.setdefault(name, []).extend(_changed(old, new))
        elif not old and new:
            why = wrong.get(name) or (
                _unlike(new, middle) if middle and name not in accepting else None
            )
            if why:
                found.setdefault(name, []).append(why)
                made[name] = None
                continue
            old = new
        if old:
            made[name] = old
    return made


def _same(one: Size, other: Size) -> bool:
    return one[:3] == other[:3] and abs(one[3] - other[3]) <= SAME_MEMORY * one[3]


def _moved(before: Mapping[str, Size], now: Mapping[str, Size], hosts: int) -> Size | None:
    """What more than half of all hosts became, as where all got more memory: one host cannot make that so."""
    changed = [now[n] for n, old in before.items() if n in now and not _same(old, now[n])]
    if len(changed) < 2:
        return None
    ordered = sorted(changed)
    middle = ordered[len(ordered) // 2]
    return middle if 2 * sum(_same(middle, size) for size in changed) > hosts else None


def _beyond(profile: Profile, shares: bool, size: Size, accepted: bool) -> Contradiction | None:
    """What no host of the class has. ``shares``: hosts are containers, which have their machine's, and may have less."""
    sockets, cores, threads, memory = size
    expected = profile.hardware.host
    if max(sockets, cores, threads) > MOST_CPUS or threads > MOST_THREADS * max(
        cores, threads // 8
    ):
        return Contradiction("processors", f"{threads} threads", f"at most {MOST_CPUS}")
    if memory > MOST_MEMORY:
        return Contradiction("memory", _gib(memory), f"at most {_gib(MOST_MEMORY)}")
    if accepted:
        return None
    least = 0 if shares else 1
    for what, value, bound, words in (
        ("sockets", sockets or expected.sockets, expected.sockets, str),
        ("cores", cores or threads, expected.cores, str),
        ("threads", threads, 2 * expected.cores, str),
        ("memory", memory, expected.memory_gib * GIB, _gib),
    ):
        floor = 0 if what == "threads" else bound // OF_CLASS
        if value > bound * OF_CLASS or least * floor > value:
            expects = f"class {profile.name} has {words(bound)}"
            return Contradiction(what, words(value), expects)
    return None


def _unlike(size: Size, middle: tuple[int, int]) -> Contradiction | None:
    for what, value, bound, words in (
        ("threads", size[2], middle[0], str),
        ("memory", size[3], middle[1], _gib),
    ):
        if value > OF_EQUALS * bound or value * OF_EQUALS < bound:
            return Contradiction(what, words(value), f"most GPU hosts have {words(bound)}")
    return None


def _changed(old: Size, new: Size) -> Iterable[Contradiction]:
    if old[:3] != new[:3]:
        words = [f"{s} sockets, {c} cores, {t} threads" for s, c, t, _ in (new, old)]
        yield Contradiction("processors", words[0], f"{words[1]} were accepted")
    if abs(old[3] - new[3]) > SAME_MEMORY * old[3]:
        yield Contradiction("memory", _gib(new[3]), f"{_gib(old[3])} were accepted")


def _gib(size: int) -> str:
    return f"{size / GIB:.0f} GiB"


# GPUs


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
    devices = divided(profile, site, host, model, said, known, told)
    if told:
        found.setdefault(host.name, []).extend(told)
    return Gpus(driver="", nvml="", devices=devices) if devices else None


# InfiniBand ports


def _ports(
    profile: Profile,
    site: Site,
    said: Facts,
    known: Facts,
    found: dict[str, list[Contradiction]],
) -> dict[str, tuple[Port, ...]]:
    """A GUID is one host's: of whom it was accepted, else of the only one that claims it."""
    before = {
        h.name: {int(p.guid, 16): p for p in (known[h.name].ports if h.name in known else ())}
        for h in site.hosts
    }
    owners: dict[int, str] = {}
    for name, ports in before.items():
        for guid in ports:
            owners.setdefault(guid, name)
    now = {h.name: _guids(said.get(h.name)) for h in site.hosts}
    claims: dict[int, list[str]] = {}
    for name, ports in now.items():
        for guid in ports:
            claims.setdefault(guid, []).append(name)
    made: dict[str, tuple[Port, ...]] = {}
    for host in site.hosts:
        name = host.name
        kept = {g: p for g, p in before[name].items() if owners[g] == name}
        room = MOST_PORTS if not kept else profile.hardware.fabric.ports - len(kept)
        refused: dict[str, list[Port]] = {}
        for guid, port in now[name].items():
            if guid in kept:
                continue
            owner = owners.get(guid) or next((n for n in claims[guid] if n != name), "")
            if not owner and room > 0:
                kept[guid] = port
                room -= 1
            else:
                refused.setdefault(owner, []).append(port)
        for owner, others in refused.items():
            found.setdefault(name, []).append(_foreign_guids(others, owner))
        made[name] = tuple(kept.values())
    return made


def _foreign_guids(ports: list[Port], owner: str) -> Contradiction:
    more = f" and {len(ports) - 1} more" if len(ports) > 1 else ""
    says = f"GUID {ports[0].guid} of {ports[0].device}{more}"
    if not owner:
        return Contradiction("ports", says, "other GUIDs were accepted")
    fix = f"compare ibstat here and on {owner}; partitions and topology do not use these GUIDs for this host"
    return Contradiction("ports", says, f"{owner} has this GUID", fix)


def _guids(facts: HostFacts | None) -> dict[int, Port]:
    """By number, each spelled one way and once; a GUID of zeros or ones is none."""
    made: dict[int, Port] = {}
    for port in facts.ports if facts else ():
        guid = number(port.guid)
        if port.link_layer == INFINIBAND and 0 < guid < MOST_GUID and len(made) < MOST_PORTS:
            made.setdefault(guid, port_of(port.device, port.port, guid))
    return made


@lru_cache(1 << 15)
def port_of(device: str, port: int, guid: int) -> Port:
    """A port of which no more than its place and GUID is told."""
    given = {"device": device, "port": port, "guid": f"{guid:#018x}"}
    return _plain_port().model_copy(update=given)


@cache
def _plain_port() -> Port:
    return Port(device="x", port=1, state="", physical="", rate=0.0, link_layer=INFINIBAND)


# Isolation, and figures of GPUs


def _systems(site: Site, said: Facts, known: Facts) -> dict[str, object]:
    """By host its operating system, as far as it decides whether jobs are held; most GPU hosts decide that, and never one.

    An answer counts against what was accepted only where more than half of the hosts give it.
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
        source = (answer if trusts_now else None) or kept or answer or blank()
        os = source.os
        if trusts_now and name in now and now[name] != agreed and kept:
            os = kept.os
        fields = {
            **{"id": os.id, "version_id": os.version_id, "container": os.container},
            **{"cgroup": os.cgroup, "hostname": _hostname(name, os.hostname)},
        }
        made[name] = blank().os.model_copy(update=fields)
    return made


def _hostname(name: str, said: str) -> str:
    """Its own name, with a domain where it has one; never another host's."""
    return said if said.startswith(f"{name}.") else name


def _exporters(site: Site, said: Facts, known: Facts) -> dict[str, dict[str, Unit]]:
    """Where dcgm-exporter was seen running; one host's word takes nobody off the list, most hosts' does."""
    names = [h.name for h in site.with_role(Role.GPU)]
    now = {n for n in names if n in said and _exports(said[n])}
    before = {n for n in names if n in known and _exports(known[n])}
    gone = {n for n in before if n in said and n not in now}
    kept = before - gone if len(gone) > 1 and 2 * len(gone) > len(before) else before
    return dict.fromkeys(now | kept, SEEN)


def _exports(facts: HostFacts) -> bool:
    unit = facts.units.get(DCGM_EXPORTER)
    return unit is not None and unit.active == "active"
