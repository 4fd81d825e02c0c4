"""A GPU host of a real cluster given to Slurm and back: what stands in the way holds it, and a killed move goes on."""

import signal
from pathlib import Path

import pytest

from appliance.adapters.process import run
from tests.integration.kept import Kept
from tests.integration.rack import PROGRAM, Deployment
from tests.support.rack_cluster import NAME, SECONDS, Cluster, made

WORK = Path(__file__).with_name("kubernetes_owner.yaml")

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The cluster of test_kubernetes, or its like, with both schedulers: deployed through stage slurm."""
    found = kept.of(NAME, lambda: made(tmp_path_factory.mktemp(NAME)))
    first = found.deploy("--until", "slurm", "--json")
    assert first.end(SECONDS) in (0, 3), first.tail
    return found


def begun(cluster: Cluster, *words: str) -> Deployment:
    """``appliance node assign gpu-1``, at work."""
    site = str(cluster.site)
    argv = (PROGRAM, "node", "assign", "gpu-1", *words, "--site", site, "--yes", "--json")
    cluster.started.append(Deployment(cluster.logs, argv, {}))
    return cluster.started[-1]


def moved(cluster: Cluster, *words: str) -> tuple[int, str]:
    """The same to its end: exit code, and all it wrote."""
    move = begun(cluster, *words)
    return move.end(SECONDS), move.text


def site_of(cluster: Cluster) -> str:
    return (cluster.site / "site.yml").read_text()


def test_pods_in_the_way_hold_the_host_and_consent_moves_it(cluster: Cluster) -> None:
    cluster.kubectl(f"apply -f - <<'END'\n{WORK.read_text()}\nEND")
    for app in ("server", "train"):
        cluster.kubectl(f"wait pod -l app={app} --for=condition=Ready --timeout=240s", 300)
    before = site_of(cluster)
    code, said = moved(cluster, "slurm", "--wait", "0")
    assert code == 1, said
    assert "gpu-1 is not free after 0 min" in said
    assert "its disruption budget allows no eviction now" in said
    assert "pod default/train" in said
    assert site_of(cluster) == before
    assert cluster.ready() == set(cluster.hosts)
    cluster.kubectl("delete pdb server")
    code, said = moved(cluster, "slurm", "--wait", "0", "--evict")
    assert code in (0, 3), said
    assert site_of(cluster) == before.replace(
        "  - name: gpu-1\n", "  - name: gpu-1\n    owner: slurm\n"
    )
    answer = cluster.said("head", "timeout 120 srun -w gpu-1 --gres=gpu:8 hostname", 180)
    assert answer.split() == ["gpu-1"]
    cluster.kubectl("wait pod -l app=server --for=condition=Ready --timeout=240s", 300)
    where = "get pods -l app=server -o jsonpath='{.items[*].spec.nodeName}'"
    assert "gpu-1" not in cluster.kubectl(where)


def test_a_move_killed_while_it_waits_for_a_job_goes_on_and_pods_run_there(
    cluster: Cluster,
) -> None:
    job = cluster.said("head", "sbatch --parsable -w gpu-1 --gres=gpu:1 --wrap 'sleep 3600'")
    running = "for i in $(seq 120); do squeue -h -t R | grep . && exit; sleep 1; done; exit 1"
    cluster.said("head", running, 180)
    before = site_of(cluster)
    first = begun(cluster, "kubernetes", "--wait", "60")
    first.until_it_says(f"waits for job {job.strip()} of root", seconds=SECONDS)
    first.send(signal.SIGKILL)
    first.end()
    assert site_of(cluster) == before
    assert "DRAIN" in cluster.said("head", "scontrol --oneliner show node gpu-1")
    second = begun(cluster, "kubernetes", "--wait", "60")
    second.until_it_says(f"waits for job {job.strip()} of root", seconds=SECONDS)
    cluster.said("head", f"scancel {job}")
    assert second.end(SECONDS) in (0, 3), second.tail
    assert "owner: kubernetes" in site_of(cluster)
    # The job of the cluster waited for its host all the time.
    cluster.kubectl("wait pod -l app=train --for=condition=Ready --timeout=240s", 300)
    run((PROGRAM, "node", "show", "--site", str(cluster.site)), timeout=300)
    cluster.kubectl("delete deployment/server job/train --wait=false")
