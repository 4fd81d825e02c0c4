"""A real cluster goes to the next release: killed on the way and gone on with, and stopped by a host whose kubelet fails."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.lab.kubernetes_build import PLACE, RELEASE
from appliance.lab.spec import RackSpec
from tests.integration import next_release
from tests.integration.next_release import NEXT
from tests.integration.rack import own_name, raised, run_of
from tests.support.cluster_upgrades import STAGE, saved_as, upgrades
from tests.support.rack_cluster import SECONDS, UNTIL, Cluster

BROKEN = f'#!/bin/sh\n[ "$1" = --version ] && echo "Kubernetes v{NEXT}" && exit\nexit 1\n'
NOTE = "/var/lib/appliance/kubernetes/upgrade.json"

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the next release is made."""
    return tmp_path_factory.mktemp("next")


@pytest.fixture(scope="module")
def cluster(more: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control host and a GPU host with a cluster; the next release is to be had, but the GPU host's kubelet of it fails."""
    spec = RackSpec(own_name("upgrade"), 2, kubernetes=True)
    with raised(spec, tmp_path_factory.mktemp("upgrade"), Cluster) as found:
        head, gpu = (found.rack.host(host) for host in ("head", "gpu-1"))
        first = found.deploy(*UNTIL)
        assert first.end(SECONDS) in (0, 3), first.tail
        place = next_release.made(head.root / PLACE, more)
        for host in (head, gpu):
            next_release.offered(host, place)
        next_release.replaced(gpu, more, BROKEN.encode())
        site = found.site / "site.yml"
        site.write_text(site.read_text().replace(f'version: "{RELEASE}"', f'version: "{NEXT}"'))
        yield found


def versions(cluster: Cluster) -> dict[str, str]:
    """The release of each node's kubelet, as the cluster sees it."""
    fields = r"{range .items[*]}{.metadata.name} {.status.nodeInfo.kubeletVersion}{\"\n\"}{end}"
    lines = cluster.kubectl(f'get nodes -o jsonpath="{fields}"').split("\n")
    return dict(line.split() for line in lines if line)


def snapshots(cluster: Cluster) -> list[str]:
    """Names of the backups of etcd."""
    return [line.split()[0] for line in cluster.said("head", "appliance-etcd list").splitlines()]


def test_a_killed_upgrade_goes_on_and_a_kubelet_that_fails_is_put_back(cluster: Cluster) -> None:
    before = snapshots(cluster)
    plan = json.loads(cluster.program("plan", *STAGE).stdout)
    cells = {cell["host"]: cell for cell in plan["cells"]}
    assert {host for host, cell in cells.items() if cell["drain"]} == {"head", "gpu-1"}
    assert cells["head"]["wave"] < cells["gpu-1"]["wave"]
    assert f"upgrade {RELEASE} → {NEXT}: etcd saved" in cells["head"]["why"]
    first = cluster.deploy(*STAGE)
    first.until(lambda events: upgrades(events, "head"), SECONDS)
    first.send(signal.SIGKILL)
    first.end()
    second = cluster.deploy(*STAGE)
    assert second.end(SECONDS) == 1, second.tail
    outcomes = {o["host"]: o for o in cluster.report(run_of(second.events))["outcomes"]}
    assert outcomes["head"]["state"] == "done"
    assert outcomes["gpu-1"]["state"] == "failed"
    assert f"kubelet {NEXT} does not stay up" in outcomes["gpu-1"]["cause"]
    assert f"packages and kubelet are of {RELEASE} again" in outcomes["gpu-1"]["cause"]
    assert versions(cluster) == {"head": f"v{NEXT}", "gpu-1": f"v{RELEASE}"}
    cluster.kubectl("wait node --all --for=condition=Ready --timeout=240s", 300)
    assert cluster.ready() == {"head", "gpu-1"}
    there = cluster.said("gpu-1", "dpkg-query -W -f '${Version} ' kubeadm kubectl kubelet")
    assert set(there.split()) == {f"{RELEASE}-1"}
    # One backup for both runs, and the host knows its name; the timer may have made others beside it.
    note = json.loads(cluster.said("head", f"cat {NOTE}"))
    assert note["snapshot"] in set(snapshots(cluster)) - set(before)
    assert saved_as(first.events) == [note["snapshot"]]
    assert saved_as(second.events) == []
    assert set(note["from"].values()) == {f"{RELEASE}-1"}


def test_the_next_deployment_upgrades_what_is_left_and_nothing_else(
    cluster: Cluster, more: Path
) -> None:
    next_release.replaced(cluster.rack.host("gpu-1"), more)
    events = cluster.brought_up()
    states = cluster.states(run_of(events))
    assert states["kubernetes", "head"] == "skipped"
    assert states["kubernetes", "gpu-1"] == "done"
    assert set(versions(cluster).values()) == {f"v{NEXT}"}
    assert cluster.ready() == {"head", "gpu-1"}
    assert f"v{NEXT}" in cluster.kubectl("get --raw /version")
    states = cluster.states(run_of(cluster.brought_up()))
    assert set(states.values()) == {"skipped"}, states
