"""One GPU pod through a queue: judged by what the cluster shows of it, with every fault planted."""

from collections.abc import Mapping
from typing import Any

import pytest

from appliance.adapters.kubernetes import Ref
from appliance.adapters.pods import GPU, KAI, QUEUE_LABEL, PodRemote, PodTemplate
from appliance.benchmarks import of_deployment, queue_pod
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.project_queue import has_queue, name_of, queue_of
from appliance.checks.check import View
from appliance.errors import ClusterFailed
from appliance.models.result import Status
from appliance.models.site import Site
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.scheduler.site import Amount, NodePool, Project, Queue, SchedulerOptions
from tests.support.fake_pods import Beside, Time
from tests.support.profiles import profile_of
from tests.support.sites import site_of

PLAIN = site_of("head", "gpu-1", "gpu-2")
TRAIN = Queue(name="train", gpu=Amount(quota=4))
GOOD = {
    "spec": {"nodeName": "gpu-2", "schedulerName": KAI},
    "status": {"phase": "Succeeded"},
}


def site(*queues: Queue, **options: Any) -> Site:
    vision = Project(name="vision", users=("alice",), queues=queues)
    given = {"node_pools": (NodePool(name="parts", hosts=("gpu-1",)),), **options}
    scheduler = SchedulerOptions(projects=(vision,), **given)
    return PLAIN.model_copy(update={"kubernetes": KubernetesOptions(), "scheduler": scheduler})


class Cluster:
    """Shows one pod, in these states one after the other."""

    def __init__(
        self, *states: Mapping[str, Any], said: str = "gpus=GPU-1\n", down: str = ""
    ) -> None:
        self.states, self.said, self.down = list(states) or [GOOD], said, down
        self.applied: list[dict[str, Any]] = []
        self.deleted: list[Ref] = []

    def apply(self, resource: dict[str, Any]) -> dict[str, Any]:
        if self.down == "apply":
            raise ClusterFailed("denied request: no such queue", "appliance queue apply")
        self.applied.append(resource)
        return resource

    def get(self, ref: Ref) -> Mapping[str, Any]:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def logs(self, pod: Ref) -> str:
        return self.said

    def delete(self, ref: Ref) -> None:
        self.deleted.append(ref)


def tried(cluster: Cluster, of: Site) -> Outcome:
    time = Time()
    door = PodRemote(Beside(), cluster, frozenset({"gpu-2"}), PodTemplate("busybox:1"))  # type: ignore[arg-type]
    view = View(profile_of(), of, {})
    return queue_pod.run(view, door, clock=time.now, sleep=time.sleep)


def test_it_is_made_in_the_project_through_its_queue_and_taken_away() -> None:
    cluster = Cluster({"status": {"phase": "Pending"}}, GOOD)
    outcome = tried(cluster, site(TRAIN))
    (result,) = outcome.results
    assert (result.id, result.status) == ("scheduler.pod", Status.PASS)
    assert "kai-vision through queue vision-train, bound by kai-scheduler to gpu-2" in str(
        result.evidence
    )
    (pod,) = cluster.applied
    assert (pod["metadata"]["namespace"], pod["metadata"]["labels"]) == (
        "kai-vision",
        {QUEUE_LABEL: "vision-train"},
    )
    assert pod["spec"]["schedulerName"] == KAI
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {GPU: "1"}}
    assert [ref.name for ref in cluster.deleted] == [pod["metadata"]["name"]]
    assert [m.name for m in outcome.measurements] == ["scheduler.pod"]


PENDING = {
    "status": {
        "phase": "Pending",
        "conditions": [{"status": "False", "message": "no free GPU"}],
    }
}
BROKEN = {
    "spec": {"nodeName": "gpu-2"},
    "status": {
        "phase": "Pending",
        "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}],
    },
}


@pytest.mark.parametrize(
    ("cluster", "status", "said"),
    [
        (
            Cluster(PENDING),
            Status.NOT_ASSESSED,
            "no host to a pod of queue vision-train within 60 s: no free GPU",
        ),
        (Cluster(BROKEN), Status.FAIL, "on gpu-2 is Pending: ErrImagePull"),
        (Cluster({**GOOD, "status": {"phase": "Failed"}}), Status.FAIL, "on gpu-2 is Failed"),
        (Cluster(said="gpus=\n"), Status.FAIL, "got 0 GPUs"),
        (Cluster(said="gpus=GPU-1,GPU-2\n"), Status.FAIL, "got 2 GPUs"),
        (Cluster(down="apply"), Status.FAIL, "denied request: no such queue"),
        (Cluster({}), Status.NOT_ASSESSED, "no reason given"),
    ],
    ids=["waits", "image", "failed", "none", "two", "denied", "gone"],
)
def test_each_fault_is_told_and_leaves_no_pod(cluster: Cluster, status: Status, said: str) -> None:
    outcome = tried(cluster, site(TRAIN))
    (result,) = outcome.results
    assert result.status is status
    assert said in str(result.cause)
    assert result.fix
    assert outcome.measurements == ()
    assert len(cluster.deleted) == 1


def test_a_queue_of_divided_or_no_gpus_is_passed_over() -> None:
    parts = Queue(name="small", pool="parts", gpu=Amount(quota=2))
    none = Queue(name="build", work="build")
    found = queue_of(site(parts, none, TRAIN))
    assert found
    assert name_of(*found) == "vision-train"
    assert not has_queue(site(parts, none))
    assert queue_of(site(TRAIN), "alice") is not None
    assert queue_of(site(TRAIN), "mallory") is None


def test_a_site_without_queues_makes_no_pod() -> None:
    assert not has_queue(PLAIN)
    assert "queue" not in {b.name for b in of_deployment(PLAIN)}
    assert "queue" in {b.name for b in of_deployment(site(TRAIN))}
    cluster = Cluster()
    (result,) = tried(cluster, PLAIN).results
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)
    assert cluster.applied == []
