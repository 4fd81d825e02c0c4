"""Cluster pods, as several test modules use it."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.process import run as run_program
from appliance.lab.spec import RackSpec
from tests.integration.rack import PROGRAM, own_name, raised
from tests.integration.tenants_at_work import SITE
from tests.support.rack_cluster import SECONDS, Cluster

IMAGE = "appliance.local/busybox:1"


PATIENCE_S = 240.0


SHARED = SITE.replace("rdma: host\n", "rdma: host\n  sharing: unenforced\n")
"""With parts of GPUs."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane and two GPU hosts, with an administrator's kubeconfig, and KAI of the release the rack carries."""
    spec = RackSpec(own_name("gpus"), 3, kubernetes=True)
    with raised(spec, tmp_path_factory.mktemp("gpus"), Cluster) as found:
        site = found.site / "site.yml"
        site.write_text(site.read_text() + SHARED)
        deployment = found.deploy("--json")
        assert deployment.end(SECONDS) in (0, 3), deployment.tail
        done = found.program("kubeconfig", "--json", "--days", "1")
        assert done.returncode == 0, done.stderr
        applied = (PROGRAM, "queue", "apply", "--site", str(found.site), "--yes")
        done = run_program(applied, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        yield found


def until(reached: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> None:
    """Waits until it is so."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(1)


@contextmanager
def as_member(cluster: Cluster, user: str) -> Iterator[KubernetesApi]:
    """The cluster as a member of a project has it, by a certificate of his own."""
    done = cluster.program("kubeconfig", "--user", user, "--json", "--days", "1")
    assert done.returncode == 0, done.stderr
    with KubernetesApi(Path(json.loads(done.stdout)["file"])) as api:
        yield api
