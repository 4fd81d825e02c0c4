"""Power lost: of each of three control hosts in turn, and of the whole rack. What runs goes on, health names the host, and passes by itself afterwards."""

import json
import logging
import time
from collections.abc import Iterator

import pytest

from appliance.lab import faults
from appliance.lab.spec import RackSpec
from tests.integration.rack import own_name, raised
from tests.integration.tenants_at_work import ALPHA, SMALL_SITE, job
from tests.integration.test_cluster_names import asking
from tests.support.cluster_pods import until
from tests.support.control_planes import HEADS, KUBECTL, SECONDS, Cluster
from tests.support.rack_cluster import BUSYBOX

OF_KUBERNETES = "gpu-2"
OUT_S = 60
"""Seconds for which a host stays without power once everything has been taken over."""
PATIENCE_S = 900
LOG = logging.getLogger(__name__)
"""Measured seconds, shown by --log-cli-level=INFO."""

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three control hosts, a GPU host of Slurm's and one of Kubernetes's at work for a member; each host of pods asks for a name every second."""
    spec = RackSpec(own_name("cuts"), 5, kubernetes=True, control=3, slurm=1)
    with raised(spec, tmp_path_factory.mktemp("cuts"), Cluster) as found:
        site = found.site / "site.yml"
        site.write_text(site.read_text() + SMALL_SITE)
        deployment = found.deploy("--json")
        assert deployment.end(SECONDS) == 0, deployment.tail
        for host in (*sorted(HEADS), OF_KUBERNETES):
            _create(found, asking(host))
        _create(found, job("work", ALPHA, "alpha-train", BUSYBOX, 2))
        ready = "wait pod --all --for=condition=Ready --timeout=240s"
        found.said("head", f"{KUBECTL} -n default {ready}", 300)
        found.said("head", f"{KUBECTL} -n {ALPHA} {ready}", 300)
        until(lambda: not wrong(found), "nothing is wrong before", PATIENCE_S)
        yield found


def _create(cluster: Cluster, body: dict[str, object]) -> None:
    cluster.said("head", f"{KUBECTL} apply -f - <<'END'\n{json.dumps(body)}\nEND")


def wrong(cluster: Cluster) -> list[tuple[str, str]]:
    """Check and target of what fails and has no other failure as its cause."""
    results = json.loads(cluster.program("health", "--json").stdout)["results"]
    bad = [r for r in results if r["status"] in ("fail", "error") and not r["explained_by"]]
    return sorted((r["id"], r["target"]) for r in bad)


def work(cluster: Cluster, asked: str) -> dict[str, tuple[str, int]]:
    """Host and restarts of each of the member's pods, by its identity."""
    pods = json.loads(cluster.said(asked, f"{KUBECTL} -n {ALPHA} get pods -o json"))["items"]
    return {
        pod["metadata"]["uid"]: (
            pod["spec"]["nodeName"],
            sum(one["restartCount"] for one in pod["status"]["containerStatuses"]),
        )
        for pod in pods
    }


def resolves(cluster: Cluster, asked: str, host: str) -> bool:
    """Whether a pod on the host has resolved a name in the last seconds."""
    lines = cluster.said(asked, f"{KUBECTL} logs -l app=asks-{host} --tail=1").split()
    return bool(lines) and time.time() - float(lines[-1]) < 10


def master(cluster: Cluster) -> str:
    """What answers as the master subnet manager; "" where none does."""
    said = cluster.shell(OF_KUBERNETES, "timeout 8 sminfo 2>&1").stdout
    return said.split("guid ")[1].split(",")[0] if "SMINFO_MASTER" in said else ""


def power(cluster: Cluster, *hosts: str, back: bool = False) -> None:
    """Cuts the power of hosts at once, or gives it back."""
    for host in hosts:
        faults.apply(cluster.rack, cluster.rack.host(host), "power-off", clear=back)


@pytest.mark.parametrize("lost", sorted(HEADS))
def test_a_control_host_without_power_is_named_and_everything_goes_on(
    cluster: Cluster, lost: str
) -> None:
    asked = sorted(HEADS - {lost})[0]
    before, managed = work(cluster, asked), master(cluster)
    assert managed
    power(cluster, lost)
    began = time.monotonic()
    try:
        cluster.until_it_answers()
        LOG.info("seconds_until_the_api_answered: %.0f", time.monotonic() - began)
        others = (*sorted(HEADS - {lost}), OF_KUBERNETES)
        until(lambda: all(resolves(cluster, asked, h) for h in others), "names are resolved")
        until(lambda: bool(master(cluster)), "a subnet manager answers as master")
        LOG.info("seconds_until_a_master_answered: %.0f", time.monotonic() - began)
        time.sleep(OUT_S)
        assert wrong(cluster) == [("host.reachable", lost)]
        assert work(cluster, asked) == before
        assert all(resolves(cluster, asked, h) for h in others)
    finally:
        power(cluster, lost, back=True)
    began = time.monotonic()
    until(lambda: not wrong(cluster), "health passes by itself", PATIENCE_S)
    LOG.info("seconds_until_health_passed: %.0f", time.monotonic() - began)
    assert cluster.members(asked) == HEADS
    assert work(cluster, asked) == before


def test_the_whole_rack_without_power_comes_back_by_itself(
    cluster: Cluster,
) -> None:
    power(cluster, *cluster.hosts)
    power(cluster, *reversed(cluster.hosts), back=True)
    began = time.monotonic()
    until(lambda: not wrong(cluster), "health passes by itself", PATIENCE_S)
    LOG.info("seconds_until_health_passed: %.0f", time.monotonic() - began)
    hosts = (*sorted(HEADS), OF_KUBERNETES)
    until(lambda: all(resolves(cluster, "head", h) for h in hosts), "names are resolved")
    until(lambda: bool(master(cluster)), "a subnet manager answers as master")
    assert cluster.said("head", "srun --gres=gpu:1 hostname", 120) == "gpu-1\n"
