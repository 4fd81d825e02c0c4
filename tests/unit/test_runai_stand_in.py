"""The stand-in of Run:ai's REST API: what it accepts, refuses, does later, and each fault of its switch."""

import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.runai.server import StandIn, standing
from tests.support.runai.tls import certificate
from tests.support.runai.user import UNITS, User
from tests.support.runai.world import ADMINISTRATOR, BOOTSTRAP_S, TOKEN_S, World


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for all tests."""
    made = tmp_path_factory.mktemp("tls")
    certificate(made)
    return made


@pytest.fixture
def stand_in(folder: Path) -> Iterator[StandIn]:
    with standing(folder) as made:
        yield made


@pytest.fixture
def user(stand_in: StandIn, folder: Path) -> User:
    """The administrator."""
    return User(stand_in, folder).as_administrator()


def test_a_service_account_needs_an_access_rule_and_then_registers_a_cluster(
    user: User, stand_in: StandIn
) -> None:
    account = user.good("POST", "/api/v1/service-accounts", {"name": "appliance"})
    roles = {r["name"]: r["id"] for r in user.good("GET", "/api/v2/authorization/roles")["roles"]}
    rule = {"subjectId": account["clientId"], "subjectType": "service-account"}
    rule |= {"roleId": roles[ADMINISTRATOR], "scopeType": "tenant"}
    rule["scopeId"] = str(stand_in.world.tenant)
    secret = {"client_id": account["clientId"], "client_secret": account["clientSecret"]}
    administrator = user.bearer

    assert user.log_in(grant_type="client_credentials", **secret)[0] == 200
    assert user.do("GET", "/api/v1/clusters")[0] == 403
    user.bearer = administrator
    user.good("POST", "/api/v1/authorization/access-rules", rule)
    assert user.do("POST", "/api/v1/authorization/access-rules", rule)[0] == 409
    assert user.log_in(grant_type="client_credentials", **secret)[0] == 200
    key = user.cluster()
    info = user.good("GET", f"/api/v1/clusters/{key}/cluster-install-info?version=3.0.20")
    assert "clientSecret" not in info
    assert _state(user, key) == "WaitingToConnect"
    body = {"cluster": key, "bootstrapToken": info["bootstrapToken"], "version": "3.0.20"}
    user.good("POST", "/stand-in/heartbeat", body)
    assert _state(user, key) == "Connected"


def test_a_viewer_reads_and_does_not_write(user: User, stand_in: StandIn) -> None:
    account = user.good("POST", "/api/v1/service-accounts", {"name": "viewer"})
    (viewer,) = [n for n, name in stand_in.world.roles.items() if name == "Viewer"]
    rule = {"subjectId": account["id"], "subjectType": "service-account", "roleId": viewer}
    scope = {"scopeType": "tenant", "scopeId": str(stand_in.world.tenant)}
    user.good("POST", "/api/v1/authorization/access-rules", rule | scope)
    secret = {"client_id": account["clientId"], "client_secret": account["clientSecret"]}
    user.log_in(grant_type="client_credentials", **secret)
    assert user.do("GET", "/api/v1/clusters")[0] == 200
    assert user.do("POST", "/api/v1/clusters", {"name": "x"})[0] == 403


def _state(user: User, key: str) -> str:
    return str(user.good("GET", f"/api/v1/clusters/{key}?verbosity=full")["status"]["state"])


def test_a_bootstrap_token_is_good_for_two_hours(user: User, stand_in: StandIn) -> None:
    key = user.cluster()
    info = user.good("GET", f"/api/v1/clusters/{key}/cluster-install-info?version=3.0.20")
    body = {"cluster": key, "bootstrapToken": info["bootstrapToken"]}
    stand_in.world.advance(BOOTSTRAP_S)
    assert user.do("POST", "/stand-in/heartbeat", body)[0] == 401
    stand_in.world.advance(-1)
    assert user.do("POST", "/stand-in/heartbeat", body)[0] == 200


def test_an_access_token_ends(user: User, stand_in: StandIn) -> None:
    stand_in.world.advance(TOKEN_S - 1)
    assert user.do("GET", "/api/v1/clusters")[0] == 200
    stand_in.world.advance(1)
    assert user.do("GET", "/api/v1/clusters")[0] == 401


@pytest.mark.parametrize("state", ["Disconnected", "MissingPrerequisites", "ServiceIssues"])
def test_a_test_sets_the_state_of_a_cluster(user: User, stand_in: StandIn, state: str) -> None:
    key = user.cluster()
    stand_in.world.states[key] = state
    stand_in.world.missing[key] = {"prometheus": "not found"}
    found = user.good("GET", f"/api/v1/clusters/{key}?verbosity=full")["status"]
    assert found["state"] == state
    assert found["dependencies"]["required"]["prometheus"]["reason"] == "not found"


def test_without_heartbeats_a_cluster_is_disconnected(user: User, stand_in: StandIn) -> None:
    key = user.cluster()
    token = stand_in.world.bootstrap(key)
    user.good("POST", "/stand-in/heartbeat", {"cluster": key, "bootstrapToken": token})
    stand_in.world.advance(301)
    user.as_administrator()
    assert _state(user, key) == "Disconnected"


def test_a_project_becomes_ready_later_and_goes_later(user: User) -> None:
    key = user.cluster()
    project = user.unit("projects", "vision", key)
    where = f"{UNITS}/projects/{project['id']}"
    phases = [user.good("GET", where)["status"]["phase"] for _ in range(3)]
    assert phases == ["Creating", "Creating", "Ready"]
    assert user.do("DELETE", where) == (202, None)
    assert user.good("GET", where)["status"]["phase"] == "Deleting"
    assert user.do("POST", f"{UNITS}/projects", _project("vision", key))[0] == 409
    assert user.do("GET", where)[0] == 404


def _project(name: str, cluster: str) -> dict[str, Any]:
    return {"name": name, "clusterId": cluster, "resources": []}


def test_a_stuck_project_is_never_ready(user: User, stand_in: StandIn) -> None:
    stand_in.world.stuck["vision"] = "namespace is taken"
    project = user.unit("projects", "vision", user.cluster())
    found = [user.good("GET", f"{UNITS}/projects/{project['id']}")["status"] for _ in range(5)]
    assert {f["phase"] for f in found} == {"NotReady"}
    assert found[-1]["phaseMessage"] == "namespace is taken"


def test_put_replaces_and_patch_changes_single_attributes(user: User) -> None:
    key = user.cluster()
    pool = user.good("GET", "/api/v1/node-pools")["nodepools"][0]["id"]
    entry = {"nodePool": {"id": pool}, "gpu": {"deserved": 4, "limit": 8}, "rank": "High"}
    rules = {"interactiveJobTimeLimitSeconds": 3600}
    made = user.unit("projects", "a", key, resources=[entry], schedulingRules=rules)
    where = f"{UNITS}/projects/{made['id']}"

    user.good("PATCH", f"{where}/resources", [{"nodePool": {"id": pool}, "gpu": {"deserved": 2}}])
    (found,) = user.good("GET", where)["resources"]
    assert (found["gpu"]["deserved"], found["gpu"]["limit"], found["rank"]) == (2, 8, "High")
    assert user.good("GET", where)["schedulingRules"] == rules

    user.good("PUT", where, {"resources": [{"nodePool": {"id": pool}}]})
    changed = user.good("GET", where)
    assert changed["schedulingRules"] is None
    assert changed["resources"][0]["gpu"] == {"deserved": 0, "limit": None, "overQuotaWeight": 0}
    assert changed["resources"][0]["rank"] == "MediumLow"


POOL = {"labelKey": "k", "labelValue": "v"}
BAD: list[tuple[str, dict[str, Any]]] = [
    (f"{UNITS}/projects", {"name": "Vision"}),
    (f"{UNITS}/projects", {"name": "v" * 64}),
    (f"{UNITS}/projects", {"name": "a", "colour": "red"}),
    (f"{UNITS}/projects", {"name": "a", "resources": [{"gpu": {"deserved": -1}}]}),
    (f"{UNITS}/projects", {"name": "a", "resources": [{"gpu": {"deserved": True}}]}),
    (f"{UNITS}/projects", {"name": "a", "resources": [{"rank": "Highest"}]}),
    (f"{UNITS}/projects", {"name": "a", "resources": [{"priority": "High"}]}),
    (f"{UNITS}/projects", {"name": "a", "resources": [{"memory": {"deserved": 1}}]}),
    (f"{UNITS}/projects", {"name": "a", "resources": [{}, {}]}),
    (f"{UNITS}/projects", {"name": "a", "resources": [{"nodePool": {"id": "none"}}]}),
    (f"{UNITS}/projects", {"name": "a", "parentId": "none"}),
    (f"{UNITS}/projects", {"name": "a", "resources": None}),
    (f"{UNITS}/departments", {"name": "a", "parentId": "1"}),
    (f"{UNITS}/departments", {"name": "a", "schedulingRules": {"trainingJobTimeLimitSeconds": 0}}),
    (
        f"{UNITS}/departments",
        {
            "name": "a",
            "schedulingRules": {
                "interactiveJobTimeLimitSeconds": 60,
                "interactiveJobMaxIdleDurationSeconds": 60,
            },
        },
    ),
    ("/api/v1/node-pools", {"name": "p" * 64, **POOL}),
    ("/api/v1/node-pools", {"name": "p", "labelKey": "k", "labelValue": ""}),
    ("/api/v1/node-pools", {"name": "p", **POOL, "overProvisioningRatio": 2}),
    (
        "/api/v1/node-pools",
        {"name": "p", **POOL, "schedulingConfiguration": {"minGuaranteedRuntime": "5 days"}},
    ),
    ("/api/v1/node-pools", {"name": "p", **POOL, "gpuNetworkAccelerationDetection": "Maybe"}),
    ("/api/v1/service-accounts", {"name": "Appliance"}),
    ("/api/v1/users", {"email": "alice"}),
    ("/api/v1/clusters", {}),
]


@pytest.mark.parametrize(("path", "body"), BAD)
def test_a_body_outside_the_schema_is_refused(
    user: User, stand_in: StandIn, path: str, body: dict[str, Any]
) -> None:
    key = user.cluster()
    of_cluster = path not in ("/api/v1/service-accounts", "/api/v1/users", "/api/v1/clusters")
    given = {"clusterId": key, **body} if of_cluster else body
    given |= {"resources": []} if "org-unit" in path and "resources" not in body else {}
    status, answer = user.do("POST", path, given)
    assert (status, answer["code"]) == (400, 400)
    assert answer["message"]


def test_fields_of_each_release(folder: Path) -> None:
    with standing(folder, World(release="2.24")) as stand_in:
        user = User(stand_in, folder).as_administrator()
        key = user.cluster()
        entry = {"gpu": {"deserved": 1}, "priority": "High"}
        user.unit("projects", "a", key, resources=[entry])
        bad = {"name": "b", "clusterId": key, "resources": [{"rank": "High"}]}
        assert user.do("POST", f"{UNITS}/projects", bad)[0] == 400
        info = user.good("GET", f"/api/v1/clusters/{key}/cluster-install-info?version=2.24")
        assert "bootstrapToken" not in info
        assert info["clientSecret"]


def test_a_name_is_taken_once_in_a_cluster(user: User) -> None:
    first, second = user.cluster("one"), user.cluster("two")
    user.unit("departments", "a", first)
    assert user.do("POST", f"{UNITS}/departments", _project("a", first))[0] == 409
    user.unit("departments", "a", second)


def test_ids_are_random(folder: Path) -> None:
    found = set()
    for _ in range(2):
        with standing(folder) as stand_in:
            user = User(stand_in, folder).as_administrator()
            found.add(user.unit("projects", "a", user.cluster())["id"])
    assert len(found) == 2


def test_pages_end_at_500_and_an_object_that_goes_moves_the_others(
    user: User, stand_in: StandIn
) -> None:
    key = user.cluster()
    stand_in.world.settles = 0
    for i in range(600):
        body = {"name": f"p{i}", "clusterId": key, "resources": [], "id": str(i), "parentId": "1"}
        stand_in.world.add("projects", body, str(i))
    assert user.do("GET", f"{UNITS}/projects?limit=501")[0] == 400
    assert len(user.good("GET", f"{UNITS}/projects")["projects"]) == 50
    first = user.good("GET", f"{UNITS}/projects?limit=500")
    assert first["next"] == 500
    stand_in.plant(
        "act", "GET", "offset=500", call=lambda: stand_in.world.tables["projects"].pop("0")
    )
    second = user.good("GET", f"{UNITS}/projects?limit=500&offset=500")
    names = [row["name"] for row in first["projects"] + second["projects"]]
    assert "next" not in second
    assert "p500" not in names
    assert user.good("GET", f"{UNITS}/projects/count") == {"count": 599}


def test_filters_and_order(user: User) -> None:
    key = user.cluster()
    for name in ("b1", "a1", "a2"):
        user.unit("departments", name, key)
    rows = user.good("GET", f"{UNITS}/departments?filterBy=name%3D%5Ea&sortBy=name&sortOrder=desc")
    assert [row["name"] for row in rows["departments"]] == ["a2", "a1"]
    assert user.do("GET", f"{UNITS}/departments?filterBy=name")[0] == 400


def test_a_department_with_projects_and_a_default_pool_stay(user: User) -> None:
    key = user.cluster()
    department = user.unit("departments", "a", key)
    user.unit("projects", "p", key, parentId=department["id"])
    assert user.do("DELETE", f"{UNITS}/departments/{department['id']}")[0] == 409
    pool = user.good("GET", "/api/v1/node-pools")["nodepools"][0]
    assert pool["isDefault"]
    assert user.do("DELETE", f"/api/v1/node-pools/{pool['id']}")[0] == 400


def test_a_deleted_cluster_is_listed_where_asked_for(user: User) -> None:
    key = user.cluster()
    assert user.do("DELETE", f"/api/v1/clusters/{key}") == (202, None)
    assert user.good("GET", "/api/v1/clusters") == []
    (row,) = user.good("GET", "/api/v1/clusters?includeRequestedForDelete=true")
    assert row["deleteRequestedAt"]
    assert user.do("GET", f"/api/v1/clusters/{key}")[0] == 404


def test_an_access_rule_cannot_be_changed(user: User) -> None:
    assert user.do("PUT", "/api/v1/authorization/access-rules/1", {})[0] == 405


def test_one_policy_for_each_scope_and_validation_keeps_nothing(user: User) -> None:
    key = user.cluster()
    body = {"meta": {"scope": "cluster", "clusterId": key, "name": "p"}, "policy": {"rules": {}}}
    where = f"/api/v2/policy/workspaces?scope=cluster&clusterId={key}"
    user.good("PUT", "/api/v2/policy/workspaces?validateOnly=true", body)
    assert user.do("GET", where)[0] == 404
    user.good("PUT", "/api/v2/policy/workspaces", body)
    assert user.good("GET", where)["policy"] == {"rules": {}}
    assert user.do("DELETE", where)[0] == 204


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_a_planted_status_is_answered_once(user: User, stand_in: StandIn, status: int) -> None:
    fault = stand_in.plant("status", "GET", "clusters", status=status, retry_after=7)
    found, answer = user.do("GET", "/api/v1/clusters")
    assert (found, answer["code"], user.headers["Retry-After"]) == (status, status, "7")
    assert user.do("GET", "/api/v1/clusters")[0] == 200
    assert fault.used == 1


def test_a_planted_page_of_a_proxy(user: User, stand_in: StandIn) -> None:
    stand_in.plant("page", status=502)
    assert user.do("GET", "/api/v1/clusters") == (502, "<html><h1>502</h1></html>")


def test_a_planted_expiry(user: User, stand_in: StandIn) -> None:
    stand_in.plant("expire", skip=1)
    assert user.do("GET", "/api/v1/clusters")[0] == 200
    assert user.do("GET", "/api/v1/clusters")[0] == 401


def test_a_change_that_is_done_later(user: User, stand_in: StandIn) -> None:
    key = user.cluster()
    stand_in.plant("later", "POST", "projects")
    assert user.do("POST", f"{UNITS}/projects", _project("a", key)) == (202, None)
    found = [user.good("GET", f"{UNITS}/projects/count")["count"] for _ in range(3)]
    assert found == [0, 0, 1]


def test_a_connection_cut_before_the_change(user: User, stand_in: StandIn) -> None:
    stand_in.plant("cut-before", "POST", "clusters")
    with pytest.raises((http.client.HTTPException, OSError)):
        user.do("POST", "/api/v1/clusters", {"name": "one"})
    assert user.good("GET", "/api/v1/clusters") == []


def test_a_connection_cut_after_the_change(user: User, stand_in: StandIn) -> None:
    stand_in.plant("cut-after", "POST", "clusters")
    with pytest.raises((http.client.HTTPException, OSError)):
        user.do("POST", "/api/v1/clusters", {"name": "one"})
    assert [row["name"] for row in user.good("GET", "/api/v1/clusters")] == ["one"]


def test_a_connection_cut_in_the_answer(user: User, stand_in: StandIn) -> None:
    stand_in.plant("cut-body", "GET", "roles")
    with pytest.raises((http.client.HTTPException, OSError)):
        user.do("GET", "/api/v2/authorization/roles")


def test_a_slow_answer_outlasts_its_client(user: User, stand_in: StandIn) -> None:
    stand_in.plant("slow", "GET", "clusters", seconds=60)
    connection = http.client.HTTPSConnection(
        str(user.where.hostname), user.where.port, context=user.tls, timeout=0.5
    )
    connection.request(
        "GET", "/api/v1/clusters", headers={"Authorization": f"Bearer {user.bearer}"}
    )
    with pytest.raises(TimeoutError):
        connection.getresponse()
    connection.close()
    assert user.do("GET", "/api/v1/clusters")[0] == 200


def test_what_is_no_json_is_refused(user: User) -> None:
    assert user.send("POST", "/api/v1/clusters", b"{", "application/json")[0] == 400
    assert user.send("POST", "/api/v1/clusters", b"name=x", "text/plain")[0] == 415


@pytest.mark.parametrize(
    "path",
    ["/api/v1/node-pools?cluster=1", "/api/v1/org-unit/ranks?limit=5", "/api/v1/clusters?limit=5"],
)
def test_an_unknown_parameter_of_a_query_is_refused(user: User, path: str) -> None:
    status, answer = user.do("GET", path)
    assert status == 400
    assert "has no query parameter" in answer["message"]
