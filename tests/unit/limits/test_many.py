"""Many projects: what a round asks does not grow with them, and what is wrong in one is no other's matter."""

import pytest

from appliance.limits.owners import FEW
from appliance.limits.trouble import Trouble
from tests.support.limits_world import SPACE, World, status

MANY = FEW + 5
ODD = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "many"}}}]}
JOB = ("batch/v1", "Job")


def project(world: World, number: int, age: float = 1) -> None:
    """A namespace with a Job, a Deployment and pods of both."""
    space, name = f"kai-{number}", str(number)
    world.space(space)
    world.queues(space, build={"timeLimit": "8h"})
    world.owner("jobs", *JOB, name, space=space)
    world.owner("deployments", "apps/v1", "Deployment", name, space=space)
    above = ("apps/v1", "Deployment", name)
    world.owner("replicasets", "apps/v1", "ReplicaSet", name, space=space, owner=above)
    world.pod(f"job-{name}", age=age, space=space, owner=(*JOB, name))
    world.pod(f"web-{name}", age=age, space=space, owner=("apps/v1", "ReplicaSet", name))


def asked(world: World) -> list[str]:
    """What a round asks for, by path."""
    world.server.seen.clear()
    world.rounds(0.5)
    return [path for _, path, _ in world.server.seen]


def test_requests_of_a_round_do_not_grow_with_the_number_of_projects(world: World) -> None:
    """With two for each project, and one for each Job at first, three rounds of 200 projects took over two minutes."""
    counts = []
    for first, last in ((0, MANY), (MANY, 3 * MANY)):
        for number in range(first, last):
            project(world, number)
        counts.append((len(asked(world)), len(asked(world))))
    assert world.round()["pods"] == 6 * MANY
    assert counts[0] == counts[1], counts
    known = ["/api/v1/namespaces", "/api/v1/pods"]
    assert [path for path in asked(world) if path in known] == known


def test_owners_that_are_many_are_read_in_one_list_and_ended_as_such(world: World) -> None:
    for number in range(MANY):
        project(world, number, age=100 if number == 7 else 1)
    paths = asked(world)
    for plural in ("batch/v1/jobs", "apps/v1/replicasets", "apps/v1/deployments"):
        assert paths.count(f"/apis/{plural}") == 1
    assert not [path for path in paths if path.startswith("/apis/apps/v1/namespaces/")]
    world.rounds(16)
    ended = sorted(path for _, path, _ in world.changes)
    assert ended == [
        "/apis/apps/v1/namespaces/kai-7/deployments/7/scale",
        "/apis/batch/v1/namespaces/kai-7/jobs/7",
    ]


def test_who_bears_the_uid_of_another_projects_owner_is_left_alone(world: World) -> None:
    """A member may write any owner of kind Pod; in a list it must be the one of that name, there."""
    for number in range(MANY):
        project(world, number)
        world.pod(f"of-{number}", age=1, space=f"kai-{number}", owner=("v1", "Pod", f"x-{number}"))
    path = world.owner("pods", "v1", "Pod", "x-0", space="kai-1")
    world.server.store[path] |= {"status": {"phase": "Running"}}
    paths, seen = asked(world), world.keeper.seen
    assert not [path for path in paths if "/pods/" in path], "those that are gone are asked for"
    assert "Pod kai-0/of-0: its Pod x-0 no longer exists" in seen["doubts"]
    assert seen["unknown"]["any"] == MANY


def test_the_uid_of_an_owner_beside_another_name_hides_no_work_from_its_limit(world: World) -> None:
    """A member knows the UIDs of his own Jobs, and may write them on any pod of his."""
    for number in range(MANY):
        project(world, number, age=100 if number == 7 else 1)
    path = world.pod("zz", age=1, space="kai-7", owner=(*JOB, "other"))
    world.server.store[path]["metadata"]["ownerReferences"][0]["uid"] = "uid-Job-7"
    world.rounds(16)
    assert "/apis/batch/v1/namespaces/kai-7/jobs/7" in [path for _, path, _ in world.changes]
    assert "Pod kai-7/zz: its Job other no longer exists" in world.keeper.seen["doubts"]


def test_pods_of_nobodys_project_are_left_alone(world: World) -> None:
    world.space("kube-system")
    world.pod("late", age=100, space="kube-system")
    world.pod("ours", age=100)
    assert world.rounds(1)["pods"] == 1
    world.rounds(15)
    assert [path for _, path, _ in world.changes] == [f"/api/v1/namespaces/{SPACE}/pods/ours"]


def test_a_project_whose_namespace_is_gone_keeps_no_other_from_its_limits(world: World) -> None:
    world.queues("kai-gone", build={"timeLimit": "8h"})
    world.pod("late", age=100)
    world.rounds(16)
    assert len(world.changes) == 1


def test_a_pod_nobody_can_read_leaves_its_project_alone_and_no_other(world: World) -> None:
    project(world, 1, age=100)
    world.pod("odd", age=100, space="kai-1", spec=ODD)
    world.pod("late", age=100)
    for _ in range(34):
        world.wall, world.steady = world.wall + 30, world.steady + 30
        with pytest.raises(Trouble, match="a pod that this program cannot read"):
            world.round()
    assert [path for _, path, _ in world.changes] == [f"/api/v1/namespaces/{SPACE}/pods/late"]


@pytest.mark.parametrize("path", ["/api/v1/pods", "/apis/batch/v1/jobs"])
def test_a_right_that_is_not_there_yet_ends_nothing_and_is_said(world: World, path: str) -> None:
    """As between a new release's deployment and its appliance queue apply."""
    for number in range(MANY):
        project(world, number, age=100)
    world.server.faults.extend([("GET", path, status(403, "is forbidden"))] * 40)
    for _ in range(34):
        world.wall, world.steady = world.wall + 30, world.steady + 30
        with pytest.raises(Trouble, match=f"GET {path}: is forbidden"):
            world.round()
    assert world.changes == []
