"""A stand-in of Run:ai's REST API on loopback, over TLS, with a switch for faults. Standard library only.

It was written from the published schema alone, not from a client, and is no evidence for the behaviour of a real control plane.
``release`` "3.0" or "2.24" selects the fields. Every request is in ``seen``; secrets in bodies of requests stay in memory.
"""

import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from tests.support.runai.calls import Call, asked, matched
from tests.support.runai.shapes import Refused
from tests.support.runai.world import World

Effect = Literal[
    "status", "page", "later", "cut-before", "cut-after", "cut-body", "slow", "expire", "act"
]
OPEN = ("/api/v1/token", "/api/v2/token", "/stand-in/heartbeat")
"""Paths without a token."""


@dataclass
class Fault:
    """What goes wrong, at which requests, and how often.

    ``status``: this status and error body. ``page``: this status with a page of a proxy in place of JSON. ``later``: 202, and the
    change happens ``delay`` requests later (0: as many as ``settles``). ``cut-before``: the connection ends before anything is done; ``cut-after``: after it was
    done, without an answer; ``cut-body``: in the middle of the answer. ``slow``: the answer waits ``seconds``. ``expire``: all
    tokens expire before this request. ``act``: ``call`` runs before this request, as a change between two pages; with ``cut-before``, too.
    """

    effect: Effect
    method: str = ""
    path: str = ""
    times: int = 1
    skip: int = 0
    status: int = 503
    message: str = "unavailable"
    retry_after: int | None = None
    seconds: float = 0
    delay: int = 0
    call: Callable[[], object] | None = None
    used: int = 0

    def hits(self, method: str, path: str) -> bool:
        """Whether this request is one of its; counts."""
        if self.used >= self.times or not re.fullmatch(self.method or ".*", method):
            return False
        if not re.search(self.path, path):
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.used += 1
        return True


@dataclass
class Seen:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    status: int = 0


@dataclass
class StandIn:
    """``url``: of the control plane; ``world``: its objects; ``faults``: the switch; ``seen``: all requests."""

    url: str
    world: World
    faults: list[Fault] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    def plant(self, effect: Effect, method: str = "", path: str = "", **more: Any) -> Fault:
        """Switch a fault on. ``method`` and ``path``: regular expressions, of the whole method, and searched in path and query."""
        fault = Fault(effect, method, path, **more)
        self.faults.append(fault)
        return fault

    def sent(self, method: str, path: str) -> list[Seen]:
        """Requests of this method to paths that match."""
        return [s for s in self.seen if s.method == method and re.search(path, s.path)]


class Server(ThreadingHTTPServer):
    """One request at a time: the world is no place for two."""

    daemon_threads = True
    stand_in: StandIn

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext) -> None:
        super().__init__(address, Handler)
        self.tls = tls
        self.lock = threading.Lock()
        self.closing = threading.Event()

    def get_request(self) -> tuple[Any, Any]:
        """The handshake is the handler's, so that a client that hangs stops no other."""
        made, address = super().get_request()
        return self.tls.wrap_socket(made, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are no errors of the stand-in."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, *_: object) -> None:
        """Requests are in ``seen``."""

    def handle_one_request(self) -> None:
        """As the standard library does it; a client that went away ends the connection."""
        with suppress(ConnectionError, ssl.SSLError, TimeoutError):
            super().handle_one_request()
            return
        self.close_connection = True

    def do_GET(self) -> None:
        """All methods are one."""
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _serve(self) -> None:
        stand_in = self.server.stand_in
        parts = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        seen = Seen(self.command, parts.path, query, None)
        with self.server.lock:
            stand_in.seen.append(seen)
            stand_in.world.count()
            found = next((f for f in stand_in.faults if f.hits(self.command, self.path)), None)
        if found is not None and found.effect == "slow":
            self.server.closing.wait(found.seconds)
        if found is not None and found.effect == "cut-before":
            if found.call is not None:
                found.call()
            self._cut()
            return
        with self.server.lock:
            seen.status, body = self._answered(seen, data, found)
        self._send(seen.status, body, found)

    def _answered(self, seen: Seen, data: bytes, fault: Fault | None) -> tuple[int, Any]:
        world = self.server.stand_in.world
        try:
            seen.body = self._read(data)
            if fault is not None:
                self._before(fault, world)
            call, act = self._call(seen)
            if fault is not None and fault.effect == "later":
                steps = world.settles if world.settles is not None else 10**9
                world.later.append(
                    (world.requests + (fault.delay or steps) + 1, lambda: _quietly(act, call))
                )
                return 202, None
            return act(call)
        except Refused as refused:
            if seen.path == "/api/v2/token" and refused.status < 500:
                return refused.status, {"error": refused.message}
            body = {"code": refused.status, "message": refused.message}
            return refused.status, body | ({"details": refused.details} if refused.details else {})

    def _before(self, fault: Fault, world: World) -> None:
        match fault.effect:
            case "status" | "page":
                raise Refused(fault.status, fault.message)
            case "expire":
                world.expire()
            case "act" if fault.call is not None:
                fault.call()

    def _read(self, data: bytes) -> Any:
        if not data:
            return None
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind == "application/x-www-form-urlencoded":
            return {key: values[-1] for key, values in parse_qs(data.decode()).items()}
        if kind != "application/json":
            raise Refused(415, f"Content-Type {kind or 'is missing'}")
        try:
            return json.loads(data)
        except ValueError:
            raise Refused(400, "the body is not JSON") from None

    def _call(self, seen: Seen) -> tuple[Call, Callable[[Call], tuple[int, Any]]]:
        world = self.server.stand_in.world
        subject = ""
        if seen.path not in OPEN:
            kind, _, bearer = self.headers.get("Authorization", "").partition(" ")
            if kind != "Bearer":
                raise Refused(401, "no bearer token")
            subject = world.subject(bearer)
            world.may(subject, writes=seen.method != "GET")
        act, keys = matched(seen.method, seen.path)
        asked(seen.path, seen.query)
        return Call(world, seen.method, subject, keys, seen.query, seen.body), act

    def _send(self, status: int, body: Any, fault: Fault | None) -> None:
        effect = fault.effect if fault is not None else None
        if effect == "cut-after":
            self._cut()
            return
        data, kind = b"", "application/json"
        if effect == "page":
            data, kind = f"<html><h1>{status}</h1></html>".encode(), "text/html"
        elif body is not None:
            data = json.dumps(body).encode()
        self.send_response(status)
        if data:
            self.send_header("Content-Type", kind)
        if fault is not None and fault.retry_after is not None:
            self.send_header("Retry-After", str(fault.retry_after))
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if effect == "cut-body":
            self.wfile.write(data[: len(data) // 2])
            self._cut()
            return
        self.wfile.write(data)

    def _cut(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _quietly(act: Callable[[Call], object], call: Call) -> None:
    """What was accepted and then failed leaves no trace, as with a real one."""
    with suppress(Refused):
        act(call)


@contextmanager
def standing(
    folder: Path, world: World | None = None, host: str = "127.0.0.1", port: int = 0
) -> Iterator[StandIn]:
    """At work until the end of the block, with ``cert.pem`` and ``key.pem`` of this folder."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server = Server((host, port), tls)
    server.stand_in = StandIn(f"https://{host}:{server.server_port}", world or World())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.stand_in
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> None:
    """Serve a folder's certificate on a port until the process ends; for a host of a rack."""
    import sys

    folder, host, port = sys.argv[1:4]
    with standing(Path(folder), host=host, port=int(port)):
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
