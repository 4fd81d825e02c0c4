"""Three control planes on a rack: the address they share moves, a lost one is named, returns, and is made anew; etcd is restored."""

import json
import signal
from collections.abc import Iterator

import pytest

from appliance.lab import faults, machine, mounts, rack
from appliance.lab.spec import RackSpec
from tests.integration.rack import own_name, raised
from tests.support.control_planes import HEADS, KUBECTL, SECONDS, Cluster

pytestmark = pytest.mark.cluster


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
    first.until_it_says("the restored state is in place", seconds=SECONDS)
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
    states = cluster.brought_up("--hosts", "head")
    assert states["kubernetes", "head"].startswith("done")
    assert cluster.members("head") == HEADS
    cluster.said("head", f"{KUBECTL} get configmap before-head-was-lost")
    cluster.until_well()
    assert cluster.failures() == []
