"""A site of Kubernetes alone is accepted without Slurm: every gate closes with evidence made through Kubernetes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters import process
from appliance.lab.spec import RackSpec
from tests.integration.entered import enter_passes, training_logs, unmarked_hosts
from tests.integration.rack import own_name, raised
from tests.integration.tenants_at_work import SMALL_SITE
from tests.support.rack_cluster import SECONDS, Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head and two GPU hosts, all stages, no Slurm; its hardware is not marked as simulated."""
    spec = RackSpec(own_name("accepted"), 3, kubernetes=True)
    with raised(spec, tmp_path_factory.mktemp("accepted"), Cluster) as found:
        site = found.site / "site.yml"
        # Up to version 1, a site without the section has Slurm.
        text = site.read_text().replace("\nversion: 1\n", "\nversion: 2\n")
        site.write_text(text.partition("# Containers in Slurm jobs")[0] + SMALL_SITE)
        with unmarked_hosts(found):
            deployment = found.deploy("--json")
            assert deployment.end(SECONDS) == 0, deployment.tail
            yield found


def gates(cluster: Cluster) -> dict[str, str]:
    """State of each gate that is measured, by its name."""
    said = cluster.program("accept", "--look", "--json")
    assert "slurm" not in (said.stdout + said.stderr).lower()
    levels = json.loads(said.stdout)["acceptance"]["gates"]
    return {g["id"]: g["state"] for g in levels if not g["id"].startswith("checks.")}


def test_all_gates_close_with_evidence_of_kubernetes(cluster: Cluster, tmp_path: Path) -> None:
    key = tmp_path / "key"
    process.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)])
    found = gates(cluster)
    assert set(found.values()) == {"open"}, found
    assert {"nccl.host", "nccl.cluster", "perftest.write_bw", "burnin.done"} <= set(found)
    look = cluster.program("accept", "--look")
    assert look.returncode == 3, look.stdout + look.stderr
    assert "slurm" not in look.stdout.lower()

    logs = str(training_logs(tmp_path / "logs", "kubernetes"))
    judged = cluster.program("validate", "gpt3-logs", logs)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    left = {gate for gate, state in gates(cluster).items() if state == "open"}
    assert set(enter_passes(cluster.site)) == left

    done = cluster.program(
        "accept", "--sign", str(key), "--output", str(tmp_path / "out"), seconds=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Accepted: yes." in done.stdout
    assert len(list((tmp_path / "out").glob("*.tar"))) == 1
