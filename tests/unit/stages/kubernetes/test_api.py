"""Requests to the API by the kubeconfig of kubeadm: who is trusted, what is refused, and that half an answer is none."""

import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from appliance.adapters.certificates import KeyPair
from appliance.probe.ask import Ask
from appliance.probe.problems import Late, Unreadable
from appliance.stages.kubernetes.collect import api as module
from appliance.stages.kubernetes.collect.api import Api
from tests.support.cluster_api import LOOPBACK, Cluster, Serve, serve
from tests.support.probe_trees import Grow, grow

__all__ = ["grow", "serve"]

PLACE = "/etc/kubernetes/admin.conf"


def api(grow: Grow, kubeconfig: str, **files: Any) -> Api:
    return Api(Ask({}, grow({PLACE: kubeconfig, **files})), PLACE)


def test_each_request_has_the_certificate_of_the_kubeconfig(grow: Grow, serve: Serve) -> None:
    cluster = serve({"/readyz": "ok", "/api/v1/nodes": {"items": [{"metadata": {"name": "a"}}]}})
    known = api(grow, cluster.kubeconfig())
    assert known.text("/readyz") == "ok"
    assert known.items("/api/v1/nodes", "Node") == [{"metadata": {"name": "a"}, "kind": "Node"}]
    assert cluster.seen == [("/readyz", "admin"), ("/api/v1/nodes", "admin")]


def test_a_certificate_in_a_file_is_read_from_there(grow: Grow, serve: Serve) -> None:
    """So does the kubeconfig of kubelet, whose certificate is renewed."""
    cluster = serve({"/readyz": "ok"})
    lines = cluster.kubeconfig().split("\n")
    kept = [line for line in lines if "client-" not in line]
    pem = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    text = "\n".join([*kept, f"    client-certificate: {pem}", f"    client-key: {pem}"])
    both = cluster.certificate + cluster.client.pem
    assert api(grow, text, **{pem: both}).text("/readyz") == "ok"
    Path(grow({}) + pem).unlink()
    with pytest.raises(Unreadable, match=rf"{PLACE}: No such file or directory \(.*{pem}\)"):
        api(grow, text)


def test_a_server_with_a_certificate_of_another_authority_gets_no_request(
    grow: Grow, serve: Serve
) -> None:
    cluster = serve({"/readyz": "ok"})
    other = KeyPair.fresh().for_server([LOOPBACK], 1)
    with pytest.raises(Unreadable, match=r"127.0.0.1:[0-9]+: self-signed certificate"):
        api(grow, cluster.kubeconfig(authority=other)).text("/readyz")
    with pytest.raises(Unreadable, match="not valid for 'localhost'"):
        api(grow, cluster.kubeconfig("localhost")).text("/readyz")
    assert cluster.seen == []


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ((401, '{"kind": "Status", "message": "Unauthorized"}'), "answered 401: Unauthorized"),
        ((500, "[+]ping ok\n[-]etcd failed: why\n"), r"answered 500: \[-\]etcd failed: why"),
        ((503, ""), "answered 503: no reason given"),
        ((429, "too many\nrequests"), "answered 429: too many requests"),
        ((403, "[]"), r"answered 403: \[\]"),
    ],
)
def test_a_refusal_is_told_by_its_status_and_reason(
    grow: Grow, serve: Serve, answer: tuple[int, str], cause: str
) -> None:
    with pytest.raises(Unreadable, match=cause):
        api(grow, serve({"/x": answer}).kubeconfig()).text("/x")


@pytest.mark.parametrize("answer", ["", "[]", "{", '{"items": null}', '{"items": [{}]}'])
def test_what_is_no_list_is_not_taken_for_an_empty_one(
    grow: Grow, serve: Serve, answer: str
) -> None:
    with pytest.raises(Unreadable, match=r"returned no (JSON for /x|list of kind Pod)"):
        api(grow, serve({"/x": answer}).kubeconfig()).items("/x", "Pod")


def test_an_answer_that_is_too_long_is_refused(
    grow: Grow, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 1 << 20)
    with pytest.raises(Unreadable, match="answered /x with more than 1 MiB"):
        api(grow, serve({"/x": "y" * (2 << 20)}).kubeconfig()).text("/x")


@pytest.fixture
def half(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server that sends half an answer, and then closes the connection without an end of TLS."""
    cluster = Cluster({}, tmp_path_factory.mktemp("half"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cluster.port = listener.getsockname()[1]

        def answer() -> None:
            plain, _ = listener.accept()
            with cluster.context().wrap_socket(plain, server_side=True) as wire:
                wire.recv(4096)
                wire.sendall(b'HTTP/1.0 200 OK\r\n\r\n{"items": []}')

        worker = Thread(target=answer, daemon=True)
        worker.start()
        yield cluster
        worker.join(5)


def test_an_answer_that_is_cut_off_is_no_answer(grow: Grow, half: Cluster) -> None:
    with pytest.raises(Unreadable, match="EOF"):
        api(grow, half.kubeconfig()).items("/x", "Pod")


def test_a_server_that_is_silent_is_not_waited_for(
    grow: Grow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.2)
    cluster = Cluster({}, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cluster.port = listener.getsockname()[1]
        with pytest.raises(Late, match=r"did not answer within 0\.2 s"):
            api(grow, cluster.kubeconfig()).text("/readyz")


@pytest.mark.parametrize(
    ("kubeconfig", "cause"),
    [
        ("", "names no server"),
        ("server: http://10.0.0.1:6443\n", "names no server"),
        ("server: https://a/\nserver: https://b/\n", "names several clusters or users"),
        ("server: https://a:6443\n", "has no certificate-authority"),
        ("server: https://a\ncertificate-authority-data: '%%%'\n", "cannot be read"),
    ],
)
def test_a_kubeconfig_that_kubeadm_did_not_write_is_refused(
    grow: Grow, kubeconfig: str, cause: str
) -> None:
    with pytest.raises(Unreadable, match=f"{PLACE}.* {cause}"):
        api(grow, kubeconfig)


def test_a_key_of_another_certificate_is_refused(grow: Grow, tmp_path: Path) -> None:
    cluster = Cluster({}, tmp_path, port=1)
    cluster.client = KeyPair.fresh()
    with pytest.raises(Unreadable, match=f"{PLACE}: its certificate or key is damaged"):
        api(grow, cluster.kubeconfig())
