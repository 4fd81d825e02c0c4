"""A management controller made of a tree of documents, over TLS on loopback, that behaves as well or as badly as a test wants.

Run as a program, a part of ``make golden``, it writes anew what is judged of the makers' trees in tests/data/redfish.
"""

import base64
import json
import ssl
import subprocess  # noqa: TID251 - openssl makes the certificate
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote

from appliance.adapters.redfish import Controller, Patience
from appliance.checks.check import View
from appliance.config.secrets import Secret
from appliance.engine.look.controllers import ask, judge
from appliance.models.site import Host, Site
from tests.support.profiles import profile_of

DATA = Path(__file__).parent / "data/redfish"
VENDORS = tuple(sorted(folder.name for folder in DATA.iterdir()))
USER, PASSWORD, TOKEN = "admin", "right of this test", "token of this test"
SESSIONS = "/redfish/v1/SessionService/Sessions"
QUICK = Patience(whole=20.0, retries=3, pause=0.01)

Answer = Callable[["Handler"], None]


def tree(vendor: str) -> dict[str, Any]:
    """The documents of a maker's controller, by path."""
    found: dict[str, Any] = json.loads((DATA / vendor / "tree.json").read_text())
    return found


@cache
def certificate(folder: Path, name: str = "one", address: str = "127.0.0.1") -> Path:
    """A key and its own certificate for an address, in one file."""
    file = folder / f"{name}.pem"
    key = folder / f"{name}.key"
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    named = ("-nodes", "-days", "2", "-subj", "/CN=bmc", "-addext", f"subjectAltName=IP:{address}")
    subprocess.run((*made, *named, "-keyout", key, "-out", file), check=True, capture_output=True)
    file.write_text(file.read_text() + key.read_text())
    return file


def fingerprint(pem: Path) -> str:
    """Of the certificate in a file."""
    return sha256(
        ssl.PEM_cert_to_DER_cert(pem.read_text().split("-----BEGIN PRIVATE")[0])
    ).hexdigest()


@dataclass
class Bmc:
    """One controller. ``before``: by path, what it does instead; one that returns has done it."""

    tree: Mapping[str, Any]
    pem: Path
    password: str = PASSWORD
    before: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[object] = field(default_factory=list)
    on_post: Callable[[str, object], None] | None = None
    address: str = "127.0.0.1"
    port: int = 0

    def known(self, host: str = "gpu-1", **other: Any) -> Controller:
        """How it is reached by who pinned its certificate."""
        given = {"password": Secret(self.password), "fingerprint": fingerprint(self.pem)} | other
        return Controller(host, self.address, USER, port=self.port, **given)


class Handler(BaseHTTPRequestHandler):
    """Answers from the tree to who has a session or the password; the root to everybody."""

    bmc: Bmc
    timeout = 5
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        path = unquote(self.path)
        self.bmc.asked.append(("GET", path))
        if instead := self.bmc.before.get(path):
            return instead(self)
        if path.rstrip("/") != "/redfish/v1" and not self._is_known():
            return self.say(401, {"error": {"code": "Base.1.0.InsufficientPrivilege"}})
        found = self.bmc.tree.get(path, self.bmc.tree.get(path.rstrip("/")))
        if found is None:
            return self.say(404, {"error": {"code": "Base.1.8.ResourceMissingAtURI"}})
        return self.say(200, found)

    def do_POST(self) -> None:
        self.bmc.asked.append(("POST", self.path))
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        if instead := self.bmc.before.get(self.path):
            self.bmc.bodies.append(body)
            return instead(self)
        if self.path.rstrip("/") == SESSIONS:
            if body != {"UserName": USER, "Password": self.bmc.password}:
                return self.say(401, {"error": {"code": "Base.1.0.ResourceAtUriUnauthorized"}})
            return self.say(201, {}, {"X-Auth-Token": TOKEN, "Location": f"{SESSIONS}/1"})
        self.bmc.bodies.append(body)
        if self.bmc.on_post:
            self.bmc.on_post(self.path, body)
        return self.say(204, None)

    def do_PATCH(self) -> None:
        self.do_POST()

    def do_DELETE(self) -> None:
        self.bmc.asked.append(("DELETE", self.path))
        self.say(204, None)

    def say(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        """One answer as a controller gives it."""
        text = b"" if body is None else json.dumps(body).encode()
        self.raw(status, text, {"Content-Type": "application/json"} | dict(headers or {}))

    def raw(self, status: int, text: bytes, headers: Mapping[str, str] | None = None) -> None:
        """One answer of any kind."""
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(text))} | dict(headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def _is_known(self) -> bool:
        basic = "Basic " + base64.b64encode(f"{USER}:{self.bmc.password}".encode()).decode()
        return TOKEN in (self.headers.get("X-Auth-Token"),) or basic == self.headers.get(
            "Authorization"
        )


@contextmanager
def serve(bmc: Bmc) -> Iterator[Bmc]:
    """Runs it on a free port of its address."""
    handler = type("Own", (Handler,), {"bmc": bmc})

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that goes away is no error here."""

        def finish_request(self, request: Any, client_address: Any) -> None:
            with suppress(OSError), context.wrap_socket(request, server_side=True) as secure:
                super().finish_request(secure, client_address)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bmc.pem)
    with Server((bmc.address, 0), handler) as server:
        bmc.port = server.server_port
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield bmc
        finally:
            server.shutdown()


def expected(vendor: str) -> list[str]:
    """What is judged of a maker's controller, a line each."""
    found: list[str] = json.loads((DATA / vendor / "judged.json").read_text())
    return found


def judged(bmc: Bmc) -> list[str]:
    """The same of one that runs now."""
    profile = profile_of(fabric={"link_layer": "InfiniBand", "ports": 8, "rate_gbps": 200})
    host = Host.model_validate({"name": "gpu-1", "roles": ["gpu"], "address": "10.0.0.11"})
    site = Site(version=1, name="t", hosts=(host,), networks={})
    results = judge(View(profile, site, {}), ask({"gpu-1": bmc.known()}, QUICK))
    return [f"{r.status} {r.id} {r.target}: {r.cause or r.value}" for r in results]


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        own = certificate(Path(folder))
        for maker in VENDORS:
            with serve(Bmc(tree(maker), own)) as running:
                text = json.dumps(judged(running), indent=1, ensure_ascii=False)
            (DATA / maker / "judged.json").write_text(text + "\n")
