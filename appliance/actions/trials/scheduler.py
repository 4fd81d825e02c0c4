"""Validate scheduler: tests every promise of the scheduler on a cluster, and removes everything again."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.acceptance.sandbox import ClusterClient, Name, Resource, Settings, clean
from appliance.acceptance.trial import Told, run
from appliance.actions.trials.runai_projects import projects_of
from appliance.adapters.kubernetes import KubernetesApi, Ref
from appliance.adapters.prometheus import Prometheus
from appliance.config.load import LoadedSite
from appliance.models.result import CheckResult


class Api:
    """A trial's adapter for the program's own client."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def find(self, api_version: str, kind: str, selector: str) -> list[Resource]:
        return self._api.find(api_version, kind, selector)

    def apply(self, resource: Resource) -> None:
        self._api.apply(resource)

    def delete(self, name: Name) -> None:
        self._api.delete(Ref(*name))

    def logs(self, pod: Name, container: str) -> str:
        return self._api.logs(Ref(*pod), container)

    def served(self, group: str) -> tuple[str, ...]:
        return self._api.served(group)

    def version(self) -> str:
        return self._api.version()


class WallClock:
    """Real time."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def prove(
    kubeconfig: Path,
    settings: Settings,
    prometheus: str,
    told: Told,
    runai: LoadedSite | None = None,
) -> Iterator[CheckResult]:
    """Yields a verdict for each promise. ``runai``: the site whose scheduler is Run:ai.

    Raises ApplianceError if the cluster does not answer at all.
    """
    series = Prometheus(prometheus).has if prometheus else None
    with _cluster(kubeconfig, runai) as cluster:
        yield from run(cluster, WallClock(), settings, series=series, told=told)


def take_away(kubeconfig: Path, runai: LoadedSite | None = None) -> None:
    """Removes what a killed trial has left."""
    with _cluster(kubeconfig, runai) as cluster:
        clean(cluster)


@contextmanager
def _cluster(kubeconfig: Path, runai: LoadedSite | None) -> Iterator[ClusterClient]:
    with KubernetesApi(kubeconfig) as api:
        if runai is None:
            yield Api(api)
            return
        with projects_of(runai, Api(api)) as projects:
            yield projects
