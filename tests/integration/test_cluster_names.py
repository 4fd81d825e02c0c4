"""Names of services resolve while any one host is drained, and an upgrade that cannot succeed touches nothing."""

import json
import re
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from appliance.lab.kubernetes_build import CONTROL_IMAGES, RELEASE
from appliance.lab.spec import RackSpec
from tests.integration.rack import own_name, raised
from tests.support.cluster_pods import until
from tests.support.rack_cluster import BUSYBOX, SECONDS, UNTIL, Cluster

HOSTS = ("head", "gpu-1", "gpu-2")
NAME = "kubernetes.default.svc.cluster.local"
ASKS = f"while :; do nslookup {NAME} >/dev/null 2>&1 && date +%s; sleep 1; done"
"""Each line of its log is a second in which the name was resolved."""
GAP_S = 120
DRAINED_S = 45
NOT_OFFERED = "1.36.9"
FILES = (
    "find /etc /usr/bin /usr/local /var/lib/appliance /var/lib/apt /var/lib/dpkg /var/cache/apt "
    "/var/lib/kubelet/config.yaml -xdev -type f -print0 | sort -z | xargs -0 sha256sum"
)
DNS = "-n kube-system get pods -l k8s-app=kube-dns"

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One control host and two GPU hosts, with a pod on each that asks for a name every second."""
    spec = RackSpec(own_name("names"), len(HOSTS), kubernetes=True)
    with raised(spec, tmp_path_factory.mktemp("names"), Cluster) as found:
        first = found.deploy(*UNTIL)
        assert first.end(SECONDS) in (0, 3), first.tail
        for host in HOSTS:
            text = json.dumps(asking(host))
            found.kubectl(f"apply -f - <<'END'\n{text}\nEND")
        found.kubectl("wait pod --all --for=condition=Ready --timeout=240s", 300)
        yield found


def asking(host: str) -> dict[str, object]:
    """A pod that stays on its host through a drain, as one of a DaemonSet."""
    labels = {"app": f"asks-{host}"}
    box = {"name": "asks", "image": BUSYBOX, "command": ["sh", "-c", ASKS]}
    spec = {
        "containers": [box],
        "nodeSelector": {"kubernetes.io/hostname": host},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 1,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": f"asks-{host}"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def gap(cluster: Cluster, host: str, since: float) -> float:
    """The longest time without an answer on a host, up to now."""
    lines = cluster.kubectl(f"logs -l app=asks-{host} --tail=-1").split()
    moments = [since, *(float(m) for m in lines if float(m) > since), time.time()]
    return max(after - before for before, after in pairwise(moments))


def name_servers(cluster: Cluster) -> list[str]:
    """Hosts of the pods of CoreDNS that are ready."""
    found = json.loads(cluster.kubectl(f"{DNS} -o json"))["items"]
    return sorted(
        pod["spec"]["nodeName"]
        for pod in found
        if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"]["conditions"])
        and not pod["metadata"].get("deletionTimestamp")
    )


def judged(cluster: Cluster, check: str) -> list[dict[str, str]]:
    """What health reports of a check."""
    results = json.loads(cluster.program("health", "--json").stdout)["results"]
    return [result for result in results if result["id"] == check]


def of_check(cluster: Cluster, check: str, status: str) -> bool:
    """Whether all results of a check have this status."""
    return {result["status"] for result in judged(cluster, check)} == {status}


def test_the_pods_of_the_name_server_are_on_two_hosts(cluster: Cluster) -> None:
    until(lambda: len(set(name_servers(cluster))) == 2, "CoreDNS is ready on two hosts")
    budget = cluster.kubectl(
        "-n kube-system get pdb coredns -o jsonpath='{.status.currentHealthy}'"
    )
    assert budget == "2"
    for host in HOSTS:
        listed = cluster.said(host, "ctr -n k8s.io images ls -q")
        assert CONTROL_IMAGES["coredns"] in listed.split()
    assert CONTROL_IMAGES["etcd"] not in cluster.said("gpu-1", "ctr -n k8s.io images ls -q")
    until(lambda: of_check(cluster, "kubernetes.pods", "pass"), "kubernetes.pods passes")


@pytest.mark.parametrize("host", HOSTS)
def test_names_resolve_while_a_host_is_drained_and_after(
    cluster: Cluster, host: str, record_property: Callable[[str, object], None]
) -> None:
    began = time.time()
    words = "--ignore-daemonsets --delete-emptydir-data --force --timeout=150s"
    cluster.kubectl(f"drain {host} {words}", 200)
    try:
        time.sleep(DRAINED_S)
        assert host not in name_servers(cluster)
    finally:
        cluster.kubectl(f"uncordon {host}")
    until(lambda: len(set(name_servers(cluster))) == 2, "CoreDNS is ready on two hosts")
    time.sleep(5)
    gaps = {other: gap(cluster, other, began) for other in HOSTS}
    record_property("seconds_without_an_answer", max(gaps.values()))
    assert max(gaps.values()) < GAP_S, gaps


def state(cluster: Cluster) -> tuple[dict[str, dict[str, str]], list[object]]:
    """Every file of every host that a deployment writes, and what the API has of the nodes."""
    files = {}
    for host in HOSTS:
        lines = cluster.said(host, FILES, 300).splitlines()
        files[host] = {path: digest for digest, _, path in (line.partition("  ") for line in lines)}
    nodes = json.loads(cluster.kubectl("get nodes -o json"))["items"]
    kept = [
        {key: node["metadata"][key] for key in ("name", "labels", "annotations")} | node["spec"]
        for node in nodes
    ]
    return files, kept


def test_a_release_that_no_repository_offers_is_refused_with_nothing_touched(
    cluster: Cluster,
) -> None:
    site = cluster.site / "site.yml"
    written = site.read_text()
    wanted = re.sub(r'version: "1\.\d+[.\d]*"', f'version: "{NOT_OFFERED}"', written)
    assert wanted != written
    before = state(cluster)
    site.write_text(wanted)
    try:
        for refused in (
            cluster.program("plan", *UNTIL),
            cluster.program("deploy", "--yes", *UNTIL),
        ):
            assert refused.returncode == 2, refused.stdout + refused.stderr
            said = refused.stdout + refused.stderr
            assert f"no repository offers kubeadm and kubectl and kubelet {NOT_OFFERED}" in said
            assert f"there is {RELEASE}-1" in said
            assert "nothing was changed" in said
    finally:
        site.write_text(written)
    assert state(cluster) == before
    again = cluster.deploy(*UNTIL)
    assert again.end(SECONDS) in (0, 3), again.tail
    runs = [event for event in again.events if event["event"] == "host_task"]
    assert runs == []
