"""Rules for a tree that Run:ai keeps: what its organisation cannot express is refused at its key."""

from collections.abc import Iterator, Mapping

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case
from appliance.models.base import Model
from appliance.models.text_types import minutes
from appliance.stages.scheduler.queues.runai import (
    DEFAULT_DEPARTMENT,
    DEFAULT_RANK,
    LIMITS,
    RANKS,
    UNIT,
    weights,
)
from appliance.stages.scheduler.site import Project, SchedulerOptions

SECRET = "runai_client_secret"
LONGEST = 57
"""Characters of a project: its namespace is runai-NAME, and a namespace has at most 63."""

ABOVE = len(RANKS) - 1 - RANKS.index(DEFAULT_RANK)
BELOW = RANKS.index(DEFAULT_RANK)

Refused = Mapping[str, tuple[str, str]]
"""By key: why a value other than the default is refused, and what to do."""

POLICIES = "the policies of this program do not apply to Run:ai's namespaces"
OF_SCHEDULER: Refused = {
    "unassigned": (
        "Run:ai runs work of projects only",
        "remove it, or give the work a project",
    ),
    "priorities": (
        "Run:ai has its own priorities of workloads, very-low to very-high",
        "remove them, and set the priority of each workload in Run:ai",
    ),
    "admission": (POLICIES, "remove it, and use policies of Run:ai"),
    "small_pods": (POLICIES, "remove it"),
    "tree_groups": (POLICIES, "remove it"),
    "limits": ("Run:ai enforces limits of time itself", "remove it"),
}
OF_PROJECT: Refused = {
    "open_to_cluster": (
        "Run:ai manages the namespaces of its projects",
        "remove it: no NetworkPolicy is written with Run:ai",
    ),
    "pods": ("Run:ai has no limit of pods", "remove it"),
    "storage": ("Run:ai has no limit of storage", "remove it"),
    "pod_security": (
        "Run:ai manages the namespaces of its projects",
        "remove it, and label the namespace runai-NAME",
    ),
}
OF_QUEUE: Refused = {
    "priority": (
        "Run:ai orders the workloads of a project by their own priority",
        "remove it, or set priority of the project",
    ),
    "priority_class": (
        "Run:ai has its own priorities of workloads, very-low to very-high",
        "remove it, and set the priority of each workload in Run:ai",
    ),
    "fraction": (
        "Run:ai sets fractions in its compute resources and workloads, not in projects",
        "remove it, and create a compute resource in Run:ai",
    ),
}


def account(case: Case) -> Iterator[Finding]:
    """A service account has a name and a secret, and the control plane's CA is a file."""
    options = case.site.scheduler
    if options is None or options.runai is None:
        return
    ca = options.runai.ca
    if ca is not None and not (case.folder / ca).is_file():
        remedy = "the path is relative to the site's folder"
        yield case.problem(("scheduler", "runai", "ca"), f"{ca} is not a file", remedy)
    named, kept = options.runai.client is not None, SECRET in case.site.secrets
    if named and not kept and case.checked.whole("secrets"):
        yield case.problem(
            ("scheduler", "runai", "client"),
            f"is set, but secrets.{SECRET} is not",
            f"add {SECRET}: {{file: secrets/{SECRET}}}",
        )
    if kept and not named and case.checked.whole("scheduler", "runai"):
        yield case.problem(
            ("secrets", SECRET),
            "is set, but scheduler.runai.client is not",
            "add client: ID to scheduler.runai, with the client ID of the service account",
        )


def expressible(case: Case) -> Iterator[Finding]:
    """Run:ai can express every key of the tree."""
    options = case.site.scheduler
    if options is None or options.kind != "runai":
        return
    yield from _refused(case, ("scheduler",), options, OF_SCHEDULER)
    if options.topology.source == "labels":
        message = "topologies of Run:ai are not written by this program"
        remedy = "remove it, and create the topology in Run:ai"
        yield case.problem(("scheduler", "topology", "source"), message, remedy)
    for i, department in enumerate(options.departments):
        if department.name == DEFAULT_DEPARTMENT:
            message = "is Run:ai's own department, of projects without one"
            yield case.problem(
                ("scheduler", "departments", i, "name"), message, "choose another name"
            )
    yield from _ranks(case, "departments", [d.priority for d in options.departments])
    yield from _ranks(case, "projects", [p.priority for p in options.projects])
    for i, project in enumerate(options.projects):
        yield from _project(case, ("scheduler", "projects", i), project, options)


def _project(
    case: Case, path: KeyPath, project: Project, options: SchedulerOptions
) -> Iterator[Finding]:
    yield from _refused(case, path, project, OF_PROJECT)
    if len(project.name) > LONGEST:
        message = f"has {len(project.name)} characters; with its namespace runai-NAME, Run:ai allows {LONGEST}"
        yield case.problem((*path, "name"), message, "shorten it")
    shared = {share.pool for share in project.shares}
    for j, queue in enumerate(project.queues):
        here: KeyPath = (*path, "queues", j)
        yield from _refused(case, here, queue, OF_QUEUE)
        if queue.idle_limit and (queue.work, "idle_limit") not in LIMITS:
            message = f"Run:ai has no idle limit for work: {queue.work}"
            yield case.problem((*here, "idle_limit"), message, "remove it")
        if (
            queue.time_limit
            and queue.idle_limit
            and minutes(queue.idle_limit) == minutes(queue.time_limit)
        ):
            message = f"{queue.idle_limit} is the time limit, too: Run:ai refuses an idle limit that is not below it"
            yield case.problem((*here, "idle_limit"), message, "set it below time_limit")
        same = [q for q in project.queues[: j + 1] if q.pool == queue.pool]
        several = len(weights(same)) > max(1, len(weights(same[:-1])))
        if queue.pool not in shared and several:
            message = f"Run:ai has one weight per project and pool, but the queues of {project.name} in pool {queue.pool} have several"
            remedy = (
                "use the same weight, or give the project a share of the pool (projects[].shares)"
            )
            yield case.problem((*here, "gpu", "weight"), message, remedy)
    yield from _limits(case, path, project)


def _limits(case: Case, path: KeyPath, project: Project) -> Iterator[Finding]:
    """Run:ai has one limit of a kind per project, for all its pools."""
    first: dict[str, tuple[str, KeyPath]] = {}
    for j, queue in enumerate(project.queues):
        for (work, key), name in LIMITS.items():
            given = getattr(queue, key)
            if queue.work != work or given is None:
                continue
            here: KeyPath = (*path, "queues", j, key)
            value, other = first.setdefault(name, (given, here))
            if minutes(value) != minutes(given):
                message = f"Run:ai has one such limit per project, but {given} differs from {value} in line {case.line(other)}"
                yield case.problem(here, message, "use the same value, or two projects")


def _ranks(case: Case, key: str, priorities: list[int]) -> Iterator[Finding]:
    """Priorities become ranks: as many as Run:ai has above and below its default."""
    levels = sorted(set(priorities) | {UNIT})
    above = [value for value in levels if value > UNIT]
    below = [value for value in levels if value < UNIT]
    beyond = {*above[ABOVE:], *below[: max(0, len(below) - BELOW)]}
    for i, value in enumerate(priorities):
        if value in beyond:
            beyond.remove(value)
            message = (
                f"Run:ai has {ABOVE} ranks above its default and {BELOW} below: {value} is one priority too many"
                f" ({len(above)} above {UNIT}, {len(below)} below)"
            )
            yield case.problem(
                ("scheduler", key, i, "priority"), message, "use fewer different priorities"
            )


def _refused(case: Case, path: KeyPath, part: Model, keys: Refused) -> Iterator[Finding]:
    for key, (message, remedy) in keys.items():
        if getattr(part, key) != type(part).model_fields[key].default:
            yield case.problem((*path, key), message, remedy)
