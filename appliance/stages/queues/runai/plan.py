"""Plans the changes that give Run:ai the site's tree.

Ownership: a department or project is ours if its description contains the mark of the site, a node pool if our label selects
its hosts. In our projects, access rules with the site's role for users and groups are ours. Nothing else is changed or
deleted. An object of the same name that is not ours is adopted only if it is equal, and refused otherwise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from appliance.adapters.kubernetes import Cluster
from appliance.adapters.runai import Document, Runai
from appliance.models.queue_plan import Change, QueuePlan, Step
from appliance.models.site import Site
from appliance.stages.queues.changes import labels, released
from appliance.stages.queues.runai.bodies import Ids, is_marked, mark
from appliance.stages.queues.runai.compare import is_ours, pool_differences, unit_differences
from appliance.stages.queues.runai.there import DELETING, By, There, phase_of, read, work_of
from appliance.stages.scheduler.queues.manifest import digest
from appliance.stages.scheduler.queues.rendered import Rendered
from appliance.stages.scheduler.queues.runai import (
    DEFAULT_DEPARTMENT,
    LABEL,
    Organisation,
    Pool,
    Rule,
    Unit,
    organisation,
)
from appliance.stages.scheduler.site import DEFAULT_POOL
from appliance.text import one_line

POOL, DEPARTMENT, PROJECT, RULE, NODE = "NodePool", "Department", "Project", "AccessRule", "Node"
GONE = "no longer in the site"
AGAIN = "wait until Run:ai has deleted it, then run this command again"


@dataclass(frozen=True)
class Prepared:
    """A plan, and what it was made from: objects of the site with the control plane's spelling of ranks, and ids."""

    plan: QueuePlan
    wanted: Organisation
    there: There


@dataclass(frozen=True)
class Sides:
    """The site's objects, and the control plane's. ``pools``: ids by name."""

    site: str
    wanted: Organisation
    there: There
    pools: Ids


def plan(site: Site, rendered: Rendered, client: Runai, cluster: Cluster | None) -> Prepared:
    """What applying would change. ``cluster``: for labels of hosts, None if the site has no node pools. Raises RunaiFailed."""
    assert site.scheduler is not None
    first = organisation(site.scheduler)
    there = read(client, site, first)
    wanted = _spelled(first, there.ranks)
    sides = Sides(site.name, wanted, there, {n: str(p["id"]) for n, p in there.pools.items()})
    hosts = (
        []
        if cluster is None
        else [
            *labels(rendered, cluster),
            *released(site, rendered, cluster),
        ]
    )
    units = [*_pools(sides), *_units(sides)]
    taken = {c.name for c in units if c.kind == PROJECT and c.step is Step.REFUSE}
    given = list(_rules(sides, taken))
    gone = list(_gone(sides, client))
    changes = (
        *hosts,
        *(c for c in given if c.step is Step.DELETE),
        *units,
        *(c for c in given if c.step is Step.CREATE),
        *gone,
    )
    total = sum(map(len, (wanted.pools, wanted.departments, wanted.projects, wanted.rules)))
    touched = sum(c.step is not Step.DELETE for c in (*units, *given))
    made = QueuePlan(
        site=site.name,
        server=client.server,
        digest=digest(_content(wanted)),
        changes=changes,
        unchanged=total - touched,
    )
    return Prepared(made, wanted, there)


def name_of(rule: Rule) -> str:
    """The name of an access rule in a plan."""
    return f"{rule.project}:{rule.kind}:{rule.subject}"


def stranger(unit: Unit, differences: tuple[str, ...], site: str) -> Change:
    """An object of the same name that this program did not create, and that differs."""
    return _step(
        Step.REFUSE,
        unit.kind,
        unit.name,
        ("exists, is not marked as this site's, and differs", *differences),
        f"choose another name in the site, or add the word {mark(site)} to its description in Run:ai to let this program change it",
    )


def parent_of(unit: Unit, departments: By) -> Document | None:
    """The department that a project belongs to, None if the control plane does not have it yet."""
    return departments.get(unit.parent or DEFAULT_DEPARTMENT)


def _spelled(wanted: Organisation, ranks: Mapping[str, str]) -> Organisation:
    return replace(
        wanted,
        departments=tuple(replace(u, rank=ranks[u.rank]) for u in wanted.departments),
        projects=tuple(replace(u, rank=ranks[u.rank]) for u in wanted.projects),
    )


def _pools(sides: Sides) -> Iterator[Change]:
    for pool in sides.wanted.pools:
        found = sides.there.pools.get(pool.name)
        if found is None:
            yield _step(Step.CREATE, POOL, pool.name)
        elif phase_of(found) in DELETING:
            yield _step(Step.REFUSE, POOL, pool.name, ("is being deleted",), AGAIN)
        elif not is_ours(found, pool.name):
            own = f"selects hosts by {found.get('labelKey')}={found.get('labelValue')}, not {LABEL}={pool.name}"
            remedy = "choose another name in the site, or delete this pool in Run:ai"
            yield _step(Step.REFUSE, POOL, pool.name, (own,), remedy)
        elif said := pool_differences(pool, found):
            yield _step(Step.CHANGE, POOL, pool.name, said)


def _units(sides: Sides) -> Iterator[Change]:
    there = sides.there
    for known, units in (
        (there.departments, sides.wanted.departments),
        (there.projects, sides.wanted.projects),
    ):
        for unit in units:
            found = known.get(unit.name)
            change = (
                _unit(unit, found, sides) if found else _step(Step.CREATE, unit.kind, unit.name)
            )
            if change is not None:
                yield change


def _unit(unit: Unit, found: Document, sides: Sides) -> Change | None:
    if phase_of(found) in DELETING:
        return _step(Step.REFUSE, unit.kind, unit.name, ("is being deleted",), AGAIN)
    said = unit_differences(unit, found, sides.pools)
    moved = _moved(unit, found, sides.there)
    if not is_marked(found, sides.site):
        said = (*moved, *said, *_others_rules(unit, sides))
        if said:
            return stranger(unit, said, sides.site)
        return _step(Step.CHANGE, unit.kind, unit.name, ("adopted: it is equal",))
    if moved:
        remedy = "Run:ai cannot move a project: rename it in the site, which creates a new one, or keep its department"
        return _step(Step.REFUSE, unit.kind, unit.name, moved, remedy)
    return _step(Step.CHANGE, unit.kind, unit.name, said) if said else None


def _moved(unit: Unit, found: Document, there: There) -> tuple[str, ...]:
    if unit.kind != PROJECT or not found.get("parentId"):
        return ()
    names = {str(one.get("id")): name for name, one in there.departments.items()}
    old = names.get(str(found["parentId"]), "of another cluster")
    new = unit.parent or DEFAULT_DEPARTMENT
    return () if old == new else (f"department {old} → {new}",)


def _others_rules(unit: Unit, sides: Sides) -> Iterator[str]:
    wanted = set(sides.wanted.rules)
    for rule in sorted(sides.there.rules):
        if unit.kind == PROJECT and rule.project == unit.name and rule not in wanted:
            yield f"access of {rule.kind} {rule.subject}"


def _rules(sides: Sides, refused: set[str]) -> Iterator[Change]:
    """Members of the site's projects; not of projects that are refused."""
    own = {unit.name for unit in sides.wanted.projects} - refused
    wanted = dict.fromkeys(rule for rule in sides.wanted.rules if rule.project in own)
    for rule in sorted(sides.there.rules):
        if rule.project in own and rule not in wanted:
            yield _rule(Step.DELETE, rule, ("not in the site",))
    for rule in wanted:
        if rule not in sides.there.rules:
            yield _rule(Step.CREATE, rule)


def _gone(sides: Sides, client: Runai) -> Iterator[Change]:
    """Ours, and no longer in the site: members first, then projects, departments, node pools."""
    there, site = sides.there, sides.site
    kept = {unit.name for unit in sides.wanted.projects}
    old = {n: p for n, p in there.projects.items() if n not in kept and is_marked(p, site)}
    ended: list[Change] = []
    for name, found in sorted(old.items()):
        work = work_of(client, found) if phase_of(found) not in DELETING else ""
        if work:
            said = (f"{GONE}, but has workloads: {work}",)
            remedy = "let the work end or delete it, then run this command again"
            yield _step(Step.REFUSE, PROJECT, name, said, remedy)
        else:
            ended.append(_step(Step.DELETE, PROJECT, name, (GONE,)))
    leaving = {change.name for change in ended}
    for rule in sorted(there.rules):
        if rule.project in leaving:
            yield _rule(Step.DELETE, rule, (GONE,))
    yield from ended
    yield from _gone_departments(sides, leaving)
    for name, found in sorted(there.pools.items()):
        given = {pool.name for pool in sides.wanted.pools}
        if name != DEFAULT_POOL and name not in given and is_ours(found, name):
            yield _step(Step.DELETE, POOL, name, (GONE,))


def _gone_departments(sides: Sides, leaving: set[str]) -> Iterator[Change]:
    kept = {unit.name for unit in sides.wanted.departments}
    for name, found in sorted(sides.there.departments.items()):
        if name in kept or not is_marked(found, sides.site):
            continue
        inside = sorted(
            project
            for project, one in sides.there.projects.items()
            if one.get("parentId") == found.get("id") and project not in leaving
        )
        if inside:
            said = (f"{GONE}, but has project {inside[0]}",)
            remedy = "delete the project or move it to another department in Run:ai, then run this command again"
            yield _step(Step.REFUSE, DEPARTMENT, name, said, remedy)
        else:
            yield _step(Step.DELETE, DEPARTMENT, name, (GONE,))


def _step(
    step: Step, kind: str, name: str, details: tuple[str, ...] = (), remedy: str = ""
) -> Change:
    """Names and values of the control plane are untrusted text: what is shown of them is one line."""
    said = tuple(map(one_line, details))
    return Change(
        step=step, kind=kind, name=name, title=one_line(name), details=said, remedy=remedy
    )


def _rule(step: Step, rule: Rule, details: tuple[str, ...] = ()) -> Change:
    title = one_line(f"{rule.kind} {rule.subject} in {rule.project}")
    return Change(step=step, kind=RULE, name=name_of(rule), title=title, details=details)


def _content(wanted: Organisation) -> list[object]:
    """The site's objects as plain data, for the digest."""

    def unit(one: Unit) -> list[object]:
        shares = {
            pool: {name: amount and amount.model_dump() for name, amount in amounts.items()}
            for pool, amounts in one.shares.items()
        }
        return [
            one.kind,
            one.name,
            shares,
            one.rank,
            one.parent,
            one.rules and dict(one.rules),
            one.pools,
        ]

    def pool(one: Pool) -> list[object]:
        return [one.name, one.placement]

    return [
        [pool(one) for one in wanted.pools],
        [unit(one) for one in (*wanted.departments, *wanted.projects)],
        [list(rule) for rule in wanted.rules],
    ]
