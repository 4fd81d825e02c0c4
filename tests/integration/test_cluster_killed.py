"""A cluster's deployment is killed at ten random moments; each next one goes on, and the end is that of an undisturbed one."""

import logging
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from appliance.lab.spec import RackSpec
from tests.integration.rack import (
    Event,
    Identity,
    at_work,
    own_name,
    private_folders,
    raised,
    repeated,
    run_of,
    survivors,
)
from tests.integration.tenants_at_work import SMALL_SITE
from tests.support.rack_cluster import SECONDS, Cluster

LOG = logging.getLogger(__name__)
KILLS = 10
Task = tuple[str, str, str]
"""Stage, host and words."""
BEFORE = ("base", "gpu", "fabric", "storage")
"""Stages whose deployments are killed on a rack without a cluster (test_killed)."""
TASKS = 270
"""About how many tasks the hosts have from there to the end, each counted once: what a killed run began is begun again, and no news.
By tasks, so that a busy machine's runs come as far as an idle one's; those of the whole deployment, so that each of its parts is met."""
MOST_SECONDS = 20.0
"""How much later a run is killed at the most, so that long tasks are met in their middle."""

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head, a host of Slurm's and one of Kubernetes's with KAI, deployed up to where the cluster begins."""
    spec = RackSpec(own_name("shot"), 3, kubernetes=True, slurm=1)
    with raised(spec, tmp_path_factory.mktemp("shot"), Cluster) as found:
        site = found.site / "site.yml"
        site.write_text(site.read_text() + SMALL_SITE)
        flags = (word for stage in BEFORE for word in ("--stage", stage))
        ground = found.deploy("--json", *flags)
        assert ground.end(SECONDS) in {0, 3}, ground.tail
        yield found


@dataclass(frozen=True)
class Shot:
    """A run that was killed: what it was at, and the processes that worked for it then."""

    run: str
    at: str
    workers: set[Identity]


@pytest.fixture(scope="module")
def killed(cluster: Cluster) -> list[Shot]:
    """One after the other. Where a deployment comes to its end before its time, all of it is done again, to be killed there."""
    shots: list[Shot] = []
    known: set[Task] = set()
    whole: tuple[str, ...] = ()
    moments = sorted(random.sample(range(1, TASKS), KILLS))
    while len(shots) < KILLS:
        deployment = cluster.deploy("--json", *whole)
        deployment.until(partial(_came_to, moments[len(shots)], known), SECONDS)
        time.sleep(random.uniform(0.0, MOST_SECONDS))
        workers = at_work(cluster, deployment)
        deployment.send(signal.SIGKILL)
        if deployment.end(10) != -signal.SIGKILL:
            whole, known = ("--full",), set()
            continue
        tasks = _begun(deployment.events)
        known |= set(tasks)
        shots.append(Shot(run_of(deployment.events), " ".join(tasks[-1]), workers))
        LOG.warning("killed after %d tasks, at %s", len(known), shots[-1].at)
    return shots


def _begun(events: list[Event]) -> list[Task]:
    """In their order."""
    return [(e["stage"], e["host"], e["task"]) for e in events if e["event"] == "host_task"]


def _came_to(count: int, known: set[Task], events: list[Event]) -> bool:
    """Whether this run is at work and so many tasks have begun in it or before, or none will any more."""
    begun = set(_begun(events))
    done = any(e["event"] == "run_finished" for e in events)
    return done or (bool(begun) and len(begun | known) >= count)


def test_the_next_deployment_comes_to_its_end_and_nothing_of_the_killed_ones_lives(
    cluster: Cluster, killed: list[Shot]
) -> None:
    last = cluster.deploy("--json")
    assert last.end(SECONDS) in {0, 3}, last.tail
    said = "\n".join(e["text"] for e in last.events if e["event"] == "message")
    assert f"run {killed[-1].run} was interrupted" in said
    assert [s for shot in killed for s in survivors(shot.workers)] == []
    assert private_folders(cluster) == []
    assert set(cluster.states(run_of(last.events)).values()) <= {"done", "skipped"}
    # What was finished is begun again only where it was told to.
    unasked = [e for e in cluster.journal() if e.get("why") != "--full"]
    assert repeated(unasked) == []


def test_nothing_is_left_to_change_on_the_cluster(cluster: Cluster, killed: list[Shot]) -> None:
    again = cluster.deploy("--json", "--full")
    assert again.end(SECONDS) in {0, 3}, again.tail
    run = run_of(again.events)
    changed = [(e["stage"], e["host"], e["task"]) for e in cluster.journal("task_changed", run)]
    assert changed == []
    # Slurm's host is a node, too, of which its taint keeps pods away.
    assert cluster.ready() == set(cluster.hosts)
    # Tokens that joining hosts got live for minutes, and are taken back.
    assert cluster.said("head", "KUBECONFIG=/etc/kubernetes/admin.conf kubeadm token list") == ""
    pods = cluster.kubectl("get pods -A --no-headers").splitlines()
    assert [pod for pod in pods if " Running " not in pod and " Completed " not in pod] == []
