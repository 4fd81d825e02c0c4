"""Rules for the names and references of the queue tree."""

from collections.abc import Iterator

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, nearest, repeated
from appliance.stages.scheduler.queues.kai import DEFAULT_QUEUES
from appliance.stages.scheduler.queues.tree import cycles, nodes
from appliance.stages.scheduler.site import DEFAULT_POOL, SchedulerOptions, Share

LONGEST = 63
"""Characters of a DNS label, which contains the name of a queue."""

# Created by the KAI chart itself: namespaces with the prefix kai-, and queues.
KAI_NAMESPACES = ("scheduler", "resource-reservation", "scale-adjust")
KAI_QUEUES = tuple(name for name, _ in DEFAULT_QUEUES)
PROJECTS: KeyPath = ("scheduler", "projects")
DEPARTMENTS: KeyPath = ("scheduler", "departments")


def names(case: Case) -> Iterator[Finding]:
    """Departments, projects and the queues of a project have unique names."""
    options = case.site.scheduler
    if options is None:
        return
    groups: list[list[tuple[KeyPath, str]]] = [
        [((*DEPARTMENTS, i, "name"), d.name) for i, d in enumerate(options.departments)],
        [((*PROJECTS, i, "name"), p.name) for i, p in enumerate(options.projects)],
        *(
            [((*PROJECTS, i, "queues", j, "name"), q.name) for j, q in enumerate(p.queues)]
            for i, p in enumerate(options.projects)
        ),
    ]
    for group in groups:
        for path, name, first in repeated(group):
            message = f'"{name}" is given twice (also line {case.line(first)})'
            yield case.problem(path, message, "keep one, or rename one")


def reserved(case: Case) -> Iterator[Finding]:
    """The scheduler's own namespaces and queues are reserved."""
    options = case.site.scheduler
    for i, project in enumerate(options.projects if options else ()):
        if project.name in KAI_NAMESPACES:
            yield case.problem(
                (*PROJECTS, i, "name"),
                f"its namespace kai-{project.name} is reserved by the scheduler",
                "choose another name",
            )
    for i, department in enumerate(options.departments if options else ()):
        if department.name in KAI_QUEUES:
            yield case.problem(
                (*DEPARTMENTS, i, "name"),
                f'queue "{department.name}" is created by the scheduler',
                "choose another name",
            )


def queue_names(case: Case) -> Iterator[Finding]:
    """Every queue has a unique name in the cluster: PROJECT-QUEUE, NAME-POOL."""
    options = case.site.scheduler
    if options is None or not _names_are_own(options):
        return
    first: dict[str, tuple[str, KeyPath]] = {}
    for node in nodes(options):
        if len(node.name) > LONGEST:
            message = f'queue "{node.name}" has {len(node.name)} characters'
            yield case.problem(
                node.path, message, f"shorten the names to at most {LONGEST} characters together"
            )
        if node.name in first:
            title, path = first[node.name]
            message = f'{node.title} creates a queue "{node.name}", and so does {title} ({case.also(path)})'
            yield case.problem(node.path, message, "rename one of them")
        first.setdefault(node.name, (node.title, node.path))


def references(case: Case) -> Iterator[Finding]:
    """Departments and node pools that are named exist."""
    options = case.site.scheduler
    if options is None:
        return
    known = [d.name for d in options.departments]
    wanted: list[tuple[KeyPath, str | None]] = [
        ((*DEPARTMENTS, i, "parent"), d.parent) for i, d in enumerate(options.departments)
    ]
    wanted += [((*PROJECTS, i, "department"), p.department) for i, p in enumerate(options.projects)]
    for path, name in wanted:
        if name is not None and name not in known and case.checked.listed(*DEPARTMENTS):
            message = f'there is no department "{name}"'
            yield case.problem(path, message, nearest(name, known, "departments"))
    pools = [DEFAULT_POOL, *(p.name for p in options.node_pools)]
    for path, pool in _pools(options):
        if pool not in pools and case.checked.listed("scheduler", "node_pools"):
            message = f'there is no node pool "{pool}"'
            yield case.problem(path, message, nearest(pool, pools, "node pools"))


def shares(case: Case) -> Iterator[Finding]:
    """A department or project has one share per pool, only of pools with queues of its own."""
    options = case.site.scheduler
    if options is None:
        return
    owners: list[tuple[KeyPath, tuple[Share, ...]]] = [
        ((*DEPARTMENTS, i), d.shares) for i, d in enumerate(options.departments)
    ]
    owners += [((*PROJECTS, i), p.shares) for i, p in enumerate(options.projects)]
    for own, given in owners:
        pools = [((*own, "shares", j, "pool"), s.pool) for j, s in enumerate(given)]
        for path, pool, first in repeated(pools):
            message = f'pool "{pool}" has two shares (also line {case.line(first[:-1])})'
            yield case.problem(path, message, "merge them")
    for i, project in enumerate(options.projects):
        used = {q.pool for q in project.queues}
        for j, share in enumerate(project.shares):
            if share.pool not in used and case.checked.listed(*PROJECTS, i, "queues"):
                message = f'none of its queues is in pool "{share.pool}"'
                path = (*PROJECTS, i, "shares", j, "pool")
                yield case.problem(path, message, nearest(share.pool, sorted(used), "its pools"))


def circles(case: Case) -> Iterator[Finding]:
    """Departments form a tree."""
    options = case.site.scheduler
    if options is None or not _names_are_own(options):
        return
    for i, way in cycles(options):
        yield case.problem(
            (*DEPARTMENTS, i, "parent"),
            f"forms a circle: {' under '.join(way)}",
            "remove parent from the topmost department",
        )


def is_tree(case: Case) -> bool:
    """Whether names and references form a tree with meaningful sums."""
    options = case.site.scheduler
    if options is None or not case.checked.whole("scheduler"):
        return False
    rules = (names, queue_names, references, shares, circles)
    return not any(True for rule in rules for _ in rule(case))


def _names_are_own(options: SchedulerOptions) -> bool:
    listed = [
        [d.name for d in options.departments],
        [p.name for p in options.projects],
        *([q.name for q in p.queues] for p in options.projects),
    ]
    return all(len(set(group)) == len(group) for group in listed)


def _pools(options: SchedulerOptions) -> Iterator[tuple[KeyPath, str]]:
    for i, department in enumerate(options.departments):
        for j, share in enumerate(department.shares):
            yield (*DEPARTMENTS, i, "shares", j, "pool"), share.pool
    for i, project in enumerate(options.projects):
        for j, queue in enumerate(project.queues):
            yield (*PROJECTS, i, "queues", j, "pool"), queue.pool
        for j, share in enumerate(project.shares):
            yield (*PROJECTS, i, "shares", j, "pool"), share.pool
