"""A real etcd that is full: found by the probe, and repaired by the verb with the host's own program."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import Result

from appliance.actions import etcd_repair
from appliance.adapters.kubernetes import KubernetesApi, Ref, Resource
from appliance.errors import ApplianceError
from appliance.stages.kubernetes.collect.cluster import etcd
from tests.integration import api_server
from tests.unit.cli.test_etcd import (
    Bench,
    Head,
    action,
    bench,
    hosts,
    only_the_last_is_left,
    recorder,
    session,
)
from tests.unit.roles.loading import program

__all__ = ["bench", "hosts", "recorder", "session"]

pytestmark = pytest.mark.rack
QUOTA = 64 << 20
PIECE = "x" * 900_000
HOARD, OTHER = "kai-hoard", "kai-other"
FULL = "database space exceeded"
PROGRAM = "appliance-etcd-repair"


@dataclass(frozen=True)
class Place:
    """An API server whose etcd has a small quota."""

    admin: KubernetesApi
    kubeconfig: Path
    client: str
    metrics: tuple[str, int]

    def put(self, namespace: str, name: str, content: str = PIECE) -> None:
        meta = {"name": name, "namespace": namespace}
        self.admin.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"of": content}}
        )

    def fill(self, name: Callable[[int], str]) -> None:
        """Until no more is taken."""
        # No two alike: what does not change is not written.
        pieces = [(name(n), f"{n:09}{PIECE}") for n in range(2 * QUOTA // len(PIECE))]
        with pytest.raises(ApplianceError, match=FULL):
            self.put_all(pieces)
        assert self.found["alarm"] == "NOSPACE"

    def put_all(self, pieces: Iterable[tuple[str, str]]) -> None:
        for name, content in pieces:
            self.put(HOARD, name, content)

    @property
    def found(self) -> dict[str, Any]:
        """What the probe says."""
        return etcd(self.metrics) or {}

    def takes_changes(self) -> bool:
        self.put(OTHER, "probe", os.urandom(8).hex())
        return self.found["alarm"] == ""


class Control(Head):
    """A control host whose program meets this etcd."""

    place: Place
    has_api = True

    def program(self, name: str) -> ModuleType:
        if name != PROGRAM:
            return super().program(name)
        found: Any = program(Path(f"roles/kubernetes/files/usr/local/sbin/{name}"))
        found.MEMBER, (host, port) = self.place.client, self.place.metrics
        found.METRICS = f"http://{host}:{port}/metrics"
        found.ADMIN = str(self.place.kubeconfig) if self.has_api else "/nowhere"
        return found  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("full")
    (port,) = api_server.ports(1)
    more = (f"--quota-backend-bytes={QUOTA}", f"--listen-metrics-urls=http://127.0.0.1:{port}")
    with (
        api_server.running(api_server.compiled(), folder, of_etcd=more) as kubeconfig,
        KubernetesApi(kubeconfig) as admin,
    ):
        api_server.until(lambda: admin.get(Ref("v1", "Namespace", "default")) is not None)
        for name in (HOARD, OTHER):
            admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        log = (folder / "etcd.log").read_text()
        (client,) = set(re.findall(r'"advertise-client-urls":\["(http://[^"]+)"\]', log))
        yield Place(admin, kubeconfig, client, ("127.0.0.1", port))


@pytest.fixture
def control(place: Place, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Control:
    """The only control host of the site."""
    monkeypatch.setenv("PATH", f"{api_server.compiled()}:{os.environ['PATH']}")
    monkeypatch.setattr(etcd_repair, "open_session", action.open_session)
    only_the_last_is_left(bench)
    made = Control(tmp_path / "real", "head-3", "127.0.0.1")
    made.place = place
    bench.world.heads["head-3"] = made
    return made


def repair(bench: Bench, *argv: str) -> Result:
    return bench.run("repair", "--yes", *argv)


def configmaps(place: Place, namespace: str) -> list[Resource]:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    found = place.admin.send("GET", path, "list")[1]
    return list(found["items"])


def test_what_objects_were_before_fills_etcd_until_it_is_repaired(
    place: Place, bench: Bench, control: Control
) -> None:
    place.fill(lambda _: "same")
    with pytest.raises(ApplianceError, match=FULL):
        place.put(OTHER, "kept", "1")
    done = repair(bench)
    assert done.return_value == 0, done
    assert place.found["bytes"] < QUOTA / 2
    assert place.takes_changes()
    assert [one["metadata"]["name"] for one in configmaps(place, HOARD)] == ["same"]


@pytest.mark.parametrize("has_api", [True, False])
def test_objects_that_fill_etcd_are_named_and_go_where_they_are_named(
    has_api: bool, place: Place, bench: Bench, control: Control
) -> None:
    control.has_api = has_api
    place.put(OTHER, "kept", "1")
    place.fill(lambda number: f"piece-{number}")
    error = repair(bench).exception
    assert isinstance(error, ApplianceError)
    assert f"configmaps of namespace {HOARD}" in error.message
    assert error.hint == f"appliance etcd repair --delete {HOARD}/configmaps"
    assert place.found["alarm"] == "NOSPACE"
    assert len(configmaps(place, HOARD)) > 50
    done = repair(bench, "--delete", f"{HOARD}/configmaps")
    assert done.return_value == 0, done
    assert place.takes_changes()
    assert configmaps(place, HOARD) == []
    assert "kept" in [one["metadata"]["name"] for one in configmaps(place, OTHER)]
