"""What can go wrong on a recorded site, planted in the facts of its hosts."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from appliance.engine.look.gather import Round, Unanswered
from appliance.models.facts import HostFacts, Problem, ProblemKind, Unit
from appliance.models.site import Role, Site

DEAD = Unit(load="loaded", active="failed", sub="failed", enabled="enabled")
Facts = dict[str, HostFacts]
Fault = Callable[[Site, Facts], None]
"""Changes the facts; a host that is taken out of them is silent."""


def planted(site: Site, found: Round, fault: Fault) -> Round:
    """The hosts' answers with a fault."""
    facts = dict(found.facts)
    fault(site, facts)
    gone = {
        name: Unanswered(name, "connection refused", "is sshd up?", away=True)
        for name in found.facts.keys() - facts.keys()
    }
    return replace(found, facts=facts, unanswered={**found.unanswered, **gone})


def heads(site: Site) -> list[str]:
    """The control hosts."""
    return [host.name for host in site.with_role(Role.CONTROL)]


def gpu_hosts(site: Site) -> list[str]:
    """The hosts with GPUs."""
    return [host.name for host in site.with_role(Role.GPU)]


def _change(facts: Facts, name: str, **changes: Any) -> None:
    if name in facts:
        facts[name] = facts[name].model_copy(update=changes)


def _unread(facts: Facts, name: str, area: str, text: str, kind: ProblemKind, at: str = "") -> None:
    if name in facts:
        said = f"{at}: {text}" if at else text
        problem = Problem(area=area, text=said, kind=kind, at=at)
        errors = {**facts[name].errors, area: said}
        _change(facts, name, errors=errors, problems=(*facts[name].problems, problem))


def _units(facts: Facts, name: str, *units: str) -> None:
    if name in facts:
        known = {**facts[name].units, **{f"{unit}.service": DEAD for unit in units}}
        failed = tuple(f"{unit}.service" for unit in units)
        system = facts[name].os.model_copy(update={"failed_units": failed, "state": "degraded"})
        _change(facts, name, units=known, os=system)


def _fires(site: Site, facts: Facts, *alerts: str) -> None:
    for name in heads(site):
        if name in facts and (seen := facts[name].observe):
            _change(facts, name, observe=seen.model_copy(update={"firing": alerts}))


def _each_gpu(facts: Facts, name: str, change: Callable[[int], Mapping[str, Any]]) -> None:
    if name in facts and (gpus := facts[name].gpus):
        devices = tuple(g.model_copy(update=dict(change(g.index))) for g in gpus.devices)
        _change(facts, name, gpus=gpus.model_copy(update={"devices": devices}))


def silent_heads(site: Site, facts: Facts) -> None:
    """No control host answers."""
    for name in heads(site):
        facts.pop(name, None)


def silent_gpu_host(site: Site, facts: Facts) -> None:
    """A GPU host does not answer, and Prometheus has noticed."""
    facts.pop(gpu_hosts(site)[0], None)
    _fires(site, facts, "HostDown")


def failed_units(site: Site, facts: Facts) -> None:
    """munge and slurmd are down together."""
    _units(facts, gpu_hosts(site)[0], "munge", "slurmd")
    _fires(site, facts, "UnitFailed")


def other_units(site: Site, facts: Facts) -> None:
    """slurmd is down, and a unit that has nothing to do with it."""
    _units(facts, gpu_hosts(site)[0], "slurmd", "smartd")
    _fires(site, facts, "ClockOff", "UnitFailed")


def control_units(site: Site, facts: Facts) -> None:
    """The daemons of the first control host are down."""
    _units(facts, heads(site)[0], "slurmctld", "slurmdbd", "mariadb", "prometheus", "nfs-ganesha")
    if (head := facts.get(heads(site)[0])) and head.slurm:
        down = head.slurm.model_copy(update={"controller": "down", "accounting": False})
        _change(facts, head.host, slurm=down, observe=None)


def lost_gpu(site: Site, facts: Facts) -> None:
    """The driver has lost a GPU."""
    nothing = {"bus_id": "", "error": "GPU is lost", "vbios": "", "name": ""}
    _each_gpu(facts, gpu_hosts(site)[0], lambda index: nothing if index == 3 else {})


def silent_gpus(site: Site, facts: Facts) -> None:
    """Of some GPUs nothing is read, so one result speaks of several."""
    unread = {"ecc_enabled": None, "remap_failed": None, "temperature": None}
    _each_gpu(facts, gpu_hosts(site)[0], lambda index: unread if index in {3, 5} else {})


def no_nvlink_speed(site: Site, facts: Facts) -> None:
    """The driver does not tell how fast NVLinks are."""
    _each_gpu(facts, gpu_hosts(site)[0], lambda index: {"nvlink_speed": None})


def hot_gpu(site: Site, facts: Facts) -> None:
    """A GPU is too hot, and slows down."""
    hot = {"temperature": 99, "clock_event_reasons": 0x48, "utilization": 100, "power": 300.0}
    _each_gpu(facts, gpu_hosts(site)[0], lambda index: hot if index == 2 else {})


def no_driver(site: Site, facts: Facts) -> None:
    """No driver answers on a GPU host."""
    name = gpu_hosts(site)[0]
    _change(facts, name, gpus=None)
    _unread(facts, name, "gpus", "NVML does not start", ProblemKind.VERSION_MISMATCH)


def other_driver(site: Site, facts: Facts) -> None:
    """A GPU host has the driver of another branch."""
    name = gpu_hosts(site)[0]
    if gpus := facts[name].gpus:
        _change(facts, name, gpus=gpus.model_copy(update={"driver": "535.247.01"}))


def short_node(site: Site, facts: Facts) -> None:
    """Slurm has taken out a host that offers fewer GPUs than it should."""
    for name in heads(site):
        if name in facts and (slurm := facts[name].slurm) and slurm.nodes:
            reason = "gres/gpu count reported lower than configured (7 < 8)"
            first = {"state": "idle+drain", "reason": reason}
            nodes = (slurm.nodes[0].model_copy(update=first), *slurm.nodes[1:])
            _change(facts, name, slurm=slurm.model_copy(update={"nodes": nodes}))


def missing_adapter(site: Site, facts: Facts) -> None:
    """An adapter is gone; what it was cabled to is still expected."""
    name = gpu_hosts(site)[0]
    _change(facts, name, ports=facts[name].ports[:-1])


def adapters_of_no_name(site: Site, facts: Facts) -> None:
    """No GPU host shows a port."""
    for name in gpu_hosts(site):
        _change(facts, name, ports=())


def astray(site: Site, facts: Facts) -> None:
    """Discovery does not meet a GPU host whose links are up."""
    lost = gpu_hosts(site)[0]
    for name in heads(site):
        if name in facts and (seen := facts[name].topology):
            hcas = tuple(n for n in seen.hcas if not n.description.startswith(f"{lost} "))
            links = tuple(k for k in seen.links if lost not in f"{k.node} {k.peer}")
            _change(facts, name, topology=seen.model_copy(update={"hcas": hcas, "links": links}))


def no_subnet_manager(site: Site, facts: Facts) -> None:
    """Nobody hears a subnet manager, and ports wait for one."""
    for name, own in list(facts.items()):
        ports = tuple(p.model_copy(update={"state": "INIT"}) for p in own.ports)
        _change(facts, name, ports=ports, subnet_manager=None, topology=None)


def deaf_host(site: Site, facts: Facts) -> None:
    """A GPU host hears no subnet manager, and others do."""
    name = gpu_hosts(site)[-1]
    _change(facts, name, subnet_manager=None)
    _unread(facts, name, "fabric", "sminfo failed with 255", ProblemKind.UNANSWERED)


def ordinary_user(site: Site, facts: Facts) -> None:
    """Hosts are asked as somebody who may not see everything."""
    for name in list(facts):
        _change(facts, name, user="ada", xid_events=None, ports=())
        for area in ("xids", "fabric", "receipts"):
            _unread(facts, name, area, "needs root", ProblemKind.DENIED)


def dead_disks(site: Site, facts: Facts) -> None:
    """A disk gives errors, and what is mounted from elsewhere does not answer."""
    name = gpu_hosts(site)[0]
    _unread(facts, name, "filesystems", "Input/output error", ProblemKind.IO_ERROR, "/var")
    mounts = [mount.at for mount in site.storage.mounts]
    for at in mounts:
        _unread(facts, name, "filesystems", "no answer", ProblemKind.OTHER, at)
    if name in facts:
        left = tuple(fs for fs in facts[name].filesystems if fs.at not in mounts)
        _change(facts, name, filesystems=left)


def full_disk(site: Site, facts: Facts) -> None:
    """The system disk of a control host is full, and its daemons are down."""
    name = heads(site)[0]
    _units(facts, name, "slurmctld", "munge")
    if name in facts:
        root, *others = facts[name].filesystems
        full = root.model_copy(update={"free": 1 << 20, "inodes_free": 1})
        _change(facts, name, filesystems=(full, *others))
    _fires(site, facts, "FilesystemFull", "InodesGone")


FAULTS: tuple[Fault, ...] = (
    silent_heads,
    silent_gpu_host,
    failed_units,
    other_units,
    control_units,
    lost_gpu,
    silent_gpus,
    no_nvlink_speed,
    hot_gpu,
    no_driver,
    other_driver,
    short_node,
    missing_adapter,
    adapters_of_no_name,
    astray,
    no_subnet_manager,
    deaf_host,
    ordinary_user,
    dead_disks,
    full_disk,
)
