"""The site's tree in Run:ai: what is sent, drift field by field, ownership, and runs that are interrupted."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.runai import Runai, RunaiFailed
from appliance.models.queue_plan import QueuePlan
from tests.support.fake_kubernetes import kubeconfig
from tests.support.fake_kubernetes import serving as cluster
from tests.support.runai_answers import CLUSTER, RANKS, Document, lost, reset, serving, status
from tests.support.runai_world import PLAIN, TREE, RunaiWorld

DEPARTMENTS = "/api/v1/org-unit/departments"
PROJECTS = "/api/v1/org-unit/projects"
POOLS = "/api/v1/node-pools"
RULES = "/api/v1/authorization/access-rules"
WORKLOADS = "/api/v1/workloads"
MARK = "Managed by appliance: appliance/site=acme"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RunaiWorld]:
    with serving() as server, cluster() as api:
        for host in ("gpu-1", "gpu-2", "gpu-3", "gpu-4", "head"):
            api.put(f"/api/v1/nodes/{host}", {"metadata": {"name": host, "labels": {}}})
        kubeconfig(tmp_path, api.url)
        found = RunaiWorld(server, api, tmp_path)
        found.write(TREE)
        yield found


@pytest.fixture
def plain(world: RunaiWorld) -> RunaiWorld:
    world.write(PLAIN)
    return world


def steps(made: QueuePlan) -> list[str]:
    return [f"{change.step.value} {change.kind} {change.title}" for change in made.changes]


def details(made: QueuePlan) -> dict[str, tuple[str, ...]]:
    return {change.title: change.details for change in made.changes}


def refusal(made: QueuePlan) -> tuple[str, str]:
    (change,) = made.refused
    return ", ".join(change.details), change.remedy


def rules(world: RunaiWorld) -> set[tuple[str, str, str]]:
    names = {str(one["id"]): name for name, one in world.server.projects.items()}
    return {
        (names.get(one["scopeId"], "-"), one["subjectType"], one["subjectId"])
        for one in world.server.lists[RULES]
    }


def test_the_whole_tree_is_created_in_its_order(world: RunaiWorld) -> None:
    made = world.plan()
    assert steps(made) == [
        "change Node gpu-1",
        "create NodePool interactive",
        "create Department science",
        "create Project lattice",
        "create Project solo",
        "create AccessRule user alice@example.com in lattice",
        "create AccessRule group /vision in lattice",
    ]
    assert world.apply() == 7
    assert world.lines[1] == "create   NodePool interactive"
    labels = world.api.store["/api/v1/nodes/gpu-1"]["metadata"]["labels"]
    assert labels == {"appliance/node-pool": "interactive"}


def test_what_is_sent(world: RunaiWorld) -> None:
    world.apply()
    pool = world.server.lists[POOLS][1]
    assert pool == {
        "id": pool["id"],
        "name": "interactive",
        "labelKey": "appliance/node-pool",
        "labelValue": "interactive",
        "clusterId": CLUSTER,
        "schedulingConfiguration": {"placementStrategy": {"cpu": "spread", "gpu": "spread"}},
    }
    department = world.server.lists[DEPARTMENTS][1]
    assert department == {
        "id": department["id"],
        "name": "science",
        "clusterId": CLUSTER,
        "description": MARK,
        "resources": [
            {
                "nodePool": {"id": "pool-default", "name": "default"},
                "gpu": {"deserved": 20, "limit": 24, "overQuotaWeight": 1},
                "cpu": {"deserved": 200_000, "limit": None, "overQuotaWeight": 1},
                "memory": None,
                "rank": "Medium",
            },
            {
                "nodePool": {"id": pool["id"], "name": "interactive"},
                "gpu": {"deserved": 8, "limit": None, "overQuotaWeight": 1},
                "cpu": None,
                "memory": None,
                "rank": "Medium",
            },
        ],
    }
    project = world.server.projects["lattice"]
    assert project == {
        "id": project["id"],
        "name": "lattice",
        "clusterId": CLUSTER,
        "parentId": department["id"],
        "description": MARK,
        "enforceRunaiScheduler": True,
        "defaultNodePools": ["interactive", "default"],
        "schedulingRules": {
            "interactiveJobTimeLimitSeconds": 8 * 3600,
            "interactiveJobMaxIdleDurationSeconds": 1800,
        },
        "resources": [
            {
                "nodePool": {"id": "pool-default", "name": "default"},
                "gpu": {"deserved": 16, "limit": 24, "overQuotaWeight": 2},
                "cpu": {"deserved": 200_000, "limit": None, "overQuotaWeight": 1},
                "memory": {
                    "deserved": 500_000,
                    "limit": None,
                    "overQuotaWeight": 1,
                    "units": "MB",
                },
                "rank": "MediumLow",
            },
            {
                "nodePool": {"id": pool["id"], "name": "interactive"},
                "gpu": {"deserved": 4, "limit": 4, "overQuotaWeight": 1},
                "cpu": None,
                "memory": None,
                "rank": "MediumLow",
            },
        ],
    }
    solo = world.server.projects["solo"]
    assert solo["parentId"] == "unit-default"
    assert solo["schedulingRules"] == {}
    closed = {"deserved": 0, "limit": 0, "overQuotaWeight": 0}
    assert [entry["gpu"] for entry in solo["resources"]][1] == closed
    assert {entry["rank"] for entry in solo["resources"]} == {"Low"}
    assert world.server.lists[RULES][0] == {
        "id": world.server.lists[RULES][0]["id"],
        "subjectId": "alice@example.com",
        "subjectType": "user",
        "roleId": 17,
        "scopeId": project["id"],
        "scopeType": "project",
        "clusterId": CLUSTER,
    }


def test_a_second_apply_sends_nothing(world: RunaiWorld) -> None:
    world.apply()
    world.server.seen.clear()
    again = world.plan()
    assert again.changes == ()
    assert again.unchanged == 6
    assert world.apply() == 0
    assert world.server.changes() == []


def test_numbers_as_the_control_plane_may_return_them_are_equal(world: RunaiWorld) -> None:
    world.apply()
    project = world.server.projects["lattice"]
    first, second = project["resources"]
    first["memory"].update(deserved=476_837, units="Mib")
    first["gpu"]["deserved"] = 16.0
    first["rank"] = "Medium low"
    second["gpu"]["overQuotaWeight"] = 2
    second["cpu"] = {"deserved": 0, "limit": -1, "overQuotaWeight": 2}
    second["memory"] = {"deserved": None, "limit": None, "units": "GB"}
    project["resources"] = [second, first]
    project["defaultNodePools"] = [world.server.lists[POOLS][1]["id"], "default"]
    project["schedulingRules"]["trainingJobMaxIdleDurationSeconds"] = None
    assert world.plan().changes == ()


def test_changes_by_hand_are_named_and_reverted(world: RunaiWorld) -> None:
    world.apply()
    project = world.server.projects["lattice"]
    first = project["resources"][0]
    first["gpu"].update(deserved=2, limit=None, overQuotaWeight=3)
    first["cpu"] = None
    first["memory"].update(deserved=100, units="GB")
    first["rank"] = "VeryHigh"
    project["schedulingRules"]["interactiveJobTimeLimitSeconds"] = 5400
    project["schedulingRules"]["trainingJobMaxIdleDurationSeconds"] = 90
    project["defaultNodePools"] = None
    project["enforceRunaiScheduler"] = False
    world.server.lists[POOLS][1]["schedulingConfiguration"]["placementStrategy"]["gpu"] = "binpack"
    assert details(world.plan()) == {
        "interactive": ("placement of GPUs binpack → spread",),
        "lattice": (
            "pool default: GPU quota 2 GPUs → 16 GPUs",
            "pool default: GPU limit unbounded → 24 GPUs",
            "pool default: GPU weight 3 → 2",
            "pool default: CPU quota 0 cores → 200 cores",
            "pool default: CPU weight - → 1",
            "pool default: memory quota 100 GB → 500 GB",
            "pool default: rank VeryHigh → MediumLow",
            "time limit of build 90m → 8h",
            "idle limit of train 90s → -",
            "default pools - → interactive, default",
            "only Run:ai's scheduler no → yes",
        ),
    }
    assert world.apply() == 2
    assert world.plan().changes == ()


def test_what_the_site_does_not_describe_is_kept(world: RunaiWorld) -> None:
    world.apply()
    project = world.server.projects["lattice"]
    foreign = {"nodePool": {"id": "pool-x", "name": "x"}, "gpu": {"deserved": 1}, "rank": "High"}
    project["resources"].append(foreign)
    project["schedulingRules"]["trainingJobTimeLimitSeconds"] = 60
    project["description"] = f"The team of Alice. {MARK}"
    project["nodeTypes"] = {"training": ["a"]}
    pool = world.server.lists[POOLS][1]
    pool["schedulingConfiguration"]["minGuaranteedRuntime"] = "1d"
    assert world.plan().changes == ()
    project["resources"][0]["gpu"]["deserved"] = 1
    pool["schedulingConfiguration"]["placementStrategy"] = {}
    world.apply()
    sent = {path.split("/")[-2]: body for _, path, body in world.server.seen[-30:] if body}
    assert foreign in sent["projects"]["resources"]
    assert sent["projects"]["schedulingRules"]["trainingJobTimeLimitSeconds"] == 60
    assert sent["projects"]["description"] == f"The team of Alice. {MARK}"
    assert sent["projects"]["nodeTypes"] == {"training": ["a"]}
    assert sent["node-pools"]["schedulingConfiguration"]["minGuaranteedRuntime"] == "1d"


def test_members_are_given_and_taken(plain: RunaiWorld) -> None:
    plain.apply()
    assert rules(plain) == {("team", "user", "alice")}
    project = plain.server.projects["team"]["id"]
    own = {"roleId": 17, "scopeId": project, "scopeType": "project"}
    others = [
        {**own, "id": 1, "subjectType": "user", "subjectId": "mallory"},
        {**own, "id": 2, "subjectType": "user", "subjectId": "viewer", "roleId": 3},
        {**own, "id": 3, "subjectType": "service-account", "subjectId": "robot"},
        {**own, "id": 4, "subjectType": "user", "subjectId": "chief", "scopeId": "unit-default"},
    ]
    plain.server.lists[RULES] += others
    assert steps(plain.plan()) == ["delete AccessRule user mallory in team"]
    plain.apply()
    kept = {"alice", "viewer", "robot", "chief"}
    assert {one["subjectId"] for one in plain.server.lists[RULES]} == kept
    plain.write(PLAIN.replace("[alice]", "[bob]"))
    assert steps(plain.plan()) == [
        "delete AccessRule user alice in team",
        "create AccessRule user bob in team",
    ]


def test_an_equal_object_is_adopted_and_marked(plain: RunaiWorld) -> None:
    plain.apply()
    project = plain.server.projects["team"]
    project["description"] = "by hand"
    assert details(plain.plan()) == {"team": ("adopted: it is equal",)}
    plain.apply()
    assert project["description"] == f"by hand {MARK}"
    assert plain.plan().changes == ()


def test_a_different_object_of_others_is_refused(plain: RunaiWorld) -> None:
    entry = {"nodePool": {"id": "pool-default", "name": "default"}, "gpu": {"deserved": 1}}
    plain.server.lists[PROJECTS].append(
        plain.server.unit("team", resources=[entry], parentId="unit-default")
    )
    said, remedy = refusal(plain.plan())
    assert said.startswith("exists, is not marked as this site's, and differs, department default")
    assert "GPU quota 1 GPUs → 8 GPUs" in said
    assert "appliance/site=acme" in remedy
    plain.server.lists[PROJECTS][0]["description"] = "appliance/site=other"
    assert plain.plan().refused


def test_members_of_others_are_part_of_the_comparison(plain: RunaiWorld) -> None:
    plain.apply()
    project = plain.server.projects["team"]
    project["description"] = ""
    plain.server.lists[RULES].append(
        {
            "id": 1,
            "roleId": 17,
            "scopeId": project["id"],
            "scopeType": "project",
            "subjectType": "user",
            "subjectId": "mallory",
        }
    )
    assert "access of user mallory" in refusal(plain.plan())[0]


def test_a_pool_of_others_is_refused(world: RunaiWorld) -> None:
    world.server.lists[POOLS].append(
        world.server.pool("interactive", labelKey="zone", labelValue="a")
    )
    said, remedy = refusal(world.plan())
    assert said == "selects hosts by zone=a, not appliance/node-pool=interactive"
    assert "another name" in remedy


def test_a_project_cannot_be_moved(plain: RunaiWorld) -> None:
    plain.apply()
    plain.write(PLAIN.replace("[{name: research}]", "[{name: research}, {name: other}]"))
    plain.apply()
    moved = PLAIN.replace("[{name: research}]", "[{name: research}, {name: other}]")
    plain.write(moved.replace("department: research", "department: other"))
    said, remedy = refusal(plain.plan())
    assert said == "department research → other"
    assert "cannot move a project" in remedy


def test_ours_is_deleted_when_it_leaves_the_site(world: RunaiWorld) -> None:
    world.apply()
    world.server.lists[PROJECTS].append(world.server.unit("by-hand"))
    world.server.lists[DEPARTMENTS].append(
        world.server.unit("others", description="appliance/site=acme-2")
    )
    world.write(PLAIN)
    world.api.store["/api/v1/nodes/gpu-1"]["metadata"]["labels"] = {}
    assert steps(world.plan()) == [
        "create Department research",
        "create Project team",
        "create AccessRule user alice in team",
        "delete AccessRule group /vision in lattice",
        "delete AccessRule user alice@example.com in lattice",
        "delete Project lattice",
        "delete Project solo",
        "delete Department science",
        "delete NodePool interactive",
    ]
    assert world.apply() == 9
    assert sorted(world.server.projects) == ["by-hand", "team"]
    departments = [one["name"] for one in world.server.lists[DEPARTMENTS]]
    assert sorted(departments) == ["default", "others", "research"]
    assert rules(world) == {("team", "user", "alice")}


def test_a_project_with_work_is_not_deleted(plain: RunaiWorld) -> None:
    plain.apply()
    project = plain.server.projects["team"]["id"]
    work = {"name": "job", "projectId": project, "phase": "Running"}
    ended = {"name": "old", "projectId": project, "phase": "Completed"}
    plain.server.lists[WORKLOADS] = [ended, work]
    plain.write(PLAIN.replace("name: team", "name: other"))
    said, remedy = refusal(plain.plan())
    assert said == "no longer in the site, but has workloads: job"
    assert "let the work end" in remedy
    plain.server.lists[WORKLOADS] = [ended]
    with plain.client() as client:
        _, applying = plain.prepare(client)
        plain.server.lists[WORKLOADS] = [work]
        with pytest.raises(RunaiFailed, match="workloads started meanwhile: job"):
            applying.run(plain.lines.append)
    assert "team" in plain.server.projects


def test_a_department_with_a_project_of_others_is_not_deleted(plain: RunaiWorld) -> None:
    plain.apply()
    department = plain.server.lists[DEPARTMENTS][1]["id"]
    plain.server.lists[PROJECTS].append(plain.server.unit("by-hand", parentId=department))
    plain.write(PLAIN.replace("research", "other"))
    (said, _) = next(
        (", ".join(c.details), c.remedy) for c in plain.plan().refused if c.kind == "Department"
    )
    assert said == "no longer in the site, but has project by-hand"


def test_deletions_are_watched_to_their_end(plain: RunaiWorld) -> None:
    plain.server.deleted = 202
    plain.apply()
    plain.write(PLAIN.replace("name: team", "name: other"))
    pending = [3]

    def finish() -> None:
        pending[0] -= 1
        if pending[0] == 0:
            there = plain.server.lists[PROJECTS]
            there[:] = [one for one in there if one.get("status", {}).get("phase") != "Deleting"]

    with plain.client() as client:
        prepared, applying = plain.prepare(client)
        assert steps(prepared.plan)[-1] == "delete Project team"

        def sleep(seconds: float) -> None:
            plain.now += seconds
            finish()

        applying._sleep = sleep
        applying.run(plain.lines.append)
    assert plain.now == 6.0
    assert list(plain.server.projects) == ["other"]


def test_a_deletion_that_never_ends_is_reported_and_found_again(plain: RunaiWorld) -> None:
    plain.server.deleted = 202
    plain.apply()
    plain.write(PLAIN.replace("name: team", "name: other"))
    with pytest.raises(RunaiFailed, match="Project team is Deleting after 20 s") as failed:
        plain.apply()
    assert "Connected" in failed.value.hint
    assert steps(plain.plan()) == ["delete Project team"]
    plain.write(PLAIN)
    assert refusal(plain.plan())[0] == "is being deleted"


def test_a_project_that_does_not_become_ready_is_reported(plain: RunaiWorld) -> None:
    plain.server.phase = "Creating"
    with pytest.raises(RunaiFailed) as failed:
        plain.apply()
    assert failed.value.message == (
        "Department research is Creating after 20 s (the agent is away)"
    )
    for one in plain.server.lists[DEPARTMENTS]:
        one["status"] = {"phase": "Ready"}
    with pytest.raises(RunaiFailed, match="Project team is Creating"):
        plain.apply()
    plain.server.projects["team"]["status"]["phase"] = "Ready"
    assert plain.apply() == 1
    assert plain.plan().changes == ()


def test_many_projects_are_awaited_by_a_list(plain: RunaiWorld) -> None:
    plain.write(many(30))
    plain.apply()
    reads = [path for method, path, _ in plain.server.seen if method == "GET"]
    assert len(reads) < 30


def many(count: int, quota: float = 0.01) -> str:
    """A tree of so many projects with a member each."""
    projects = "".join(
        f"    - {{name: p-{n:04}, department: d-{n % 7}, users: [u-{n}], queues: [{{name: train, gpu: {{quota: {quota}}}}}]}}\n"
        for n in range(count)
    )
    departments = ", ".join(f"{{name: d-{n}}}" for n in range(7))
    return f"  sharing: unenforced\n  departments: [{departments}]\n  projects:\n{projects}"


def test_a_created_object_that_another_client_made_is_compared(plain: RunaiWorld) -> None:
    with plain.client() as client:
        _, applying = plain.prepare(client)
        plain.server.lists[PROJECTS].append(plain.server.unit("team"))
        with pytest.raises(
            RunaiFailed, match="another client created it, and it differs"
        ) as failed:
            applying.run(plain.lines.append)
    assert "appliance queue plan" in failed.value.hint
    assert len(plain.server.projects) == 1


def test_what_was_changed_since_the_plan_is_read_again(plain: RunaiWorld) -> None:
    plain.apply()
    plain.server.projects["team"]["resources"][0]["gpu"]["deserved"] = 1
    with plain.client() as client:
        _, applying = plain.prepare(client)
        plain.server.projects["team"]["resources"][0]["gpu"]["deserved"] = 8
        plain.server.seen.clear()
        applying.run(plain.lines.append)
    assert plain.server.changes() == []


def test_the_refusal_of_one_project_does_not_stop_the_others(
    plain: RunaiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.write(many(3))
    real = Runai.create

    def create(self: Runai, path: str, doing: str, *more: Any) -> tuple[Document, bool]:
        if doing == "create project p-0001":
            raise RunaiFailed(f"{doing}: no (HTTP 400)", "why", 400)
        return real(self, path, doing, *more)

    monkeypatch.setattr(Runai, "create", create)
    with pytest.raises(RunaiFailed) as failed:
        plain.apply()
    # Its member is the other.
    assert failed.value.message == "create project p-0001: no (HTTP 400); and 1 more"
    assert sorted(plain.server.projects) == ["p-0000", "p-0002"]
    monkeypatch.undo()
    assert steps(plain.plan()) == ["create Project p-0001", "create AccessRule user u-1 in p-0001"]


@pytest.mark.parametrize("fault", [reset, lost, status(503)])
def test_no_fault_makes_a_duplicate(plain: RunaiWorld, fault: Callable[..., None]) -> None:
    plain.plan()
    reads = len(plain.server.seen)
    plain.server.seen.clear()

    def each(handler: Any) -> None:
        if handler.command == "POST":
            fault(handler)
        else:
            handler._get(handler.path.split("?")[0], {}, None)

    # The department, a look whether it was created, and so on.
    plain.server.faults.extend([None] * reads + [each])
    plain.apply()
    assert [one["name"] for one in plain.server.lists[DEPARTMENTS]] == ["default", "research"]
    assert len(plain.server.lists[PROJECTS]) == 1
    assert len(plain.server.lists[RULES]) == 1
    assert plain.plan().changes == ()


class Killed(BaseException):
    """The process ends here."""


def test_a_run_that_is_killed_at_any_request_is_finished_by_the_next(
    world: RunaiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Runai._once
    count = 0
    while True:
        left = [count]

        def once(self: Runai, *given: Any, left: list[int] = left) -> Any:
            answer = real(self, *given)
            if given[0] != "GET" and "token" not in given[1]:
                left[0] -= 1
                if left[0] < 0:
                    # After the control plane did it, before this program knows.
                    raise Killed
            return answer

        monkeypatch.setattr(Runai, "_once", once)
        try:
            world.apply()
            break
        except Killed:
            count += 1
        monkeypatch.setattr(Runai, "_once", real)
        world.apply()
        for path in (POOLS, DEPARTMENTS, PROJECTS):
            names = [one["name"] for one in world.server.lists[path]]
            assert len(set(names)) == len(names)
        assert len(world.server.lists[RULES]) == 2
        assert world.plan().changes == ()
        for path in (POOLS, DEPARTMENTS):
            del world.server.lists[path][1:]
        world.server.lists[PROJECTS].clear()
        world.server.lists[RULES].clear()
    assert count == 6


def test_1200_projects_are_planned_in_pages(plain: RunaiWorld) -> None:
    plain.write(many(1200))
    assert plain.apply() == 7 + 1200 + 1200
    plain.server.seen.clear()
    victim = plain.server.projects["p-0777"]
    pending = [True]

    def change() -> None:
        if pending and "org-unit/projects" in plain.server.seen[-1][1]:
            pending.clear()
            victim["resources"][0]["gpu"]["deserved"] = 3

    plain.server.between = change
    made = plain.plan()
    assert details(made) == {"p-0777": ("GPU quota 3 GPUs → 0.01 GPUs",)}
    assert made.unchanged == 7 + 1200 + 1200 - 1
    assert len(plain.server.seen) <= 20


@pytest.mark.parametrize(
    ("path", "entries", "message", "hint"),
    [
        ("/api/v1/clusters", [], "no cluster acme: no cluster is registered", "register"),
        (
            "/api/v1/clusters",
            [{"uuid": "1", "name": "b"}],
            "has no cluster acme: it has b",
            "scheduler.runai.cluster",
        ),
        (POOLS, [], "no default node pool", "Connected"),
        ("/api/v2/authorization/roles", [{"id": 1, "name": "Viewer"}], "it has Viewer", "role"),
        ("/api/v1/org-unit/ranks", [{"name": "High"}], "no rank MediumLow; it has High", "ranks"),
    ],
)
def test_what_the_control_plane_lacks_is_one_line(
    plain: RunaiWorld, path: str, entries: list[Document], message: str, hint: str
) -> None:
    plain.server.lists[path] = entries
    with pytest.raises(RunaiFailed) as failed:
        plain.plan()
    assert message in failed.value.message
    assert hint in failed.value.hint


def test_a_host_that_is_missing_is_refused(world: RunaiWorld) -> None:
    del world.api.store["/api/v1/nodes/gpu-1"]
    assert refusal(world.plan())[0] == "the cluster has no such node"


def test_a_host_that_left_its_pool_loses_the_label(world: RunaiWorld) -> None:
    world.apply()
    label = {"appliance/node-pool": "interactive"}
    world.api.store["/api/v1/nodes/gpu-2"]["metadata"]["labels"] = dict(label)
    assert details(world.plan()) == {"gpu-2": ("label appliance/node-pool interactive → -",)}
    world.apply()
    assert world.api.store["/api/v1/nodes/gpu-2"]["metadata"]["labels"] == {}


def test_ranks_are_spelled_as_the_control_plane_spells_them(plain: RunaiWorld) -> None:
    plain.server.lists["/api/v1/org-unit/ranks"] = [{"name": name.lower()} for name in RANKS]
    plain.apply()
    assert plain.server.projects["team"]["resources"][0]["rank"] == "mediumlow"
    assert plain.plan().changes == ()
