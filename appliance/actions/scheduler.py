"""Validate scheduler: every promise of the scheduler tried on a cluster, and everything taken away again."""

import time
from collections.abc import Iterator
from pathlib import Path

from appliance.acceptance.sandbox import Name, Resource, Settings, clean
from appliance.acceptance.trial import Told, run
from appliance.adapters.kubernetes import KubernetesApi, Ref
from appliance.adapters.prometheus import Prometheus
from appliance.models.result import CheckResult


class Api:
    """A trial's door on the program's own."""

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
    """Time as it is."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def prove(
    kubeconfig: Path, settings: Settings, prometheus: str, told: Told
) -> Iterator[CheckResult]:
    """A verdict for each promise, as it comes. Raises ApplianceError where the cluster does not answer at all."""
    series = Prometheus(prometheus).has if prometheus else None
    with KubernetesApi(kubeconfig) as api:
        yield from run(Api(api), WallClock(), settings, series=series, told=told)


def take_away(kubeconfig: Path) -> None:
    """Removes what a trial that was killed has left."""
    with KubernetesApi(kubeconfig) as api:
        clean(Api(api))
