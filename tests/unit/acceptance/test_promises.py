"""Each promise passes on a scheduler that keeps it, fails on each that does not, and says nothing where it cannot."""

import copy
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from appliance.acceptance import PROMISES
from appliance.acceptance.capacity import GPU, MANY, read
from appliance.acceptance.sandbox import LEFT, Sandbox, Settings, survey
from appliance.acceptance.trial import run
from appliance.acceptance.workload import (
    ALLOCATE,
    GROUP_FORM,
    GROUP_OF_POD,
    SUCCEEDED_OVER_CAP,
    Work,
    queue_name,
    resources,
)
from appliance.adapters.kubernetes import KINDS
from appliance.errors import ApplianceError
from appliance.models.result import CheckResult, Status, Verdict, overall
from appliance.stages.scheduler.queues.kai import POOL_LABEL
from tests.support.clusters import FOUR_HOSTS, ONE_HOST, Cluster, Pod, Stock, node
from tests.support.kai_like import KaiLike

SETTINGS = Settings(gpu_image="pytorch", patience=60.0, quiet=20.0)
HOLDS = {"resources": {"limits": {GPU: "1"}}}
IDS = [promise.id for promise in PROMISES]
GANG = Work("gang", pods=2, gpus=1, gang=2, near=("fabric", "leaf"))

FAULTS = {
    "scheduler.gang": ("gangs in parts",),
    "scheduler.packing": ("spreads",),
    "scheduler.consolidation": ("nothing moves", "loses what it moves"),
    "scheduler.topology": ("nearness ignored", "never near"),
    "scheduler.quota": ("no limits", "quota only in part"),
    "scheduler.reclaim": ("nothing lent", "nothing given back", "takes too much"),
    "scheduler.fair_share": ("first come first served", "nothing lent"),
    "scheduler.priority": (
        "no preemption",
        "no resume",
        "evicts interactive",
        "displaces all",
        "restarts interactive",
    ),
    "scheduler.elastic": ("no shrinking", "ends elastic work", "no growing"),
    "scheduler.fractions": ("parts are whole", "parts without end"),
    "scheduler.memory_cap": ("memory not capped",),
    "scheduler.mig": ("MIG overbooked", "MIG anywhere", "no MIG"),
    "scheduler.time_limit": ("no time limit", "limits for all", "ends at once"),
    "scheduler.idle": ("no idle limit", "limits for all", "ends at once"),
    "scheduler.cpu_only": ("no work without GPUs", "gangs without GPUs in parts"),
    "scheduler.metrics": ("no metrics",),
}


def tried(
    cluster: Cluster, *ids: str, settings: Settings = SETTINGS, metrics: bool = True
) -> dict[str, CheckResult]:
    """The verdicts of some promises, all where none is named."""
    chosen = [promise for promise in PROMISES if not ids or promise.id in ids]
    series = cluster.series if metrics else None
    return {r.id: r for r in run(cluster, cluster, settings, series=series, promises=chosen)}


@pytest.fixture(params=[MANY, 4], ids=["in GPUs", "in hosts"])
def counted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """From how many GPUs on a trial counts in hosts; the clusters here have 8."""
    monkeypatch.setattr("appliance.acceptance.capacity.MANY", request.param)
    return int(request.param)


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("promise", IDS)
def test_a_scheduler_that_keeps_its_promise_passes(promise: str) -> None:
    (verdict,) = tried(KaiLike(), promise).values()
    assert (verdict.status, verdict.cause) == (Status.PASS, "")


def test_all_promises_one_after_the_other_on_one_cluster() -> None:
    verdicts = tried(KaiLike())
    assert list(verdicts) == IDS
    assert {r.id: r.cause for r in verdicts.values() if r.status is not Status.PASS} == {}
    assert overall(verdicts.values()) is Verdict.PASSED


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize(
    ("promise", "fault"), [(promise, fault) for promise in IDS for fault in FAULTS[promise]]
)
def test_a_scheduler_that_breaks_a_promise_fails(promise: str, fault: str) -> None:
    (verdict,) = tried(KaiLike(FOUR_HOSTS, fault), promise).values()
    assert verdict.status is Status.FAIL, verdict.cause
    assert verdict.cause
    assert verdict.fix


@pytest.mark.parametrize(
    ("promise", "faults", "cause"),
    [
        ("scheduler.gang", ("gangs in parts", "late pods"), "too late: try again"),
        ("scheduler.topology", ("late pods",), "too late: try again"),
        ("scheduler.priority", ("evicts interactive", "late pods"), "too late: try again"),
        ("scheduler.fractions", ("parts without end", "late pods"), "too late: try again"),
        ("scheduler.cpu_only", ("quota only in part",), "only 4 of 8 GPUs"),
        ("scheduler.time_limit", ("no image",), "did not run them"),
        ("scheduler.idle", ("no idle limit", "no use"), "GPU utilization of its pods is not known"),
        ("scheduler.gang", ("pods stay",), "still there 76 s after they were deleted"),
    ],
)
def test_a_trial_that_tried_nothing_says_nothing(
    promise: str, faults: tuple[str, ...], cause: str
) -> None:
    (verdict,) = tried(KaiLike(FOUR_HOSTS, *faults), promise).values()
    assert (verdict.status, cause in verdict.cause) == (Status.NOT_ASSESSED, True), verdict.cause


@pytest.mark.parametrize(
    ("promise", "cause"),
    [
        ("scheduler.consolidation", "the other hosts could not be filled"),
        ("scheduler.topology", "all but one host of each domain could not be filled"),
    ],
)
def test_room_that_was_there_is_no_room_that_was_made(promise: str, cause: str) -> None:
    hosts = copy.deepcopy(FOUR_HOSTS)
    for host in hosts:
        host["metadata"]["labels"]["kubernetes.io/hostname"] += ".example"
    (verdict,) = tried(KaiLike(hosts, "nothing moves"), promise).values()
    assert (verdict.status, verdict.cause) == (Status.NOT_ASSESSED, cause)


def test_parts_of_gpus_others_hold_are_not_held_against_the_scheduler() -> None:
    cluster = KaiLike()
    cluster.stranger(1)
    (verdict,) = tried(cluster, "scheduler.mig").values()
    assert verdict.status is Status.NOT_ASSESSED
    assert "of others holds GPUs" in verdict.cause


@pytest.mark.parametrize(("free", "code"), [(0.0, 1), (0.5, 0), (1.0, SUCCEEDED_OVER_CAP)])
def test_memory_that_is_refused_altogether_shows_no_cap(free: float, code: int) -> None:
    class Full(Exception):
        """torch.cuda.OutOfMemoryError."""

    def empty(size: int, **_: object) -> None:
        if size > free * 1000:
            raise Full

    cuda = SimpleNamespace(OutOfMemoryError=Full, empty_cache=lambda: None)
    torch = SimpleNamespace(empty=empty, cuda=cuda, uint8="uint8")
    with patch.dict(sys.modules, {"torch": torch}), pytest.raises((SystemExit, Full)) as ended:
        exec(ALLOCATE.format(size=750), {})
    # Python ends with 1 on whatever nobody caught.
    assert (ended.value.code if isinstance(ended.value, SystemExit) else 1) == code


def test_every_promise_has_a_scheduler_that_breaks_it() -> None:
    assert list(FAULTS) == IDS


def test_kubernetes_own_scheduler_passes_only_what_needs_no_queue() -> None:
    verdicts = tried(
        Stock(FOUR_HOSTS, "no time limit", "no idle limit", "memory not capped", "no metrics")
    )
    passed = [r.id for r in verdicts.values() if r.status is Status.PASS]
    assert passed == ["scheduler.mig"]
    assert all(r.status is Status.FAIL for r in verdicts.values() if r.id not in passed)


def test_a_cluster_without_queues_and_classes_is_not_assessed_for_them() -> None:
    verdicts = tried(Stock(FOUR_HOSTS, "memory not capped", knows=False), metrics=False)
    silent = {r.id for r in verdicts.values() if r.status is Status.NOT_ASSESSED}
    assert silent >= {
        "scheduler.quota",
        "scheduler.reclaim",
        "scheduler.fair_share",
        "scheduler.priority",
    }
    assert {r.id for r in verdicts.values() if r.status is Status.PASS} == {"scheduler.mig"}
    assert "pod groups" in verdicts["scheduler.cpu_only"].cause


def test_one_gpu_host_shows_what_it_can_and_says_what_not() -> None:
    verdicts = tried(KaiLike(ONE_HOST))
    silent = {r.id for r in verdicts.values() if r.status is Status.NOT_ASSESSED}
    assert silent == {
        "scheduler.packing",
        "scheduler.consolidation",
        "scheduler.topology",
        "scheduler.mig",
    }
    assert all(r.status is Status.PASS for r in verdicts.values() if r.id not in silent)
    assert overall(verdicts.values()) is Verdict.INCOMPLETE


def test_a_cluster_without_gpus_is_assessed_for_work_without_gpus_alone() -> None:
    verdicts = tried(KaiLike((node("plain", 0),)))
    assessed = {r.id for r in verdicts.values() if r.status is not Status.NOT_ASSESSED}
    assert assessed == {"scheduler.cpu_only"}


def test_hosts_that_take_none_of_its_pods_do_not_count() -> None:
    slurms, control = node("n5", 8), node("head", 0)
    slurms["spec"]["taints"] = [{"key": "appliance/owner", "effect": "NoExecute"}]
    control["spec"]["taints"] = [{"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}]
    ours = node("n1", 8)
    ours["spec"]["taints"] = [{"key": GPU, "effect": "NoSchedule"}]
    soft = node("n2", 4)
    soft["spec"]["taints"] = [{"key": "old", "effect": "PreferNoSchedule"}]
    found = read((slurms, control, ours, soft), ())
    assert [n.name for n in found.nodes] == ["n1", "n2"]
    assert found.gpus == 12


def test_hosts_of_node_pools_are_not_counted_for_they_take_no_work_of_the_trial() -> None:
    apart = node("apart", 8)
    apart["metadata"]["labels"][POOL_LABEL] = "interactive"
    in_pool = {"metadata": {}, "spec": {"nodeName": "apart", "containers": [HOLDS]}}
    found = read((node("n1", 8), apart), (in_pool,))
    assert (found.gpus, found.apart, found.taken) == (8, 1, 0)
    named = tried(KaiLike((*FOUR_HOSTS, apart)), "scheduler.gang", "scheduler.reclaim")
    assert {r.status for r in named.values()} == {Status.PASS}
    (alone,) = tried(KaiLike((apart,)), "scheduler.gang").values()
    assert (alone.status, alone.cause) == (
        Status.NOT_ASSESSED,
        "needs 1 GPU host, the default node pool has 0",
    )


def test_patience_grows_with_the_gpus_for_reclaim_takes_one_pod_at_a_time() -> None:
    """A scheduler that gives back one GPU every four seconds, on 64 of them."""
    hosts = tuple(node(f"n{number}", 8) for number in range(8))
    ids = ("scheduler.reclaim", "scheduler.fair_share")
    assert {r.status for r in tried(OneAtATime(hosts), *ids).values()} == {Status.PASS}
    short = replace(SETTINGS, a_pod=0.0)
    assert {r.status for r in tried(OneAtATime(hosts), *ids, settings=short).values()} == {
        Status.FAIL
    }


def test_an_image_with_pytorch_may_take_its_time() -> None:
    class Slow(KaiLike):
        def _run_pods(self) -> None:
            if self.time > 600:
                super()._run_pods()

    (verdict,) = tried(Slow(), "scheduler.memory_cap").values()
    assert verdict.status is Status.PASS


class OneAtATime(KaiLike):
    """As KAI, which reclaims one pod of a job in a cycle; here once in four seconds."""

    _last = -4.0

    def _reclaim(self, unit: list[Pod], need: float) -> bool:
        if self.time - self._last < 4 or not super()._reclaim(unit, need):
            return False
        self._last = self.time
        return True


def test_gpus_in_use_by_others_are_left_alone() -> None:
    cluster = KaiLike()
    cluster.stranger(1)
    verdicts = tried(cluster, "scheduler.gang", "scheduler.reclaim")
    assert {r.status for r in verdicts.values()} == {Status.NOT_ASSESSED}
    assert "of others holds GPUs" in verdicts["scheduler.gang"].cause
    assert list(cluster.pods) == ["other"]


def test_a_cluster_that_falls_silent_gives_not_assessed_and_not_a_pass() -> None:
    cluster = KaiLike()
    verdicts = run(cluster, cluster, SETTINGS, promises=PROMISES[:2])
    assert next(verdicts).status is Status.PASS
    cluster.silent = True
    second = next(verdicts)
    assert (second.status, second.cause) == (
        Status.NOT_ASSESSED,
        "the API server did not answer in 30 s",
    )
    cluster.silent = False
    assert list(verdicts) == []
    assert cluster.things == {}


def test_a_cluster_that_never_answers_is_one_error_and_no_verdict() -> None:
    cluster = KaiLike()
    cluster.silent = True
    with pytest.raises(ApplianceError, match="did not answer"):
        tried(cluster)


def test_a_memory_probe_that_cannot_run_says_nothing() -> None:
    (verdict,) = tried(KaiLike(FOUR_HOSTS, "no torch"), "scheduler.memory_cap").values()
    assert verdict.status is Status.NOT_ASSESSED
    assert "exit code 1" in verdict.cause


def test_without_an_image_or_a_prometheus_these_promises_are_not_assessed() -> None:
    verdicts = tried(KaiLike(), settings=Settings(patience=60.0, quiet=20.0), metrics=False)
    silent = {r.id for r in verdicts.values() if r.status is Status.NOT_ASSESSED}
    assert silent == {"scheduler.memory_cap", "scheduler.metrics"}


def test_nothing_is_left_behind() -> None:
    cluster = KaiLike()
    tried(cluster, "scheduler.gang", "scheduler.reclaim")
    assert (cluster.pods, cluster.things) == ({}, {})


def test_what_a_killed_trial_left_is_taken_away_by_the_next() -> None:
    cluster = KaiLike()
    killed = run(cluster, cluster, SETTINGS, promises=PROMISES[4:6])
    next(killed)
    left = dict(cluster.things)
    assert left, "a trial that is under way has something"
    again = KaiLike()
    again.things, again.pods = left, dict(cluster.pods)
    assert tried(again, "scheduler.gang")["scheduler.gang"].status is Status.PASS
    assert (again.pods, again.things) == ({}, {})


@pytest.mark.parametrize(
    ("spec", "marks"),
    [
        ({"initContainers": [{"resources": {"limits": {GPU: "1"}}}]}, {}),
        ({"resourceClaims": [{"name": "gpu"}]}, {}),
        ({}, {"nvidia.com/container.main.gpu-memory.request": "8Gi"}),
    ],
    ids=["sidecar", "claim", "fraction"],
)
def test_gpus_are_held_in_every_way_there_is(spec: dict[str, Any], marks: dict[str, str]) -> None:
    pod = {"metadata": {"annotations": marks}, "spec": {"containers": [{}], **spec}}
    assert read((node("n1", 8),), (pod,)).taken == 1
    assert read((node("n1", 8),), ({"metadata": {}, "spec": {"containers": [{}]}},)).taken == 0


def test_a_gang_is_a_group_of_our_own_whose_pods_no_release_groups_anew() -> None:
    known: dict[str, Any] = {"image": "i", "scheduler": "s", "classes": frozenset({"train"})}
    group, *pods = resources(GANG, groups=True, **known)
    assert (group["apiVersion"], group["kind"]) == GROUP_FORM
    assert group["spec"] == {
        "minMember": 2,
        "queue": queue_name("work"),
        "priorityClassName": "train",
        "topologyConstraint": {"topology": "fabric", "requiredTopologyLevel": "leaf"},
    }
    assert [pod["metadata"]["annotations"] for pod in pods] == [{GROUP_OF_POD: "gang"}] * 2
    assert not any("ownerReferences" in pod["metadata"] for pod in pods)
    assert resources(GANG, groups=False, **known) == pods


def test_a_site_that_shares_no_gpus_promises_no_parts_of_them() -> None:
    """KAI's admission refuses such pods then, which was taken for a broken promise."""
    cluster = KaiLike(FOUR_HOSTS, "shares none", "parts are whole")
    verdict = tried(cluster, "scheduler.fractions")["scheduler.fractions"]
    assert (verdict.status, verdict.cause) == (
        Status.NOT_ASSESSED,
        "the site shares no GPUs (scheduler.sharing: none)",
    )


def test_the_door_to_a_cluster_knows_all_that_a_trial_makes() -> None:
    assert set(LEFT) <= set(KINDS)


def test_an_evicted_pod_of_a_group_comes_back_until_the_group_is_removed() -> None:
    cluster = KaiLike(FOUR_HOSTS)
    settings = Settings(patience=60, quiet=6)
    sandbox = Sandbox(cluster, cluster, settings, survey(cluster, settings, metrics=False))
    sandbox.open()
    sandbox.submit(Work("gang", pods=2, gpus=1, gang=2))
    assert sandbox.until_placed("gang", pods=2)
    cluster.evict(next(iter(cluster.pods.values())))
    assert sandbox.until_placed("gang", pods=2)
    sandbox.remove("gang")
    sandbox.watch()
    assert not cluster.pods
    assert not cluster.find(*GROUP_FORM, "")


@pytest.mark.parametrize(
    ("sizes", "unit"),
    [((8,) * 16, 1), ((8,) * 17, 8), ((8,) * 16 + (4,), 4), ((8,) * 16 + (7,), 1)],
    ids=["128 GPUs", "136 GPUs", "a smaller host", "a host that lost a GPU"],
)
def test_a_large_cluster_is_filled_with_pods_its_hosts_are_made_of(
    sizes: tuple[int, ...], unit: int
) -> None:
    found = read([node(f"n{number}", gpus) for number, gpus in enumerate(sizes)], ())
    assert (found.unit, found.units * found.unit) == (unit, sum(sizes))


def test_patience_and_pods_of_a_trial_grow_with_the_hosts() -> None:
    """350 hosts of 8 GPUs: pods of one GPU each would be reclaimed for an hour and a half."""
    found = read([node(f"n{number}", 8) for number in range(350)], ())
    cluster = KaiLike()
    sandbox = Sandbox(cluster, cluster, SETTINGS, found)
    assert found.units == 350
    assert sandbox._patience == SETTINGS.patience + 2 * 350


def test_what_a_long_trial_sees_again_is_kept_once() -> None:
    cluster = KaiLike(FOUR_HOSTS)
    sandbox = Sandbox(cluster, cluster, SETTINGS, survey(cluster, SETTINGS, metrics=False))
    sandbox.open()
    sandbox.submit(Work("work", pods=8, gpus=1))
    sandbox.until_placed("work", pods=8)
    sandbox.watch(600)
    kept = {id(pod) for moment in sandbox.timeline.moments for pod in moment.pods}
    assert len(sandbox.timeline.moments) > 200
    assert len(kept) <= 3 * 8
    assert len({id(moment.pods) for moment in sandbox.timeline.moments[-200:]}) == 1
