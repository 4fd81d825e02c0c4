"""Power lost: of each of three control hosts in turn, and of the whole rack. What runs goes on, health names the host, and passes by itself afterwards."""

import json
import logging
import os
import time
from collections.abc import Iterator
from itertools import pairwise

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
OUT_S = 480
"""Seconds for which a host stays without power."""
ALL_OUT_S = 180
"""The same of the whole rack."""
LOOKS_S = (100, 200, 320, 420)
"""When health looks meanwhile, in seconds after the cut. After five minutes Kubernetes moves the pods of the lost host."""
PATIENCE_S = 900
NO_MASTER = ("fabric.sm", "cluster")
"""Named while ibsim keeps a subnet manager in its discovery, until the rack restarts that manager (docs/fabric.md)."""
LOG = logging.getLogger(__name__)
"""Measured seconds and load, shown by --log-cli-level=INFO."""

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
        until(lambda: passes(found), "health passes before", PATIENCE_S)
        yield found


def _create(cluster: Cluster, body: dict[str, object]) -> None:
    cluster.said("head", f"{KUBECTL} apply -f - <<'END'\n{json.dumps(body)}\nEND")


def passes(cluster: Cluster) -> bool:
    """Whether health ends with PASSED."""
    return cluster.program("health").returncode == 0


def log(what: str, since: float) -> None:
    """Logs the seconds since a moment, with the load of this machine."""
    LOG.info("%s: %.0f s at load %.0f", what, time.time() - since, os.getloadavg()[0])


def wrong(cluster: Cluster) -> list[tuple[str, str]]:
    """Check and target of what fails and has no other failure as its cause."""
    results = json.loads(cluster.program("health", "--json").stdout)["results"]
    bad = [r for r in results if r["status"] in ("fail", "error") and not r["explained_by"]]
    return sorted((r["id"], r["target"]) for r in bad)


def work(cluster: Cluster, asked: str) -> dict[str, tuple[str, int]]:
    """Host and restarts of each of the member's pods that have not ended, by its identity."""
    pods = json.loads(cluster.said(asked, f"{KUBECTL} -n {ALPHA} get pods -o json"))["items"]
    return {
        pod["metadata"]["uid"]: (
            pod["spec"]["nodeName"],
            sum(one["restartCount"] for one in pod["status"]["containerStatuses"]),
        )
        for pod in pods
        if pod["status"]["phase"] == "Running"
    }


def resolved(cluster: Cluster, asked: str, host: str, since: float) -> list[float]:
    """Moments after ``since`` at which a pod on the host resolved a name."""
    lines = cluster.said(asked, f"{KUBECTL} logs -l app=asks-{host} --tail=-1").split()
    return [moment for moment in map(float, lines) if moment > since]


def resolves(cluster: Cluster, asked: str, host: str) -> bool:
    """Whether a pod on the host has resolved a name in the last seconds."""
    return bool(resolved(cluster, asked, host, time.time() - 10))


def gap(cluster: Cluster, asked: str, hosts: tuple[str, ...], since: float) -> float:
    """The longest time without a name on one of the hosts, in seconds, up to now."""
    rows = ([since, *resolved(cluster, asked, h, since), time.time()] for h in hosts)
    return max(after - before for row in rows for before, after in pairwise(row))


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
    others = (*sorted(HEADS - {lost}), OF_KUBERNETES)
    until(lambda: passes(cluster), "health passes before", PATIENCE_S)
    before = work(cluster, asked)
    assert master(cluster)
    power(cluster, lost)
    began = time.time()
    try:
        cluster.until_it_answers()
        log("the API answered", began)
        until(lambda: bool(master(cluster)), "a subnet manager answers as master")
        log("a master answered", began)
        looks = []
        for moment in LOOKS_S:
            time.sleep(max(0.0, began + moment - time.time()))
            looks.append(wrong(cluster))
            log(f"health named {looks[-1]}", began)
        time.sleep(max(0.0, began + OUT_S - time.time()))
        log("longest time without a name", time.time() - gap(cluster, asked, others, began))
        others_named = [[found for found in look if found != NO_MASTER] for look in looks]
        assert others_named == [[("host.reachable", lost)]] * len(LOOKS_S)
        assert master(cluster)
        assert work(cluster, asked) == before
        assert all(resolves(cluster, asked, h) for h in others)
    finally:
        power(cluster, lost, back=True)
    began = time.time()
    until(lambda: passes(cluster), "health passes by itself", PATIENCE_S)
    log("health passed with power back", began)
    assert cluster.members(asked) == HEADS
    assert work(cluster, asked) == before
    log("longest time without a name", time.time() - gap(cluster, asked, others, began))


def test_the_whole_rack_without_power_comes_back_by_itself(
    cluster: Cluster,
) -> None:
    power(cluster, *cluster.hosts)
    time.sleep(ALL_OUT_S)
    power(cluster, *reversed(cluster.hosts), back=True)
    began = time.time()
    until(lambda: passes(cluster), "health passes by itself", PATIENCE_S)
    log("health passed with power back", began)
    hosts = (*sorted(HEADS), OF_KUBERNETES)
    until(lambda: all(resolves(cluster, "head", h) for h in hosts), "names are resolved")
    until(lambda: bool(master(cluster)), "a subnet manager answers as master")
    assert cluster.said("head", "srun --gres=gpu:1 hostname", 120) == "gpu-1\n"
