"""Reads the objects of Run:ai's control plane, in pages, at the start of each plan. Ids are never stored.

Lists below docs.nvidia.com/run-ai/self-hosted/reference/rest-api/endpoints: organizations/clusters, node-pools, departments
and projects; authentication-and-authorization/roles, access-rules and org-unit/get-ranks.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from appliance.adapters.runai import Document, Runai, RunaiFailed, path_of
from appliance.models.site import Site
from appliance.stages.queues.runai.compare import same_name
from appliance.stages.scheduler.queues.runai import Organisation, Rule
from appliance.stages.scheduler.site import DEFAULT_POOL, RunaiOptions
from appliance.text import first_few

CLUSTERS = path_of("v1", "clusters")
POOLS = path_of("v1", "node-pools")
DEPARTMENTS = path_of("v1", "org-unit", "departments")
PROJECTS = path_of("v1", "org-unit", "projects")
RANKS = path_of("v1", "org-unit", "ranks")
ROLES = path_of("v2", "authorization", "roles")
RULES = path_of("v1", "authorization", "access-rules")
WORKLOADS = path_of("v1", "workloads")

OVER = frozenset({"Completed", "Failed", "Stopped", "Deleted"})
"""Known phases of workloads without resources; any other phase counts as work."""
DELETING = frozenset({"Deleting", "Deleted"})
SUBJECTS = frozenset({"user", "group"})

By = Mapping[str, Document]


@dataclass(frozen=True)
class There:
    """The cluster's objects by name, and the ids of access rules. ``ranks``: the control plane's spelling by ours."""

    cluster: str
    pools: By
    departments: By
    projects: By
    role: int
    ranks: Mapping[str, str]
    rules: Mapping[Rule, tuple[int, ...]]


def read(client: Runai, site: Site, wanted: Organisation) -> There:
    """Everything that a plan compares: about ten requests, and one for every 500 projects or access rules. Raises RunaiFailed."""
    options = site.scheduler
    assert options is not None
    assert options.runai is not None
    cluster = _cluster(client, site, options.runai)
    within = {"filterBy": f"clusterId=={cluster}", "sortBy": "name", "sortOrder": "asc"}

    def named(path: str, key: str, title: str) -> dict[str, Document]:
        found = client.every(path, key, f"list {title}", within)
        own = (one for one in found if one.get("clusterId", cluster) == cluster)
        return {str(one.get("name")): one for one in own}

    projects = named(PROJECTS, "projects", "projects")
    role = _role(client, options.runai)
    return There(
        cluster=cluster,
        pools=_with_default(named(POOLS, "nodepools", "node pools")),
        departments=named(DEPARTMENTS, "departments", "departments"),
        projects=projects,
        role=role,
        ranks=_ranks(client, wanted),
        rules=_rules(client, role, {str(one.get("id")): name for name, one in projects.items()}),
    )


def one_named(client: Runai, path: str, key: str, cluster: str, name: str) -> Document | None:
    """A node pool, department or project of this name, None if there is none. Raises RunaiFailed."""
    query = {"filterBy": f"clusterId=={cluster},name=={name}"}
    found = client.every(path, key, f"look for {name}", query)
    return next(
        (
            one
            for one in found
            if one.get("name") == name and one.get("clusterId", cluster) == cluster
        ),
        None,
    )


def rules_of(
    client: Runai, role: int, projects: Mapping[str, str], only: str = ""
) -> list[tuple[Rule, int]]:
    """Access rules with the role in the scope of these projects (names by id); ``only``: id of one of them."""
    query = {"scopeType": "project", "roleId": str(role), **({"scopeId": only} if only else {})}
    return [
        (Rule(projects[scope], str(one.get("subjectType")), str(one.get("subjectId"))), one["id"])
        for one in client.every(RULES, "accessRules", "list access rules", query)
        if (scope := str(one.get("scopeId"))) in projects
        and one.get("scopeType") == "project"
        and one.get("roleId") == role
        and one.get("subjectType") in SUBJECTS
        and one.get("deletedAt") is None
        and phase_of(one) not in DELETING
    ]


def work_of(client: Runai, project: Document) -> str:
    """Workloads of a project that have not ended, for people; "" for none. Raises RunaiFailed."""
    query = {"filterBy": f"projectId=={project['id']}"}
    found = client.every(WORKLOADS, "workloads", f"list workloads of {project.get('name')}", query)
    names = [
        str(one.get("name"))
        for one in found
        if one.get("phase") not in OVER
        and one.get("projectId", project["id"]) == project["id"]
        and one.get("deletedAt") is None
    ]
    return first_few(sorted(names))


def phase_of(found: Document) -> str:
    """Creating, Ready, Deleting, ...; "" where none is reported. Of node pools it is not below ``status``."""
    status = found.get("status")
    own = status.get("phase") if isinstance(status, dict) else None
    return str(own or found.get("phase") or "")


def _cluster(client: Runai, site: Site, options: RunaiOptions) -> str:
    """The id of the site's cluster, by its name."""
    name = options.cluster or site.name
    found = {
        str(one.get("name")): str(one.get("uuid") or one.get("id"))
        for one in client.plain(CLUSTERS, "clusters", "list clusters")
        if one.get("deletedAt") is None and one.get("deleteRequestedAt") is None
    }
    if name in found:
        return found[name]
    has = f"it has {first_few(sorted(found))}" if found else "no cluster is registered there"
    raise RunaiFailed(
        f"{client.server} has no cluster {name}: {has}",
        "register the cluster in Run:ai under this name, or write its name in scheduler.runai.cluster",
    )


def _with_default(pools: dict[str, Document]) -> By:
    """The pools, with Run:ai's own as the site's default pool."""
    own = next((one for one in pools.values() if one.get("isDefault") is True), None)
    if own is None and DEFAULT_POOL not in pools:
        raise RunaiFailed(
            "the cluster has no default node pool in Run:ai",
            "wait until Run:ai shows the cluster as Connected, then run this command again",
        )
    return {**pools, DEFAULT_POOL: own or pools[DEFAULT_POOL]}


def _role(client: Runai, options: RunaiOptions) -> int:
    """The number of the role that members get: it differs between installations."""
    roles = client.every(ROLES, "roles", "list roles", {})
    for one in roles:
        number = one.get("id")
        if same_name(str(one.get("name")), options.role) and isinstance(number, int):
            return number
    known = sorted(str(one.get("name")) for one in roles)
    raise RunaiFailed(
        f"Run:ai has no role {options.role}; it has {first_few(known, 12) or 'none'}",
        "write one of them in scheduler.runai.role",
    )


def _ranks(client: Runai, wanted: Organisation) -> Mapping[str, str]:
    used = dict.fromkeys(unit.rank for unit in (*wanted.departments, *wanted.projects))
    known = [str(one.get("name")) for one in client.plain(RANKS, "ranks", "list ranks")]
    found = {rank: next((k for k in known if same_name(k, rank)), "") for rank in used}
    if missing := [rank for rank, own in found.items() if not own]:
        raise RunaiFailed(
            f"Run:ai has no rank {missing[0]}; it has {first_few(known, 12) or 'none'}",
            "use fewer different priorities in the site, or report the ranks of this release",
        )
    return found


def _rules(client: Runai, role: int, projects: Mapping[str, str]) -> dict[Rule, tuple[int, ...]]:
    found: dict[Rule, tuple[int, ...]] = {}
    for rule, number in rules_of(client, role, projects):
        found[rule] = (*found.get(rule, ()), number)
    return found
