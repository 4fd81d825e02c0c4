"""Work over its limit is warned, then ended so that it stays ended; nothing unknown ends anything."""

import pytest

from appliance.limits import pods
from appliance.limits.trouble import Trouble
from tests.support.limits_world import SPACE, World, hang, status

JOB = ("batch/v1", "Job", "train")
GRACIOUS = {"terminationGracePeriodSeconds": 300}


def idle(_: float) -> float:
    return 0.0


def busy(_: float) -> float:
    return 40.0


def test_interactive_work_is_warned_and_then_ended(world: World) -> None:
    path = world.owner("statefulsets", "apps/v1", "StatefulSet", "notebook", replicas=1)
    world.pod("notebook-0", age=7.7, owner=("apps/v1", "StatefulSet", "notebook"))
    world.use("notebook-0", busy)
    world.rounds(1)
    assert (world.said, world.changes) == ([], [])
    world.rounds(4)
    assert {reason for _, reason, _ in world.said} == {"LimitNear"}
    assert {kind for kind, _, _ in world.said} == {"Pod", "StatefulSet"}
    assert "reaches its time limit of 8 h and ends in about 15 min" in world.said[0][2]
    assert world.changes == []
    world.rounds(13.5)
    assert world.changes == [("PATCH", f"{path}/scale", {"spec": {"replicas": 0}})]
    assert "kubectl scale --replicas=1" in world.said[-1][2]
    assert world.keeper.totals == {"time": 1, "idle": 0}


def test_a_warning_was_always_given_its_time(world: World) -> None:
    """Work that is over its limit long since, as after the program was away, is warned first, too."""
    world.pod("old", age=100)
    world.rounds(14)
    assert [reason for _, reason, _ in world.said] == ["LimitNear"]
    assert world.changes == []
    world.rounds(3)
    assert [(method, path.rsplit("/", 1)[-1]) for method, path, _ in world.changes] == [
        ("DELETE", "old")
    ]


def test_what_was_said_of_work_that_is_gone_is_forgotten(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cluster of 10,000 pods has other ones every day, and the program runs for years."""
    world.pod("stays", age=100)
    world.pod("doubtful", age=100, status={"phase": "Running", "startTime": "noon"})
    for number in range(20):
        path = world.pod(f"comes-{number}", age=100)
        world.rounds(0.5)
        del world.server.store[path]
    world.rounds(1)
    said = capsys.readouterr().err
    assert len(world.keeper._journal._said) < 5
    assert said.count(f"Pod {SPACE}/comes-7: ") == 1
    assert said.count(f"Pod {SPACE}/stays: ") == 1
    assert said.count(f"Pod {SPACE}/doubtful: ") == 1


def test_a_job_ends_by_its_deadline_and_stays_to_be_read(world: World) -> None:
    path = world.owner("jobs", "batch/v1", "Job", "train", owner=("batch/v1", "CronJob", "nightly"))
    world.pod("train-x", age=100, owner=JOB)
    world.rounds(16)
    change = {"metadata": {"uid": "uid-Job-train"}, "spec": {"activeDeadlineSeconds": 1}}
    assert world.changes == [("PATCH", path, change)]


def test_a_deployment_is_ended_and_not_its_replica_set(world: World) -> None:
    path = world.owner("deployments", "apps/v1", "Deployment", "serve", replicas=3)
    world.owner(
        "replicasets", "apps/v1", "ReplicaSet", "serve-1", owner=("apps/v1", "Deployment", "serve")
    )
    for name in ("a", "b", "c"):
        world.pod(name, age=9, owner=("apps/v1", "ReplicaSet", "serve-1"))
    world.rounds(16)
    assert world.changes == [("PATCH", f"{path}/scale", {"spec": {"replicas": 0}})]


def test_a_deployment_that_has_pods_in_a_queue_without_a_limit_too_is_left_alone(
    world: World,
) -> None:
    """As while its template is moved from one queue to another."""
    world.owner("deployments", "apps/v1", "Deployment", "serve", replicas=2)
    for version, queue in (("serve-1", "lattice-build"), ("serve-2", "lattice-open")):
        above = ("apps/v1", "Deployment", "serve")
        world.owner("replicasets", "apps/v1", "ReplicaSet", version, owner=above)
        world.pod(version, age=9, queue=queue, owner=("apps/v1", "ReplicaSet", version))
    assert world.rounds(16)["unknown"]["any"] == 1
    assert world.changes == []


def test_idle_work_ends_and_busy_work_does_not(world: World) -> None:
    world.pod("idle", age=3)
    world.use("idle", idle)
    world.pod("busy", age=3)
    world.use("busy", lambda ago: 90.0 if 600 < ago < 700 else 0.0)
    world.rounds(4)
    assert [path.rsplit("/", 1)[-1] for _, path, _ in world.changes] == ["idle"]
    assert world.keeper.totals == {"time": 0, "idle": 1}


def test_a_workload_is_idle_when_all_its_gpus_are(world: World) -> None:
    world.owner("jobs", "batch/v1", "Job", "train")
    for pod, use in (("train-0", idle), ("train-1", busy)):
        world.pod(pod, age=5, queue="lattice-train", owner=JOB)
        world.use(pod, use)
    world.rounds(20)
    assert (world.changes, world.said) == ([], [])


def test_mig_instances_are_judged_by_their_engines(world: World) -> None:
    world.pod("slice", age=5, resource="nvidia.com/mig-1g.10gb")
    world.use("slice", idle, GPU_I_ID="7", metric="DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    world.pod("active", age=5, resource="nvidia.com/mig-1g.10gb")
    world.use("active", lambda _: 0.3, GPU_I_ID="8", metric="DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    world.rounds(4)
    assert [path.rsplit("/", 1)[-1] for _, path, _ in world.changes] == ["slice"]


def test_labels_an_exporter_in_the_cluster_gives_are_read(world: World) -> None:
    world.pod("idle", age=5)
    mine = {"exported_pod": "idle", "exported_namespace": SPACE, "namespace": "gpu-operator"}
    world.use("dcgm-exporter-x", idle, **mine)
    world.rounds(4)
    assert len(world.changes) == 1


@pytest.mark.parametrize("port", ["", ":9400"])
def test_a_host_reports_on_no_pod_of_another_host(world: World, port: str) -> None:
    """Where the exporter of the pod's own host is silent, nobody else may call the pod idle, or busy."""
    status = {"phase": "Running", "startTime": "2026-09-01T00:00:00Z", "hostIP": "10.0.0.11"}
    for name, node in (("quiet", "gpu-1"), ("idle", "gpu-1"), ("foreign", "gpu-2")):
        world.pod(name, age=9, spec={"nodeName": node}, status=status)
    world.pod("proxy", age=9, space="kube-system", queue="", gpus=0, spec={"nodeName": "gpu-2"})
    world.use("quiet", idle, instance=f"gpu-2{port}")
    world.use("idle", idle, instance=f"gpu-1{port}")
    world.use("idle", busy, instance=f"gpu-2{port}", gpu="1")
    world.use("foreign", idle, instance=f"gpu-2{port}")
    seen = world.rounds(4)
    assert sorted(path.rsplit("/", 1)[-1] for _, path, _ in world.changes) == ["foreign", "idle"]
    assert seen["unknown"]["idle"] == 1


@pytest.mark.parametrize(
    ("gpus", "use", "why"),
    [
        (1, None, "metrics of 0 of its 1 GPUs"),
        (2, idle, "metrics of 1 of its 2 GPUs"),
        (1, lambda ago: None if 300 <= ago < 400 else 0.0, "a gap 300 s ago"),
        (1, lambda ago: 0.0 if ago > 120 else None, "a gap 0 s ago"),
        (1, lambda ago: float("nan") if ago == 60 else 0.0, "a gap 60 s ago"),
    ],
    ids=["none", "part", "gap", "stale", "nan"],
)
def test_work_with_unknown_use_is_left_alone(
    world: World, capsys: pytest.CaptureFixture[str], gpus: int, use: object, why: str
) -> None:
    world.pod("puzzle", age=7, gpus=gpus)
    if callable(use):
        world.use("puzzle", use)
    seen = world.rounds(20)
    assert (world.changes, seen["unknown"]["idle"]) == ([], 1)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert why in lines[0]


@pytest.mark.parametrize(
    "mark", ["gpu-fraction", "gpu-memory", "nvidia.com/container.main.gpu-memory.request"]
)
def test_a_part_of_a_gpu_is_left_alone(world: World, mark: str) -> None:
    world.pod("part", age=7, gpus=0, annotations={mark: "0.5"})
    assert world.rounds(20)["unknown"]["idle"] == 1
    assert world.changes == []


@pytest.mark.parametrize(
    "fault",
    [status(500, "out of memory"), status(200, "no matrix"), lambda h: h.answer(200, b"<html>")],
    ids=["500", "odd", "page"],
)
def test_prometheus_out_of_order_ends_nothing_and_keeps_time_limits(
    world: World, fault: object
) -> None:
    world.pod("idle", age=3)
    world.use("idle", idle)
    world.pod("late", age=100)
    for _ in range(200):
        world.server.faults.append(("GET", "query_range", fault))  # type: ignore[arg-type]
    seen = world.rounds(16)
    assert [path.rsplit("/", 1)[-1] for _, path, _ in world.changes] == ["late"]
    assert "Prometheus" in seen["metrics"]


def test_a_partial_answer_of_prometheus_is_none(world: World) -> None:
    world.pod("idle", age=3)
    world.use("idle", idle)
    world.server.warnings = ["a store did not answer"]
    assert "a store did not answer" in world.rounds(16)["metrics"]
    assert world.changes == []


def test_clocks_that_differ_end_nothing(world: World) -> None:
    world.pod("late", age=100)
    world.server.skew = 90
    with pytest.raises(Trouble, match="clock of the API server differs by 90 s"):
        world.rounds(16)
    assert world.changes == []


def test_a_clock_that_jumps_costs_a_round_and_no_work(world: World) -> None:
    world.pod("young", age=1)
    world.use("young", busy)
    world.rounds(1)
    world.wall += 20 * 3600
    with pytest.raises(Trouble, match="clock jumped"):
        world.round()
    world.wall -= 20 * 3600
    with pytest.raises(Trouble, match="clock jumped"):
        world.round()
    world.rounds(16)
    assert world.changes == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"status": {"phase": "Running"}}, "runs without a start time"),
        ({"status": {"phase": "Running", "startTime": "tomorrow"}}, "tomorrow is no date"),
        ({"age": -2}, "starts in the future"),
        ({"owner": ("kubeflow.org/v1", "PyTorchJob", "x")}, "which this program does not support"),
        ({"owner": ("batch/v1?x", "Job", "x")}, "which this program does not support"),
    ],
    ids=["no-start", "odd-start", "future", "foreign-owner", "odd-version"],
)
def test_work_nobody_can_judge_is_left_alone(
    world: World, capsys: pytest.CaptureFixture[str], given: dict[str, object], told: str
) -> None:
    world.pod("puzzle", **{"age": 100, "gpus": 0, **given})  # type: ignore[arg-type]
    seen = world.rounds(20)
    assert world.changes == []
    assert sum(seen["unknown"].values()) > 0
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("name", ["served/log", "../../secrets/x", "x?watch=1", "..", "X"])
def test_an_owner_that_a_member_made_up_keeps_no_limit_from_being_kept(
    world: World, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """What the server refuses to tell, as a pod's log, would end the round for everybody."""
    world.pod("forged", age=100, owner=("v1", "Pod", name))
    world.pod("late", age=100)
    world.server.faults.extend([("GET", "/log", status(403, "pods/log is forbidden"))] * 40)
    world.rounds(16)
    assert sorted(path.rsplit("/", 1)[-1] for _, path, _ in world.changes) == ["forged", "late"]
    assert not [path for _, path, _ in world.server.seen if "served" in path or ".." in path]
    assert "its Pod has an invalid name" in capsys.readouterr().err


def test_the_uid_of_a_known_owner_beside_a_name_that_none_can_have_keeps_no_limit_from_being_kept(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.owner("jobs", "batch/v1", "Job", "real")
    world.pod("first", age=1, owner=("batch/v1", "Job", "real"))
    world.round()
    path = world.pod("forged", age=100, owner=("batch/v1", "Job", "real/log"))
    world.server.store[path]["metadata"]["ownerReferences"][0]["uid"] = "uid-Job-real"
    world.pod("late", age=100)
    world.server.faults.extend([("GET", "/log", status(403, "jobs/log is forbidden"))] * 40)
    world.rounds(16)
    assert sorted(path.rsplit("/", 1)[-1] for _, path, _ in world.changes) == ["forged", "late"]
    assert "its Job has an invalid name" in capsys.readouterr().err


def test_a_pod_whose_owner_is_gone_is_ended_by_itself(world: World) -> None:
    world.pod("puzzle", age=100, owner=JOB)
    world.rounds(16)
    assert [path for _, path, _ in world.changes] == [f"/api/v1/namespaces/{SPACE}/pods/puzzle"]


@pytest.mark.parametrize("length", [2, 8], ids=["a-circle", "a-long-chain"])
def test_pods_that_own_each_other_are_ended_one_by_one(world: World, length: int) -> None:
    """A member may write a pod of his as the owner of another, where no policy refuses it."""
    for number in range(length):
        above = f"p{(number + 1) % length}"
        path = world.pod(f"p{number}", age=100, owner=("v1", "Pod", above))
        world.server.store[path]["metadata"]["uid"] = f"uid-Pod-p{number}"
    world.rounds(16)
    ended = {path.rsplit("/", 1)[-1] for _, path, _ in world.changes}
    assert ended == {f"p{number}" for number in range(length)}


def test_a_pod_deleted_with_a_grace_of_a_year_is_ended_at_its_limit(world: World) -> None:
    """The Job's controller deletes no pod that is on its way out already."""
    world.owner("jobs", "batch/v1", "Job", "train")
    for name, grace, spec in (("year", 31_536_000, {}), ("own", 300, GRACIOUS), ("soon", 30, {})):
        path = world.pod(name, age=100, owner=JOB, spec=spec)
        leaving = {"deletionTimestamp": "2099-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}
        world.server.store[path]["metadata"] |= leaving
    world.rounds(16)
    deleted = [
        (path.rsplit("/", 1)[-1], body) for how, path, body in world.changes if how == "DELETE"
    ]
    assert deleted == [
        ("year", {"preconditions": {"uid": "uid-year"}, "gracePeriodSeconds": 30}),
    ]


def test_pods_that_a_stateful_set_keeps_go_with_it(world: World) -> None:
    """Scaled down, it waits for each pod to be ready before it deletes the one below."""
    path = world.owner("statefulsets", "apps/v1", "StatefulSet", "db", replicas=2)
    for name in ("db-0", "db-1"):
        world.pod(name, age=100, owner=("apps/v1", "StatefulSet", "db"))
    world.rounds(16)
    assert [path.rsplit("/", 1)[-1] for _, path, _ in world.changes] == ["scale"]
    world.server.store[path]["spec"]["replicas"] = 2
    world.rounds(3)
    ended = [path.rsplit("/", 1)[-1] for _, path, _ in world.changes]
    assert ended == ["scale", "scale", "db-0", "db-1"]


def test_administrators_exempt_work_and_members_cannot(world: World) -> None:
    world.pod("mine", age=100, annotations={"appliance/limits-exempt": "*"})
    world.pod("theirs", age=100)
    notes = {"appliance/limits-exempt": "theirs, others"}
    meta = {"name": SPACE, "annotations": notes}
    world.server.put(f"/api/v1/namespaces/{SPACE}", {"metadata": meta})
    world.rounds(20)
    assert [path.rsplit("/", 1)[-1] for _, path, _ in world.changes] == ["mine"]


def test_the_queue_may_stand_on_the_owner(world: World) -> None:
    world.owner("jobs", "batch/v1", "Job", "train", labels={"kai.scheduler/queue": "lattice-build"})
    world.pod("train-x", age=100, queue="", owner=JOB)
    world.pod("free", age=100, queue="")
    world.pod("other", age=100, queue="somebody-else")
    world.rounds(16)
    assert [path.rsplit("/", 1)[-1] for _, path, _ in world.changes] == ["train"]


def test_a_pod_of_a_pod_counts_in_the_queue_of_its_owner(world: World) -> None:
    """The account of Spark's drivers may write such owners, and KAI reads their queue."""
    path = world.pod("driver", age=1)
    world.server.store[path]["metadata"]["uid"] = "uid-Pod-driver"
    world.pod("executor", age=100, queue="lattice-train", owner=("v1", "Pod", "driver"))
    world.pod("alone", age=100, queue="lattice-train")
    world.rounds(16)
    assert [path.rsplit("/", 1)[-1] for _, path, _ in world.changes] == ["driver"]


def test_a_dry_run_warns_and_ends_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.pod("late", age=100)
    world.rounds(20, world.program("head", dry_run=True))
    assert world.changes == []
    assert [(reason, "dry run" in words) for _, reason, words in world.said] == [
        ("LimitNear", True)
    ]
    assert (
        "has reached its time limit of 8 h, but is not ended (dry run)" in capsys.readouterr().err
    )


def test_what_could_not_be_warned_is_not_ended(world: World) -> None:
    world.pod("late", age=100)
    for _ in range(34):
        world.server.faults.append(("POST", "/events", status(403, "events is forbidden")))
    for _ in range(34):
        world.wall, world.steady = world.wall + 30, world.steady + 30
        with pytest.raises(Trouble, match="events is forbidden"):
            world.round()
    assert world.changes == []


def test_one_refusal_does_not_keep_others_from_their_limit(world: World) -> None:
    world.pod("a", age=100)
    world.pod("b", age=100)
    world.rounds(14)
    world.server.faults.append(("DELETE", "/pods/a", status(403, "forbidden")))
    with pytest.raises(Trouble, match="forbidden"):
        world.rounds(3)
    assert [path.rsplit("/", 1)[-1] for _, path, _ in world.changes] == ["a", "b"]


def test_what_does_not_go_is_told_again_and_counted(world: World) -> None:
    world.owner("jobs", "batch/v1", "Job", "train")
    world.pod("train-x", age=100, owner=JOB)
    seen = world.rounds(24)
    assert seen["stuck"] == 1
    assert 2 <= len(world.changes) <= 5
    assert world.keeper.totals["time"] == 1


def test_of_two_programs_one_acts_and_the_other_follows(world: World) -> None:
    other = world.program("head-2")
    assert world.round()["leader"]
    seen = world.round(other)
    assert (seen["leader"], seen["holder"]) == (False, "head")
    world.rounds(1, other)
    world.rounds(1)
    assert not world.round(other)["leader"]
    assert world.rounds(3, other)["leader"]
    assert not world.round()["leader"]


def test_of_two_that_take_the_lease_at_once_one_gets_it(world: World) -> None:
    world.server.faults.append(("PUT", "/leases", status(409, "modified")))
    assert world.round()["leader"]
    assert not world.rounds(0.5)["leader"]
    assert world.rounds(0.5)["leader"]


@pytest.mark.parametrize("code", [429, 500, 503])
def test_an_api_that_is_busy_is_asked_again(world: World, code: int) -> None:
    world.server.faults.append(("GET", "/pods", status(code, "busy", Retry_After="1")))
    world.pod("a", age=1)
    assert world.round()["pods"] == 1


def test_a_token_that_expired_is_one_line(world: World) -> None:
    world.server.faults.append(("GET", "/leases", status(401, "Unauthorized")))
    with pytest.raises(Trouble, match=r"rejected the token in .*kubeconfig"):
        world.round()


def test_an_api_that_hangs_is_left_in_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.limits.web.SECONDS", 0.2)
    for _ in range(3):
        world.server.faults.append(("GET", "/leases", hang))
    with pytest.raises(Trouble, match="did not answer in"):
        world.round()


def test_a_pod_that_came_after_under_the_same_name_is_not_deleted(world: World) -> None:
    path = world.pod("late", age=100)
    world.rounds(15)
    world.server.faults.append(
        ("DELETE", "/pods/late", lambda h: h.answer(409, {"message": "the UID is another"}))
    )
    with pytest.raises(Trouble, match="the UID is another"):
        world.rounds(1)
    assert path in world.server.store


def test_metrics_that_failed_for_one_limit_are_not_well_because_another_was_told(
    world: World,
) -> None:
    """Each length of time is a question of its own; the shortest is asked first."""
    world.owner("jobs", "batch/v1", "Job", "train")
    world.pod("train-0", age=5, queue="lattice-train", owner=JOB)
    world.server.faults.append(("GET", "query_range", status(500)))
    assert "HTTP 500" in world.round()["metrics"]


def test_gpus_of_sidecars_count_and_those_of_what_ran_before_do_not() -> None:
    def box(gpus: int, **more: str) -> dict[str, object]:
        return {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}, **more}

    spec = {"containers": [box(1)], "initContainers": [box(4), box(2, restartPolicy="Always")]}
    found = pods.pod({"metadata": {"name": "served"}, "spec": spec})
    assert found is not None
    assert found.gpus == 3
