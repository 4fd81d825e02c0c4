"""Why pods wait, from what a cluster reports: the cause, its remedy, and the GPUs of each queue."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from appliance.actions.kubernetes import queues as action
from appliance.actions.kubernetes.queue_state import state
from appliance.actions.sites.opening import Target
from appliance.errors import ConfigError
from appliance.models.queue_plan import QueueState, WaitingPod
from tests.support.queue_world import HOSTS, World, world

__all__ = ["world"]

NOW = datetime(2026, 11, 30, 7, 0, tzinfo=UTC)
FULL = "no nodes with enough resources were found: 3 node(s) didn't have enough resources: GPUs"


def looked(world: World) -> QueueState:
    loaded, _ = action.describe(Target(world.folder))
    with action.cluster_of(loaded, None) as cluster:
        return state(loaded, cluster, NOW)


def stand(world: World, allocated: int | str) -> None:
    """Whole GPUs on each host, and some of them allocated to the queue."""
    for host in HOSTS:
        node = {"metadata": {"name": host}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}
        world.api.put(f"/api/v1/nodes/{host}", node)
    world.api.put(
        "/apis/scheduling.run.ai/v2/queues/lattice-train",
        {
            "metadata": {"name": "lattice-train"},
            "status": {"allocated": {"nvidia.com/gpu": str(allocated)}},
        },
    )


def pend(world: World, said: str = FULL, reason: str = "Unschedulable", **wanted: str) -> None:
    """A pod of the project that has no host."""
    limits = {f"nvidia.com/{name.replace('_', '-')}": count for name, count in wanted.items()}
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": said}
    pod: dict[str, Any] = {
        "metadata": {
            "name": "mine",
            "namespace": "kai-lattice",
            "labels": {"kai.scheduler/queue": "lattice-train"},
            "creationTimestamp": "2026-11-30T06:58:00Z",
        },
        "spec": {"containers": [{"name": "a", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending", "conditions": [condition] if said else []},
    }
    world.api.put("/api/v1/namespaces/kai-lattice/pods/mine", pod)


def test_parts_of_gpus_are_counted_in_thousandths(world: World) -> None:
    stand(world, "1500m")
    (use,) = (use for use in looked(world).queues if use.name == "lattice-train")
    assert (use.gpu_allocated, use.gpu_requested) == (1.5, 0.0)


def test_a_queue_that_the_cluster_lacks_is_unknown_and_named(world: World) -> None:
    stand(world, 0)
    world.api.store.pop("/apis/scheduling.run.ai/v2/queues/lattice-train")
    pend(world, gpu="2")
    (use,) = (use for use in looked(world).queues if use.name == "lattice-train")
    assert (use.gpu_allocated, use.gpu_requested) == (None, None)
    assert "the cluster has no queue lattice-train" in waiting(world).cause
    assert "queue apply" in waiting(world).fix


def waiting(world: World) -> WaitingPod:
    (found,) = looked(world).waiting
    return found


@pytest.mark.parametrize(
    ("allocated", "wanted", "cause", "fix"),
    [
        (0, {"mig_1g.10gb": "1"}, "can never start: it requests 1 x nvidia.com/mig-1g.10gb", "delete it"),
        (0, {"gpu": "9"}, "can never start: it requests 9 x nvidia.com/gpu", "offers"),
        (24, {"gpu": "2"}, "at its limit: 24 of 24 GPUs", "gpu.limit"),
        (16, {"gpu": "2"}, "16 GPUs of 16 guaranteed, and no idle GPUs", "gpu.quota"),
        (8, {"gpu": "2"}, f"within the guarantee of queue lattice-train: {FULL}", "evicts"),
        (8, {}, f"within the guarantee of queue lattice-train: {FULL}", ""),
    ],
)  # fmt: skip
def test_each_cause_has_its_remedy(
    world: World, allocated: int, wanted: dict[str, str], cause: str, fix: str
) -> None:
    stand(world, allocated)
    pend(world, **wanted)
    found = waiting(world)
    assert cause in found.cause
    assert fix in found.fix
    assert (found.queue, found.pool, found.waits_s) == ("lattice-train", "default", 120)


def test_a_refused_binding_is_quoted(world: World) -> None:
    stand(world, 0)
    pend(world, "is forbidden:\n a policy", "BindingError", gpu="1")
    assert (
        waiting(world).cause
        == "KAI chose a host, but could not bind the pod: is forbidden: a policy"
    )


def test_a_pod_that_no_scheduler_has_judged_points_at_the_scheduler(world: World) -> None:
    stand(world, 0)
    pend(world, "", gpu="1")
    assert waiting(world).fix == "check the scheduler: appliance health --check scheduler"


def test_a_pod_with_a_host_waits_for_none(world: World) -> None:
    stand(world, 2)
    pend(world, gpu="2")
    (pod,) = [r for path, r in world.api.store.items() if path.endswith("/pods/mine")]
    pod["spec"]["nodeName"] = "gpu-2"
    found = looked(world)
    assert found.waiting == ()
    (train,) = [use for use in found.queues if use.name == "lattice-train"]
    assert (train.gpu_allocated, train.gpu_quota, train.gpu_limit) == (2, 16, 24)


def test_queues_of_another_scheduler_are_refused(world: World) -> None:
    loaded, _ = action.describe(Target(world.folder))
    assert loaded.site.scheduler is not None
    scheduler = loaded.site.scheduler.model_copy(update={"kind": "runai"})
    loaded = replace(loaded, site=loaded.site.model_copy(update={"scheduler": scheduler}))
    with (
        action.cluster_of(loaded, None) as cluster,
        pytest.raises(ConfigError, match="kind runai"),
    ):
        state(loaded, cluster, NOW)


def test_the_verb_prints_cause_and_remedy(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand(world, 24)
    pend(world, gpu="2")
    assert world.run(monkeypatch, "status") == 0
    said = capsys.readouterr().out
    assert "kai-lattice/mine  lattice-train  2 x gpu  waits" in said
    assert "at its limit: 24 of 24 GPUs" in said
    assert "fix: wait for other work" in said
