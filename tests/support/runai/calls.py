"""The calls of the stand-in: one function for each method and path, from a request to a status and a body. Standard library only."""

import re
import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.runai import shapes
from tests.support.runai.shapes import Json, Refused
from tests.support.runai.world import CHART_URL, Stored, World

Answer = tuple[int, Any]
MOST = 500
POLICIES = "workspaces|trainings|distributed|inferences|distributed-inferences|nim-services"


@dataclass
class Call:
    """A request as the functions below take it; ``keys``: the groups of its path."""

    world: World
    method: str
    subject: str
    keys: tuple[str, ...]
    query: dict[str, str]
    body: Any


Handler = Callable[[Call], Answer]
ROUTES: list[tuple[str, re.Pattern[str], Handler]] = []


def route(method: str, path: str) -> Callable[[Handler], Handler]:
    """Serve this path; {} stands for an id, a bar divides methods."""
    pattern = re.compile(path.replace("{}", "([^/]+)"))

    def add(handler: Handler) -> Handler:
        ROUTES.extend((own, pattern, handler) for own in method.split("|"))
        return handler

    return add


def matched(method: str, path: str) -> tuple[Handler, tuple[str, ...]]:
    """Raises Refused 404 and 405."""
    known = False
    for own, pattern, handler in ROUTES:
        if found := pattern.fullmatch(path):
            known = True
            if own == method:
                return handler, found.groups()
    raise Refused(405 if known else 404, f"{method} {path} is not served")


PARTS = frozenset(["limit", "offset", "sortBy", "sortOrder", "filterBy", "search"])
SUBJECT = frozenset(["subjectType", "scopeType", "scopeId", "roleId", "clusterId"])
QUERIES: tuple[tuple[str, frozenset[str]], ...] = (
    (r".*/cluster-install-info", frozenset({"version", "remoteClusterUrl"})),
    (r"/api/v1/clusters", frozenset({"verbosity", "includeRequestedForDelete"})),
    (r"/api/v1/clusters/[^/]+", frozenset({"verbosity", "force"})),
    (r".*/access-rules", PARTS | SUBJECT),
    (
        r"/api/v2/policy.*",
        frozenset({"validateOnly", "scope", "clusterId", "projectId", "departmentId"}),
    ),
    (r".*/(projects|departments)(/count)?", PARTS),
    (r".*/(node-pools|network-topologies|users|roles|workloads|service-accounts)", PARTS),
)
"""Parameters of a query by path; any other path has none."""


def asked(path: str, query: dict[str, str]) -> None:
    """Raises Refused for a parameter that the path does not have: a real one may ignore it, and hide a mistake."""
    known = next((names for form, names in QUERIES if re.fullmatch(form, path)), frozenset[str]())
    for name in query:
        if name not in known:
            raise Refused(400, f"{path} has no query parameter {name}")


# Lists


def page(call: Call, rows: list[Json], key: str) -> Answer:
    """A part of a list, with ``next`` where there is more."""
    rows = _sorted(call, [row for row in rows if _wanted(call, row)])
    limit, offset = _bound(call, "limit", 50, 1, MOST), _bound(call, "offset", 0, 0, None)
    answer: Json = {key: rows[offset : offset + limit]}
    if offset + limit < len(rows):
        answer["next"] = offset + limit
    return 200, answer


def _bound(call: Call, name: str, default: int, least: int, most: int | None) -> int:
    given = call.query.get(name, str(default))
    if not given.isdigit() or int(given) < least or (most is not None and int(given) > most):
        raise Refused(400, f"{name}: out of range")
    return int(given)


def _wanted(call: Call, row: Json) -> bool:
    if (needle := call.query.get("search")) and needle not in row.get("name", ""):
        return False
    filters = [part for part in call.query.get("filterBy", "").split(",") if part]
    return all(_kept(row, part) for part in filters)


def _kept(row: Json, words: str) -> bool:
    found = re.fullmatch(r"(\w+)(==|!=|<=|>=|=@|!@|=\^|=\$)(.+)", words)
    if not found:
        raise Refused(400, f"filterBy: {words} is not understood")
    name, operator, wanted = found.groups()
    value = str(row.get(name, ""))
    return {
        "==": value == wanted,
        "!=": value != wanted,
        "<=": value <= wanted,
        ">=": value >= wanted,
        "=@": wanted in value,
        "!@": wanted not in value,
        "=^": value.startswith(wanted),
        "=$": value.endswith(wanted),
    }[operator]


def _sorted(call: Call, rows: list[Json]) -> list[Json]:
    key = call.query.get("sortBy", "")
    if not key:
        return rows
    rows = sorted(rows, key=lambda row: str(row.get(key, "")))
    return rows[::-1] if call.query.get("sortOrder") == "desc" else rows


# Tokens


@route("POST", "/api/v2/token")
def token(call: Call) -> Answer:
    """OAuth2, with a form as its body."""
    given, world = call.body, call.world
    if not isinstance(given, dict):
        raise Refused(400, "invalid_request")
    if (answer := world.granted(given)) is not None:
        return answer
    match given.get("grant_type"):
        case "password":
            known = given.get("username"), given.get("password")
            subject = world.administrator
            good = known == (subject, world.password)
        case "client_credentials":
            subject = str(given.get("client_id"))
            good = _may_log_in(world, subject, str(given.get("client_secret")))
        case _:
            raise Refused(400, "unsupported_grant_type")
    if not good:
        raise Refused(401, "invalid_client")
    return 200, {"access_token": world.token(subject), "token_type": "Bearer", "expires_in": 3600}


@route("POST", "/api/v1/token")
def old_token(call: Call) -> Answer:
    """The same, as products before 3.0 have it: by JSON, also for applications."""
    given = {str(key).lower(): value for key, value in dict(call.body or {}).items()}
    kinds = (
        ("client_credentials",)
        if call.world.release == "3.0"
        else ("client_credentials", "app_token")
    )
    if given.get("granttype") not in kinds:
        raise Refused(400, "unsupported grantType")
    name = str(given.get("clientid") or given.get("appid"))
    secret = str(given.get("clientsecret") or given.get("appsecret"))
    if not _may_log_in(call.world, name, secret):
        raise Refused(401, "invalid client")
    return 200, {"accessToken": call.world.token(name), "expiresIn": 3600}


def _may_log_in(world: World, client: str, secret: str) -> bool:
    known = world.secrets.get(client)
    enabled = any(
        stored.body["clientId"] == client and stored.body["enabled"] and not stored.deleting
        for stored in world.tables["service-accounts"].values()
    )
    return known is not None and enabled and secrets.compare_digest(known, secret)


# Service accounts, roles, users


@route("POST", "/api/v1/(?:service-accounts|apps)")
def create_account(call: Call) -> Answer:
    """The secret is in this answer only."""
    shapes.SERVICE_ACCOUNT_NEW(call.body)
    world, name = call.world, call.body["name"]
    world.unique("service-accounts", name)
    client, key = f"{name}-{secrets.token_hex(4)}", str(uuid.uuid4())
    own = {"id": key, "name": name, "clientId": client, "enabled": True, "lastLogin": None}
    world.add("service-accounts", own, key)
    world.secrets[client] = secrets.token_urlsafe(24)
    return 201, {**own, "clientSecret": world.secrets[client]}


@route("GET", "/api/v1/service-accounts")
def accounts(call: Call) -> Answer:
    """All of them, as a plain list."""
    return 200, [stored.body for stored in call.world.tables["service-accounts"].values()]


@route("GET", "/api/v1/service-accounts/{}")
def account(call: Call) -> Answer:
    """One of them."""
    return 200, call.world.find("service-accounts", call.keys[0]).body


@route("PATCH", "/api/v1/service-accounts/{}")
def change_account(call: Call) -> Answer:
    """Enabled or not."""
    shapes.SERVICE_ACCOUNT_CHANGE(call.body)
    return 200, call.world.change("service-accounts", call.keys[0], call.body)


@route("POST", "/api/v1/service-accounts/{}/secret")
def renew_secret(call: Call) -> Answer:
    """The earlier secret ends."""
    client = call.world.find("service-accounts", call.keys[0]).body["clientId"]
    call.world.secrets[client] = secrets.token_urlsafe(24)
    return 200, {"clientSecret": call.world.secrets[client]}


@route("DELETE", "/api/v1/service-accounts/{}")
def delete_account(call: Call) -> Answer:
    """At once."""
    call.world.find("service-accounts", call.keys[0])
    del call.world.tables["service-accounts"][call.keys[0]]
    return 204, None


def _roles(world: World) -> list[Json]:
    stamp = world.stamp()
    own = {"createdAt": stamp, "updatedAt": stamp, "createdBy": "system", "custom": False}
    return [
        {
            "id": n,
            "name": name,
            "description": name,
            "effectiveEnabled": True,
            "permissions": [],
            **own,
        }
        for n, name in world.roles.items()
    ]


@route("GET", "/api/v2/authorization/roles")
def roles(call: Call) -> Answer:
    """With their numbers, which differ between control planes."""
    return page(call, _roles(call.world), "roles")


@route("GET", "/api/v1/authorization/roles")
def old_roles(call: Call) -> Answer:
    """Gone in 3.0."""
    if call.world.release == "3.0":
        raise Refused(404, "use /api/v2/authorization/roles")
    return 200, _roles(call.world)


@route("GET", "/api/v1/org-unit/ranks")
def ranks(call: Call) -> Answer:
    """New in 3.0; /api/v1/org-unit/priorities before."""
    if call.world.release != "3.0":
        raise Refused(404, "use /api/v1/org-unit/priorities")
    return 200, {"ranks": [{"name": name} for name in shapes.RANKS]}


@route("POST", "/api/v1/users")
def create_user(call: Call) -> Answer:
    """A local user; the password is in this answer only."""
    shapes.user(call.world.release)(call.body)
    name, key = call.body["email"], str(uuid.uuid4())
    call.world.unique("users", name)
    groups: list[str] = []
    own = {
        "id": key,
        "username": name,
        "name": name,
        "isLocal": True,
        "groups": groups,
        "lastLogin": None,
    }
    call.world.add("users", own, key)
    return 201, {"id": key, "username": name, "tempPassword": secrets.token_urlsafe(9)}


def _user(stored: Stored) -> Json:
    return {key: value for key, value in stored.body.items() if key != "name"}


@route("GET", "/api/v1/users")
def users(call: Call) -> Answer:
    """A plain list, in parts by ``limit`` and ``offset``."""
    status, answer = page(call, [s.body for s in call.world.tables["users"].values()], "users")
    return status, [{k: v for k, v in row.items() if k != "name"} for row in answer["users"]]


@route("GET", "/api/v1/users/{}")
def one_user(call: Call) -> Answer:
    """One of them."""
    return 200, _user(call.world.find("users", call.keys[0]))


@route("DELETE", "/api/v1/users/{}")
def delete_user(call: Call) -> Answer:
    """At once."""
    call.world.find("users", call.keys[0])
    del call.world.tables["users"][call.keys[0]]
    return 204, None


# Access rules


@route("POST", "/api/v1/authorization/access-rules")
def create_rule(call: Call) -> Answer:
    """A role for a subject in a scope; it becomes ready later."""
    shapes.RULE(call.body)
    given, world = call.body, call.world
    if given["subjectType"] == "app" and world.release == "3.0":
        raise shapes.invalid("subjectType", "app has been replaced by service-account")
    if given["roleId"] not in world.roles:
        raise shapes.invalid("roleId", "there is no such role")
    scope = _scope(world, given["scopeType"], given["scopeId"])
    same = ("subjectId", "subjectType", "roleId", "scopeId", "scopeType")
    for stored in world.tables["access-rules"].values():
        if all(stored.body[key] == given[key] for key in same):
            raise Refused(409, "this access rule already exists")
    number = secrets.randbelow(2**31)
    own = {**given, "id": number, "tenantId": world.tenant}
    own |= {"roleName": world.roles[given["roleId"]], "scopeName": scope}
    world.add("access-rules", own, str(number))
    return 201, _rule(world, world.find("access-rules", str(number)))


def _scope(world: World, kind: str, key: str) -> str:
    """The scope's name. Raises Refused where it is not there."""
    match kind:
        case "tenant" if key != str(world.tenant):
            raise shapes.invalid("scopeId", "there is no such tenant")
        case "cluster" | "department" | "project":
            return str(world.find(f"{kind}s", key).body["name"])
    return kind


def _rule(world: World, stored: Stored) -> Json:
    return {**stored.body, "status": {"phase": world.phase(stored)}}


@route("GET", "/api/v1/authorization/access-rules")
def rules(call: Call) -> Answer:
    """With the number of all and of these."""
    rows = [_rule(call.world, stored) for stored in call.world.tables["access-rules"].values()]
    for key in ("subjectType", "scopeType", "scopeId", "roleId", "clusterId"):
        if key in call.query:
            rows = [row for row in rows if str(row.get(key)) == call.query[key]]
    status, answer = page(call, rows, "accessRules")
    answer |= {"totalRecords": len(rows), "displayRecords": len(answer["accessRules"])}
    return status, answer


@route("GET", "/api/v1/workloads")
def workloads(call: Call) -> Answer:
    """Those that a test gives."""
    return page(call, call.world.workloads, "workloads")


@route("GET", "/api/v1/authorization/access-rules/{}")
def rule(call: Call) -> Answer:
    """One of them."""
    return 200, _rule(call.world, call.world.find("access-rules", call.keys[0]))


@route("DELETE", "/api/v1/authorization/access-rules/{}")
def delete_rule(call: Call) -> Answer:
    """Ends later. No rule can be changed."""
    call.world.delete("access-rules", call.keys[0])
    return 204, None


@route("POST", "/api/v1/authorization/access-rules/batch")
def delete_rules(call: Call) -> Answer:
    """Several at once; each succeeds or fails by itself."""
    shapes.RULES_DELETED(call.body)
    good = [key for key in call.body["ids"] if key in call.world.tables["access-rules"]]
    failed = [
        {"id": key, "code": 404, "message": "not found"}
        for key in call.body["ids"]
        if key not in good
    ]
    if call.body["action"] == "delete":
        for key in good:
            call.world.delete("access-rules", key)
    return 200, {"id": str(uuid.uuid4()), "succeeded": good, "failed": failed}


# Clusters


@route("POST", "/api/v1/clusters")
def create_cluster(call: Call) -> Answer:
    """With its default node pool and department."""
    shapes.CLUSTER(call.body)
    world, name = call.world, call.body["name"]
    world.unique("clusters", name)
    key = str(uuid.uuid4())
    world.add("clusters", {**call.body, "uuid": key, "tenantId": world.tenant}, key)
    pool = {"name": "default", "labelKey": "run.ai/node-pool", "labelValue": "default"}
    _add_pool(world, {**pool, "clusterId": key, "isDefault": True})
    _add_unit(world, "departments", {"name": "default", "clusterId": key, "resources": []})
    return 201, _cluster(world, key, full=False)


def _cluster(world: World, key: str, full: bool) -> Json:
    body = dict(world.find("clusters", key).body)
    state = world.state(key)
    body["status"] = {"state": state}
    if key in world.heartbeats:
        body["lastLiveness"] = _time(world, world.heartbeats[key])
    if full:
        absent = world.missing.get(key, {})
        required = {name: {"available": False, "reason": why} for name, why in absent.items()}
        body["status"] |= {
            "conditions": [],
            "operands": {},
            "platform": {"type": "vanilla", "kubeVersion": "v1.35.0"},
            "config": {"subdomainEnabled": True, "ingressClass": "haproxy"},
            "dependencies": {"required": required, "optional": {}},
        }
    return body


def _time(world: World, seconds: float) -> str:
    moved = World(clock=lambda: seconds, tenant=world.tenant)
    return moved.stamp()


def _is_full(call: Call) -> bool:
    return call.query.get("verbosity") == "full"


@route("GET", "/api/v1/clusters")
def clusters(call: Call) -> Answer:
    """A plain list; those whose deletion was requested only where asked for."""
    hidden = call.query.get("includeRequestedForDelete") != "true"
    rows = [
        _cluster(call.world, key, _is_full(call))
        for key, stored in call.world.tables["clusters"].items()
        if not (hidden and stored.deleting)
    ]
    return 200, rows


@route("GET", "/api/v1/clusters/{}")
def cluster(call: Call) -> Answer:
    """One of them."""
    return 200, _cluster(call.world, call.keys[0], _is_full(call))


@route("PUT", "/api/v1/clusters/{}")
def rename_cluster(call: Call) -> Answer:
    """Nothing but its name."""
    shapes.CLUSTER_NAME(call.body)
    call.world.change("clusters", call.keys[0], call.body)
    return 200, _cluster(call.world, call.keys[0], full=False)


@route("DELETE", "/api/v1/clusters/{}")
def delete_cluster(call: Call) -> Answer:
    """202 and later, or with ``force`` 204 and at once."""
    stored = call.world.find("clusters", call.keys[0])
    if call.query.get("force") == "true":
        del call.world.tables["clusters"][call.keys[0]]
        return 204, None
    stored.body["deleteRequestedAt"] = call.world.stamp()
    call.world.delete("clusters", call.keys[0])
    return 202, None


@route("GET", "/api/v1/clusters/{}/cluster-install-info")
def install_info(call: Call) -> Answer:
    """From 3.0 on with a token of two hours in place of the client's secret."""
    key = call.keys[0]
    call.world.find("clusters", key)
    if "version" not in call.query:
        raise Refused(400, "version is required")
    own = {"installationStr": "helm upgrade -i runai-cluster", "repositoryName": "runai"}
    own["chartRepoURL"] = CHART_URL
    if call.world.release == "3.0":
        return 200, {**own, "bootstrapToken": call.world.bootstrap(key)}
    return 200, {**own, "clientSecret": secrets.token_urlsafe(16)}


@route("POST", "/stand-in/heartbeat")
def heartbeat(call: Call) -> Answer:
    """For look-alike agents; a path of the stand-in's own, because Run:ai's is not documented."""
    given = call.body if isinstance(call.body, dict) else {}
    names = ("cluster", "bootstrapToken", "version")
    key, words, version = (str(given.get(name, "")) for name in names)
    call.world.heartbeat(key, words, version)
    return 200, {"state": call.world.state(key)}


# Node pools and topologies


def _add_pool(world: World, body: Json) -> Json:
    key = str(secrets.randbelow(2**31))
    name = world.find("clusters", body["clusterId"]).body["name"]
    own = {"isDefault": False, **body, "id": key, "tenantId": world.tenant, "clusterName": name}
    made = world.add("node-pools", own, key)
    made["updatedBy"] = made["createdBy"]
    return made


def _pool(world: World, stored: Stored) -> Json:
    return {**stored.body, "phase": world.phase(stored)}


@route("POST", "/api/v1/node-pools")
def create_pool(call: Call) -> Answer:
    """Names are unique in a cluster, and so is each pair of label and value."""
    shapes.node_pool(call.world.release, new=True)(call.body)
    given, world = call.body, call.world
    world.find("clusters", given["clusterId"])
    world.unique("node-pools", given["name"], given["clusterId"])
    made = _add_pool(world, given)
    return 201, _pool(world, world.find("node-pools", made["id"]))


@route("GET", "/api/v1/node-pools")
def pools(call: Call) -> Answer:
    """In parts."""
    rows = [_pool(call.world, stored) for stored in call.world.tables["node-pools"].values()]
    return page(call, rows, "nodepools")


@route("GET", "/api/v1/node-pools/{}")
def pool(call: Call) -> Answer:
    """One of them."""
    return 200, _pool(call.world, call.world.find("node-pools", call.keys[0]))


@route("PUT|PATCH", "/api/v1/node-pools/{}")
def change_pool(call: Call) -> Answer:
    """Its labels and settings; never its name."""
    shapes.node_pool(call.world.release, new=False)(call.body)
    call.world.change("node-pools", call.keys[0], call.body)
    return 200, _pool(call.world, call.world.find("node-pools", call.keys[0]))


@route("DELETE", "/api/v1/node-pools/{}")
def delete_pool(call: Call) -> Answer:
    """Ends later; the default one stays."""
    if call.world.find("node-pools", call.keys[0]).body["isDefault"]:
        raise Refused(400, "the default node pool cannot be deleted")
    call.world.delete("node-pools", call.keys[0])
    return 202, None


@route("POST", "/api/v1/network-topologies")
def create_topology(call: Call) -> Answer:
    """Levels from far to near."""
    shapes.TOPOLOGY(call.body)
    call.world.find("clusters", call.body["clusterId"])
    call.world.unique("network-topologies", call.body["name"], call.body["clusterId"])
    key = str(uuid.uuid4())
    own = {**call.body, "id": key, "tenantId": call.world.tenant}
    return 201, call.world.add("network-topologies", own, key)


@route("GET", "/api/v1/network-topologies")
def topologies(call: Call) -> Answer:
    """In parts."""
    rows = [stored.body for stored in call.world.tables["network-topologies"].values()]
    return page(call, rows, "networkTopologies")


@route("DELETE", "/api/v1/network-topologies/{}")
def delete_topology(call: Call) -> Answer:
    """Ends later."""
    call.world.delete("network-topologies", call.keys[0])
    return 202, None


# Departments and projects


def _add_unit(world: World, kind: str, body: Json) -> Json:
    key = str(secrets.randbelow(2**31))
    made = world.add(kind, {**body, "id": key}, key)
    made["updatedBy"] = made["createdBy"]
    made["resources"] = _filled(world, body["clusterId"], body["resources"])
    return made


def _filled(world: World, cluster: str, given: list[Json]) -> list[Json]:
    """Entries with the names of their pools and the defaults. Raises Refused for an unknown or repeated pool."""
    rows: dict[str, Json] = {}
    for i, entry in enumerate(given):
        where = f"resources[{i}].nodePool"
        key = (entry.get("nodePool") or {}).get("id") or _default_pool(world, cluster)
        found = world.tables["node-pools"].get(key)
        if found is None or found.body["clusterId"] != cluster:
            raise shapes.invalid(where, f"there is no node pool {key} in this cluster")
        if key in rows:
            raise shapes.invalid(where, f"node pool {key} is given twice")
        gpu = {"deserved": 0, "limit": None, "overQuotaWeight": 0, **(entry.get("gpu") or {})}
        rows[key] = {**entry, "gpu": gpu, "nodePool": {"id": key, "name": found.body["name"]}}
        if world.release == "3.0":
            rows[key]["rank"] = entry.get("rank") or "MediumLow"
    return list(rows.values())


def _default_pool(world: World, cluster: str) -> str:
    found = world.named("node-pools", "default", cluster)
    assert found is not None
    return str(found.body["id"])


def _unit(world: World, kind: str, stored: Stored) -> Json:
    body = dict(stored.body)
    gpus = sum(entry["gpu"]["deserved"] or 0 for entry in body["resources"])
    body["totalResources"] = {"gpuQuota": gpus}
    if kind == "projects":
        name = body.get("requestedNamespace") or f"runai-{body['name']}"
        phase = world.phase(stored)
        body["status"] = {"phase": phase, "namespace": name}
        if phase == "NotReady":
            body["status"]["phaseMessage"] = world.stuck.get(body["name"], "")
        parent = world.tables["departments"].get(str(body.get("parentId")))
        body["parent"] = (
            {"id": body.get("parentId"), "name": parent.body["name"]} if parent else None
        )
    return body


UNITS = "/api/v1/org-unit/(departments|projects)"


def _shape(call: Call, new: bool) -> None:
    made = shapes.project if call.keys[0] == "projects" else shapes.department
    made(call.world.release, new)(call.body)


@route("POST", UNITS)
def create_unit(call: Call) -> Answer:
    """A department, or a project in one: the default department where none is given."""
    _shape(call, new=True)
    kind, given, world = call.keys[0], dict(call.body), call.world
    world.find("clusters", given["clusterId"])
    world.unique(kind, given["name"], given["clusterId"])
    if kind == "projects":
        given["parentId"] = _parent(world, given)
        given.setdefault("enforceRunaiScheduler", True)
    made = _add_unit(world, kind, given)
    return 201, _unit(world, kind, world.find(kind, made["id"]))


def _parent(world: World, given: Json) -> str:
    if given.get("parentId"):
        found = world.tables["departments"].get(given["parentId"])
        if found is None or found.body["clusterId"] != given["clusterId"]:
            raise shapes.invalid("parentId", "there is no such department in this cluster")
        return str(given["parentId"])
    default = world.named("departments", "default", given["clusterId"])
    assert default is not None
    return str(default.body["id"])


@route("GET", UNITS)
def units(call: Call) -> Answer:
    """In parts."""
    kind = call.keys[0]
    rows = [_unit(call.world, kind, stored) for stored in call.world.tables[kind].values()]
    return page(call, rows, kind)


@route("GET", f"{UNITS}/count")
def count_units(call: Call) -> Answer:
    """How many there are."""
    rows = [stored.body for stored in call.world.tables[call.keys[0]].values()]
    return 200, {"count": len([row for row in rows if _wanted(call, row)])}


@route("GET", f"{UNITS}/{{}}")
def unit(call: Call) -> Answer:
    """One of them."""
    kind, key = call.keys
    return 200, _unit(call.world, kind, call.world.find(kind, key))


@route("PUT", f"{UNITS}/{{}}")
def replace_unit(call: Call) -> Answer:
    """All that can be changed: what the body leaves out gets its default again. Name, cluster and department stay."""
    _shape(call, new=False)
    kind, key = call.keys
    fixed = ("description", "schedulingRules", "defaultNodePools", "nodeTypes")
    given = {**dict.fromkeys(fixed), **call.body}
    if kind == "projects":
        given.setdefault("enforceRunaiScheduler", True)
    where = call.world.find(kind, key).body["clusterId"]
    given["resources"] = _filled(call.world, where, given["resources"])
    call.world.change(kind, key, given)
    return 200, _unit(call.world, kind, call.world.find(kind, key))


@route("PUT|PATCH", f"{UNITS}/{{}}/resources")
def unit_resources(call: Call) -> Answer:
    """A list of entries: PUT replaces all of them, PATCH these attributes of these entries."""
    shapes.listing(shapes.resources(call.world.release))(call.body, "resources")
    kind, key = call.keys
    stored = call.world.find(kind, key)
    entries = list(call.body)
    if call.method == "PATCH":
        entries = _patched(call.world, stored.body, entries)
    rows = _filled(call.world, stored.body["clusterId"], entries)
    return 200, call.world.change(kind, key, {"resources": rows})["resources"]


def _patched(world: World, unit: Json, given: list[Json]) -> list[Json]:
    rows = {entry["nodePool"]["id"]: dict(entry) for entry in unit["resources"]}
    for entry in given:
        key = (entry.get("nodePool") or {}).get("id") or _default_pool(world, unit["clusterId"])
        row = rows.setdefault(key, {"nodePool": {"id": key}})
        for name, value in entry.items():
            both = isinstance(value, dict) and isinstance(row.get(name), dict)
            row[name] = {**row[name], **value} if both else value
    return list(rows.values())


@route("DELETE", f"{UNITS}/{{}}")
def delete_unit(call: Call) -> Answer:
    """Ends later. A department with projects stays (assumed: its documentation was not available)."""
    kind, key = call.keys
    stored = call.world.find(kind, key)
    projects = call.world.tables["projects"].values()
    if kind == "departments" and any(p.body["parentId"] == key for p in projects):
        raise Refused(409, f"department {stored.body['name']} has projects")
    call.world.delete(kind, key)
    return 202, None


# Policies


def _scope_of(meta: Json) -> tuple[str, str]:
    key = meta.get("projectId") or meta.get("departmentId") or meta.get("clusterId") or ""
    return meta["scope"], str(key)


@route("GET", "/api/v2/policy")
def policies(call: Call) -> Answer:
    """All kinds."""
    rows = [stored.body for stored in call.world.tables["policies"].values()]
    return 200, {"policies": [{"type": row["type"], "meta": row["meta"]} for row in rows]}


@route("PUT", f"/api/v2/policy/({POLICIES})")
def put_policy(call: Call) -> Answer:
    """One policy for each kind of work and scope; with ``validateOnly`` nothing is kept."""
    shapes.POLICY(call.body)
    kind, scope = call.keys[0], _scope_of(call.body["meta"])
    if scope[0] in ("cluster", "department", "project"):
        _scope(call.world, *scope)
    if call.query.get("validateOnly") == "true":
        return 200, call.body
    key = "/".join((kind, *scope))
    call.world.tables["policies"][key] = Stored({**call.body, "type": kind})
    return 200, call.body


@route("GET", f"/api/v2/policy/({POLICIES})")
def policy(call: Call) -> Answer:
    """The policy of a scope that the query names."""
    return 200, call.world.find("policies", _policy_key(call)).body


@route("DELETE", f"/api/v2/policy/({POLICIES})")
def delete_policy(call: Call) -> Answer:
    """At once."""
    call.world.find("policies", _policy_key(call))
    del call.world.tables["policies"][_policy_key(call)]
    return 204, None


def _policy_key(call: Call) -> str:
    if "scope" not in call.query:
        raise Refused(400, "scope is required")
    return "/".join((call.keys[0], *_scope_of(call.query)))
