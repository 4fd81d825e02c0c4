"""A real cluster on a rack: made by a deployment that is killed on the way, used, drained, restored, and mended."""

import json
import re
from pathlib import Path

import pytest

from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.process import run
from appliance.stages.fabric.switch_tree import FAMILY
from tests.integration.rack import PROGRAM, run_of
from tests.support.rack_cluster import SECONDS, UNTIL, Cluster, cluster

__all__ = ["cluster"]


WORK = Path(__file__).with_name("kubernetes_work.yaml")
NFS = Path(__file__).with_name("kubernetes_nfs.yaml")
SECRET = "a-word-only-this-test-knows"

pytestmark = pytest.mark.cluster


def test_a_killed_deployment_went_on_and_every_host_is_ready(cluster: Cluster) -> None:
    assert cluster.ready() == set(cluster.hosts)
    done = cluster.program("health", "--json", "--check", "kubernetes")
    results = [r for r in json.loads(done.stdout)["results"] if r["id"].startswith("kubernetes.")]
    assert {r["status"] for r in results} == {"pass"}
    assert {"kubernetes.dns", "kubernetes.nodes", "kubernetes.backup"} <= {r["id"] for r in results}


def test_another_deployment_changes_nothing(cluster: Cluster) -> None:
    states = cluster.states(run_of(cluster.brought_up()))
    assert set(states.values()) == {"skipped"}, states


def test_pods_find_a_service_by_name_and_a_job_writes_to_its_volume(cluster: Cluster) -> None:
    cluster.kubectl(f"apply -f - <<'END'\n{WORK.read_text()}\nEND")
    cluster.kubectl("wait --for=condition=Available --timeout=240s deployment/web", 300)
    cluster.kubectl("wait --for=condition=Complete --timeout=240s job/ask", 300)
    assert re.fullmatch(r"web-\S+\ndone\n", cluster.said("gpu-1", "cat /scratch/answer"))


def test_what_a_job_writes_to_an_nfs_volume_a_deployment_reads_on_another_host(
    cluster: Cluster,
) -> None:
    """The server is real, and so are kubelet's mounts; the client behind mount(8) is the rack's."""
    wanted = NFS.read_text().replace("@SERVER@", cluster.rack.host("head").address)
    cluster.kubectl(f"apply -f - <<'END'\n{wanted}\nEND")
    try:
        cluster.kubectl("wait --for=condition=Complete --timeout=240s job/writes", 300)
        cluster.kubectl("wait --for=condition=Available --timeout=240s deployment/reads", 300)
        (pod,) = cluster.kubectl("get pods -l app=reads -o name").split()
        read = cluster.kubectl(f"exec {pod} -- cat /shared/of-pods/word")
        assert read == cluster.said("head", "cat /srv/data/of-pods/word")
        refused = cluster.kubectl(f"exec {pod} -- touch /shared/of-pods/word 2>&1 || true")
        assert "Read-only file system" in refused
    finally:
        cluster.kubectl(f"delete --timeout=240s -f - <<'END'\n{wanted}\nEND", 300)
        cluster.said("head", "rm -r /srv/data/of-pods")
    for host in ("gpu-1", "gpu-2"):
        left = "grep fuse.nfs /proc/self/mountinfo || pgrep -a mount.nfs"
        cluster.said(host, f"for i in $(seq 60); do {left} || exit 0; sleep 2; done; exit 1", 240)


def test_a_drained_host_is_left_by_pods_and_takes_them_again(cluster: Cluster) -> None:
    flags = "--ignore-daemonsets --delete-emptydir-data --force --timeout=240s"
    cluster.kubectl(f"drain gpu-1 {flags}", 300)
    where = "get pods -l app=web -o jsonpath='{.items[*].spec.nodeName}'"
    cluster.kubectl("wait --for=condition=Available --timeout=240s deployment/web", 300)
    assert "gpu-1" not in cluster.kubectl(where)
    # Health fails while a host is cordoned, and yet the deployment leaves that to whoever did it.
    assert cluster.deploy(*UNTIL).end(SECONDS) == 1
    assert "gpu-1" not in cluster.ready()
    cluster.kubectl("uncordon gpu-1")
    assert cluster.ready() == set(cluster.hosts)


def test_a_backup_brings_back_what_was_deleted_and_secrets_are_encrypted(cluster: Cluster) -> None:
    cluster.kubectl(f"create configmap kept --from-literal=word=plain-{SECRET}")
    cluster.kubectl(f"create secret generic hidden --from-literal=word=hidden-{SECRET}")
    name = json.loads(cluster.etcd("save", "--json"))["name"]
    cluster.kubectl("delete configmap kept")
    cluster.kubectl("create configmap later")
    state = "cat /var/lib/etcd/member/snap/db /var/lib/etcd/member/wal/*.wal | grep -ac"
    assert int(cluster.said("head", f"{state} plain-{SECRET}")) > 0
    assert int(cluster.said("head", f"{state} hidden-{SECRET} || true")) == 0
    cluster.etcd("restore", name, "--yes")
    names = cluster.kubectl("get configmaps -o name").split()
    assert "configmap/kept" in names
    assert "configmap/later" not in names
    for host in cluster.hosts:
        cluster.kubectl(f"wait --for=condition=Ready --timeout=240s node/{host}", 300)


def test_no_token_is_left(cluster: Cluster) -> None:
    tokens = "get secrets --field-selector type=bootstrap.kubernetes.io/token -o name"
    assert cluster.kubectl(f"-n kube-system {tokens}") == ""
    # An Event is named after its object and the time in hexadecimal: shared.1883f2a90c5d1e77.
    token = r"\b[a-z0-9]{6}\.(?!1[0-9a-f]{15}\b)[a-z0-9]{16}\b"
    files = "/etc/kubernetes /run/appliance-join-* /var/lib/kubelet/*.yaml /var/log/kubernetes"
    for host in cluster.hosts:
        found = cluster.said(host, f"grep -rlP '{token}' {files} 2>/dev/null || true")
        assert found == ""
        logged = cluster.said(host, f"journalctl --output=cat | grep -cP 'token.*{token}' || true")
        assert int(logged) == 0


def test_people_get_a_certificate_of_their_own_and_nodes_their_place_in_the_fabric(
    cluster: Cluster,
) -> None:
    done = cluster.program("kubeconfig", "--json", "--days", "1")
    assert done.returncode == 0, done.stderr
    file = Path(json.loads(done.stdout)["file"])
    assert file.stat().st_mode & 0o777 == 0o600
    with KubernetesApi(file) as api:
        nodes = api.find("v1", "Node", "")
        assert api.find("v1", "Secret", "")
    found = {n["metadata"]["name"]: n["metadata"]["labels"] for n in nodes}
    tiers = {host: {k: v for k, v in found[host].items() if k.startswith(FAMILY)} for host in found}
    argv = ("fabric", "topology", "--format", "json", "--site", str(cluster.site))
    told = run((PROGRAM, *argv), timeout=300)
    labels = json.loads(told.stdout)["labels"]
    assert {host: found for host, found in tiers.items() if found} == labels
    assert set(labels) == {"gpu-1", "gpu-2"}
    cluster.kubectl(f"label node gpu-1 --overwrite {FAMILY}1=elsewhere {FAMILY}9=odd")
    cluster.brought_up()
    again = json.loads(cluster.kubectl("get node gpu-1 -o json"))["metadata"]["labels"]
    assert {k: v for k, v in again.items() if k.startswith(FAMILY)} == tiers["gpu-1"]


def test_a_host_that_was_lost_joins_again(cluster: Cluster) -> None:
    cluster.said("gpu-2", "kubeadm reset --force >/dev/null 2>&1; rm -rf /etc/kubernetes/pki", 240)
    cluster.kubectl("delete node gpu-2")
    states = cluster.states(run_of(cluster.brought_up("--hosts", "gpu-2")))
    assert states["kubernetes", "gpu-2"] == "done"
    assert cluster.ready() == set(cluster.hosts)
    # With a bootstrap token, root on that host would have got the certificate of any node.
    asked = cluster.kubectl("get csr -o jsonpath='{.items[*].spec.username}'").split()
    assert "system:node:gpu-2" in asked
    assert not [name for name in asked if name.startswith("system:bootstrap:")]


STATIC = """
apiVersion: v1
kind: Pod
metadata: {name: catcher, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  hostNetwork: true
  containers: [{name: catcher, image: "appliance.local/busybox:1", command: [sleep, "600"]}]
"""


def test_a_static_pod_of_a_gpu_host_gets_nothing_that_is_sent_to_a_service(
    cluster: Cluster,
) -> None:
    file = "/etc/kubernetes/manifests/catcher.yaml"
    told = "journalctl --unit kubelet --since -2min | grep -q appliance-static-pods"
    where = "-n kube-system get endpointslices -l k8s-app=kube-dns -o yaml"
    try:
        cluster.said("gpu-1", f"cat > {file} <<'END'{STATIC}END")
        cluster.said("gpu-1", f"for i in $(seq 60); do {told} && exit 0; sleep 1; done; exit 1", 90)
        address = cluster.rack.host("gpu-1").address
        assert address not in cluster.kubectl(where)
        assert "catcher" not in cluster.kubectl("-n kube-system get pods -o name")
    finally:
        cluster.said("gpu-1", f"rm {file}")
