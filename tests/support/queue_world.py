"""Queue world, as several test modules use it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.actions.kubernetes import queues as action
from appliance.actions.sites.opening import Target
from appliance.adapters.kubernetes import KubernetesApi
from appliance.cli import main as program
from appliance.models.queue_plan import QueuePlan
from appliance.stages.queues import changes
from tests.support.fake_kubernetes import Api, kubeconfig, serving
from tests.support.impossible_queues import BASE, SOUND, furnish

HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")


class World:
    """A site, and a cluster of its own."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.api = api
        self.folder = folder
        furnish(folder)
        self.write(SOUND)
        kubeconfig(folder, api.url)
        for host in HOSTS:
            api.put(f"/api/v1/nodes/{host}", {"metadata": {"name": host, "labels": {}}})

    def write(self, scheduler: str) -> None:
        (self.folder / "site.yml").write_text(BASE + scheduler)

    def plan(self) -> QueuePlan:
        loaded, wanted = action.describe(Target(self.folder))
        with action.cluster_of(loaded, None) as cluster:
            return changes.plan(loaded.site, wanted, cluster, cluster.server)

    def apply(self) -> int:
        loaded, wanted = action.describe(Target(self.folder))
        with KubernetesApi(self.folder / "kubeconfig", sleep=lambda _: None) as cluster:
            made = changes.plan(loaded.site, wanted, cluster)
            return changes.apply(made, wanted, cluster, lambda _: None)

    def apply_with_secrets(self) -> int:
        loaded, _ = action.describe(Target(self.folder))
        with KubernetesApi(self.folder / "kubeconfig", sleep=lambda _: None) as cluster:
            wanted = changes.for_cluster(loaded.site, loaded.profile, loaded.folder, cluster)
            made = changes.plan(loaded.site, wanted, cluster)
            return changes.apply(made, wanted, cluster, lambda _: None)

    def queue(self, name: str) -> dict[str, object]:
        found: dict[str, object] = self.api.store[f"/apis/scheduling.run.ai/v2/queues/{name}"]
        return found

    def run(self, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
        argv = ["appliance", "queue", words[0], "--site", os.fspath(self.folder), *words[1:]]
        monkeypatch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as ended:
            program.main()
        assert isinstance(ended.value.code, int)
        return ended.value.code


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with serving() as api:
        yield World(api, tmp_path)
