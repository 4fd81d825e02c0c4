"""The API of a cluster on loopback, by TLS with a client's certificate, and the kubeconfig that leads to it."""

import json
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from appliance.adapters.certificates import KeyPair

LOOPBACK = IPv4Address("127.0.0.1")
Answer = str | Mapping[str, Any] | tuple[int, str]
"""Text, JSON, or an error's status and body."""
LIST: Answer = {"items": []}
EMPTY: dict[str, Answer] = {
    f"/{where}/namespaces/kube-system/{plural}": LIST
    for where, plural in (
        ("api/v1", "pods"),
        ("apis/apps/v1", "deployments"),
        ("apis/apps/v1", "daemonsets"),
        ("apis/apps/v1", "statefulsets"),
    )
}
"""A namespace of the platform without workloads."""


@dataclass
class Cluster:
    """An API that serves ``answers`` by path; ``seen``: path and client of each request."""

    answers: dict[str, Answer]
    folder: Path
    server: KeyPair = field(default_factory=KeyPair.fresh)
    client: KeyPair = field(default_factory=KeyPair.fresh)
    seen: list[tuple[str, str]] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self.authority = self.server.for_server([LOOPBACK], 1)
        self.certificate = self.client.for_server([LOOPBACK], 1)

    def kubeconfig(self, host: str = "127.0.0.1", authority: str = "") -> str:
        """As kubeadm writes it."""
        parts = {
            "certificate-authority-data": authority or self.authority,
            "client-certificate-data": self.certificate,
            "client-key-data": self.client.pem,
        }
        ca, certificate, key = (
            f"{k}: {b64encode(v.encode()).decode()}\n" for k, v in parts.items()
        )
        return (
            f"clusters:\n- cluster:\n    {ca}    server: https://{host}:{self.port}\n"
            f"  name: rack\nusers:\n- name: admin\n  user:\n    {certificate}    {key}"
        )

    def context(self) -> ssl.SSLContext:
        """That of the server, which takes no other client than this one."""
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        file = self.folder / "server.pem"
        file.write_text(self.authority + self.server.pem)
        found.load_cert_chain(file)
        found.verify_mode = ssl.CERT_REQUIRED
        found.load_verify_locations(cadata=self.certificate)
        return found


class Server(ThreadingHTTPServer):
    """Serves a cluster; the handshake takes place in the thread of its client."""

    daemon_threads = True

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.context = cluster, cluster.context()
        super().__init__(("127.0.0.1", 0), Handler)
        cluster.port = self.server_port

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves is no error of the server's."""


class Handler(BaseHTTPRequestHandler):
    """One request, answered as the API answers HTTP/1.0."""

    server: Server

    def setup(self) -> None:
        self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self) -> None:
        super().finish()
        with self.request, suppress(OSError):
            # The client closes without an answer to the end of the stream.
            self.request.unwrap()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self.answer(self.path)

    def do_POST(self) -> None:
        """Answered by the path, and by whom the client acts for."""
        self.rfile.read(int(self.headers["Content-Length"]))
        groups = self.headers.get_all("Impersonate-Group") or []
        self.answer(" ".join(("POST", self.path, self.headers["Impersonate-User"], *groups)))

    def do_PATCH(self) -> None:
        """Answered by the path, the kind of the patch and its content."""
        content = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.answer(" ".join(("PATCH", self.path, self.headers["Content-Type"], content)))

    def answer(self, key: str) -> None:
        cluster = self.server.cluster
        cluster.seen.append((self.path, "admin" if self.request.getpeercert() else ""))
        found = cluster.answers.get(key, (404, '{"message": "the path is unknown"}'))
        status, body = found if isinstance(found, tuple) else (200, found)
        text = body if isinstance(body, str) else json.dumps(body)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())


Serve = Callable[[dict[str, Answer]], Cluster]


@pytest.fixture
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts the API of a cluster with these answers."""
    with ExitStack() as stack:

        def start(answers: dict[str, Answer]) -> Cluster:
            cluster = Cluster(answers, tmp_path_factory.mktemp("api"))
            server = stack.enter_context(Server(cluster))
            Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            stack.callback(server.shutdown)
            return cluster

        yield start
