"""A real HTTPS server on loopback that receives a site's events."""

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from appliance.adapters.process import run


@dataclass
class Receiver:
    """``statuses``: of the next answers, then 204; ``delay``: seconds before each answer."""

    folder: Path
    port: int = 0
    path: str = "/events?of=acme"
    statuses: list[int] = field(default_factory=list)
    delay: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    bodies: list[bytes] = field(default_factory=list)
    seen: list[dict[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The secret of the site."""
        return f"https://127.0.0.1:{self.port}{self.path}"

    @property
    def authority(self) -> Path:
        """The certificate that its certificate is verified with."""
        return self.folder / "cert.pem"


@contextmanager
def receiving(folder: Path) -> Iterator[Receiver]:
    """A receiver with a certificate of its own."""
    folder.mkdir(exist_ok=True)
    key, certificate = folder / "key.pem", folder / "cert.pem"
    words = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
    run(words.split())
    made = Receiver(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            made.seen.append({**self.headers, "path": self.path})
            time.sleep(made.delay)
            self.send_response(made.statuses.pop(0) if made.statuses else 204)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
