"""The door to Kubernetes: what passes is tried again within bounds, what does not is one line with a remedy."""

import json
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from socket import socket

import pytest

from appliance.adapters import kubernetes
from appliance.adapters.kubernetes import KubernetesApi, Ref
from appliance.adapters.process import run
from appliance.errors import ApplianceError, ClusterFailed, ConfigError
from tests.support.fake_kubernetes import (
    Api,
    Handler,
    hang,
    kubeconfig,
    reset,
    serving,
    status,
)

QUEUE = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "train", "labels": {"a": "b"}},
    "spec": {"priority": 100},
}
REF = Ref.of(QUEUE)
TRIES = len(kubernetes.WAITS_S) + 1


class World:
    def __init__(self, api: Api, folder: Path) -> None:
        self.api = api
        self.waited: list[float] = []
        self.cluster = KubernetesApi(kubeconfig(folder, api.url), sleep=self.waited.append)

    def fails(self) -> ClusterFailed:
        with pytest.raises(ClusterFailed) as failed:
            self.cluster.apply(QUEUE)
        assert failed.value.hint
        assert "\n" not in failed.value.message
        assert "a-secret-token" not in failed.value.message + failed.value.hint
        return failed.value


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(kubernetes, "READ_S", 0.15)
    with serving() as api:
        found = World(api, tmp_path)
        with found.cluster:
            yield found


def test_applying_twice_changes_once(world: World) -> None:
    first = world.cluster.apply(QUEUE)
    second = world.cluster.apply(QUEUE)
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    assert world.cluster.get(REF) == second
    assert [q["metadata"]["name"] for q in world.cluster.find(*REF[:2], "a=b")] == ["train"]
    assert world.cluster.find(*REF[:2], "a=c") == []
    world.cluster.delete(REF)
    world.cluster.delete(REF)
    assert world.cluster.get(REF) is None


@pytest.mark.parametrize(
    "fault",
    [
        status(429, "too many requests"),
        status(500, "etcdserver: leader changed"),
        status(503, "apiserver is shutting down"),
        status(409, "the object has been modified"),
        status(500, 'failed calling webhook "queues.scheduling.run.ai": connection refused'),
        hang,
        reset,
    ],
    ids=["429", "500", "503", "conflict", "webhook", "timeout", "reset"],
)
def test_what_passes_is_tried_again(world: World, fault: object) -> None:
    world.api.faults.extend([fault, fault])  # type: ignore[list-item]
    assert world.cluster.apply(QUEUE)["spec"] == QUEUE["spec"]
    assert world.waited == [0.5, 1.0]


def test_a_full_quota_is_named_with_what_fills_it(world: World) -> None:
    told = (
        'configmaps "appliance-queues" is forbidden: exceeded quota: appliance, requested: '
        "configmaps=1, used: configmaps=200, limited: configmaps=200"
    )
    world.api.faults.append(status(403, told))
    error = world.fails()
    assert "the namespace has 200 of 200 configmaps (its quota)" in error.message
    assert "delete some of the project's configmaps" in error.hint


@pytest.mark.parametrize(
    ("fault", "says", "remedy"),
    [
        (status(429, "too many requests"), "too many requests (HTTP 429)", "overloaded"),
        (status(500, "etcdserver: request timed out"), "request timed out (HTTP 500)", "etcd"),
        (
            status(409, "object has been modified"),
            "has been modified (HTTP 409)",
            "run this command again",
        ),
        (
            status(500, 'failed calling webhook "queues.scheduling.run.ai": refused'),
            "admission webhook queues.scheduling.run.ai does not answer",
            "pods behind it",
        ),
        (hang, "did not answer within 0.15 s", "the load of"),
        (reset, "closed the connection", "log"),
    ],
    ids=["429", "500", "conflict", "webhook", "timeout", "reset"],
)
def test_what_does_not_pass_ends_within_bounds(
    world: World, fault: object, says: str, remedy: str
) -> None:
    world.api.faults.extend([fault] * 50)  # type: ignore[list-item]
    error = world.fails()
    assert says in error.message
    assert remedy in error.hint
    assert len(world.api.seen) == TRIES
    assert sum(world.waited) < 10


@pytest.mark.parametrize(
    ("fault", "says", "remedy"),
    [
        (status(401, "Unauthorized"), "does not accept the token", "expired"),
        (status(403, 'queues is forbidden: User "x" cannot patch'), "cannot patch", "permission"),
        (status(422, "spec.levels: field is immutable"), "immutable", "explain"),
        (
            status(403, 'admission webhook "q" denied the request: parent is missing'),
            "denied the request: parent is missing",
            "permission",
        ),
        (status(404, "not found"), "the cluster has no Queue", "chart"),
    ],
    ids=["token", "forbidden", "invalid", "denied", "no definition"],
)
def test_what_will_not_pass_is_not_tried_again(
    world: World, fault: object, says: str, remedy: str
) -> None:
    world.api.faults.extend([fault])  # type: ignore[list-item]
    error = world.fails()
    assert says in error.message
    assert remedy in error.hint
    assert len(world.api.seen) == 1


def test_retry_after_is_obeyed_within_bounds(world: World) -> None:
    world.api.faults.extend(
        [status(429, Retry_After="3"), status(429, Retry_After="4000"), status(503)]
    )
    world.cluster.apply(QUEUE)
    assert world.waited == [3.0, kubernetes.LONGEST_WAIT_S, 2.0]


def test_nobody_listening_is_said_in_one_line(tmp_path: Path) -> None:
    with serving() as api:
        address = api.url
    waited: list[float] = []
    with (
        KubernetesApi(kubeconfig(tmp_path, address), sleep=waited.append) as cluster,
        pytest.raises(ClusterFailed, match="does not accept connections"),
    ):
        cluster.get(REF)
    assert waited == list(kubernetes.WAITS_S)


def test_a_node_that_is_not_there_is_not_made(world: World) -> None:
    assert world.cluster.label("gpu-1", {"pool": "a"}) is False
    assert world.api.store == {}
    world.api.put("/api/v1/nodes/gpu-1", {"metadata": {"name": "gpu-1", "labels": {"x": "y"}}})
    assert world.cluster.label("gpu-1", {"pool": "a"}) is True
    assert world.api.store["/api/v1/nodes/gpu-1"]["metadata"]["labels"] == {"x": "y", "pool": "a"}


@pytest.mark.parametrize(
    ("cluster", "mode", "says"),
    [
        ({}, 0o644, "accessible to other users"),
        ({"insecure-skip-tls-verify": True}, 0o600, "skips the verification"),
        ({"server": "http://10.0.0.1:6443"}, 0o600, "not https"),
    ],
)
def test_a_careless_kubeconfig_is_refused(
    tmp_path: Path, cluster: dict[str, object], mode: int, says: str
) -> None:
    file = kubeconfig(tmp_path, "https://10.0.0.1:6443", **cluster)
    file.chmod(mode)
    with pytest.raises(ConfigError, match=says) as refused:
        KubernetesApi(file)
    assert refused.value.hint


@pytest.mark.parametrize("text", ["", "{}", "a: [", "apiVersion: v1\nkind: Config\nclusters: []\n"])
def test_a_broken_kubeconfig_is_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kubeconfig"
    file.touch(mode=0o600)
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        KubernetesApi(file)
    assert "\n" not in refused.value.message
    with pytest.raises(ConfigError, match="cannot be read"):
        KubernetesApi(tmp_path / "none")


def test_a_certificate_of_another_authority_is_told_from_silence(tmp_path: Path) -> None:
    with serving() as api:
        api.socket = _tls(api, tmp_path)
        file = kubeconfig(tmp_path, api.url.replace("http", "https"))
        with (
            KubernetesApi(file, sleep=lambda _: None) as cluster,
            pytest.raises(ApplianceError) as failed,
        ):
            cluster.get(REF)
    assert "certificate" in failed.value.message
    assert "verification is never skipped" in failed.value.hint


def _tls(api: Api, folder: Path) -> socket:
    key, certificate = os.fspath(folder / "key.pem"), os.fspath(folder / "cert.pem")
    words = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
    run(words.split())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context.wrap_socket(api.socket, server_side=True)


def test_a_pods_log_is_text_and_bounded(world: World) -> None:
    asked: list[tuple[str, str]] = []

    def text(handler: Handler) -> None:
        asked.append((handler.path, handler.headers["Accept"]))
        data = b"two\nlines \xff\n"
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    world.api.faults.append(text)
    assert world.cluster.logs(Ref("v1", "Pod", "p", "n")) == "two\nlines \ufffd\n"
    ((path, accept),) = asked
    assert path == f"/api/v1/namespaces/n/pods/p/log?limitBytes={kubernetes.LONGEST_LOG}"
    assert "*/*" in accept
    world.api.faults.append(text)
    world.cluster.logs(Ref("v1", "Pod", "p", "n"), "second")
    assert asked[1][0].partition("?")[2].startswith("container=second&")


def test_what_a_server_serves_comes_with_the_preferred_version_first(world: World) -> None:
    versions = [{"version": "v1beta1"}, {"version": "v1"}]
    group = {"versions": versions, "preferredVersion": {"version": "v1"}}
    world.api.faults.append(lambda handler: handler.answer(200, group))
    assert world.cluster.served("resource.k8s.io") == ("v1", "v1beta1")
    world.api.faults.append(lambda handler: handler.answer(404, {"kind": "Status"}))
    assert world.cluster.served("gateway.networking.k8s.io") == ()
    world.api.faults.append(lambda handler: handler.answer(200, {"gitVersion": "v1.35.4"}))
    assert world.cluster.version() == "v1.35.4"


@pytest.mark.parametrize("bound", ["LONGEST", "WHOLE_S"])
def test_an_answer_without_an_end_is_not_waited_for(
    bound: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cluster.apply(QUEUE)
    monkeypatch.setattr(kubernetes, bound, 0)
    with pytest.raises(ClusterFailed, match=r"more than 0 MiB|without an end") as refused:
        world.cluster.get(REF)
    assert refused.value.hint.startswith("check that it is the API server")
    assert world.waited == []


@pytest.mark.parametrize("items", [7, [7], ["x"], [{"metadata": None}], [{}]])
def test_a_list_of_something_else_is_refused(
    items: object, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps({"items": items}).encode()
    odd = kubernetes._Answer(200, body, None)
    monkeypatch.setattr(world.cluster, "_once", lambda *_: odd)
    with pytest.raises(ClusterFailed, match="is not a list of them"):
        world.cluster.find("v1", "Pod", "")
