"""Three control planes on a rack: the address they share moves, a lost one is named, returns, and is made anew; etcd is restored."""

import json
import signal
import ssl
import time
import urllib.request
from collections.abc import Iterator

import pytest

from appliance.lab import faults, machine, mounts, rack, ssh
from appliance.lab.spec import RackSpec
from tests.integration.rack import PROGRAM, Bench, Deployment, own_name, raised, run_of

HEADS = {"head", "head-2", "head-3"}
STAGES = ("--stage", "base", "--stage", "kubernetes", "--json")
SECONDS = 3600.0
MOVE_SECONDS = 300.0
KUBECTL = "KUBECONFIG=/etc/kubernetes/admin.conf kubectl"
ETCDCTL = (
    "ETCDCTL_API=3 etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt "
    "--cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt --key=/etc/kubernetes/pki/etcd/healthcheck-client.key"
)

pytestmark = pytest.mark.cluster


class Cluster(Bench):
    """A bench with three control hosts."""

    def said(self, host: str, script: str, seconds: float = 120) -> str:
        """What a shell script printed on a host; it must end with 0."""
        done = ssh.on_host(self.rack, self.rack.host(host), (script,), timeout=seconds)
        assert done.returncode == 0, f"{host}: {script}: {done.stdout} {done.stderr}"
        return done.stdout

    def brought_up(self, *flags: str) -> dict[tuple[str, str], str]:
        """A deployment to its end; how each stage ended on each host, and why it ran."""
        deployment = self.deploy(*STAGES, *flags)
        assert deployment.end(SECONDS) in (0, 3), deployment.tail
        run_id = run_of(deployment.events)
        whys = {(e["stage"], e["host"]): e["why"] for e in self.journal("host_started", run_id)}
        ends = {(o["stage"], o["host"]): o["state"] for o in self.report(run_id)["outcomes"]}
        return {at: f"{end} {whys.get(at, '')}".strip() for at, end in ends.items()}

    def members(self, asked: str) -> set[str]:
        """Names of etcd's members, as one of them has them."""
        lines = self.said(asked, f"{ETCDCTL} member list").splitlines()
        return {line.split(", ")[2] for line in lines}

    def holder(self) -> str:
        """The host that carries the shared address."""
        address = f" {self.rack.virtual_address}/32"
        up = [h for h in sorted(HEADS) if machine.is_running(self.rack.host(h))]
        found = [h for h in up if address in self.said(h, "ip -4 -o address")]
        assert len(found) == 1, f"{found} hold{address}"
        return found[0]

    def answers(self) -> bool:
        """Whether the API is ready at the shared address."""
        url = f"https://{self.rack.virtual_address}:6443/readyz"
        anybody = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(url, timeout=5, context=anybody) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def until_it_answers(self) -> None:
        """Waits until the API is ready at the shared address."""
        start = time.monotonic()
        while not self.answers():
            assert time.monotonic() - start < MOVE_SECONDS, "nobody took the address over"
            time.sleep(0.5)

    def failures(self) -> list[dict[str, str]]:
        """What health says is wrong."""
        done = self.program("health", "--json", "--check", "kubernetes")
        return [r for r in json.loads(done.stdout)["results"] if r["status"] == "fail"]

    def restores(self, name: str) -> Deployment:
        """``appliance etcd restore``, at work."""
        argv = (PROGRAM, "etcd", "restore", name, "--inventory", str(self.site), "--yes", "--json")
        self.started.append(Deployment(self.logs, argv, {}))
        return self.started[-1]

    def tells(self, words: str) -> dict[str, str]:
        """What etcdctl says on each control host."""
        return {head: self.said(head, f"{ETCDCTL} {words}") for head in sorted(HEADS)}

    def until_well(self) -> None:
        """Waits until health finds nothing wrong."""
        end = time.monotonic() + 2 * MOVE_SECONDS
        while found := self.failures():
            assert time.monotonic() < end, found
            time.sleep(2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of three control hosts and a GPU host, made from nothing."""
    spec = RackSpec(own_name("control"), 4, kubernetes=True, control=3)
    with raised(spec, tmp_path_factory.mktemp("control"), Cluster) as found:
        found.brought_up()
        yield found


def test_every_host_is_ready_and_etcd_has_three_members(cluster: Cluster) -> None:
    assert cluster.members("head-3") == HEADS
    assert cluster.holder() in HEADS
    nodes = cluster.said("head-2", f"{KUBECTL} get nodes --no-headers").splitlines()
    assert {line.split()[0] for line in nodes if " Ready " in line} == set(cluster.hosts)
    assert cluster.failures() == []


def test_another_deployment_changes_nothing(cluster: Cluster) -> None:
    states = cluster.brought_up()
    assert set(states.values()) == {"skipped"}, states


def test_etcd_is_restored_on_all_members_by_a_command_that_was_killed_and_given_again(
    cluster: Cluster,
) -> None:
    cluster.said("head-2", f"{KUBECTL} create configmap kept --from-literal=word=first")
    name = json.loads(cluster.etcd("save", "--json"))["name"]
    cluster.said("head-3", f"{KUBECTL} delete configmap kept")
    cluster.said("head-3", f"{KUBECTL} create configmap later")
    first = cluster.restores(name)
    first.until_it_says("etcd and the API are stopped", seconds=SECONDS)
    first.send(signal.SIGKILL)
    first.end()
    assert not cluster.answers()
    second = cluster.restores(name)
    assert second.end(SECONDS) == 0, second.tail
    cluster.until_it_answers()
    keys = "get --prefix --keys-only /registry/configmaps/default/"
    for head, said in cluster.tells(keys).items():
        assert "/kept" in said, head
        assert "/later" not in said, head
    assert cluster.members("head-2") == HEADS
    assert all("true" in said for said in cluster.tells("endpoint health -w json").values())
    assert len(set(cluster.tells(f"{keys} --consistency=s").values())) == 1
    cluster.until_well()
    # What runs on from here is seen by everybody: a pod is placed, started and found ready by its host.
    cluster.said(
        "head", f"{KUBECTL} create deployment after --image=appliance.local/busybox:1 -- sleep 3600"
    )
    ready = "wait --for=condition=Available --timeout=600s deployment/after"
    cluster.said("head", f"{KUBECTL} {ready}", 700)


def test_a_restore_that_was_cut_off_is_taken_back(cluster: Cluster) -> None:
    name = json.loads(cluster.etcd("save", "--json"))["name"]
    cluster.said("head", f"{KUBECTL} create configmap written-after")
    first = cluster.restores(name)
    first.until_it_says("the restored state is in its place", seconds=SECONDS)
    first.send(signal.SIGKILL)
    first.end()
    cluster.etcd("abandon", "--yes")
    cluster.until_it_answers()
    cluster.said("head-2", f"{KUBECTL} get configmap written-after")
    assert cluster.members("head-3") == HEADS
    cluster.until_well()


def test_the_address_moves_when_its_host_stops_and_health_names_that_host(cluster: Cluster) -> None:
    lost = cluster.holder()
    faults.apply(cluster.rack, cluster.rack.host(lost), "power-off")
    try:
        cluster.until_it_answers()
        assert cluster.holder() != lost
        reached = [r for r in cluster.failures() if r["id"] == "host.reachable"]
        assert [r["target"] for r in reached] == [lost]
        assert reached[0]["fix"]
    finally:
        faults.apply(cluster.rack, cluster.rack.host(lost), "power-off", clear=True)
    cluster.until_well()
    assert cluster.members(lost) == HEADS


def test_the_host_that_made_the_cluster_is_made_anew_and_joins_it(cluster: Cluster) -> None:
    cluster.said("head-2", f"{KUBECTL} create configmap before-head-was-lost")
    head = cluster.rack.host("head")
    machine.discard(head)
    mounts.remove(head.folder)
    rack.up(cluster.rack.spec, lambda _: None)
    states = cluster.brought_up("--limit", "head")
    assert states["kubernetes", "head"].startswith("done")
    assert cluster.members("head") == HEADS
    cluster.said("head", f"{KUBECTL} get configmap before-head-was-lost")
    cluster.until_well()
    assert cluster.failures() == []
