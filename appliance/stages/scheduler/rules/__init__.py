"""Rules for the choice of the scheduler, its node pools and the requests of work."""

from collections.abc import Iterator

from appliance.config.compatibility import RELEASE
from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule, nearest, repeated
from appliance.models.gpu_counts import gpu_count
from appliance.models.profile import Profile, Software
from appliance.models.site import Owner, Role
from appliance.models.text_types import minutes
from appliance.stages.mig.layouts import completed
from appliance.stages.mig.layouts import texts as divided
from appliance.stages.mig.table import mig_table
from appliance.stages.scheduler.queues.tree import hosts_of
from appliance.stages.scheduler.rules import queues, quotas, trees
from appliance.stages.scheduler.site import DEFAULT_POOL, NodePool, Queue, SchedulerOptions

POOLS: KeyPath = ("scheduler", "node_pools")
PROJECTS: KeyPath = ("scheduler", "projects")
HOSTNAME = "kubernetes.io/hostname"
SHIPPED = ("train", "build-preemptible", "build", "inference")
"""Priority classes created by the KAI chart."""

SHARING = {"nvidia": "0.18"}
"""The first KAI release with each way to cap a fraction of a GPU."""

UNSUPPORTED = frozenset({"runai"})
"""Kinds that no site can have: no client of Run:ai's REST API registers its cluster."""

FRACTIONS_DRIVER = 615
"""NVIDIA's fractions need this driver branch (kai-gpu-fractioning, 2026-10)."""


def choice(case: Case) -> Iterator[Finding]:
    """The chosen scheduler is supported: its releases are known, its licence is given."""
    options = case.site.scheduler
    if options is None:
        return
    if options.kind in UNSUPPORTED:
        message = "Run:ai is unsupported in this release: its cluster engine and prerequisites are not installed"
        yield case.problem(("scheduler", "kind"), message, "use kind: kai")
    entitled = options.runai is not None and options.runai.edition == "entitled"
    if entitled and "ngc_api_key" not in case.site.secrets and case.checked.whole("secrets"):
        yield case.problem(
            ("scheduler", "runai", "edition"),
            "entitled is set, but secrets.ngc_api_key is not",
            "add ngc_api_key: {file: secrets/ngc_api_key}, or use edition: open",
        )
    if (software := _software(case)) is None:
        return
    for name in ("kubernetes", "kai"):
        if getattr(software, name) is None:
            message = f"needs {name}, which the profile does not set"
            yield case.problem(("scheduler",), message, f"set a release under software.{name}")
    if options.kind != "kai" and software.kai and _older(software.kai, "0.18"):
        yield case.problem(
            ("scheduler", "kind"),
            f"{options.kind} is based on kai 0.18, but kai {software.kai} is set",
            'set software.kai: "0.18", or kind: kai',
        )


def sharing(case: Case) -> Iterator[Finding]:
    """The requested sharing of GPUs is available."""
    options = case.site.scheduler
    path: KeyPath = ("scheduler", "sharing")
    if options is not None and options.sharing == "hami":
        # KAI sets CUDA_DEVICE_MEMORY_LIMIT only; the isolator's webhook mounts a folder of the host, which projects' pods may not have.
        message = "hami enforces nothing: KAI's resource isolator, which limits pods to their fraction, is not installed"
        remedy = "use unenforced if pods may trust each other, or MIG instances (node_pools[].mig)"
        yield case.problem(path, message, remedy)
    software = _software(case)
    if options is None or software is None:
        return
    line = SHARING.get(options.sharing)
    if line and software.kai and _older(software.kai, line):
        message = f"{options.sharing} needs kai {line}, but kai {software.kai} is set"
        yield case.problem(path, message, f'set software.kai: "{line}", or sharing: unenforced')
    branch = software.driver_branch
    if options.sharing == "nvidia" and branch.isdigit() and int(branch) < FRACTIONS_DRIVER:
        message = f"nvidia needs driver branch {FRACTIONS_DRIVER}, but {branch} is set"
        yield case.problem(
            path, message, "use unenforced, MIG instances (node_pools[].mig), or another driver"
        )


def pools(case: Case) -> Iterator[Finding]:
    """Node pools contain GPU hosts, each in one pool."""
    options = case.site.scheduler
    if options is None:
        return
    named = [((*POOLS, i, "name"), p.name) for i, p in enumerate(options.node_pools)]
    for path, name, first in repeated(named):
        yield case.problem(
            path, f'"{name}" is given twice (also line {case.line(first)})', "merge them"
        )
    gpu_hosts = [h.name for h in case.site.with_role(Role.GPU)]
    slurm_hosts = [h.name for h in case.site.hosts if h.owner is Owner.SLURM]
    listed: list[tuple[KeyPath, str]] = []
    for i, pool in enumerate(options.node_pools):
        if pool.name == DEFAULT_POOL:
            message = "default is reserved: the pool of all hosts that no other pool lists"
            yield case.problem((*POOLS, i, "name"), message, "choose another name, or remove it")
        for j, host in enumerate(pool.hosts):
            listed.append(((*POOLS, i, "hosts", j), host))
            if host not in gpu_hosts and case.checked.whole("hosts"):
                message = f'there is no GPU host "{host}"'
                yield case.problem(
                    (*POOLS, i, "hosts", j), message, nearest(host, gpu_hosts, "GPU hosts")
                )
            elif host in slurm_hosts:
                message = f"{host} belongs to Slurm (owner: slurm)"
                remedy = "remove it from the pool, or set owner: kubernetes"
                yield case.problem((*POOLS, i, "hosts", j), message, remedy)
    for path, host, first in repeated(listed):
        message = f"{host} is also in {case.also(first)}"
        yield case.problem(path, message, "a host belongs to one pool")


def empty_pools(case: Case) -> Iterator[Finding]:
    """No queue uses an empty pool."""
    options = case.site.scheduler
    if options is None or not case.checked.whole("hosts") or not case.checked.whole(*POOLS):
        return
    if hosts_of(case.site)[DEFAULT_POOL]:
        return
    for path, queue in _queues(case):
        if queue.pool == DEFAULT_POOL:
            yield case.problem(
                (*path, "pool"),
                "the default pool is empty: every GPU host is in another pool",
                f"use one of {', '.join(p.name for p in options.node_pools)}",
            )


def mig(case: Case) -> Iterator[Finding]:
    """A cluster has one MIG strategy, and its profiles exist."""
    options = case.site.scheduler
    if options is None:
        return
    strategies: dict[str, str] = {}
    for i, pool in enumerate(options.node_pools):
        path: KeyPath = (*POOLS, i, "mig")
        if pool.mig != "none":
            strategies.setdefault(pool.mig, pool.name)
        if len(strategies) > 1 and pool.mig != next(iter(strategies)) and pool.mig != "none":
            other, first = next(iter(strategies.items()))
            message = f"{pool.mig}, but pool {first} has {other}: a cluster has one strategy"
            yield case.problem(
                path, message, "use the same for all pools; mixed allows several profiles"
            )
        if pool.mig_on_demand and pool.mig != "mixed":
            message = f"is {pool.mig}, but mig_on_demand offers profiles"
            yield case.problem(path, message, "set mig: mixed, or remove mig_on_demand")
        yield from _profiles(case, i)
        if pool.mig_on_demand:
            yield from _on_demand(case, i, options)


def _profiles(case: Case, index: int) -> Iterator[Finding]:
    assert case.site.scheduler is not None
    pool = case.site.scheduler.node_pools[index]
    for own in _classes(case, pool):
        geometries = [mig_table().of(model) for model in own.hardware.gpu.models]
        known = list(dict.fromkeys(p.name for g in geometries if g for p in g.profiles))
        for j, profile in enumerate(pool.mig_on_demand):
            if profile not in known:
                message = f"{profile} is not a MIG profile of {own.name}'s GPUs"
                path = (*POOLS, index, "mig_on_demand", j)
                yield case.problem(path, message, nearest(profile, known, "profiles", cutoff=0.7))


def _classes(case: Case, pool: NodePool) -> list[Profile]:
    """The profiles of the pool's hosts, each once; the site's own if it has none."""
    if case.profile is None:
        return []
    found = [own for name in pool.hosts if (own := case.profile_of(name))]
    return list({own.name: own for own in found or [case.profile]}.values())


def _on_demand(case: Case, index: int, options: SchedulerOptions) -> Iterator[Finding]:
    """On-demand MIG is available, and some GPUs are left for it."""
    pool, site = options.node_pools[index], case.site
    path: KeyPath = (*POOLS, index, "mig_on_demand")
    if options.kind == "runai":
        # Run:ai's own dynamic MIG ended with its release 2.19 (its documentation, 2026-11).
        message = "Run:ai does not support MIG on demand"
        yield case.problem(path, message, "partition GPUs under mig, or use kind: kai")
    if site.kubernetes is not None and site.kubernetes.external is not None:
        message = "is unsupported on an external cluster: no program of ours runs on its hosts"
        yield case.problem(path, message, "partition GPUs with the tools of that cluster")
    if case.profile is None:
        return
    fewest = [
        gpu_count(site.profile_of(h.name, case.profile), h)
        for h in site.hosts
        if h.name in pool.hosts
    ]
    count = min(fewest, default=case.profile.hardware.gpu.count)
    if pool.mig_whole >= count:
        message = (
            f"{pool.mig_whole} stay whole, but a host has {count} GPUs: none is left to partition"
        )
        yield case.problem((*POOLS, index, "mig_whole"), message, f"at most {count - 1}")
    whole = completed(site, case.profile)
    for j, name in enumerate(pool.hosts):
        host = next((h for h in site.hosts if h.name == name), None)
        own = site.profile_of(name, case.profile)
        if host is not None and len(divided(own, whole, host)) >= count:
            message = (
                f"section mig configures every GPU of {name}: none is left to partition on demand"
            )
            remedy = "remove some GPUs there, or remove the host from this pool"
            yield case.problem((*POOLS, index, "hosts", j), message, remedy)


def fractions(case: Case) -> Iterator[Finding]:
    """Fractions of a GPU need shared GPUs without MIG."""
    options = case.site.scheduler
    if options is None:
        return
    cut = {p.name for p in options.node_pools if p.mig != "none"}
    for path, queue in _queues(case):
        if queue.fraction is not None and options.sharing == "none":
            yield case.problem(
                (*path, "fraction"),
                f"{queue.fraction:g} of a GPU, but scheduler.sharing is none",
                "set sharing: unenforced, or remove the fraction",
            )
        elif queue.fraction is not None and queue.pool in cut:
            yield case.problem(
                (*path, "fraction"),
                f"{queue.fraction:g} of a GPU, but the GPUs of pool {queue.pool} are partitioned by MIG",
                "request a MIG profile instead: remove the fraction, or use another pool",
            )
        whole = options.sharing == "none" and queue.pool not in cut
        if whole and not float(queue.gpu.quota).is_integer():
            yield case.problem(
                (*path, "gpu", "quota"),
                f"{queue.gpu.quota:g} GPUs, but scheduler.sharing is none",
                "use a whole number, or share GPUs",
            )


def ends(case: Case) -> Iterator[Finding]:
    """Interactive work has a time limit, and a shorter idle limit."""
    for path, queue in _queues(case):
        if queue.time_limit and queue.work != "build":
            message = f"applies to interactive work, but this queue is for work: {queue.work}"
            yield case.problem((*path, "time_limit"), message, "remove it, or set work: build")
        if (
            queue.time_limit
            and queue.idle_limit
            and minutes(queue.idle_limit) > minutes(queue.time_limit)
        ):
            message = f"{queue.idle_limit} is never reached: work ends after {queue.time_limit}"
            yield case.problem((*path, "idle_limit"), message, "set it below time_limit")


def priorities(case: Case) -> Iterator[Finding]:
    """Priority classes belong to the site or the scheduler, and exist where they are named."""
    options = case.site.scheduler
    if options is None:
        return
    named = [
        (("scheduler", "priorities", i, "name"), p.name) for i, p in enumerate(options.priorities)
    ]
    for path, name, first in repeated(named):
        yield case.problem(
            path, f'"{name}" is given twice (also line {case.line(first)})', "keep one"
        )
    for path, name in named:
        if name in SHIPPED or name.startswith("system-"):
            message = f"{name} is created by {'the scheduler' if name in SHIPPED else 'Kubernetes'}"
            yield case.problem(path, message, "choose another name")
    known = [*SHIPPED, *(p.name for p in options.priorities)]
    values = {p.name: p.value for p in options.priorities} | {"train": 50, "build-preemptible": 75}
    for path, queue in _queues(case):
        name = queue.priority_class or queue.work
        if name not in known:
            if case.checked.listed("scheduler", "priorities"):
                message = f'there is no priority class "{name}"'
                yield case.problem(
                    (*path, "priority_class"), message, nearest(name, known, "priority classes")
                )
        elif queue.work == "train" and values.get(name, 100) >= 100:
            message = (
                f"{name} is never evicted and never over quota, but this queue is for training"
            )
            yield case.problem(
                (*path, "priority_class"), message, "use one below 100, or set work: build"
            )


def one_queue_per_pool(case: Case) -> Iterator[Finding]:
    """KAI's resource management and Run:ai support departments over projects, and one queue of each per pool."""
    options = case.site.scheduler
    if options is None or options.kind == "kai":
        return
    for i, department in enumerate(options.departments):
        if department.parent is not None:
            path: KeyPath = ("scheduler", "departments", i, "parent")
            message = f"{options.kind} supports two levels: departments over projects"
            yield case.problem(path, message, "remove parent, or use kind: kai")
    for i, project in enumerate(options.projects):
        if project.shares:
            message = f"{options.kind} does not support a queue of a project above its queues"
            remedy = "remove shares from the project, or use kind: kai"
            yield case.problem((*PROJECTS, i, "shares"), message, remedy)
        used = [((*PROJECTS, i, "queues", j, "pool"), q.pool) for j, q in enumerate(project.queues)]
        for path, pool, first in repeated(used):
            message = (
                f'{options.kind} supports one queue per project and pool, but "{pool}" has two'
            )
            remedy = f"put them in different pools (the other is line {case.line(first[:-1])})"
            yield case.problem(path, message, f"{remedy}, or use kind: kai")
        for j, queue in enumerate(project.queues):
            for key in ("preempt_min_runtime", "reclaim_min_runtime"):
                if getattr(queue, key) is not None:
                    message = f"{options.kind} does not support this time per queue"
                    yield case.problem(
                        (*PROJECTS, i, "queues", j, key), message, "remove it, or use kind: kai"
                    )


def topology(case: Case) -> Iterator[Finding]:
    """Levels are ordered from wide to narrow, and the host is the last."""
    options = case.site.scheduler
    if options is None:
        return
    given = options.topology
    path: KeyPath = ("scheduler", "topology", "levels")
    if (given.source == "labels") != bool(given.levels) and case.checked.whole(*path[:2]):
        message = (
            f"source is {given.source}, but levels {'are' if given.levels else 'are not'} given"
        )
        yield case.problem(
            path, message, "levels are required for, and only valid with, source: labels"
        )
    for where, label, first in repeated([((*path, i), n) for i, n in enumerate(given.levels)]):
        message = f"{label} is given twice (also line {case.line(first)})"
        yield case.problem(where, message, "name each level once")
    if HOSTNAME in given.levels[:-1]:
        where = (*path, given.levels.index(HOSTNAME))
        yield case.problem(where, f"{HOSTNAME} is not the last", "the host must be the last level")


def members(case: Case) -> Iterator[Finding]:
    """Members of a project are people and their groups, named once."""
    options = case.site.scheduler
    for i, project in enumerate(options.projects if options else ()):
        for key in ("users", "groups"):
            given = [((*PROJECTS, i, key, j), name) for j, name in enumerate(getattr(project, key))]
            for path, name, first in repeated(given):
                yield case.problem(
                    path, f"{name} is given twice (also line {case.line(first)})", "keep one"
                )
            for path, name in given:
                if name.startswith("system:"):
                    message = f"{name} is reserved by Kubernetes"
                    yield case.problem(path, message, "name groups of people")


def _queues(case: Case) -> Iterator[tuple[KeyPath, Queue]]:
    options = case.site.scheduler
    for i, project in enumerate(options.projects if options else ()):
        for j, queue in enumerate(project.queues):
            yield (*PROJECTS, i, "queues", j), queue


def _software(case: Case) -> Software | None:
    if case.profile is None:
        return None
    return case.profile.software.model_copy(update=dict(case.site.software))


def _older(release: str, line: str) -> bool:
    if not RELEASE.match(release):
        return False
    return [int(p) for p in release.split(".")][:2] < [int(p) for p in line.split(".")]


RULES: tuple[Rule, ...] = (
    choice,
    sharing,
    pools,
    empty_pools,
    mig,
    fractions,
    ends,
    priorities,
    one_queue_per_pool,
    topology,
    members,
    queues.names,
    queues.reserved,
    queues.queue_names,
    queues.references,
    queues.shares,
    queues.circles,
    quotas.bounds,
    quotas.limits,
    quotas.sums,
    quotas.within,
    trees.exports,
    trees.names,
    trees.kept,
    trees.numbers,
)
