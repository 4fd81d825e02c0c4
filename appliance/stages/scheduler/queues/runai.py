"""The site's tree as an organisation of Run:ai 3.0: node pools, departments, projects, and the access rules of members.

Objects as documented (docs.nvidia.com/run-ai/self-hosted/reference/rest-api/endpoints/organizations): a department has
projects, a project is a leaf. Both have one entry of resources per node pool, with a rank. docs/runai.md maps every key.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from appliance.models.text_types import minutes
from appliance.stages.scheduler.queues.kai import OWN_POOL_LABEL
from appliance.stages.scheduler.queues.tree import RESOURCES, nodes
from appliance.stages.scheduler.site import (
    DEFAULT_POOL,
    Amount,
    Project,
    Queue,
    Resources,
    SchedulerOptions,
    Share,
)

LABEL = OWN_POOL_LABEL
"""The label of hosts by which Run:ai selects those of a pool. A pool with this label is ours."""

CLOSED = Amount(quota=0, limit=0, weight=0)
"""The GPUs of a pool in which a department or project has no queue: none, not even idle ones."""
UNIT = 100
"""The priority of the site that has Run:ai's default rank."""

RANKS = ("VeryLow", "Low", "MediumLow", "Medium", "MediumHigh", "High", "VeryHigh")
"""Lowest first. The page of projects names MediumLow (default), Medium and High; the others are uncertain, so that a plan
compares them with those that the control plane lists (endpoints/authentication-and-authorization/org-unit/get-ranks)."""
DEFAULT_RANK = "MediumLow"

DEFAULT_DEPARTMENT = "default"
"""Run:ai's own, of projects that name none (reference/cli/runai/project/runai-project-create)."""

LIMITS = {
    ("build", "time_limit"): "interactiveJobTimeLimitSeconds",
    ("build", "idle_limit"): "interactiveJobMaxIdleDurationSeconds",
    ("train", "idle_limit"): "trainingJobMaxIdleDurationSeconds",
}
"""Rule of a project by the work of a queue and its key. Run:ai has none for serving."""

Amounts = Mapping[str, Amount | None]
"""By resource; None: no guarantee and no limit."""


class Rule(NamedTuple):
    """The access of a user or group (``kind``, ``subject``) to a project."""

    project: str
    kind: str
    subject: str


@dataclass(frozen=True)
class Pool:
    """A node pool: its hosts have the label LABEL with its name."""

    name: str
    placement: str


@dataclass(frozen=True)
class Unit:
    """A department or project (``kind``). ``shares`` by pool: every pool of the site.

    ``parent``: department of a project, None for Run:ai's default. ``rules``: seconds by Run:ai's name. ``pools``: those that
    workloads without a pool use, in this order.
    """

    kind: str
    name: str
    shares: Mapping[str, Amounts]
    rank: str
    parent: str | None = None
    rules: Mapping[str, int] | None = None
    pools: tuple[str, ...] = ()


@dataclass(frozen=True)
class Organisation:
    """Everything that the site describes."""

    pools: tuple[Pool, ...]
    departments: tuple[Unit, ...]
    projects: tuple[Unit, ...]
    rules: tuple[Rule, ...]


def organisation(options: SchedulerOptions) -> Organisation:
    """The site's tree. The rules of the site have refused what Run:ai cannot express."""
    pools = (DEFAULT_POOL, *(pool.name for pool in options.node_pools))
    projects = {p.name: _shares_of(p) for p in options.projects}
    above = ranks(d.priority for d in options.departments)
    below = ranks(p.priority for p in options.projects)
    return Organisation(
        pools=tuple(Pool(pool.name, pool.placement) for pool in options.node_pools),
        departments=tuple(
            Unit(
                "Department",
                d.name,
                _everywhere(
                    pools,
                    _of_department(
                        d.shares,
                        [projects[p.name] for p in options.projects if p.department == d.name],
                    ),
                ),
                above[d.priority],
            )
            for d in options.departments
        ),
        projects=tuple(
            Unit(
                "Project",
                p.name,
                _everywhere(pools, projects[p.name]),
                below[p.priority],
                p.department,
                limits(p),
                tuple(dict.fromkeys(queue.pool for queue in p.queues)),
            )
            for p in options.projects
        ),
        rules=tuple(
            Rule(p.name, kind, subject)
            for p in options.projects
            for kind, subjects in (("user", p.users), ("group", p.groups))
            for subject in subjects
        ),
    )


def ranks(priorities: Iterable[int]) -> dict[int, str]:
    """The rank of each priority: 100 is the default, and higher priorities have higher ranks, in their order.

    Priorities beyond the number of ranks get the last one; the rules of the site refuse them.
    """
    at = RANKS.index(DEFAULT_RANK)
    given = sorted({UNIT, *priorities})
    middle = given.index(UNIT)
    last = len(RANKS) - 1
    return {value: RANKS[min(max(at + i - middle, 0), last)] for i, value in enumerate(given)}


def limits(project: Project) -> dict[str, int]:
    """The scheduling rules of a project: seconds by Run:ai's name, the first of several."""
    found: dict[str, int] = {}
    for queue in project.queues:
        for (work, key), name in LIMITS.items():
            if queue.work == work and (given := getattr(queue, key)) is not None:
                found.setdefault(name, minutes(given) * 60)
    return found


def weights(queues: Iterable[Queue]) -> set[float]:
    """The GPU weights of queues that may exceed their quota: Run:ai has one per project and pool."""
    return {q.gpu.weight for q in queues if q.work == "train" and q.gpu.limit != q.gpu.quota}


def _shares_of(project: Project) -> dict[str, Amounts]:
    own = {share.pool: _given(share) for share in project.shares}
    by_pool: dict[str, list[Queue]] = {}
    for node in nodes(SchedulerOptions.model_construct(departments=(), projects=(project,))):
        # With the limit of work that stays within its quota, which node.leaf does not have.
        if node.leaf is not None and isinstance(node.share, Queue):
            by_pool.setdefault(node.pool, []).append(node.share)
    return {
        pool: own.get(pool) or {name: _merged(queues, name) for name in RESOURCES}
        for pool, queues in by_pool.items()
    }


def _merged(queues: list[Queue], name: str) -> Amount | None:
    """One resource of a project in a pool: all its queues there together."""
    pairs = [(q, amount) for q in queues if (amount := getattr(q, name)) is not None]
    if not pairs:
        return None
    bounds = [amount.limit for _, amount in pairs if amount.limit is not None]
    # The weight is for idle resources, which only work for training gets.
    training = [amount.weight for queue, amount in pairs if queue.work == "train"]
    return Amount(
        quota=sum(amount.quota for _, amount in pairs),
        limit=sum(bounds) if len(bounds) == len(queues) else None,
        weight=max(training, default=pairs[0][1].weight),
    )


def _of_department(
    shares: tuple[Share, ...], projects: list[dict[str, Amounts]]
) -> dict[str, Amounts]:
    own: dict[str, Amounts] = {share.pool: _given(share) for share in shares}
    for pool in dict.fromkeys(pool for project in projects for pool in project):
        below = [project[pool] for project in projects if pool in project]
        own.setdefault(pool, {name: _together(below, name) for name in RESOURCES})
    return own


def _together(below: list[Amounts], name: str) -> Amount | None:
    """Guarantees of projects together, without a limit; None if no project is guaranteed any."""
    given = [amount.quota for amounts in below if (amount := amounts[name]) is not None]
    return Amount(quota=sum(given)) if given else None


def _given(share: Resources) -> Amounts:
    return {name: getattr(share, name) for name in RESOURCES}


def _everywhere(pools: Iterable[str], shares: Mapping[str, Amounts]) -> dict[str, Amounts]:
    closed: Amounts = {"gpu": CLOSED, "cpu": None, "memory": None}
    return {pool: shares.get(pool, closed) for pool in pools}
