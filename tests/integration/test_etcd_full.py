"""A real etcd that is full: found by the probe, and repaired by the verb with the host's own program."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import Result

from appliance.adapters import process
from appliance.adapters.kubernetes import KubernetesApi, Ref
from appliance.errors import ApplianceError
from appliance.stages.kubernetes.collect.cluster import etcd
from tests.integration import api_server
from tests.integration.cheat_parts import MERGE
from tests.support.engine_session import hosts, recorder, session
from tests.support.etcd_bench import Bench, Head, bench, only_the_last_is_left
from tests.support.role_programs import program

__all__ = ["bench", "hosts", "recorder", "session"]

pytestmark = pytest.mark.rack
QUOTA = 12 << 20
PIECE = "x" * 300_000
HOARD, OTHER, KEPT = "kai-hoard", "kai-other", "kept"
FULL = "database space exceeded"
REFUSED = re.compile(
    r'^grpc_server_handled_total\{grpc_code="(?:ResourceExhausted|DataLoss)",.*\} (\S+)$', re.M
)
PROGRAM = "appliance-etcd-repair"


@dataclass(frozen=True)
class Place:
    """An API server whose etcd has a small quota."""

    admin: KubernetesApi
    kubeconfig: Path
    client: str
    metrics: tuple[str, int]

    def make(self, namespace: str, name: str, content: str = "1") -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.admin.send("POST", path, "make", {**body, "data": {"of": content}})

    def change(self, content: str) -> None:
        path = f"/api/v1/namespaces/{OTHER}/configmaps/{KEPT}"
        self.admin.send("PATCH", path, "change", {"data": {"of": content}}, MERGE)

    def fill(self, write: Callable[[str], None]) -> None:
        """Until no more is taken."""
        # No two alike: what does not change is not written.
        pieces = [f"{number:09}{PIECE}" for number in range(2 * QUOTA // len(PIECE))]
        with pytest.raises(ApplianceError, match=FULL):
            list(map(write, pieces))
        assert self.found["alarm"] == "NOSPACE"

    @property
    def refused(self) -> float:
        """What the alert EtcdRefusesChanges counts."""
        host, port = self.metrics
        with urlopen(f"http://{host}:{port}/metrics") as answer:
            text = answer.read().decode()
        return sum(map(float, REFUSED.findall(text)))

    def without_free_space(self) -> None:
        """By hand, as somebody may have done already."""
        for words in (("defrag",), ("alarm", "disarm")):
            argv = (str(api_server.compiled() / "etcdctl"), f"--endpoints={self.client}", *words)
            process.run(argv)

    @property
    def found(self) -> dict[str, Any]:
        """What the probe says."""
        return etcd(self.metrics) or {}

    def takes_changes(self) -> bool:
        self.change(os.urandom(8).hex())
        return str(self.found["alarm"]) == ""


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
    more = (
        f"--quota-backend-bytes={QUOTA}",
        f"--listen-metrics-urls=http://127.0.0.1:{port}",
        # Nothing here outlives the machine.
        "--unsafe-no-fsync",
    )
    with (
        api_server.running(api_server.compiled(), folder, of_etcd=more) as kubeconfig,
        # Its patience with a server that is full would be most of the test.
        KubernetesApi(kubeconfig, sleep=lambda _: None) as admin,
    ):
        api_server.until(lambda: admin.get(Ref("v1", "Namespace", "default")) is not None)
        for name in (HOARD, OTHER):
            admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        log = (folder / "etcd.log").read_text()
        (client,) = set(re.findall(r'"advertise-client-urls":\["(http://[^"]+)"\]', log))
        found = Place(admin, kubeconfig, client, ("127.0.0.1", port))
        found.make(OTHER, KEPT)
        yield found


@pytest.fixture
def control(place: Place, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Control:
    """The only control host of the site."""
    monkeypatch.setenv("PATH", f"{api_server.compiled()}:{os.environ['PATH']}")
    only_the_last_is_left(bench)
    made = Control(tmp_path / "real", "head-3", "127.0.0.1")
    made.place = place
    bench.world.heads["head-3"] = made
    return made


def repair(bench: Bench, *argv: str) -> Result:
    return bench.run("repair", "--yes", *argv)


def names(place: Place, namespace: str) -> list[str]:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    return [one["metadata"]["name"] for one in place.admin.send("GET", path, "list")[1]["items"]]


def test_what_objects_were_before_fills_etcd_until_it_is_repaired(
    place: Place, bench: Bench, control: Control
) -> None:
    before = place.refused
    place.fill(place.change)
    with pytest.raises(ApplianceError, match=FULL):
        place.change("1")
    assert place.refused > before
    done = repair(bench)
    assert done.return_value == 0, done
    assert place.found["bytes"] < 0.7 * QUOTA
    assert place.takes_changes()


@pytest.mark.parametrize("has_api", [True, False])
def test_objects_that_fill_etcd_are_named_and_go_where_they_are_named(
    has_api: bool, place: Place, bench: Bench, control: Control
) -> None:
    control.has_api = has_api
    for _ in range(2):
        # Free space that was left over is filled, too.
        place.fill(lambda content: place.make(HOARD, os.urandom(8).hex(), content))
        place.without_free_space()
    error = repair(bench).exception
    assert isinstance(error, ApplianceError)
    assert f"configmaps of namespace {HOARD}" in error.message
    assert error.hint == f"appliance etcd repair --delete {HOARD}/configmaps"
    assert len(names(place, HOARD)) > 10
    done = repair(bench, "--delete", f"{HOARD}/configmaps")
    assert done.return_value == 0, done
    assert place.takes_changes()
    assert names(place, HOARD) == []
    assert KEPT in names(place, OTHER)
