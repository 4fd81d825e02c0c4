"""A machine's controller that is ill for a while: at a port beside it each resource answers 500 so many times, then as it does."""

import json
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from appliance.lab.hall import PORT
from tests.support.machine_hall import Machine

ALWAYS = 1 << 30
OWN = {"connection", "content-length", "date", "host", "server", "transfer-encoding"}
"""Headers that each of the two connections has for itself."""


class Ill(ThreadingHTTPServer):
    """Of the connections to one controller."""

    daemon_threads = True

    def __init__(self, machine: Machine, pem: Path, times: int) -> None:
        super().__init__((machine.controller, 0), _Handler)
        self.controller, self.times = machine.controller, times
        self.failed: Counter[str] = Counter()
        shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        shown.load_cert_chain(pem)
        self.socket = shown.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        self.trust = ssl.create_default_context(cafile=str(pem))
        self.trust.check_hostname = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever leaves in the middle is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Ill

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.command == "GET" and self.server.failed[self.path] < self.server.times:
            self.server.failed[self.path] += 1
            self._say(500, {}, json.dumps({"error": {"message": "out of memory"}}).encode())
            return
        asked = {k: v for k, v in self.headers.items() if k.lower() not in OWN}
        to = HTTPSConnection(self.server.controller, PORT, timeout=60, context=self.server.trust)
        try:
            to.request(self.command, self.path, body or None, asked)
            answer = to.getresponse()
            said = {k: v for k, v in answer.getheaders() if k.lower() not in OWN}
            self._say(answer.status, said, answer.read())
        finally:
            to.close()

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer

    def _say(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def ill(machine: Machine, pem: Path, times: int) -> Iterator[Ill]:
    """Listens at the controller's own address, with its certificate (``pem``); what it counts is for the test."""
    server = Ill(machine, pem, times)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
