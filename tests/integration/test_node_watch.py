"""Forty hosts that check themselves, each as its own kubelet, on a real API server with its node authorizer."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from appliance.adapters import process
from appliance.adapters.kubernetes import KubernetesApi, Ref
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.kubernetes.collect.api import Api
from appliance.stages.kubernetes.variables.watch import rights
from appliance.watch import bound, pods
from appliance.watch.acts import act
from appliance.watch.cluster import ANNOUNCED, CONDITION, REASON, Cluster
from appliance.watch.node import Node, Silent
from appliance.watch.place import Place
from appliance.watch.verdict import Cause, Verdict
from tests.integration.api_server import as_of_kubeadm, compiled, running, until

pytestmark = pytest.mark.rack

Given = TypeVar("Given")
HOSTS = tuple(f"gpu-{number}" for number in range(1, 41))
LOST = Cause("gpu.error", "the driver cannot reach it", "GPU 3")
OF_NODES = ("--authorization-mode=Node", "--enable-admission-plugins=NodeRestriction")


@dataclass
class Hall:
    """The cluster as its administrator sees it, and the kubeconfig of each host."""

    admin: KubernetesApi
    folder: Path
    highest: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def door(self, host: str) -> Cluster:
        return Cluster(host, str(self.folder / f"{host}.conf"))

    def reasons(self) -> dict[str, str]:
        """Why each cordoned host is cordoned."""
        nodes = self.admin.find("v1", "Node", "")
        return {
            node["metadata"]["name"]: (node["metadata"].get("annotations") or {}).get(REASON, "")
            for node in nodes
            if node["spec"].get("unschedulable")
        }

    def count(self) -> None:
        """Keep the largest number of hosts that were out at once."""
        while not self.ended.wait(0.05):
            self.highest = max(self.highest, len(self.reasons()))

    def free(self) -> None:
        for host in HOSTS:
            patch = {
                "metadata": {"annotations": {REASON: None, ANNOUNCED: None}},
                "spec": {"unschedulable": None},
            }
            path = f"/api/v1/nodes/{host}"
            self.admin.send("PATCH", path, "free", patch, "application/merge-patch+json")


def identity(folder: Path, host: str, kubeconfig: Path) -> None:
    """A certificate of this node's kubelet, and its kubeconfig as kubeadm writes it."""
    asked = f"openssl req -new -key {folder}/key.pem -subj /O=system:nodes/CN=system:node:{host}"
    signed = f"openssl x509 -req -days 2 -CA {folder}/cert.pem -CAkey {folder}/key.pem"
    process.run([*asked.split(), "-out", f"{folder}/{host}.csr"])
    process.run([*signed.split(), "-in", f"{folder}/{host}.csr", "-out", f"{folder}/{host}.pem"])
    own = as_of_kubeadm(kubeconfig)
    data = next(line for line in own.splitlines() if "client-certificate-data" in line)
    own = own.replace(data, f"    client-certificate: {folder}/{host}.pem")
    (folder / f"{host}.conf").write_text(own)


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    folder = tmp_path_factory.mktemp("hall")
    with (
        running(compiled(), folder, more=OF_NODES) as kubeconfig,
        KubernetesApi(kubeconfig) as admin,
    ):
        until(lambda: admin.get(Ref("v1", "Namespace", "default")) is not None)
        for host in HOSTS:
            identity(folder, host, kubeconfig)
            admin.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": host}})
        yield Hall(admin, folder)


def answered(call: Callable[[], Given]) -> Given:
    """What the call returns, or raises, once a busy server answers in time."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return call()
        except Silent as error:
            if "did not answer" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def test_without_the_right_to_list_nodes_nothing_is_cordoned(hall: Hall) -> None:
    with pytest.raises(Silent, match="forbidden"):
        answered(lambda: bound.take_out(hall.door("gpu-1"), "gpu.error GPU 3", 4))
    assert hall.reasons() == {}
    for manifest in rights():
        hall.admin.apply(manifest)
    assert set(answered(hall.door("gpu-1").nodes)) == set(HOSTS)


@pytest.mark.parametrize("most", [1, 4])
def test_forty_sick_hosts_at_once_are_no_more_than_the_limit(hall: Hall, most: int) -> None:
    hall.free()
    hall.highest = 0
    hall.ended.clear()
    counter = threading.Thread(target=hall.count)
    counter.start()

    def take_out(host: str) -> Node | None:
        try:
            return bound.take_out(hall.door(host), "gpu.error GPU 3: lost", most)
        except Silent:
            return None  # A busy server: the host tries again half a minute later.

    try:
        for _ in range(2):
            with ThreadPoolExecutor(len(HOSTS)) as pool:
                list(pool.map(take_out, HOSTS))
    finally:
        hall.ended.set()
        counter.join()
    assert (hall.highest, len(hall.reasons())) == (most, most)
    assert set(hall.reasons().values()) == {"appliance: health: gpu.error GPU 3: lost"}


def test_a_host_cordons_itself_with_a_condition_and_no_other_host(
    hall: Hall, tmp_path: Path
) -> None:
    hall.free()
    door = hall.door("gpu-7")
    door.place = Place("Kubernetes", str(tmp_path / "last.json"), "x.prom", "", "kubernetes.watch")
    until(lambda: act({"most_out": 1}, Verdict([LOST], []), door).state == "out")
    assert list(hall.reasons()) == ["gpu-7"]
    node = hall.admin.get(Ref("v1", "Node", "gpu-7"))
    assert node is not None
    (said,) = [c for c in node["status"]["conditions"] if c["type"] == CONDITION]
    assert (said["status"], said["reason"]) == ("False", "GpuError")
    # Root of gpu-7 tries the same with the node of its neighbour, and ends the cordon of another.
    other = hall.door("gpu-7")
    other._path = "/api/v1/nodes/gpu-8"
    for change in (
        lambda: other.drain("gpu.error"),
        lambda: other.announce(Node("IDLE")),
        lambda: other.report(Verdict([], []), 0.0, {}),
    ):
        with pytest.raises(Silent, match="403"):
            answered(change)
    assert list(hall.reasons()) == ["gpu-7"]


def made(hall: Hall, name: str, host: str) -> None:
    """A pod with a GPU on this host. No kubelet runs it."""
    box = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"nodeName": host, "containers": [box], "automountServiceAccountToken": False}
    meta = {"name": name, "namespace": "default"}
    hall.admin.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def test_a_host_warns_and_ends_its_own_pods_and_reaches_no_other(hall: Hall) -> None:
    account = {"name": "default", "namespace": "default"}
    hall.admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    made(hall, "mine", "gpu-9")
    made(hall, "theirs", "gpu-10")
    api = Api(Ask({}), str(hall.folder / "gpu-9.conf"))
    with pytest.raises(Unreadable, match="403"):
        pods.with_gpus(api, "gpu-10")
    theirs = hall.admin.get(Ref("v1", "Pod", "theirs", "default"))
    assert theirs is not None
    (refused,) = pods.end(api, [theirs])
    assert "403" in refused
    mine = pods.with_gpus(api, "gpu-9")
    assert [one["metadata"]["name"] for one in mine] == ["mine"]
    pods.warn(api, mine, "gpu-9", "this pod is ended at noon")
    path = "/api/v1/namespaces/default/events"
    (event,) = hall.admin.send("GET", path, "list events")[1]["items"]
    assert (event["involvedObject"]["name"], event["reason"]) == ("mine", "HostUnfit")
    assert pods.end(api, mine) == []
    gone = hall.admin.get(Ref("v1", "Pod", "mine", "default"))
    assert gone is None or "deletionTimestamp" in gone["metadata"]
    kept = hall.admin.get(Ref("v1", "Pod", "theirs", "default"))
    assert kept is not None
    assert "deletionTimestamp" not in kept["metadata"]
