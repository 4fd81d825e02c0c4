"""MIG on demand on a real cluster: a pod that waits gets an instance, a stop in the middle gives the host back, what nobody uses goes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.lab.spec import RackSpec
from tests.integration.rack import PROGRAM, own_name, raised
from tests.support.cluster_pods import until
from tests.support.rack_cluster import SECONDS, Cluster

POD = Path(__file__).with_name("mig_pod.yaml").read_text()
SCHEDULER = """
scheduler:
  # The rack has no RDMA device plugin.
  rdma: host
  node_pools:
    - {name: slices, hosts: [gpu-1], mig: mixed, mig_on_demand: [1g.10gb, 3g.40gb], mig_whole: 2, mig_unused: 2m}
  departments:
    - {name: science}
  projects:
    - name: vision
      department: science
      queues:
        - {name: small, pool: slices, gpu: {quota: 2}}
"""
MINUTES_S = 600.0

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane and a GPU host whose GPUs are divided for the pods of a project."""
    spec = RackSpec(own_name("slices"), 2, kubernetes=True)
    with raised(spec, tmp_path_factory.mktemp("slices"), Cluster) as found:
        site = found.site / "site.yml"
        site.write_text(site.read_text() + SCHEDULER)
        found.brought_up()
        deployment = found.deploy("--stage", "scheduler", "--stage", "limits", "--json")
        assert deployment.end(SECONDS) in (0, 3), deployment.tail
        for words in (("kubeconfig", "--days", "1"), ("queue", "apply", "--yes")):
            argv = (PROGRAM, *words, "--site", str(found.site))
            done = run(argv, timeout=300, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        yield found


def node(cluster: Cluster) -> tuple[dict[str, int], bool, dict[str, str]]:
    """What the GPU host gives out of its GPUs, whether it is cordoned, and its annotations."""
    found = json.loads(cluster.kubectl("get node gpu-1 -o json"))
    offers = {
        name.removeprefix("nvidia.com/"): int(count)
        for name, count in found["status"]["allocatable"].items()
        if name.startswith("nvidia.com/")
    }
    return offers, bool(found["spec"].get("unschedulable")), found["metadata"]["annotations"]


def asks(cluster: Cluster, name: str, profile: str) -> None:
    """Makes a pod of the project that asks for an instance."""
    pod = POD.replace("NAME", name).replace("PROFILE", profile)
    cluster.kubectl(f"apply -f - <<'END'\n{pod}\nEND")


def phase(cluster: Cluster, name: str) -> str:
    """How far a pod is."""
    return cluster.kubectl(f"-n kai-vision get pod {name} -o jsonpath='{{.status.phase}}'")


def whole(cluster: Cluster, count: int) -> bool:
    """Whether the host gives out so many whole GPUs, and is open."""
    offers, cordoned, _ = node(cluster)
    return offers["gpu"] == count and not cordoned


def test_a_pod_that_waits_gets_an_instance_on_a_gpu_nobody_has(cluster: Cluster) -> None:
    until(lambda: whole(cluster, 8), "eight whole GPUs", MINUTES_S)
    asks(cluster, "first", "1g.10gb")
    until(lambda: phase(cluster, "first") == "Running", "the pod runs", MINUTES_S)
    offers, cordoned, notes = node(cluster)
    assert (offers["gpu"], offers["mig-1g.10gb"]) == (7, 1)
    assert not cordoned
    assert not {"appliance/drained", "appliance/mig-at-work"} & set(notes)


def test_a_stop_in_the_middle_gives_the_host_back_and_a_start_serves_who_still_waits(
    cluster: Cluster,
) -> None:
    asks(cluster, "second", "3g.40gb")
    until(lambda: "appliance/mig-at-work" in node(cluster)[2], "the host is at work", MINUTES_S)
    cluster.said("gpu-1", "systemctl stop appliance-mig-demand", MINUTES_S)
    _, cordoned, notes = node(cluster)
    assert not cordoned
    assert not {"appliance/drained", "appliance/mig-at-work"} & set(notes)
    cluster.said("gpu-1", "systemctl start appliance-mig-demand")
    until(lambda: phase(cluster, "second") == "Running", "the pod runs", MINUTES_S)
    assert phase(cluster, "first") == "Running"


def test_what_nobody_uses_goes_and_the_gpus_are_whole_again(cluster: Cluster) -> None:
    cluster.kubectl("-n kai-vision delete pod first second --ignore-not-found", 120)
    until(lambda: whole(cluster, 8), "eight whole GPUs again", MINUTES_S)
    offers = node(cluster)[0]
    assert {count for name, count in offers.items() if name.startswith("mig-")} <= {0}
