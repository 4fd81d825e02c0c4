"""A shared tree on a rack's cluster: pods of members write and read the site's export under their own numbers.

API server, KAI, kubelet, containerd and the NFS server are real. Behind mount(8) is the rack's client, which calls in the name of whoever calls it.
The rack's containerd (1.6) knows no supplementalGroupsPolicy.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.process import run as run_program
from appliance.errors import ClusterFailed
from appliance.lab.spec import RackSpec
from tests.integration.rack import PROGRAM, own_name, raised
from tests.integration.tenants_at_work import ALPHA, SCHEDULER, Body
from tests.support.cluster_pods import IMAGE, as_member, until
from tests.support.rack_cluster import SECONDS, Cluster

pytestmark = pytest.mark.cluster

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"
SITE = f"""
base:
  users:
    - {{name: alice, uid: 2001, keys: ["{KEY} alice"]}}
    - {{name: bob, uid: 2002, keys: ["{KEY} bob"]}}

scheduler:
  rdma: host
  tree_groups: unenforced
  projects:
    - name: alpha
      users: [alice, bob]
      trees: [{{name: home, export: /srv/data, path: homes}}]
      queues: [{{name: train, gpu: {{quota: 4}}}}]
"""
HOMES = """
for one in 2001:alice 2002:bob; do
    install -d -o "${one%:*}" -g "${one%:*}" -m 700 "/srv/data/homes/${one#*:}"
done
install -o 2002 -g 2002 -m 600 /dev/stdin /srv/data/homes/bob/own <<'END'
of bob alone
END
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane and a GPU host, with a project that has homes as a tree."""
    spec = RackSpec(own_name("trees"), 2, kubernetes=True)
    with raised(spec, tmp_path_factory.mktemp("trees"), Cluster) as found:
        site = found.site / "site.yml"
        site.write_text(site.read_text() + SITE)
        deployment = found.deploy("--json")
        assert deployment.end(SECONDS) in (0, 1, 3), deployment.tail
        done = found.program("kubeconfig", "--json", "--days", "1")
        assert done.returncode == 0, done.stderr
        applied = (PROGRAM, "queue", "apply", "--site", str(found.site), "--yes")
        done = run_program(applied, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        found.said("head", HOMES)
        yield found


def pod(name: str, uid: int, script: str) -> Body:
    """A pod with the tree, under this number."""
    box = {
        "name": "work",
        "image": IMAGE,
        "command": ["sh", "-c", script],
        "securityContext": {"allowPrivilegeEscalation": False},
        "volumeMounts": [{"name": "home", "mountPath": "/home"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": ALPHA,
            "labels": {"kai.scheduler/queue": "alpha-train"},
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsUser": uid, "runAsGroup": uid},
            "containers": [box],
            "volumes": [
                {"name": "home", "persistentVolumeClaim": {"claimName": "appliance-tree-home"}}
            ],
        },
    }


def job(made: Body) -> Body:
    """A Job of such a pod."""
    meta = {"name": made["metadata"]["name"], "namespace": ALPHA}
    labels = {"labels": made["metadata"]["labels"]}
    template = {"metadata": labels, "spec": made["spec"]}
    spec = {"backoffLimit": 0, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {**meta, **labels}, "spec": spec}


@contextmanager
def removed(cluster: Cluster, *objects: str) -> Iterator[None]:
    """Deletes them at the end."""
    try:
        yield
    finally:
        cluster.kubectl(
            f"-n {ALPHA} delete --wait=true --ignore-not-found {' '.join(objects)}", 300
        )


def said(cluster: Cluster, name: str) -> str:
    """What a pod printed, once it has ended."""
    asked = f"-n {ALPHA} get pod {name} -o jsonpath='{{.status.phase}}'"
    until(lambda: cluster.kubectl(asked) in ("Succeeded", "Failed"), f"pod {name} ends")
    return cluster.kubectl(f"-n {ALPHA} logs {name}")


WRITES = "id -u; echo of alice > /home/alice/word && ls -ln /home/alice/word; cat /home/bob/own 2>&1; echo x >> /home/bob/own"


def test_a_pod_writes_as_its_person_and_reads_no_other_home(cluster: Cluster) -> None:
    with removed(cluster, "pod/writes"), as_member(cluster, "alice") as alice:
        alice.apply(pod("writes", 2001, WRITES))
        lines = said(cluster, "writes").splitlines()
    assert lines[0] == "2001"
    assert lines[1].split()[2:4] == ["2001", "2001"], lines
    assert "ermission denied" in lines[2], lines
    assert (
        cluster.said("head", "stat -c '%u %g' /srv/data/homes/alice/word").split() == ["2001"] * 2
    )
    assert cluster.said("head", "cat /srv/data/homes/bob/own") == "of bob alone\n"


def test_a_job_of_bobs_reads_his_own_home(cluster: Cluster) -> None:
    with removed(cluster, "job/reads"), as_member(cluster, "bob") as bob:
        bob.apply(job(pod("reads", 2002, "cat /home/bob/own")))
        cluster.kubectl(f"-n {ALPHA} wait --for=condition=Complete --timeout=240s job/reads", 300)
        assert cluster.kubectl(f"-n {ALPHA} logs job/reads") == "of bob alone\n"


def test_nobody_runs_as_another_nor_in_his_pod(cluster: Cluster) -> None:
    with (
        removed(cluster, "pod/stays"),
        as_member(cluster, "alice") as alice,
        as_member(cluster, "bob") as bob,
    ):
        for made in (pod("steals", 2002, WRITES), job(pod("steals", 2002, WRITES))):
            with pytest.raises(ClusterFailed, match="runAsUser: 2001, runAsGroup: 2001"):
                alice.apply(made)
        bob.apply(pod("stays", 2002, "sleep 600"))
        asked = f"-n {ALPHA} get pod stays -o jsonpath='{{.status.phase}}'"
        until(lambda: cluster.kubectl(asked) == "Running", "bob's pod runs")
        assert entered(alice) == 403
        assert entered(bob) != 403
        with pytest.raises(ClusterFailed, match="appliance-tree-pods"):
            patched(alice, {"containers": [{"name": "work", "image": "of-alice"}]})


def entered(api: KubernetesApi) -> int:
    """The status of a shell in bob's pod; 400 is the server's word for a request that is no WebSocket."""
    path = f"/api/v1/namespaces/{ALPHA}/pods/stays/exec?command=id&stdout=true"
    return api.send("GET", path, "enter", answers=range(400, 600))[0]


def patched(api: KubernetesApi, spec: dict[str, Any]) -> None:
    path = f"/api/v1/namespaces/{ALPHA}/pods/stays"
    kind = "application/strategic-merge-patch+json"
    api.send("PATCH", path, "change", {"spec": spec}, kind)


def test_health_names_a_tree_whose_volume_is_gone_and_apply_brings_it_back(
    cluster: Cluster,
) -> None:
    def judged() -> tuple[str, str]:
        done = cluster.program("health", "--json", "--check", "scheduler.trees")
        (found,) = (r for r in json.loads(done.stdout)["results"] if r["id"] == "scheduler.trees")
        return found["status"], found["cause"] or ""

    assert judged() == ("pass", "")
    cluster.kubectl(f"-n {ALPHA} delete pvc appliance-tree-home --wait=true")
    status, cause = judged()
    assert (status, "has no claim appliance-tree-home" in cause) == ("fail", True)
    applied = (PROGRAM, "queue", "apply", "--site", str(cluster.site), "--yes")
    done = run_program(applied, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    until(lambda: judged()[0] == "pass", "the tree is there again")


def test_the_toolkit_takes_no_gpus_by_a_variable(cluster: Cluster) -> None:
    wanted = "accept-nvidia-visible-devices-envvar-when-unprivileged = false"
    file = "/etc/nvidia-container-runtime/config.toml"
    assert cluster.said("gpu-1", f"grep -cx '{wanted}' {file}").strip() == "1"
