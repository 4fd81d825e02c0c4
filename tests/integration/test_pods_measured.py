"""Benchmarks through a real Kubernetes: Jobs of its scheduler on real kubelets, what is planted named and nothing else."""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from appliance.adapters.pods import NAMESPACE
from tests.integration.bare import assert_whole, reasons
from tests.integration.kept import Kept
from tests.integration.slowed import (
    assert_named,
    false_products,
    limited,
    slow_pods,
    slow_processors,
)
from tests.support.rack_cluster import BUSYBOX, NAME, Cluster, made

GPU_HOSTS = ("gpu-1", "gpu-2")

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The cluster of test_kubernetes, or its like."""
    return kept.of(NAME, lambda: made(tmp_path_factory.mktemp(NAME)))


@pytest.fixture(scope="module")
def opened(cluster: Cluster) -> Cluster:
    """With the access by which benchmarks submit their pods."""
    done = cluster.program("kubeconfig", "--days", "1")
    assert done.returncode == 0, done.stderr
    return cluster


def test_fio_runs_as_jobs_of_the_cluster_and_leaves_a_cordoned_host_alone(opened: Cluster) -> None:
    """What is installed on the host is what runs: first fio is not there, then it is, then the scheduler places nothing on one."""
    words = ("validate", "fio", "--through", "kubernetes", "--image", BUSYBOX, "--json")

    def told() -> dict[str, dict[str, object]]:
        done = opened.program(*words)
        record = json.loads(done.stdout)
        return {r["host"]: r for r in record["results"] if r["id"] == "fio.scratch_read"}

    assert {r["cause"] for r in told().values()} == {"fio is not there"}
    for host in GPU_HOSTS:
        opened.said(host, "apt-get install -y --no-install-recommends fio >/dev/null", 240)
    found = told()
    assert set(found) == {"gpu-1", "gpu-2"}
    assert all(isinstance(r["value"], float) and r["value"] > 0 for r in found.values())
    opened.kubectl("cordon gpu-2")
    busy = told()
    opened.kubectl("uncordon gpu-2")
    assert "Kubernetes does not schedule work on it" in str(busy["gpu-2"]["cause"])
    assert busy["gpu-2"]["status"] == "not_assessed"
    assert isinstance(busy["gpu-1"]["value"], float)
    left = opened.kubectl(f"-n {NAMESPACE} get jobs -o name")
    assert left == ""
    for host in GPU_HOSTS:
        opened.said(host, "apt-get purge -y fio >/dev/null", 120)


TRAINING = ("validate", "gpt3", "--through", "kubernetes", "--image", BUSYBOX, "--json")
SIGNAL = """
for i in $(seq 1 900); do
  p=$(pgrep -f '^python3 -u -c .*[-]-steps=12' | head -1)
  [ -n "$p" ] && grep -q libtorch_cpu "/proc/$p/maps" && sleep {after} && kill -{number} "$p" && exit 0
  sleep 0.1
done
exit 1
"""
"""To the program of a pod, once it has loaded PyTorch."""
ENDED = """
for i in $(seq 1 60); do
  pgrep -f '^python3 -u -c .*[-]-steps=12' >/dev/null || exit 0
  sleep 1
done
exit 1
"""


def _losses(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {r["target"]: r for r in record["results"] if r["id"] == "gpt3.loss"}


def test_a_small_gpt_trains_in_pods_on_one_host_and_on_two(opened: Cluster) -> None:
    """PyTorch is the hosts' own, the network that of pods."""
    record = json.loads(opened.program(*TRAINING).stdout)
    losses = _losses(record)
    assert {target: r["status"] for target, r in losses.items()} == {
        "cluster/cpu-3m kubernetes 1n": "pass",
        "cluster/cpu-3m kubernetes 2n": "pass",
    }, losses
    rates = [m["value"] for m in record["measurements"] if m["unit"] == "tokens/s"]
    assert len(rates) == 2
    assert all(rate > 0 for rate in rates)
    kept = opened.site / "runs" / record["run"] / "evidence" / "gpt3" / "cpu-3m-2n.log"
    assert kept.read_text().count("elapsed time per iteration") == 12
    assert opened.kubectl(f"-n {NAMESPACE} get jobs -o name") == ""


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (9, "rank 1 on gpu-2: ended by signal 9"),
        (19, r"rank 1 on gpu-2 (does not respond|never started)"),
    ],
    ids=["killed", "stopped"],
)
def test_the_rank_that_dies_or_hangs_in_its_pod_is_named(
    opened: Cluster, number: int, told: str
) -> None:
    """One that is stopped keeps the other waiting, which gives up after two minutes."""
    with ThreadPoolExecutor(1) as pool:
        script = SIGNAL.format(after=0.5, number=number)
        sent = pool.submit(opened.said, "gpu-2", script, 120)
        record = json.loads(opened.program(*TRAINING, "--nodes", "2").stdout)
        sent.result()
    (loss,) = _losses(record).values()
    assert (loss["status"], bool(re.search(told, loss["cause"]))) == ("error", True), loss
    assert opened.kubectl(f"-n {NAMESPACE} get jobs -o name") == ""
    # A Job is gone before its pods, and what is stopped hears no signal but kubelet's last.
    opened.said("gpu-2", ENDED, 90)


def test_a_host_that_is_held_is_named_and_nobody_trains(opened: Cluster) -> None:
    opened.kubectl("cordon gpu-2")
    try:
        record = json.loads(opened.program(*TRAINING, "--nodes", "2").stdout)
    finally:
        opened.kubectl("uncordon gpu-2")
    (loss,) = _losses(record).values()
    assert loss["status"] == "not_assessed"
    assert "Kubernetes did not place the pod on gpu-2" in loss["cause"]


def test_nccl_says_what_its_hosts_lack(opened: Cluster) -> None:
    """There is no GPU to measure: the tool is looked for on the host, through its pod."""
    words = ("validate", "nccl", "--through", "kubernetes", "--image", BUSYBOX, "--json")
    record = json.loads(opened.program(*words).stdout)
    found = {r["host"]: r["cause"] for r in record["results"] if r["id"] == "nccl.host"}
    assert set(found) == {"gpu-1", "gpu-2"}
    assert all(cause.startswith("all_reduce_perf") for cause in found.values()), found


def test_products_are_measured_in_pods_and_a_host_that_computes_falsely_is_named(
    opened: Cluster,
) -> None:
    with false_products(opened.said, "gpu-2"):
        found = measured(opened, "gemm", 1)
    assert_named(found, "gpu-1", "gpu-2")


@pytest.fixture(scope="module")
def with_tools(opened: Cluster) -> Iterator[Cluster]:
    """Its GPU hosts have fio and HPC Challenge."""
    tools = "fio hpcc openmpi-bin"
    for host in GPU_HOSTS:
        opened.said(host, f"apt-get install -y --no-install-recommends {tools} >/dev/null", 240)
    yield opened
    for host in GPU_HOSTS:
        opened.said(
            host, "apt-get purge -y fio hpcc >/dev/null; apt-get autoremove -y >/dev/null", 240
        )


def measured(cluster: Cluster, benchmark: str, code: int) -> dict[tuple[str, str], dict[str, Any]]:
    """Results by check and host or target; the program must end with ``code``."""
    words = ("validate", benchmark, "--through", "kubernetes", "--image", BUSYBOX, "--json")
    done = cluster.program(*words, seconds=900)
    assert done.returncode == code, done.stdout[-2000:] + done.stderr
    return {(r["id"], r["host"] or r["target"]): r for r in json.loads(done.stdout)["results"]}


def test_a_host_whose_pods_lack_processor_time_fails_its_limit_and_no_other(
    with_tools: Cluster,
) -> None:
    sound = measured(with_tools, "hpcc", 0)
    least = min(sound["hpcc.hpl", host]["value"] for host in GPU_HOSTS)
    with (
        limited(with_tools.site, "hpcc.hpl", value=least / 3, unit="GFLOPS"),
        slow_pods(with_tools.rack, "gpu-2", 0.1),
    ):
        found = measured(with_tools, "hpcc", 1)
    assert {host: found["hpcc.hpl", host]["status"] for host in GPU_HOSTS} == {
        "gpu-1": "pass",
        "gpu-2": "fail",
    }


def test_the_bare_command_measures_all_that_needs_no_gpu(with_tools: Cluster) -> None:
    """As it is typed, for the rack's site names the image of pods."""
    done = with_tools.program("validate", "--through", "kubernetes", "--json", seconds=900)
    record = assert_whole(done, "kubernetes", "gpt3", "gemm", "fio", "hpcc")
    left = reasons(record["left_out"])
    assert left["burnin"] == left["slurm"] == "run through Slurm only"
    assert with_tools.kubectl(f"-n {NAMESPACE} get jobs -o name") == ""


def test_a_hot_gpu_and_a_port_at_half_rate_are_named_where_no_job_could_show_them(
    opened: Cluster,
) -> None:
    """Burn-in and perftest run through Slurm only; what they would meet on these hosts health tells."""
    planted = (("port-rate", "mlx5_3"), ("thermal", "5"))
    asked = ("--check", "fabric.rate", "--check", "gpu.temperature", "--json")

    def bad() -> set[tuple[str, str]]:
        results = json.loads(opened.program("health", *asked).stdout)["results"]
        return {(r["id"], r["target"]) for r in results if r["status"] == "fail"}

    for benchmark in ("burnin", "perftest"):
        refused = opened.program("validate", benchmark, "--through", "kubernetes")
        assert refused.returncode == 2, refused.stderr
    for fault in planted:
        opened.hurt("gpu-2", *fault)
    try:
        deadline = time.monotonic() + 60
        while len(found := bad()) < len(planted) and time.monotonic() < deadline:
            time.sleep(2)
    finally:
        for fault in planted:
            opened.heal("gpu-2", *fault)
    assert found == {("fabric.rate", "gpu-2/mlx5_3"), ("gpu.temperature", "gpu-2/GPU 5")}


@pytest.fixture
def with_mount(with_tools: Cluster) -> Iterator[Cluster]:
    """The site's shared directory mounted on the GPU hosts; the server is real, the client behind mount(8) the rack's."""
    server = with_tools.rack.host("head").address
    for host in GPU_HOSTS:
        with_tools.said(host, f"mkdir -p /data; mount -t nfs {server}:/srv/data /data")
    yield with_tools
    for host in GPU_HOSTS:
        with_tools.said(host, "umount /data")


def test_a_server_that_is_throttled_is_what_all_pods_together_show(with_mount: Cluster) -> None:
    totals = ("fio.total_write", "fio.total_read")
    sound = measured(with_mount, "fio", 1)
    target = "cluster/data 2 hosts"
    least = min(sound[check, target]["value"] for check in totals)
    with (
        limited(with_mount.site, *totals, value=least / 3),
        slow_processors(with_mount.rack, "head", 0.05, "ganesha.nfsd"),
    ):
        found = measured(with_mount, "fio", 1)
    assert {found[check, target]["status"] for check in totals} == {"fail"}
    assert "server's disks" in found[totals[0], target]["fix"]


def test_collectives_run_between_hosts_in_pods(opened: Cluster) -> None:
    """PyTorch of the hosts, over the hosts' network; the rack has no NCCL, so processors exchange the data."""
    record = json.loads(opened.program(*COLLECTIVES).stdout)
    found = {(r["id"], r["target"]): r for r in record["results"]}
    hosts = [r for (check, _), r in found.items() if check == "nccl.groups"]
    assert {r["target"] for r in hosts} == set(GPU_HOSTS)
    assert all(r["simulated"] and r["value"] > 0 for r in hosts), hosts
    assert opened.kubectl(f"-n {NAMESPACE} get jobs -o name") == ""


COLLECTIVES = ("validate", "nccl", "--through", "kubernetes", "--image", BUSYBOX, "--json")
WRONG = """
d=$(python3 -c 'import torch, os; print(os.path.dirname(torch.__file__))')/distributed/__init__.py
cp "$d" /root/distributed.py
cat >>"$d" <<'END'
_summed = all_reduce
def all_reduce(tensor, *rest, **named):
    done = _summed(tensor, *rest, **named)
    if tensor.numel() > 1:
        tensor[-1] += 1
    return done
END
"""
"""PyTorch of one host sums its last element wrongly."""
RIGHT = """
d=$(python3 -c 'import torch, os; print(os.path.dirname(torch.__file__))')/distributed/__init__.py
cp /root/distributed.py "$d"
"""


def test_a_wrong_value_of_one_host_fails_the_exchange(opened: Cluster) -> None:
    opened.said("gpu-2", WRONG, 60)
    try:
        record = json.loads(opened.program(*COLLECTIVES).stdout)
    finally:
        opened.said("gpu-2", RIGHT, 60)
    causes = {r["cause"] for r in record["results"] if r["id"] == "nccl.groups"}
    assert any("wrong: data was corrupted in transit" in cause for cause in causes), causes


STOP = """
for i in $(seq 1 900); do
  p=$(pgrep -f '^python3 collective.py' | tail -1)
  [ -n "$p" ] && grep -q libtorch_cpu "/proc/$p/maps" && kill -9 "$p" && exit 0
  sleep 0.1
done
exit 1
"""


def test_a_process_that_dies_names_its_host(opened: Cluster) -> None:
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(opened.said, "gpu-2", STOP, 120)
        record = json.loads(opened.program(*COLLECTIVES).stdout)
        sent.result()
    found = {r["target"]: r for r in record["results"] if r["id"] == "nccl.groups"}
    assert found["gpu-2"]["status"] == "error", found
    assert found["gpu-1"]["status"] != "error", found


def test_a_burn_in_runs_as_jobs_and_is_judged_by_the_samples_on_the_hosts(opened: Cluster) -> None:
    """On processors, for a minute: the rack's GPUs are made up."""
    words = ("validate", "burnin", "--minutes", "1", "--through", "kubernetes", "--image", BUSYBOX)
    record = json.loads(opened.program(*words, "--json", seconds=400).stdout)
    found = {r["target"]: r for r in record["results"] if r["id"] == "burnin.done"}
    assert set(found) == set(GPU_HOSTS), record["results"]
    kept = opened.site / "runs" / record["run"] / "evidence" / "burnin"
    assert {file.name for file in kept.iterdir()} == {"gpu-1.jsonl", "gpu-2.jsonl"}
    assert '"kind": "end", "why": "done"' in (kept / "gpu-2.jsonl").read_text()
