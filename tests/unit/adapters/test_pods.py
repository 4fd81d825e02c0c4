"""Programs on hosts of Kubernetes: as Jobs of its scheduler, bounded, taken away, and told from hosts that are at work."""

from ipaddress import IPv4Address

import pytest

from appliance.adapters.kubernetes import Ref
from appliance.adapters.pods import (
    KAI,
    LOST,
    QUEUE_LABEL,
    START_SECONDS,
    OtherGpus,
    PodRemote,
    PodTemplate,
    PodWork,
    job,
)
from appliance.adapters.process import Completed
from appliance.benchmarks.hpcc import run as hpcc
from appliance.benchmarks.jobs import HostAccess, Task, Trouble, on_each
from appliance.checks.check import View
from appliance.errors import ClusterFailed, ConnectionFailed, DeadlineExceeded
from appliance.models.result import Status
from appliance.models.site import Host, Owner, Role
from appliance.stages.kubernetes.site import KubernetesOptions
from tests.support.batches import answer
from tests.support.benchmark_view import VIEW
from tests.support.facts import facts_of
from tests.support.fake_pods import PENDING, PLAIN, Beside, Cluster, Resource, Time
from tests.support.hpcc_output import REAL, as_asked


def remote(cluster: Cluster, way: PodTemplate = PLAIN) -> PodRemote:
    time = Time()
    hosts = frozenset({"gpu-1", "gpu-2", "gone"})
    return PodRemote(Beside(), cluster, hosts, way, now=time.now, sleep=time.sleep)


def test_a_program_runs_as_a_job_on_its_host_and_leaves_nothing() -> None:
    cluster = Cluster()
    done = remote(cluster).run("gpu-1", ["sh", "-c", "echo hello; exit 3"], timeout=90)
    assert (done.returncode, done.stdout) == (3, "hello\n")
    (job,) = [r for r in cluster.applied if r["kind"] == "Job"]
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"kubernetes.io/hostname": "gpu-1"}
    assert pod["containers"][0]["command"][:2] == ["chroot", "/host"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (0, 151)
    assert spec["ttlSecondsAfterFinished"] > 0
    assert pod["automountServiceAccountToken"] is False
    assert pod["containers"][0]["securityContext"] == {"runAsUser": 0, "privileged": True}
    assert [ref.name for ref in cluster.deleted] == [job["metadata"]["name"]]


@pytest.mark.parametrize(("gpus", "asked"), [("8", "8"), ("0", None), ("", None)])
def test_it_takes_all_gpus_of_the_host_so_that_nobody_works_beside_it(
    gpus: str, asked: str | None
) -> None:
    cluster = Cluster(gpus=gpus)
    remote(cluster).run("gpu-1", ["true"])
    resources = cluster.applied[-1]["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources["requests"].get("nvidia.com/gpu") == asked
    assert resources["limits"].get("nvidia.com/gpu") == asked


def test_with_a_queue_it_is_kais_work() -> None:
    cluster = Cluster()
    remote(cluster, PodTemplate("busybox:1", "team-a")).run("gpu-1", ["true"])
    job = cluster.applied[-1]
    template = job["spec"]["template"]
    assert template["spec"]["schedulerName"] == KAI
    for labels in (job["metadata"]["labels"], template["metadata"]["labels"]):
        assert labels[QUEUE_LABEL] == "team-a"
    cluster = Cluster()
    remote(cluster).run("gpu-1", ["true"])
    assert "schedulerName" not in cluster.applied[-1]["spec"]["template"]["spec"]


def test_hosts_of_others_and_what_needs_an_input_go_beside() -> None:
    cluster = Cluster()
    door = remote(cluster)
    assert door.run("gpu-9", ["true"]).stdout == "by ssh\n"
    assert door.run("gpu-1", ["cat"], input=b"x").stdout == "by ssh\n"
    assert cluster.applied == []


def test_a_host_that_is_not_freed_is_at_work_and_no_fault() -> None:
    cluster = Cluster(status=PENDING)
    done = remote(cluster).run("gpu-1", ["true"], timeout=600)
    assert "Insufficient nvidia.com/gpu" in done.stderr
    assert len(cluster.deleted) == 1
    (said,) = on_each(
        _of_kubernetes(), HostAccess(remote(cluster)), _task("echo 1"), ["gpu-1"]
    ).values()
    assert said.trouble is Trouble.BUSY
    assert said.verdict("x.y", "gpu-1").status is Status.NOT_ASSESSED
    assert said.cause.startswith("Kubernetes does not schedule work on it: 0/3 nodes")
    assert "describe node gpu-1" in said.fix


def test_an_image_that_cannot_be_had_says_so() -> None:
    waiting = {"waiting": {"reason": "ErrImageNeverPull", "message": "not present"}}
    status = {"phase": "Pending", "containerStatuses": [{"state": waiting}]}
    done = remote(Cluster(status=status)).run("gpu-1", ["true"])
    assert "ErrImageNeverPull not present" in done.stderr


def test_a_program_that_does_not_end_is_ended_with_its_job() -> None:
    cluster = Cluster(status={"phase": "Running"})
    door = remote(cluster)
    with pytest.raises(DeadlineExceeded, match="within 30 s"):
        door.run("gpu-1", ["sleep", "9"], timeout=30)
    assert 30 + START_SECONDS <= door.now() < 40 + START_SECONDS
    assert len(cluster.deleted) == 1


def test_an_interrupted_run_takes_its_job_along() -> None:
    cluster = Cluster(status={"phase": "Running"})
    door = PodRemote(Beside(), cluster, frozenset({"gpu-1"}), PLAIN, cancelled=lambda: True)
    with pytest.raises(ConnectionFailed, match="was interrupted"):
        door.run("gpu-1", ["sleep", "9"])
    assert len(cluster.deleted) == 1


def test_a_pod_that_the_cluster_ended_is_no_good_end() -> None:
    cluster = Cluster(status={"phase": "Failed", "reason": "DeadlineExceeded"})
    cluster.said = _Anything()
    assert remote(cluster).run("gpu-1", ["true"]).returncode != 0


@pytest.mark.parametrize("call", ["apply", "get", "find", "logs"])
def test_a_cluster_that_is_silent_is_a_host_that_is_silent(call: str) -> None:
    cluster = Cluster(down=call)
    with pytest.raises(ConnectionFailed, match="does not accept connections"):
        remote(cluster).run("gpu-1", ["true"])
    assert len(cluster.deleted) == (call in {"find", "logs"})


def test_an_api_server_that_is_silent_for_moments_costs_nothing() -> None:
    class Restarting(Cluster):
        def find(self, api_version: str, kind: str, selector: str) -> list[Resource]:
            self.down = "find" if door.now() < LOST - 2 else ""
            return super().find(api_version, kind, selector)

    cluster = Restarting()
    door = remote(cluster)
    assert door.run("gpu-1", ["echo", "hello"]).stdout == "hello\n"
    assert door.now() >= LOST - 2


def test_a_job_that_cannot_be_taken_away_has_been_read_all_the_same() -> None:
    class Deaf(Cluster):
        def delete(self, ref: Ref) -> None:
            raise ClusterFailed("the API server does not accept connections", "see whether it runs")

    assert remote(Deaf()).run("gpu-1", ["echo", "hello"]).stdout == "hello\n"


def test_a_host_that_is_no_node_is_named() -> None:
    with pytest.raises(ConnectionFailed, match="no node gone"):
        remote(Cluster()).run("gone", ["true"])


def test_a_task_is_read_from_the_log_as_from_any_host() -> None:
    said = on_each(
        _of_kubernetes(), HostAccess(remote(Cluster())), _task("echo 42"), ["gpu-1", "gpu-2"]
    )
    assert {host: one.output.strip() for host, one in said.items()} == {
        "gpu-1": "42",
        "gpu-2": "42",
    }
    (lacking,) = on_each(
        _of_kubernetes(),
        HostAccess(remote(Cluster())),
        _task("x", {"no-such-tool": "get it"}),
        ["gpu-1"],
    ).values()
    assert (lacking.trouble, lacking.fix) == (Trouble.NO_TOOL, "get it")


def test_a_slow_host_is_named_by_the_same_judge_as_through_slurm() -> None:
    class Slow(Cluster):
        def logs(self, pod: Ref) -> str:
            job = next(r for r in self.applied if r["metadata"]["name"] == pod.name)
            host = job["spec"]["template"]["spec"]["nodeSelector"]["kubernetes.io/hostname"]
            text = REAL.replace("Triad=69.8805", "Triad=20.5") if host == "gpu-3" else REAL
            # 64 ranks a host, and what of its memory the benchmark takes.
            return answer("pod", as_asked(("14654", "8", "8"), text))

    names = [f"gpu-{number}" for number in range(1, 6)]
    hosts = tuple(
        Host(name=name, roles=(Role.GPU,), address=IPv4Address(f"10.0.0.{at}"))
        for at, name in enumerate(names, 11)
    )
    site = VIEW.site.model_copy(
        update={"hosts": (VIEW.site.host("head"), *hosts), "kubernetes": KubernetesOptions()}
    )
    facts = {name: facts_of(name, cpu={"cores": 64}) for name in names}
    time, ended = Time(), {"state": {"terminated": {"exitCode": 0}}}
    cluster = Slow(status={"phase": "Succeeded", "containerStatuses": [ended]})
    door = PodRemote(Beside(), cluster, frozenset(names), PLAIN, now=time.now, sleep=time.sleep)
    results = hpcc.run(View(VIEW.profile, site, facts), door).results
    bad = [(r.id, r.target) for r in results if r.status is Status.FAIL]
    assert bad == [("hpcc.stream", "gpu-3")]


class _Anything(dict[str, Completed]):
    def __missing__(self, key: str) -> Completed:
        return Completed((), 1, "", "")


def _task(script: str, tools: dict[str, str] | None = None) -> Task:
    return Task("t", script, 20, tools or {})


def _of_kubernetes() -> View:
    hosts = tuple(
        host.model_copy(update={"owner": Owner.KUBERNETES}) if Role.GPU in host.roles else host
        for host in VIEW.site.hosts
    )
    return View(VIEW.profile, VIEW.site.model_copy(update={"hosts": hosts}), {})


@pytest.mark.parametrize(
    ("offered", "good"), [("8", True), ("7", False), ("0", False), ("9", False)]
)
def test_a_host_of_which_other_gpus_are_offered_than_it_has_is_told(
    offered: str, good: bool
) -> None:
    cluster, time = Cluster(gpus=offered), Time()
    hosts = frozenset({"gpu-1", "gpu-2"})
    door = PodRemote(Beside(), cluster, hosts, PLAIN, {"gpu-1": 8}, now=time.now, sleep=time.sleep)
    (said,) = on_each(_of_kubernetes(), HostAccess(door), _task("echo 1"), ["gpu-1"]).values()
    assert (said.trouble is Trouble.NONE) is good
    if not good:
        assert (said.verdict("x.y", "gpu-1").status, said.cause) == (
            Status.ERROR,
            f"Kubernetes offers {offered} GPUs of gpu-1, which has 8",
        )
        assert [r["kind"] for r in cluster.applied] == ["Namespace"]
    assert door.run("gpu-2", ["echo", "nobody counts"]).stdout == "nobody counts\n"


def test_a_cluster_that_knows_nothing_of_gpus_gives_out_hosts_all_the_same() -> None:
    class Plain(Cluster):
        def get(self, ref: Ref) -> Resource | None:
            return {"status": {"allocatable": {"cpu": "2"}}}

    time = Time()
    door = PodRemote(
        Beside(), Plain(), frozenset({"gpu-1"}), PLAIN, {"gpu-1": 8}, now=time.now, sleep=time.sleep
    )
    assert door.run("gpu-1", ["echo", "1"]).stdout == "1\n"


@pytest.mark.parametrize(
    ("offered", "asked"),
    [
        ({"nvidia.com/gpu": "8", "rdma/fabric": "63"}, {"nvidia.com/gpu": "8", "rdma/fabric": "1"}),
        ({"nvidia.com/gpu": "8", "rdma/fabric": "0"}, {"nvidia.com/gpu": "8"}),
        ({}, {}),
    ],
)
def test_work_in_an_image_has_its_own_root_shared_memory_and_the_fabric(
    offered: dict[str, str], asked: dict[str, str]
) -> None:
    work = PodWork(("train", "me"), 600, "registry.example/nemo:1")
    made = job("x", "gpu-1", work, offered, PLAIN)["spec"]["template"]["spec"]
    (container,) = made["containers"]
    assert (container["image"], container["command"]) == (work.image, ["train", "me"])
    assert container["resources"]["limits"] == asked
    assert container["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    assert made["volumes"] == [{"name": "shared", "emptyDir": {"medium": "Memory"}}]
    on_host = job("x", "gpu-1", PodWork(("true",), 60), offered, PLAIN)["spec"]["template"]["spec"]
    assert "rdma/fabric" not in on_host["containers"][0]["resources"]["limits"]


FETCHING = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "True", "message": "nobody asks"},
        {"type": "Ready", "status": "False"},
    ],
    "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}],
}


UNPLACED = {
    "phase": "Pending",
    "conditions": [
        {"type": "Initialized", "status": "True", "message": "nobody asks"},
        {"type": "PodScheduled", "status": "False", "message": "0/3 nodes: no GPU"},
    ],
    "containerStatuses": [{"state": {"waiting": {}}}],
}


def _broken(reason: str) -> Resource:
    waiting = {"waiting": {"reason": reason, "message": "not found"}}
    return {**FETCHING, "containerStatuses": [{"state": waiting}]}


@pytest.mark.parametrize(
    ("status", "image", "told", "least"),
    [
        (FETCHING, "nemo:1", "did not place the pod on gpu-1: ContainerCreating", 600),
        (PENDING, "nemo:1", "did not place the pod on gpu-1: 0/3 nodes", START_SECONDS),
        (UNPLACED, "nemo:1", "did not place the pod on gpu-1: 0/3 nodes: no GPU", START_SECONDS),
        (FETCHING, "", "did not place the pod on gpu-1: ContainerCreating", START_SECONDS),
        (
            _broken("ErrImagePull"),
            "nemo:1",
            "cannot start the pod on gpu-1: ErrImagePull not found",
            0,
        ),
        (_broken("InvalidImageName"), "", "cannot start the pod on gpu-1: InvalidImageName", 0),
    ],
)
def test_an_image_has_time_to_be_fetched_and_none_where_it_cannot_be_had(
    status: Resource, image: str, told: str, least: float
) -> None:
    cluster = Cluster(status=status)
    door = remote(cluster)
    door.sleep(5000)
    with pytest.raises(ConnectionFailed, match=told):
        door.gang(("gpu-1",), PodWork(("true",), 600, image), 29500)
    assert least <= door.now() - 5000 < least + 5
    assert len(cluster.deleted) == 1


def test_a_gang_on_a_host_with_other_gpus_leaves_nothing() -> None:
    cluster, time = Cluster(gpus="7"), Time()
    door = PodRemote(
        Beside(), cluster, frozenset({"gpu-1"}), PLAIN, {"gpu-1": 8}, now=time.now, sleep=time.sleep
    )
    with pytest.raises(OtherGpus):
        door.gang(("gpu-1",), PodWork(("true",), 600), 29500)
    assert [r["kind"] for r in cluster.applied] == ["Namespace"]


@pytest.mark.parametrize(
    "status", [{"phase": "Pending", "podIP": "10.9.0.1"}, {"phase": "Running"}]
)
def test_a_rank_is_there_once_it_runs_and_has_an_address(status: Resource) -> None:
    with pytest.raises(ConnectionFailed, match="did not place the pod on gpu-1"):
        remote(Cluster(status=status)).gang(("gpu-1",), PodWork(("true",), 60), 29500)


@pytest.mark.parametrize("call", ["apply", "get", "find"])
def test_a_cluster_that_is_silent_is_told_of_a_gang_by_its_first_host(call: str) -> None:
    with pytest.raises(ConnectionFailed, match="does not accept connections") as caught:
        remote(Cluster(down=call)).gang(("gpu-1",), PodWork(("true",), 60), 29500)
    assert caught.value.host == "gpu-1"


def test_how_a_host_is_reached_is_asked_beside() -> None:
    class Seen(Beside):
        def reach(self, host: str) -> None:
            self.asked.append(f"reach {host}")

        def leave(self, host: str) -> None:
            self.asked.append(f"leave {host}")

    beside = Seen()
    door = PodRemote(beside, Cluster(), frozenset({"gpu-1"}), PLAIN)
    door.reach("gpu-1")
    door.leave("gpu-1")
    assert beside.asked == ["reach gpu-1", "leave gpu-1"]


def test_a_host_that_is_freed_within_the_minute_is_given() -> None:
    class Slow(Cluster):
        def find(self, api_version: str, kind: str, selector: str) -> list[Resource]:
            self.status = PENDING if door.now() < START_SECONDS - 1 else None
            return super().find(api_version, kind, selector)

    cluster = Slow()
    door = remote(cluster)
    assert door.run("gpu-1", ["echo", "hello"]).stdout == "hello\n"
    assert door.now() >= START_SECONDS - 1
