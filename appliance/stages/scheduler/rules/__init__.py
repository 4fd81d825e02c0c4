"""Rules over the choice of the scheduler, its node pools and what work may ask for."""

from collections.abc import Iterator

from appliance.config.compatibility import RELEASE
from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule, nearest, repeated
from appliance.models.gpus import gpu_count
from appliance.models.profile import Software
from appliance.models.site import Owner, Role
from appliance.models.texts import minutes
from appliance.stages.mig.layouts import completed
from appliance.stages.mig.layouts import texts as divided
from appliance.stages.mig.table import mig_table
from appliance.stages.scheduler.queues.tree import hosts_of
from appliance.stages.scheduler.rules import queues, quotas, trees
from appliance.stages.scheduler.site import DEFAULT_POOL, Queue, SchedulerOptions

POOLS: KeyPath = ("scheduler", "node_pools")
PROJECTS: KeyPath = ("scheduler", "projects")
HOSTNAME = "kubernetes.io/hostname"
SHIPPED = ("train", "build-preemptible", "build", "inference")
"""Priority classes the KAI chart makes."""

SHARING = {"nvidia": "0.18"}
"""The KAI line that first has each way to cap a part of a GPU."""

FRACTIONS_DRIVER = 615
"""NVIDIA's fractions want this driver branch (kai-gpu-fractioning, 2026-10)."""


def choice(case: Case) -> Iterator[Finding]:
    """The chosen scheduler can run here: its releases are known, its licence is given."""
    options = case.site.scheduler
    if options is None:
        return
    entitled = options.runai is not None and options.runai.edition == "entitled"
    if entitled and "ngc_api_key" not in case.site.secrets and case.checked.whole("secrets"):
        yield case.problem(
            ("scheduler", "runai", "edition"),
            "entitled, but secrets.ngc_api_key is not given",
            "add ngc_api_key: {file: secrets/ngc_api_key}, or take edition: open",
        )
    if (software := _software(case)) is None:
        return
    for name in ("kubernetes", "kai"):
        if getattr(software, name) is None:
            message = f"wants {name}, which the profile leaves out"
            yield case.problem(("scheduler",), message, f"name a release under software.{name}")
    if options.kind != "kai" and software.kai and _older(software.kai, "0.18"):
        yield case.problem(
            ("scheduler", "kind"),
            f"{options.kind} stands on kai 0.18, but kai {software.kai} is chosen",
            'set software.kai: "0.18", or kind: kai',
        )


def sharing(case: Case) -> Iterator[Finding]:
    """Parts of a GPU can be had as the site wants them."""
    options = case.site.scheduler
    path: KeyPath = ("scheduler", "sharing")
    if options is not None and options.sharing == "hami":
        # KAI sets CUDA_DEVICE_MEMORY_LIMIT alone; the isolator's webhook mounts a folder of the host, which projects' pods may not have.
        message = "hami caps nothing: what keeps pods to their part, KAI's resource isolator, is not installed here"
        remedy = "take unenforced where pods are trusted with each other's memory, or instances of MIG (node_pools[].mig)"
        yield case.problem(path, message, remedy)
    software = _software(case)
    if options is None or software is None:
        return
    line = SHARING.get(options.sharing)
    if line and software.kai and _older(software.kai, line):
        message = f"{options.sharing} wants kai {line}, but kai {software.kai} is chosen"
        yield case.problem(path, message, f'set software.kai: "{line}", or sharing: unenforced')
    branch = software.driver_branch
    if options.sharing == "nvidia" and branch.isdigit() and int(branch) < FRACTIONS_DRIVER:
        message = f"nvidia wants driver branch {FRACTIONS_DRIVER}, but {branch} is chosen"
        yield case.problem(
            path, message, "take unenforced, instances of MIG (node_pools[].mig), or another driver"
        )


def pools(case: Case) -> Iterator[Finding]:
    """Node pools are made of GPU hosts, each of which is in one."""
    options = case.site.scheduler
    if options is None:
        return
    named = [((*POOLS, i, "name"), p.name) for i, p in enumerate(options.node_pools)]
    for path, name, first in repeated(named):
        yield case.problem(
            path, f'"{name}" stands twice (also line {case.line(first)})', "make them one"
        )
    gpu_hosts = [h.name for h in case.site.with_role(Role.GPU)]
    slurm_hosts = [h.name for h in case.site.hosts if h.owner is Owner.SLURM]
    listed: list[tuple[KeyPath, str]] = []
    for i, pool in enumerate(options.node_pools):
        if pool.name == DEFAULT_POOL:
            message = "default is the pool of all hosts no other pool names"
            yield case.problem((*POOLS, i, "name"), message, "take another name, or leave it out")
        for j, host in enumerate(pool.hosts):
            listed.append(((*POOLS, i, "hosts", j), host))
            if host not in gpu_hosts and case.checked.whole("hosts"):
                message = f'no GPU host is called "{host}"'
                yield case.problem(
                    (*POOLS, i, "hosts", j), message, nearest(host, gpu_hosts, "GPU hosts")
                )
            elif host in slurm_hosts:
                message = f"{host} belongs to Slurm (owner: slurm)"
                remedy = "take it out of the pool, or give it owner: kubernetes"
                yield case.problem((*POOLS, i, "hosts", j), message, remedy)
    for path, host, first in repeated(listed):
        message = f"{host} is also in {case.also(first)}"
        yield case.problem(path, message, "a host belongs to one pool")


def empty_pools(case: Case) -> Iterator[Finding]:
    """Nobody waits for a pool without hosts."""
    options = case.site.scheduler
    if options is None or not case.checked.whole("hosts") or not case.checked.whole(*POOLS):
        return
    if hosts_of(case.site)[DEFAULT_POOL]:
        return
    for path, queue in _queues(case):
        if queue.pool == DEFAULT_POOL:
            yield case.problem(
                (*path, "pool"),
                "every GPU host is in another pool: the default pool has none",
                f"take one of {', '.join(p.name for p in options.node_pools)}",
            )


def mig(case: Case) -> Iterator[Finding]:
    """MIG has one strategy in a cluster, and profiles there are."""
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
                path, message, "take the same for all; mixed allows several profiles"
            )
        if pool.mig_on_demand and pool.mig != "mixed":
            message = f"is {pool.mig}, but mig_on_demand offers profiles"
            yield case.problem(path, message, "set mig: mixed, or take mig_on_demand out")
        yield from _profiles(case, i)
        if pool.mig_on_demand:
            yield from _on_demand(case, i, options)


def _profiles(case: Case, index: int) -> Iterator[Finding]:
    assert case.site.scheduler is not None
    if case.profile is None:
        return
    geometries = [mig_table().of(model) for model in case.profile.hardware.gpu.models]
    known = list(dict.fromkeys(p.name for g in geometries if g for p in g.profiles))
    for j, profile in enumerate(case.site.scheduler.node_pools[index].mig_on_demand):
        if profile not in known:
            message = f"{profile} is no MIG profile of {case.profile.name}'s GPUs"
            path = (*POOLS, index, "mig_on_demand", j)
            yield case.problem(path, message, nearest(profile, known, "profiles", cutoff=0.7))


def _on_demand(case: Case, index: int, options: SchedulerOptions) -> Iterator[Finding]:
    """Somebody divides the GPUs, and some are left to be divided."""
    pool, site = options.node_pools[index], case.site
    path: KeyPath = (*POOLS, index, "mig_on_demand")
    if options.kind == "runai":
        # Run:ai's own dynamic MIG ended with its release 2.19 (its documentation, 2026-11).
        message = "nothing divides GPUs on demand beside Run:ai"
        yield case.problem(path, message, "divide them under mig, or take kind kai")
    if site.kubernetes is not None and site.kubernetes.external is not None:
        message = "hosts of an external cluster have no program of ours"
        yield case.problem(path, message, "divide GPUs there by its own means")
    if case.profile is None:
        return
    fewest = [gpu_count(case.profile, h) for h in site.hosts if h.name in pool.hosts]
    count = min(fewest, default=case.profile.hardware.gpu.count)
    if pool.mig_whole >= count:
        message = (
            f"{pool.mig_whole} stay whole, and a host has {count} GPUs: none is left to divide"
        )
        yield case.problem((*POOLS, index, "mig_whole"), message, f"at most {count - 1}")
    whole = completed(site, case.profile)
    for j, name in enumerate(pool.hosts):
        host = next((h for h in site.hosts if h.name == name), None)
        if host is not None and len(divided(case.profile, whole, host)) >= count:
            message = f"section mig speaks of every GPU of {name}: none is left to divide on demand"
            remedy = "take some out there, or the host out of this pool"
            yield case.problem((*POOLS, index, "hosts", j), message, remedy)


def fractions(case: Case) -> Iterator[Finding]:
    """Parts of a GPU are asked for where GPUs are shared, and not of MIG instances."""
    options = case.site.scheduler
    if options is None:
        return
    cut = {p.name for p in options.node_pools if p.mig != "none"}
    for path, queue in _queues(case):
        if queue.fraction is not None and options.sharing == "none":
            yield case.problem(
                (*path, "fraction"),
                f"{queue.fraction:g} of a GPU, but scheduler.sharing is none",
                "set sharing: unenforced, or take the fraction out",
            )
        elif queue.fraction is not None and queue.pool in cut:
            yield case.problem(
                (*path, "fraction"),
                f"{queue.fraction:g} of a GPU, but the GPUs of pool {queue.pool} are cut by MIG",
                "work there asks for a MIG profile: take the fraction out, or another pool",
            )
        whole = options.sharing == "none" and queue.pool not in cut
        if whole and not float(queue.gpu.quota).is_integer():
            yield case.problem(
                (*path, "gpu", "quota"),
                f"{queue.gpu.quota:g} GPUs, but scheduler.sharing is none",
                "take a whole number, or share GPUs",
            )


def ends(case: Case) -> Iterator[Finding]:
    """Interactive work has a time limit, and being idle counts before it."""
    for path, queue in _queues(case):
        if queue.time_limit and queue.work != "build":
            message = f"ends interactive work, but this queue is for work: {queue.work}"
            yield case.problem(
                (*path, "time_limit"), message, "take it out, or make it work: build"
            )
        if (
            queue.time_limit
            and queue.idle_limit
            and minutes(queue.idle_limit) > minutes(queue.time_limit)
        ):
            message = f"{queue.idle_limit} is never reached: work ends after {queue.time_limit}"
            yield case.problem((*path, "idle_limit"), message, "make it the shorter one")


def priorities(case: Case) -> Iterator[Finding]:
    """Priority classes are the site's or the scheduler's, and known where they are named."""
    options = case.site.scheduler
    if options is None:
        return
    named = [
        (("scheduler", "priorities", i, "name"), p.name) for i, p in enumerate(options.priorities)
    ]
    for path, name, first in repeated(named):
        yield case.problem(
            path, f'"{name}" stands twice (also line {case.line(first)})', "keep one"
        )
    for path, name in named:
        if name in SHIPPED or name.startswith("system-"):
            message = f"{name} is made by {'the scheduler' if name in SHIPPED else 'Kubernetes'}"
            yield case.problem(path, message, "take another name")
    known = [*SHIPPED, *(p.name for p in options.priorities)]
    values = {p.name: p.value for p in options.priorities} | {"train": 50, "build-preemptible": 75}
    for path, queue in _queues(case):
        name = queue.priority_class or queue.work
        if name not in known:
            if case.checked.listed("scheduler", "priorities"):
                message = f'no priority class is called "{name}"'
                yield case.problem(
                    (*path, "priority_class"), message, nearest(name, known, "priority classes")
                )
        elif queue.work == "train" and values.get(name, 100) >= 100:
            message = (
                f"{name} is never evicted and never over quota, but this queue is for training"
            )
            yield case.problem(
                (*path, "priority_class"), message, "take one under 100, or make it work: build"
            )


def one_queue_per_pool(case: Case) -> Iterator[Finding]:
    """KAI's resource management and Run:ai know departments over projects, and one queue of each per pool."""
    options = case.site.scheduler
    if options is None or options.kind == "kai":
        return
    for i, department in enumerate(options.departments):
        if department.parent is not None:
            path: KeyPath = ("scheduler", "departments", i, "parent")
            message = f"{options.kind} knows two levels: departments over projects"
            yield case.problem(path, message, "leave parent out, or take kind: kai")
    for i, project in enumerate(options.projects):
        if project.shares:
            message = f"{options.kind} knows no queue of a project above its queues"
            remedy = "leave shares out of the project, or take kind: kai"
            yield case.problem((*PROJECTS, i, "shares"), message, remedy)
        used = [((*PROJECTS, i, "queues", j, "pool"), q.pool) for j, q in enumerate(project.queues)]
        for path, pool, first in repeated(used):
            message = f'{options.kind} keeps one queue per project and pool, and "{pool}" has two'
            remedy = f"put them in different pools (the other is line {case.line(first[:-1])})"
            yield case.problem(path, message, f"{remedy}, or take kind: kai")
        for j, queue in enumerate(project.queues):
            for key in ("preempt_min_runtime", "reclaim_min_runtime"):
                if getattr(queue, key) is not None:
                    message = f"{options.kind} has no such time per queue"
                    yield case.problem(
                        (*PROJECTS, i, "queues", j, key), message, "leave it out, or take kind: kai"
                    )


def topology(case: Case) -> Iterator[Finding]:
    """Levels go from wide to narrow, and the host is the last."""
    options = case.site.scheduler
    if options is None:
        return
    given = options.topology
    path: KeyPath = ("scheduler", "topology", "levels")
    if (given.source == "labels") != bool(given.levels) and case.checked.whole(*path[:2]):
        message = (
            f"source is {given.source}, and levels {'are' if given.levels else 'are not'} given"
        )
        yield case.problem(path, message, "levels belong to source: labels, which needs them")
    for where, label, first in repeated([((*path, i), n) for i, n in enumerate(given.levels)]):
        message = f"{label} stands twice (also line {case.line(first)})"
        yield case.problem(where, message, "name each level once")
    if HOSTNAME in given.levels[:-1]:
        where = (*path, given.levels.index(HOSTNAME))
        yield case.problem(where, f"{HOSTNAME} is not the last", "nothing is nearer than one host")


def members(case: Case) -> Iterator[Finding]:
    """Members of a project are people and their groups, named once."""
    options = case.site.scheduler
    for i, project in enumerate(options.projects if options else ()):
        for key in ("users", "groups"):
            given = [((*PROJECTS, i, key, j), name) for j, name in enumerate(getattr(project, key))]
            for path, name, first in repeated(given):
                yield case.problem(
                    path, f"{name} stands twice (also line {case.line(first)})", "keep one"
                )
            for path, name in given:
                if name.startswith("system:"):
                    message = f"{name} belongs to Kubernetes itself"
                    yield case.problem(path, message, "name people's groups")


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
    trees.exports,
    trees.names,
    trees.kept,
    trees.numbers,
)
