"""Variables of role slurm: one description of the cluster for all hosts."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from appliance.config.rules.reserved import SLURM_WORDS
from appliance.errors import ConfigError
from appliance.models.facts import HostFacts
from appliance.models.gpu_counts import gpu_count
from appliance.models.profile import Profile
from appliance.models.site import Host, Role, Site
from appliance.stages.context import RoleContext, Variables
from appliance.stages.fabric.topology import slurm_switches
from appliance.stages.gpu.facts import Gpu, MigPart
from appliance.stages.slurm.site import DEFAULT_ACCOUNT
from appliance.stages.slurm.variables.containers import containers
from appliance.stages.slurm.variables.logins import logins, unheld
from appliance.stages.slurm.variables.watch import watch

MIB = 1024 * 1024
GIB = 1024 * MIB
MOST_USERS = 16
"""Maximum number of users for whom the controller submits test jobs."""
MARKETED = 0.95
"""Minimum share of the data sheet's memory that the kernel of a healthy host offers."""

WITHOUT_DISABLED_CGROUPS = frozenset({"debian-12", "ubuntu-22.04", "rhel-9"})
"""Systems whose Slurm is older than 23.11 and lacks CgroupPlugin=disabled."""


@dataclass(frozen=True)
class _Node:
    """A GPU host in slurm.conf; memory for jobs in MiB."""

    name: str
    address: str
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mib: int
    gpus: int
    gres: str
    devices: list[dict[str, object]]

    @property
    def cpus(self) -> int:
        return self.sockets * self.cores_per_socket * self.threads_per_core

    def variables(self) -> Variables:
        return {**vars(self), "cpus": self.cpus}


def variables(context: RoleContext) -> Variables:
    """Return all variables of role slurm. Raises ConfigError without a control host or its secrets."""
    site = context.site
    controller = _controller(site)
    constrain = context.once(_constrains)
    return {
        "slurm_state": "present" if site.slurm else "absent",
        "slurm_cluster": site.slurm_options.cluster,
        "slurm_controller": context.host.name == controller.name,
        "slurm_compute": Role.GPU in context.host.roles,
        "slurm_controller_name": controller.name,
        "slurm_controller_address": str(controller.address),
        "slurm_nodes": context.once(_node_lines),
        "slurm_devices": _devices(context),
        "slurm_memory_per_cpu_mib": context.once(_memory_per_cpu),
        "slurm_partitions": context.once(_partitions),
        "slurm_accounts": context.once(_accounts),
        "slurm_constrain": constrain,
        "slurm_cgroup_plugin": "autodetect" if constrain else _no_cgroups(context),
        "slurm_munge_key": _secret(context, "munge_key"),
        "slurm_database_password": (
            _secret(context, "slurmdbd_password") if context.host.name == controller.name else ""
        ),
        "slurm_owner": site.owner(context.host).value,
        "slurm_scratch": _scratch(context),
        "slurm_switches": context.once(slurm_switches),
        "slurm_containers": containers(context.site),
        **logins(context, constrain),
        **watch(context),
    }


def _nodes(context: RoleContext) -> list[_Node]:
    return [
        _node(context.profile_of(host.name), host, context.facts.get(host.name))
        for host in context.site.with_role(Role.GPU)
        if host.name not in context.left_out
    ]


def _devices(context: RoleContext) -> list[dict[str, object]]:
    """Return this host's lines of gres.conf, from its own facts, because they concern no other host."""
    profile, host = context.profile, context.host
    if Role.GPU not in host.roles:
        return []
    kind = gpu_type(_model(profile, context.facts.get(host.name)))
    return _resources(kind, gpu_count(profile, host), context.own, own=True)[1]


def _node_lines(context: RoleContext) -> list[Variables]:
    return [node.variables() for node in context.once(_nodes)]


def _memory_per_cpu(context: RoleContext) -> int:
    """Return the value of the smallest host; with three hosts or more, one outlier is ignored."""
    found = [n.memory_mib // n.cpus for n in context.once(_nodes)]
    several = [value for value, times in Counter(found).items() if times > 1]
    return min((several if len(found) > 2 else []) or found, default=1024)


def gpu_type(model: str) -> str:
    """Return Slurm's type for a GPU model: "a100" for "NVIDIA A100-SXM4-80GB", "gpu" if unknown."""
    found = re.search(r"\b([A-Z]{1,2}\d{2,4}[A-Z]?)\b", model)
    return found.group(1).lower() if found else "gpu"


def _controller(site: Site) -> Host:
    hosts = site.with_role(Role.CONTROL)
    if not hosts:
        raise ConfigError(
            "no host has the role control, which runs Slurm's controller",
            "give one host of the site the role control",
        )
    return hosts[0]


def _secret(context: RoleContext, name: str) -> str:
    """Return a secret; "" for hosts that leave Slurm, whose site need not have it."""
    if context.site.slurm is None:
        return ""
    if name not in context.secrets:
        raise ConfigError(
            f"secrets.{name} is not given", f"name a file, env or vault for {name} under secrets"
        )
    return context.secrets[name]


def _node(profile: Profile, host: Host, facts: HostFacts | None) -> _Node:
    known = facts if facts and facts.cpu.threads and facts.memory.total else None
    total = known.memory.total if known else profile.hardware.host.memory_gib * GIB * MARKETED
    kind = gpu_type(_model(profile, facts))
    return _Node(
        host.name,
        str(host.address),
        *_topology(profile, known),
        _offered(int(total / MIB), profile.stages.slurm_memory_reserve_mib),
        gpu_count(profile, host),
        *_resources(kind, gpu_count(profile, host), facts),
    )


def _topology(profile: Profile, facts: HostFacts | None) -> tuple[int, int, int]:
    """Return sockets, cores per socket, threads per core. Slurm drains a host that has less than configured."""
    if facts is None:
        host = profile.hardware.host
        return host.sockets, max(1, host.cores // host.sockets), 1
    sockets, cores, threads = facts.cpu.sockets, facts.cpu.cores, facts.cpu.threads
    if sockets and cores and not cores % sockets and not threads % cores:
        return sockets, cores // sockets, threads // cores
    return 1, threads, 1


def gpus_offered(count: int, facts: HostFacts | None) -> dict[str, int]:
    """Return the GPUs that Slurm offers: instances by type, and the number of whole ones (type "")."""
    divided = _divided(facts)
    whole = len(set(range(count)) - divided.keys())
    parts = [type_of(i.profile) for gpu in divided.values() for i in gpu.mig or () for _ in i.parts]
    return ({"": whole} if whole else {}) | {name: parts.count(name) for name in sorted(set(parts))}


def type_of(profile: str) -> str:
    """Return Slurm's type for a MIG profile; a type must not contain the + of an extra engine."""
    return profile.replace("+", ".")


def _divided(facts: HostFacts | None) -> dict[int, Gpu]:
    devices = facts.gpus.devices if facts and facts.gpus else ()
    return {gpu.index: gpu for gpu in devices if gpu.mig_enabled and gpu.mig is not None}


def _resources(
    kind: str, count: int, facts: HostFacts | None, own: bool = False
) -> tuple[str, list[dict[str, object]]]:
    """Return a host's Gres, and lines of gres.conf: a whole GPU has one file, an instance several.

    On other hosts (not ``own``) parts are counted; only slurmd opens device files.
    Slurm counts devices in the order of the types in Gres, so the lines have the same.
    """
    divided = _divided(facts)
    offered = gpus_offered(count, facts)
    gres = ",".join(f"gpu:{name or kind}:{number}" for name, number in offered.items())
    whole = [index for index in range(count) if index not in divided]
    known = {gpu.index: gpu.uuid for gpu in (facts.gpus.devices if facts and facts.gpus else ())}
    uuids = [known.get(index) or str(index) for index in whole]
    lines = [_line(kind, _files(whole), "File", uuids if own else None)] if whole else []
    if not own:
        types = (name for name in offered if name)
        return gres, lines + [_line(name, str(offered[name]), "Count") for name in types]
    parts = [
        _line(type_of(one.profile), _part_files(gpu, part), "MultipleFiles", [part.uuid])
        for gpu in divided.values()
        for one in gpu.mig or ()
        for part in one.parts
    ]
    return gres, lines + sorted(parts, key=lambda line: str(line["type"]))


def _line(kind: str, files: str, option: str, uuids: list[str] | None = None) -> dict[str, object]:
    line: dict[str, object] = {"type": kind, "files": files, "option": option}
    return line if uuids is None else line | {"uuids": uuids}


def _part_files(gpu: Gpu, part: MigPart) -> str:
    card = f"/dev/nvidia{gpu.index if gpu.minor is None else gpu.minor}"
    return ",".join((card, *part.nodes))


def _files(numbers: list[int]) -> str:
    """``/dev/nvidia[0-3,6]``."""
    if len(numbers) == 1:
        return f"/dev/nvidia{numbers[0]}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    spans = (f"{first}-{last}" if last > first else str(first) for first, last in runs)
    return f"/dev/nvidia[{','.join(spans)}]"


def _offered(total: int, reserve: int) -> int:
    """Return MiB for jobs, in whole GiB, so that small differences between kernels change nothing; small hosts offer 3/4."""
    left = total - min(reserve, total // 4)
    return left // 1024 * 1024 or left


def _model(profile: Profile, facts: HostFacts | None) -> str:
    devices = facts.gpus.devices if facts and facts.gpus else ()
    models = profile.hardware.gpu.models
    return next((device.name for device in devices if device.name in models), models[0])


def _partitions(context: RoleContext) -> list[Variables]:
    """Return the partitions; the first one is the default if the site sets none, because Slurm would refuse jobs without a partition."""
    partitions = context.site.slurm_options.partitions
    chosen = any(p.default for p in partitions)
    made: list[Variables] = [
        {"name": p.name, "default": p.default or (not chosen and i == 0), "max_time": p.max_time}
        for i, p in enumerate(partitions)
    ]
    return made + [
        {"name": name, "default": False, "max_time": "UNLIMITED", "nodes": nodes}
        for name, nodes in _by_class(context).items()
        if nodes
    ]


def _by_class(context: RoleContext) -> dict[str, list[str]]:
    """Return the nodes of each class by the name of its partition; none on a site with one class."""
    if not context.site.is_mixed:
        return {}
    found: dict[str, list[str]] = {partition_of(context.site, p): [] for p in context.profiles}
    for node in context.once(_nodes):
        found[partition_of(context.site, context.profile_of(node.name))].append(node.name)
    return found


def partition_of(site: Site, profile: Profile) -> str:
    """Return the name of a class's partition: the class's name in valid characters, unique among partitions."""
    name = re.sub(r"[^a-z0-9_-]+", "-", profile.name.lower())
    taken = {p.name for p in site.slurm_options.partitions} | SLURM_WORDS
    return f"{name}-hosts" if name in taken else name


def _accounts(context: RoleContext) -> list[Variables]:
    return [{"name": name, "users": users} for name, users in accounts_of(context.site).items()]


def accounts_of(site: Site) -> dict[str, list[str]]:
    """Return accounts and the users who may charge them."""
    given = {account.name: dict.fromkeys(account.users) for account in site.slurm_options.accounts}
    paying = {name for users in given.values() for name in users}
    others = [user.name for user in site.base.users if user.name not in paying]
    if others:
        given.setdefault(DEFAULT_ACCOUNT, {}).update(dict.fromkeys(others))
    return {name: list(users) for name, users in given.items()}


def users_of(site: Site) -> list[str]:
    """Return users who may submit jobs: people before root, the first one of each account before the others."""
    ranked = [
        (name == "root", rank, name)
        for users in accounts_of(site).values()
        for rank, name in enumerate(users)
    ]
    return list(dict.fromkeys(name for _, _, name in sorted(ranked)))[:MOST_USERS]


def _constrains(context: RoleContext) -> bool:
    """Return whether cgroup v2 limits jobs to their share; slurm.conf sets it for all hosts."""
    return holds_jobs(context.site, context.facts)


def holds_jobs(site: Site, facts: Mapping[str, HostFacts]) -> bool:
    """Return the site's setting; by default true, unless most GPU hosts cannot: a single host never decides it for others."""
    if site.slurm_options.constrain is not None:
        return site.slurm_options.constrain
    seen = [facts.get(host.name) for host in site.with_role(Role.GPU)]
    unable = sum(bool(unheld(one)) for one in seen if one)
    return 2 * unable <= sum(one is not None for one in seen)


def _no_cgroups(context: RoleContext) -> str:
    facts = context.own
    old = facts is None or facts.os.release in WITHOUT_DISABLED_CGROUPS
    return "cgroup/v1" if old else "disabled"


def _scratch(context: RoleContext) -> str:
    scratch = context.site.storage.scratch
    return scratch.at if scratch and Role.GPU in context.host.roles else ""
