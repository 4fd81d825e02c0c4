"""Every resource of the queues against a real API server: admitted, nothing lost, and the second apply changes nothing.

The server and its etcd are those the rack's cluster is built from; where they have not been built yet, this is skipped.
The definitions of KAI's resources are our own, from its documented fields: the server checks types and drops what a
definition does not know, so that a misspelt field shows as one that is missing.
"""

import json
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import yaml  # noqa: TID251 - the definitions are data of the test

from appliance.actions import queue as action
from appliance.actions.opening import Target
from appliance.actions.queue_difference import differences
from appliance.adapters import process
from appliance.adapters.kubernetes import KubernetesApi, Ref, Resource
from appliance.config.load import load_site
from appliance.config.queues.rendered import rendered
from appliance.errors import ApplianceError, ClusterFailed
from appliance.models.queue_plan import Step
from tests.unit.config.test_impossible_queues import BASE, furnish
from tests.unit.config.test_queue_rendering import DATA, PROFILES, VARIANTS

pytestmark = pytest.mark.rack

CACHE = Path("/var/cache/appliance/lab")
PROGRAMS = ("etcd", "kube-apiserver")
HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
LIMIT_S = 120.0


def built() -> Path | None:
    """The newest folder of the cache that holds both programs."""
    found = [
        folder
        for folder in CACHE.glob("kubernetes-*/bin")
        if all(os.access(folder / name, os.X_OK) for name in PROGRAMS)
    ]
    return max(found, key=lambda folder: folder.stat().st_mtime, default=None)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    programs = built()
    if programs is None:
        pytest.skip(f"no kube-apiserver and etcd in {CACHE}/kubernetes-*: the rack builds them")
    folder = tmp_path_factory.mktemp("cluster")
    with _running(programs, folder) as kubeconfig, KubernetesApi(kubeconfig) as api:
        _until(lambda: api.get(Ref("v1", "Namespace", "default")) is not None)
        definitions = list(yaml.safe_load_all((DATA / "definitions.yml").read_text()))
        for definition in definitions:
            api.apply(definition)
        for definition in definitions:
            _until(partial(_established, api, Ref.of(definition)))
        for host in HOSTS:
            api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": host}})
        yield api


def site(folder: Path, variant: str, profile: str = "hpc") -> Path:
    furnish(folder)
    text = (DATA / f"{variant}.yml").read_text()
    base = BASE[: BASE.index("secrets:")] if "\nsecrets:" in text else BASE
    (folder / "site.yml").write_text(base.replace("profile: hpc", f"profile: {profile}") + text)
    return folder


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_second_apply_changes_nothing(
    cluster: KubernetesApi, tmp_path: Path, variant: str, profile: str
) -> None:
    loaded = load_site(site(tmp_path, variant, profile))
    wanted = action.with_secrets(loaded, rendered(loaded.site, loaded.profile))
    made = action.plan(loaded, wanted, cluster)
    assert made.refused == ()
    action.apply(made, wanted, cluster, lambda _: None)
    for resource in wanted.resources:
        found = cluster.get(Ref.of(resource))
        assert found is not None
        assert not differences(resource, found)
        again = cluster.apply(resource)
        assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"], (
            f"{Ref.of(resource)} changed: {found} → {again}"
        )
    second = action.plan(loaded, wanted, cluster)
    assert [c for c in second.changes if c.step is not Step.LEAVE] == []
    assert second.unchanged >= len(wanted.resources)


def test_a_queue_with_a_pod_stays(cluster: KubernetesApi, tmp_path: Path) -> None:
    folder = site(tmp_path, "flat")
    loaded, wanted = action.describe(Target(folder))
    action.apply(action.plan(loaded, wanted, cluster), wanted, cluster, lambda _: None)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "job-0",
            "namespace": "kai-team",
            "labels": {"kai.scheduler/queue": "team-train"},
        },
        "spec": {"containers": [{"name": "a", "image": "none"}], "schedulerName": "kai-scheduler"},
    }
    cluster.apply(pod)
    text = (folder / "site.yml").read_text()
    (folder / "site.yml").write_text(text.replace("- {name: train, gpu", "- {name: other, gpu"))
    loaded, wanted = action.describe(Target(folder))
    assert [c.name for c in action.plan(loaded, wanted, cluster).refused] == ["team-train"]
    cluster.delete(Ref.of(pod))
    _until(lambda: cluster.get(Ref.of(pod)) is None)
    made = action.plan(loaded, wanted, cluster)
    assert [c.name for c in made.changes if c.step is Step.DELETE] == ["team-train"]
    action.apply(made, wanted, cluster, lambda _: None)
    assert cluster.get(Ref("scheduling.run.ai/v2", "Queue", "team-train")) is None


def test_the_definitions_bite(cluster: KubernetesApi) -> None:
    queue: Resource = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "odd"},
        "spec": {"priority": "high"},
    }
    with pytest.raises(ClusterFailed, match="priority"):
        cluster.apply(queue)
    queue["spec"] = {"parentQueu": "x"}
    with pytest.raises(ClusterFailed, match="parentQueu: field not declared"):
        cluster.apply(queue)


def test_a_token_that_is_not_known_is_one_line(cluster: KubernetesApi, tmp_path: Path) -> None:
    document = json.loads(cluster.kubeconfig.read_text())
    document["users"][0]["user"]["token"] = "expired"
    file = tmp_path / "kubeconfig"
    file.touch(mode=0o600)
    file.write_text(json.dumps(document))
    with KubernetesApi(file) as api, pytest.raises(ClusterFailed, match="does not accept"):
        api.get(Ref("v1", "Namespace", "default"))


def _established(api: KubernetesApi, definition: Ref) -> bool:
    conditions = (api.get(definition) or {}).get("status", {}).get("conditions", [])
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


@contextmanager
def _running(programs: Path, folder: Path) -> Iterator[Path]:
    """etcd and the API server on loopback, with a certificate and a token of their own."""
    token = secrets.token_urlsafe(24)
    clients, peers, port = _ports(3)
    _certificate(folder)
    tokens = folder / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(f'{token},test,test,"system:masters"\n')
    etcd = [
        os.fspath(programs / "etcd"),
        *("--data-dir", os.fspath(folder / "etcd")),
        *("--listen-client-urls", f"http://127.0.0.1:{clients}"),
        *("--advertise-client-urls", f"http://127.0.0.1:{clients}"),
        *("--listen-peer-urls", f"http://127.0.0.1:{peers}"),
        *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peers}"),
        *("--initial-cluster", f"default=http://127.0.0.1:{peers}"),
    ]
    server = [
        os.fspath(programs / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{clients}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--tls-cert-file={folder / 'cert.pem'}",
        f"--tls-private-key-file={folder / 'key.pem'}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://127.0.0.1",
        f"--service-account-key-file={folder / 'key.pem'}",
        f"--service-account-signing-key-file={folder / 'key.pem'}",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
    ]
    started: list[int] = []
    try:
        for name, argv in (("etcd", etcd), ("server", server)):
            started.append(process.spawn(argv, log=folder / f"{name}.log"))
        yield _kubeconfig(folder, port, token)
    finally:
        for pid in reversed(started):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _kubeconfig(folder: Path, port: int, token: str) -> Path:
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority": os.fspath(folder / "cert.pem"),
    }
    file = folder / "kubeconfig"
    file.touch(mode=0o600)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "me", "user": {"token": token}}],
    }
    file.write_text(json.dumps(document))
    return file


def _certificate(folder: Path) -> None:
    words = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test"
        f" -addext subjectAltName=IP:127.0.0.1 -keyout {folder}/key.pem -out {folder}/cert.pem"
    )
    process.run(words.split())


def _ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [s.getsockname()[1] for s in held]
    finally:
        for s in held:
            s.close()


def _until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        with suppress(ApplianceError):
            if claim():
                return
        time.sleep(0.2)
    raise AssertionError("the API server did not come up in time")
