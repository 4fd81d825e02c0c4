"""A stand-in of NetBox's REST interface over TLS, written from its published schema. It is not NetBox.

It answers lists with pages, filters by ``device_id`` and ``site``, and wants the token in the header.
"""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "0123456789abcdef0123456789abcdef01234567"

Answer = Callable[["Handler"], None]


@dataclass
class Emulated:
    """What it has, by list. ``largest``: objects of a page at most; ``instead``: another answer for everything."""

    lists: dict[str, list[dict[str, Any]]]
    pem: Path
    largest: int = 1000
    instead: Answer | None = None
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self.port}/"


class Handler(BaseHTTPRequestHandler):
    """Lists only."""

    netbox: Emulated
    timeout = 5

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self.netbox.asked.append(self.path)
        if self.netbox.instead:
            return self.netbox.instead(self)
        if self.headers.get("Authorization") != f"Token {TOKEN}":
            return self.say(403, {"detail": "Invalid token"})
        at = urlsplit(self.path)
        query = parse_qs(at.query)
        found = self.netbox.lists.get(at.path.removeprefix("/api/").strip("/"))
        if found is None:
            return self.say(404, {"detail": "Not found."})
        if ids := query.get("device_id"):
            found = [one for one in found if str(_device(one)) in ids]
        if sites := query.get("site"):
            found = [one for one in found if one["site"]["slug"] in sites]
        start = int(query.get("offset", ["0"])[0])
        most = min(int(query.get("limit", ["50"])[0]), self.netbox.largest)
        rest = start + most < len(found)
        # Behind a proxy, NetBox names addresses that only the proxy's side reaches.
        following = f"http://netbox.internal{at.path}?offset={start + most}" if rest else None
        page = {"count": len(found), "next": following, "results": found[start : start + most]}
        return self.say(200, page)

    def say(self, status: int, body: object) -> None:
        """One answer as NetBox gives it."""
        self.raw(status, json.dumps(body).encode())

    def raw(self, status: int, text: bytes, **headers: str) -> None:
        """One answer of any kind."""
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(text))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(text)


def _device(item: dict[str, Any]) -> object:
    return (item.get("device") or item["assigned_object"]["device"])["id"]


@contextmanager
def serve(netbox: Emulated) -> Iterator[Emulated]:
    """Runs it on a free port of 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(netbox.pem)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that goes away is no error here."""

        def finish_request(self, request: Any, client_address: Any) -> None:
            with suppress(OSError), context.wrap_socket(request, server_side=True) as secure:
                super().finish_request(secure, client_address)

    with Server(("127.0.0.1", 0), type("Own", (Handler,), {"netbox": netbox})) as server:
        netbox.port = server.server_port
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield netbox
        finally:
            server.shutdown()
