"""Three control planes go to the next release one after the other: killed while the second is upgraded, and gone on with."""

import json
import signal
from collections.abc import Iterator

import pytest

from appliance.lab.kubernetes_build import PLACE, RELEASE
from appliance.lab.spec import RackSpec
from tests.integration import next_release
from tests.integration.next_release import NEXT
from tests.integration.rack import own_name, raised, repeated, run_of
from tests.support.cluster_upgrades import STAGE, saved_as, upgrades
from tests.support.control_planes import HEADS, KUBECTL, SECONDS, STAGES, Cluster

ORDER = ("head", "head-2", "head-3", "gpu-1")

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three control hosts and a GPU host with a cluster, and the next release to be had on each."""
    more = tmp_path_factory.mktemp("next")
    spec = RackSpec(own_name("raise"), 4, kubernetes=True, control=3)
    with raised(spec, tmp_path_factory.mktemp("raise"), Cluster) as found:
        found.brought_up()
        place = next_release.made(found.rack.host("head").root / PLACE, more)
        for host in found.rack.hosts:
            next_release.offered(host, place)
        site = found.site / "site.yml"
        site.write_text(site.read_text().replace(f'version: "{RELEASE}"', f'version: "{NEXT}"'))
        yield found


def versions(cluster: Cluster) -> dict[str, set[str]]:
    """The releases of each node's kubelet and of its API server, as the cluster sees them."""
    kubelets = r"{range .items[*]}{.metadata.name} {.status.nodeInfo.kubeletVersion}{\"\n\"}{end}"
    servers = r"{range .items[*]}{.spec.nodeName} {.spec.containers[0].image}{\"\n\"}{end}"
    asked = (
        f'get nodes -o jsonpath="{kubelets}"',
        f'-n kube-system get pods -l component=kube-apiserver -o jsonpath="{servers}"',
    )
    found: dict[str, set[str]] = {}
    for words in asked:
        for line in cluster.said("head-3", f"{KUBECTL} {words}").splitlines():
            host, release = line.split()
            found.setdefault(host, set()).add(release.rpartition(":")[2])
    return found


def test_control_planes_are_upgraded_one_by_one_by_a_run_that_was_killed_and_one_that_went_on(
    cluster: Cluster,
) -> None:
    plan = json.loads(cluster.program("plan", *STAGE).stdout)
    waves = {cell["wave"]: cell["host"] for cell in plan["cells"] if cell["drain"]}
    assert tuple(waves[number] for number in sorted(waves)) == ORDER
    first = cluster.deploy(*STAGE)
    first.until(lambda events: upgrades(events, "head-2"), SECONDS)
    first.send(signal.SIGKILL)
    first.end()
    # One member of three may be away: the API answers, with one host of the next release.
    cluster.until_it_answers()
    assert versions(cluster)["head"] == {f"v{NEXT}"}
    second = cluster.deploy(*STAGE)
    assert second.end(SECONDS) in (0, 3), second.tail
    assert set(versions(cluster)) == set(ORDER)
    assert set.union(*versions(cluster).values()) == {f"v{NEXT}"}
    outcomes = {o["host"]: o["state"] for o in cluster.report(run_of(second.events))["outcomes"]}
    assert outcomes == {"head": "skipped", "head-2": "done", "head-3": "done", "gpu-1": "done"}
    both = {run_of(first.events), run_of(second.events)}
    assert repeated([e for e in cluster.journal() if e["run"] in both]) == []
    # The state before the first host changed is the one worth going back to.
    assert len(saved_as(first.events)) == 1
    assert saved_as(second.events) == []


def test_the_cluster_is_whole_afterwards_and_another_deployment_changes_nothing(
    cluster: Cluster,
) -> None:
    cluster.until_well()
    assert cluster.members("head-3") == HEADS
    assert cluster.holder() in HEADS
    nodes = cluster.said("head-2", f"{KUBECTL} get nodes --no-headers").splitlines()
    assert {line.split()[1] for line in nodes} == {"Ready"}
    deployment = cluster.deploy(*STAGES)
    assert deployment.end(SECONDS) in (0, 3), deployment.tail
    states = {o["state"] for o in cluster.report(run_of(deployment.events))["outcomes"]}
    assert states == {"skipped"}
