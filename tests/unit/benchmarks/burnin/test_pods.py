"""A burn-in of hosts of Kubernetes: Jobs that continue without the program, found again, judged as those of Slurm."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from appliance.adapters.kubernetes import Ref
from appliance.adapters.pods import PodRemote, PodTemplate
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.burnin import run as burnin
from appliance.benchmarks.burnin.keepers import NAME, OfPods
from appliance.models.result import Status
from tests.support import burnin_cluster, fake_pods
from tests.support.burnin_cluster import DONE, HOSTS, view

PENDING: Mapping[str, Any] = {"active": 1, "ready": 0}
RUNNING: Mapping[str, Any] = {"active": 1, "ready": 1}
OVER: Mapping[str, Any] = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED: Mapping[str, Any] = {"conditions": [{"type": "Failed", "status": "True"}]}


class Jobs(fake_pods.Cluster):
    """The API with Jobs whose states are read one after the other; None: no answer."""

    def __init__(self, *states: Sequence[Mapping[str, Any]] | None, gpus: str = "2") -> None:
        super().__init__(gpus=gpus)
        self.states = list(states)

    def find(self, api_version: str, kind: str, selector: str) -> list[fake_pods.Resource]:
        assert (kind, selector) == ("Job", f"appliance/work={NAME}")
        found = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        self.down = "find" if found is None else ""
        self._up("find")
        meta = {"namespace": "appliance-benchmarks"}
        return [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": f"bench-{number}", **meta},
                "status": status,
            }
            for number, status in enumerate(found or ())
        ]

    @property
    def jobs(self) -> list[fake_pods.Resource]:
        return [resource for resource in self.applied if resource["kind"] == "Job"]


def outcome(api: Jobs, hosts: burnin_cluster.Cluster, gpus: int = 2) -> Outcome:
    offered = dict.fromkeys(HOSTS, gpus)
    remote = PodRemote(hosts_of(hosts), api, frozenset(HOSTS), PodTemplate("busybox:1"), offered)
    return burnin.run(view(), remote, 480, clock=lambda: hosts.now, sleep=hosts.sleep)


def hosts_of(cluster: burnin_cluster.Cluster) -> Any:
    """The hosts by SSH, where the samples are."""
    return cluster


def test_it_is_started_on_every_host_and_judged_by_the_samples_on_them() -> None:
    api = Jobs([], [PENDING, PENDING], [RUNNING, PENDING], [RUNNING, RUNNING], [OVER, OVER])
    hosts = burnin_cluster.Cluster("", samples="")
    found = outcome(api, hosts)
    specs = [job["spec"]["template"]["spec"] for job in api.jobs]
    assert [spec["nodeSelector"]["kubernetes.io/hostname"] for spec in specs] == list(HOSTS)
    assert all(spec["hostNetwork"] for spec in specs)
    given = [{v["name"]: v["value"] for v in spec["containers"][0]["env"]} for spec in specs]
    assert [(g["RANK"], g["WORLD_SIZE"], g["MASTER_ADDR"]) for g in given] == [
        ("0", "2", "10.0.0.11"),
        ("1", "2", "10.0.0.11"),
    ]
    assert {r.status for r in found.results} == {Status.ERROR}, "no samples"
    assert not {"squeue", "sbatch"} & set(hosts.asked)


def test_one_that_runs_is_waited_for_and_not_started_again() -> None:
    api = Jobs([RUNNING, RUNNING], [OVER, FAILED])
    found = outcome(api, burnin_cluster.Cluster("", samples=DONE))
    assert not api.jobs
    assert {r.status for r in found.results} == {Status.PASS}


def test_an_api_server_that_went_away_leaves_it_running() -> None:
    api = Jobs([RUNNING], None)
    (result,) = outcome(api, burnin_cluster.Cluster("", samples=DONE)).results
    assert (result.status, result.fix) == (Status.NOT_ASSESSED, OfPods.again)
    assert not api.deleted


@pytest.mark.parametrize(
    ("state", "status", "fix"),
    [(PENDING, Status.NOT_ASSESSED, OfPods.busy), (RUNNING, Status.ERROR, OfPods.hangs)],
    ids=["busy", "hangs"],
)
def test_one_that_gets_no_hosts_or_does_not_end_is_deleted(
    state: Mapping[str, Any], status: Status, fix: str
) -> None:
    api = Jobs([], [state, state])
    (result,) = outcome(api, burnin_cluster.Cluster("", samples="")).results
    assert (result.status, result.fix) == (status, fix)
    assert [ref.name for ref in api.deleted] == ["bench-0", "bench-1"]
    assert isinstance(api.deleted[0], Ref)


def test_a_cluster_that_offers_other_gpus_is_an_error_and_nothing_is_left() -> None:
    api = Jobs([], [PENDING], gpus="1")
    (result,) = outcome(api, burnin_cluster.Cluster("", samples="")).results
    assert result.status is Status.ERROR
    assert "Kubernetes offers 1 GPU of gpu-1, which has 2" in result.cause
    assert not api.jobs
