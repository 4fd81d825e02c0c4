"""A cluster hands out its GPUs, or its deployment fails: without a device plugin, and with each that the product installs."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from appliance.lab.device_plugin.bundle import UNIT
from appliance.lab.kubernetes_build import PLACE
from appliance.lab.spec import RackSpec
from appliance.models.result import Status
from tests.integration.rack import own_name, raised, run_of
from tests.support.cluster_pods import IMAGE, until
from tests.support.rack_cluster import SECONDS, UNTIL, Cluster

pytestmark = pytest.mark.cluster

OFFERED = r"get node gpu-1 -o jsonpath='{.status.allocatable.nvidia\.com/gpu}'"
DAEMONS = "get daemonsets -l app=nvidia-device-plugin-daemonset -o name"
HELM = f"KUBECONFIG=/etc/kubernetes/admin.conf /{PLACE}/bin/helm"
OPERATOR, PLUGIN = "gpu-operator", "nvidia-device-plugin"
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: asks}}
spec:
  restartPolicy: Never
  containers:
    - name: it
      image: {IMAGE}
      command: [sh, -c, ls /dev]
      resources: {{limits: {{nvidia.com/gpu: "2"}}}}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane and a GPU host on which nothing registers GPUs."""
    spec = RackSpec(own_name("offers"), 2, kubernetes=True)
    with raised(spec, tmp_path_factory.mktemp("offers"), Cluster) as found:
        found.said("gpu-1", f"systemctl disable --now {UNIT}")
        yield found


def choose(cluster: Cluster, what: str) -> None:
    """Writes into site.yml what hands out GPUs."""
    file = cluster.site / "site.yml"
    text = re.sub(r"(?m)^  device_plugin: .*\n", "", file.read_text())
    file.write_text(text.replace("\nkubernetes:\n", f"\nkubernetes:\n  device_plugin: {what}\n"))


def deployed(cluster: Cluster, *codes: int) -> dict[str, Any]:
    """A deployment through stage kubernetes that ends so; its report."""
    deployment = cluster.deploy(*UNTIL)
    assert deployment.end(SECONDS) in codes, deployment.tail
    return cluster.report(run_of(deployment.events))


def judged(cluster: Cluster) -> dict[str, Any]:
    """What health says of the GPUs that the cluster may give out of gpu-1."""
    done = cluster.program("health", "--json", "--check", "kubernetes.gpus")
    results = json.loads(done.stdout)["results"]
    (found,) = [r for r in results if r["id"] == "kubernetes.gpus"]
    return dict(found)


def releases(cluster: Cluster) -> set[str]:
    """Releases that Helm has deployed."""
    words = "get secrets -A -l owner=helm,status=deployed"
    told = cluster.kubectl(f"{words} -o jsonpath='{{.items[*].metadata.labels.name}}'")
    return set(told.split())


def test_a_cluster_without_a_device_plugin_ends_failed_with_one_cause(cluster: Cluster) -> None:
    choose(cluster, "own")
    report = deployed(cluster, 1)
    failed = {(o["stage"], o["host"]): o for o in report["outcomes"] if o["state"] == "failed"}
    assert set(failed) == {("kubernetes", "gpu-1")}
    (outcome,) = failed.values()
    assert outcome["cause"] == (
        "kubernetes.gpus: the cluster offers 0 nvidia.com/gpu, the host has 8: no device plugin has registered"
    )
    assert "kubernetes.device_plugin: own" in outcome["fix"]
    assert cluster.ready() == {"head", "gpu-1"}
    assert releases(cluster) == set()


def test_the_operator_of_the_site_hands_them_out_without_a_scheduler(cluster: Cluster) -> None:
    choose(cluster, "operator")
    deployed(cluster, 0, 3)
    assert releases(cluster) == {OPERATOR}
    assert cluster.kubectl(OFFERED) == "8"
    assert judged(cluster)["status"] == Status.PASS
    cluster.kubectl(f"apply -f - <<'END'\n{POD}\nEND")
    good = "jsonpath='{.status.phase}'=Succeeded"
    cluster.kubectl(f"wait --for={good} --timeout=240s pod/asks", 300)
    seen = {name for name in cluster.kubectl("logs asks").split() if name.startswith("nvidia")}
    assert len([name for name in seen if re.fullmatch(r"nvidia\d+", name)]) == 2


def test_a_second_deployment_has_nothing_to_do(cluster: Cluster) -> None:
    before = cluster.kubectl(f"-n {OPERATOR} get pods -o name")
    states = {o["state"] for o in deployed(cluster, 0, 3)["outcomes"]}
    assert states == {"skipped"}
    assert cluster.kubectl(f"-n {OPERATOR} get pods -o name") == before


def test_a_kubelet_that_restarts_is_registered_with_again(cluster: Cluster) -> None:
    cluster.said("gpu-1", "systemctl restart kubelet")
    until(lambda: judged(cluster)["status"] == Status.PASS, "all GPUs are handed out again")


def test_a_plugin_that_does_not_start_is_named_with_its_reason(cluster: Cluster) -> None:
    """Planted: its image cannot be pulled. The remedy is typed."""
    daemons = cluster.kubectl(f"-n {OPERATOR} {DAEMONS}").strip()
    change = f"-n {OPERATOR} set image {daemons} plugin="
    try:
        cluster.kubectl(f"{change}appliance.local/none:1")
        until(lambda: "ErrImage" in judged(cluster)["cause"], "the reason is told")
        found = judged(cluster)
        assert found["status"] == Status.FAIL
        assert "offers 0 nvidia.com/gpu, the host has 8: pod nvidia-device" in found["cause"]
        remedy = found["fix"].partition(", then")[0]
        assert "appliance.local/none:1" in cluster.kubectl(remedy.removeprefix("kubectl "))
    finally:
        cluster.kubectl(f"{change}{IMAGE}")
    until(lambda: judged(cluster)["status"] == Status.PASS, "all GPUs are handed out again")


def test_a_release_that_is_gone_is_installed_again(cluster: Cluster) -> None:
    cluster.said("head", f"{HELM} uninstall {OPERATOR} --namespace {OPERATOR} --wait")
    until(lambda: cluster.kubectl(OFFERED) == "0", "nothing is handed out")
    deployed(cluster, 0, 3)
    assert releases(cluster) == {OPERATOR}
    assert cluster.kubectl(OFFERED) == "8"


def test_the_plugin_alone_takes_the_place_of_the_operator(cluster: Cluster) -> None:
    choose(cluster, "plugin")
    deployed(cluster, 0, 3)
    assert releases(cluster) == {PLUGIN}
    assert cluster.kubectl(OFFERED) == "8"
    assert cluster.kubectl("get runtimeclass nvidia -o name").strip()
    assert judged(cluster)["status"] == Status.PASS
