"""Training through Kubernetes: ranks that find each other, the one to blame when they fail, and hosts that are not given."""

import subprocess  # noqa: TID251 - a pod's command is read by a real shell
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.kubernetes import Ref
from appliance.adapters.pods import NAMESPACE, START_SECONDS, PodRemote
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.gpt3 import run as gpt3
from appliance.benchmarks.gpt3.launch import MINUTES, Training, arguments, launch
from appliance.benchmarks.gpt3.trial import SECONDS, SMALL, Request
from appliance.checks.check import View
from appliance.models.result import CheckResult, Status
from appliance.models.site import Owner, Role
from appliance.stages.kubernetes.site import KubernetesOptions
from tests.support.fake_pods import PENDING, PLAIN, Beside, Cluster, Resource, Time
from tests.support.gpt3_runs import GOOD, Answer, FakeRemote, Patient, says, view
from tests.support.gpt3_trials import log_of, real

Codes = Sequence[int | None]


class Ranks(Cluster):
    """A cluster whose pods run, and end with ``codes`` once all of them are there; None: it stays at work."""

    def __init__(self, codes: Codes, said: Mapping[int, str], pending: Sequence[str] = ()) -> None:
        super().__init__()
        self.codes, self.words, self.pending = codes, said, pending

    def find(self, api_version: str, kind: str, selector: str) -> list[Resource]:
        name = selector.removeprefix("job-name=")
        job = next(job for job in self.jobs if job["metadata"]["name"] == name)
        rank = int(variables(job)["RANK"]["value"])
        status: dict[str, Any] = {"phase": "Running", "podIP": f"10.9.0.{rank}"}
        if host_of(job) in self.pending:
            status = PENDING
        elif len(self.live) == len(self.codes) and self.codes[rank] is not None:
            ended = {"state": {"terminated": {"exitCode": self.codes[rank]}}}
            status = status | {"phase": "Failed", "containerStatuses": [ended]}
        meta = {"name": str(rank), "namespace": NAMESPACE}
        return [{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status}]

    def logs(self, pod: Ref) -> str:
        return self.words.get(int(pod.name), "")

    @property
    def jobs(self) -> list[Resource]:
        return [r for r in self.applied if r["kind"] == "Job"]

    @property
    def live(self) -> list[Resource]:
        gone = {ref.name for ref in self.deleted}
        return [job for job in self.jobs if job["metadata"]["name"] not in gone]


def container(job: Resource) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["template"]["spec"]["containers"][0]
    return found


def variables(job: Resource) -> dict[str, dict[str, Any]]:
    return {variable["name"]: variable for variable in container(job)["env"]}


def host_of(job: Resource) -> str:
    return str(job["spec"]["template"]["spec"]["nodeSelector"]["kubernetes.io/hostname"])


def trained(
    cluster: Ranks, *nodes: int, model: str = SMALL, seen: View | None = None, gpus: int = 8
) -> tuple[CheckResult, Outcome, Time]:
    seen, time = seen or view(2), Time()
    site = seen.site.model_copy(update={"kubernetes": KubernetesOptions()})
    hosts = frozenset({"gpu-1", "gpu-2"})
    counts = dict.fromkeys(hosts, gpus)
    door = PodRemote(Beside(), cluster, hosts, PLAIN, counts, now=time.now, sleep=time.sleep)
    outcome = gpt3.run(View(seen.profile, site, seen.facts), door, Request(model, nodes))
    return next(r for r in outcome.results if r.id == "gpt3.loss"), outcome, time


def test_ranks_are_told_who_they_are_and_the_last_one_speaks_for_all() -> None:
    cluster = Ranks((0, 0), {0: "no word of a step", 1: GOOD})
    loss, outcome, _ = trained(cluster, 2)
    assert (loss.status, loss.target) == (Status.PASS, "cluster/cpu-3m kubernetes 2n")
    first, second = cluster.jobs
    assert [host_of(job) for job in (first, second)] == ["gpu-1", "gpu-2"]
    own = {"fieldRef": {"fieldPath": "status.podIP"}}
    assert variables(first)["MASTER_ADDR"]["valueFrom"] == own
    assert variables(second)["MASTER_ADDR"]["value"] == "10.9.0.0"
    assert {variables(job)["WORLD_SIZE"]["value"] for job in (first, second)} == {"2"}
    assert container(first)["command"][:4] == ["chroot", "/host", "python3", "-u"]
    assert cluster.live == []
    assert {m.detail["platform"] for m in outcome.measurements} == {"kubernetes"}


def test_it_trains_on_one_host_then_on_two() -> None:
    cluster = Ranks((0,), {0: GOOD, 1: GOOD})

    def one_more(ref: Ref) -> None:
        cluster.deleted.append(ref)
        cluster.codes = (0, 0)

    cluster.delete = one_more  # type: ignore[method-assign]
    _, outcome, _ = trained(cluster)
    losses = [(r.target, r.status) for r in outcome.results if r.id == "gpt3.loss"]
    assert losses == [(f"cluster/cpu-3m kubernetes {n}n", Status.PASS) for n in (1, 2)]


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        ((1, 137), "137: rank 1 on gpu-2: ended by signal 9"),
        ((137, None), "137: rank 0 on gpu-1: ended by signal 9"),
        ((1, None), "1: rank 0 on gpu-1: Connection closed by peer"),
        ((128, 1), "128: rank 0 on gpu-1: Connection closed by peer"),
    ],
)
def test_the_rank_that_died_is_blamed_and_not_those_that_it_took_along(
    codes: Codes, told: str
) -> None:
    cluster = Ranks(codes, {0: "Traceback\nConnection closed by peer\n"})
    loss, _, time = trained(cluster, 2)
    assert (loss.status, loss.cause) == (Status.ERROR, f"the training ended with {told}")
    assert time.at < 10
    assert cluster.live == []


def test_a_training_that_hangs_ends_at_its_bound_and_names_who_was_at_work() -> None:
    cluster = Ranks((0, None), {0: GOOD})
    loss, _, time = trained(cluster, 2)
    assert (loss.status, "gpu-2 was still running" in loss.cause) == (Status.ERROR, True)
    assert SECONDS < time.at < SECONDS + START_SECONDS + 10
    assert cluster.live == []


@pytest.mark.parametrize("busy", ["gpu-1", "gpu-2"])
def test_a_host_that_is_not_given_is_no_fault_and_the_others_are_let_go(busy: str) -> None:
    cluster = Ranks((0, 0), {1: GOOD}, pending=[busy])
    loss, _, time = trained(cluster, 2)
    assert loss.status is Status.NOT_ASSESSED
    assert loss.cause.startswith(f"Kubernetes did not place the pod on {busy}: 0/3 nodes")
    assert time.at < START_SECONDS + 5
    assert cluster.live == []


def test_hosts_without_pytorch_are_told_where_to_get_it() -> None:
    cluster = Ranks((75, 75), {0: "appliance: no torch on gpu-1: No module named 'torch'\n"})
    loss, _, _ = trained(cluster, 2)
    assert (loss.status, loss.required) == (Status.NOT_ASSESSED, False)
    assert "python3-torch" in loss.fix


def test_a_rank_that_the_others_wait_for_is_the_one_to_blame() -> None:
    """It is at work still, and the others have given up."""
    told = "appliance: rank 1 on gpu-2 does not respond\n[gloo] Timed out waiting 120000ms\n"
    loss, _, _ = trained(Ranks((1, None), {0: told}), 2)
    assert loss.status is Status.ERROR
    assert loss.cause.endswith("rank 1 on gpu-2 does not respond"), loss.cause
    killed, _, _ = trained(Ranks((1, 137), {0: told.replace("gpu-2", "gpu-9")}), 2)
    assert killed.cause.endswith("rank 1 on gpu-2: ended by signal 9")


def test_a_rank_that_never_came_has_the_host_it_was_sent_to() -> None:
    told = "appliance: rank 1 never started\nTraceback\nRuntimeError: Socket Timeout\n"
    loss, _, _ = trained(Ranks((1, None), {0: told}), 2)
    assert loss.cause.endswith("rank 1 on gpu-2 never started"), loss.cause


def test_a_host_whose_gpus_are_not_all_offered_fails_the_training_by_name() -> None:
    loss, _, _ = trained(Ranks((0, 0), {1: GOOD}), 2, gpus=9)
    assert (loss.status, loss.cause) == (
        Status.ERROR,
        "Kubernetes offers 8 GPUs of gpu-1, which has 9",
    )


def test_a_model_of_gpus_trains_by_torchrun_in_nemos_image_and_is_judged_as_its_log_is() -> None:
    cluster = Ranks((0, 0), {0: log_of(43.0), 1: "no step is told here"})
    loss, outcome, _ = trained(cluster, 2, model="5b", seen=real(2))
    assert (loss.status, loss.target) == (Status.PASS, "cluster/5b kubernetes 2n"), loss
    first, second = cluster.jobs
    argv = container(second)["command"]
    assert argv[:2] == ["sh", "-c"]
    assert argv[2].startswith("exec torchrun --nnodes=")
    assert argv[4:] == [launch().script, *arguments(Training("5b", 2, "", ""))]
    assert container(first)["image"] == launch().image
    told = variables(second)
    assert {name: told[name]["value"] for name in launch().environment} == launch().environment
    assert (told["RANK"]["value"], told["NODE_NAME"]["value"]) == ("1", "gpu-2")
    assert first["spec"]["activeDeadlineSeconds"] == MINUTES * 60 + START_SECONDS + 1
    found = next(r for r in outcome.results if r.id == "gpt3.throughput")
    assert (found.status, found.target) == (Status.PASS, "cluster/5b kubernetes 2n"), found
    assert [(raw.name, raw.part) for raw in outcome.raw] == [("5b-2n.log", "5b")]


def test_torchrun_is_told_by_the_pods_own_variables(tmp_path: Path) -> None:
    (tmp_path / "torchrun").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "torchrun").chmod(0o755)
    cluster = Ranks((0, 0), {0: log_of(43.0)})
    trained(cluster, 2, model="126m", seen=real(2))
    argv = container(cluster.jobs[1])["command"]
    own = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "10.9.0.0", "MASTER_PORT": "29500"}
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(
        argv, env={"PATH": path, **own}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(
        "--nnodes=2 --node_rank=1 --master_addr=10.9.0.0 --master_port=29500 --nproc_per_node=8 "
    )
    assert done.stdout.rstrip().endswith(arguments(Training("126m", 2, "", ""))[-1])


def test_a_rank_whose_death_is_told_a_moment_later_is_blamed_all_the_same() -> None:
    """The other failed because of it, and was seen first."""

    class Late(Ranks):
        seen = 0

        def find(self, api_version: str, kind: str, selector: str) -> list[Resource]:
            (pod,) = super().find(api_version, kind, selector)
            first = pod["metadata"]["name"] == "1" and pod["status"].get("containerStatuses")
            self.seen += bool(first)
            if first and self.seen == 1:
                pod["status"] = {"phase": "Running", "podIP": "10.9.0.1"}
            return [pod]

    cluster = Late((1, 137), {0: "Connection closed by peer"})
    loss, _, time = trained(cluster, 2)
    assert loss.cause.endswith("rank 1 on gpu-2: ended by signal 9"), loss.cause
    assert time.at >= 1


def _both(
    codes: Codes, slurm: Answer, state: str = "up"
) -> tuple[list[tuple[str, Status]], Outcome]:
    """Trains on one host of Slurm and on one of Kubernetes in one run."""
    seen, time = view(2, slurm=state), Time()
    first, second = seen.site.with_role(Role.GPU)
    owned = (first.model_copy(update={"owner": Owner.SLURM}), second)
    hosts = (*seen.site.with_role(Role.CONTROL), *owned)
    site = seen.site.model_copy(update={"kubernetes": KubernetesOptions(), "hosts": hosts})
    cluster = Ranks(codes, {0: GOOD})
    door = PodRemote(
        FakeRemote(slurm),  # type: ignore[arg-type]
        cluster,
        frozenset({"gpu-2"}),
        PLAIN,
        next_to_slurm=True,
        now=time.now,
        sleep=time.sleep,
    )
    outcome = gpt3.run(View(seen.profile, site, seen.facts), door, book=Patient())
    return [(r.target, r.status) for r in outcome.results if r.id == "gpt3.loss"], outcome


def test_both_ways_of_a_site_train_and_one_table_compares_them() -> None:
    found, outcome = _both((0,), says(GOOD))
    assert found == [
        ("cluster/cpu-3m bare-metal 1n", Status.PASS),
        ("cluster/cpu-3m kubernetes 1n", Status.PASS),
    ]
    (table,) = outcome.tables
    assert [row[0] for row in table.rows if "perfect" not in str(row[0])] == [
        "Bare metal: tokens/s",
        "Kubernetes: tokens/s",
        "Difference",
    ]
    assert str(table.rows[-1][1]).endswith("%")
    assert "but no GPU" in table.note
    assert [raw.name for raw in outcome.raw] == [
        "cpu-3m-bare-metal-1n.log",
        "cpu-3m-kubernetes-1n.log",
    ]


def test_one_way_that_fails_does_not_keep_the_other() -> None:
    found, outcome = _both((0,), says("", 1, "srun: error: no host"))
    assert found == [
        ("cluster/cpu-3m bare-metal 1n", Status.ERROR),
        ("cluster/cpu-3m kubernetes 1n", Status.PASS),
    ]
    assert "Difference" not in [row[0] for row in outcome.tables[0].rows]


def test_a_slurm_that_does_not_answer_does_not_keep_the_pods() -> None:
    found, _ = _both((0,), says(GOOD), state="down")
    assert found == [
        ("cluster", Status.NOT_ASSESSED),
        ("cluster/cpu-3m kubernetes 1n", Status.PASS),
    ]
