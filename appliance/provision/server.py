"""The server that machines are installed from: each can read only its own medium and the image, for a limited time."""

import json
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import TracebackType
from typing import Any, BinaryIO, Self

from appliance.adapters.certificates import KeyPair
from appliance.errors import ConfigError
from appliance.text import one_line, shortened

DAYS = 7
LARGEST_REPORT = 8 << 10
BLOCK = 1 << 20
IDLE_S = 60.0
POLL_S = 0.05
"""Interval between checks for the end; each server is waited for."""
TOLD = 300

Report = Mapping[str, object]


@dataclass
class Guest:
    """One machine. ``secret``: part of its medium's address, because BMCs send no token. ``token``: of its installer."""

    host: str
    medium: Path
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    until: float = 0.0
    """time.monotonic() at which both expire."""
    is_done: bool = False

    @property
    def path(self) -> str:
        """Of its medium."""
        return f"/medium/{self.secret}/{self.host}.iso"


class BootServer:
    """HTTPS on the control machine during installations. ``heard`` is called with each report, in threads.

    It listens only on these addresses: BMCs and hosts may be in two networks.
    """

    def __init__(
        self,
        addresses: Iterable[IPv4Address],
        port: int,
        disk: Path,
        heard: Callable[[str, Report], None],
    ) -> None:
        """Raises ConfigError if the port is unavailable."""
        self._port, self.disk, self._heard = port, disk, heard
        self._guests: dict[str, Guest] = {}
        self._lock = threading.Lock()
        known = sorted(set(addresses))
        pair = KeyPair.fresh()
        self.certificate = pair.for_server(known, DAYS)
        der = ssl.PEM_cert_to_DER_cert(self.certificate)
        self.fingerprint = sha256(der).hexdigest()
        context = _context(self.certificate, pair.pem)
        self._servers: list[_Server] = []
        for address in known:
            try:
                self._servers.append(_Server((str(address), port), self, context))
            except OSError as error:
                self._close()
                raise ConfigError(
                    f"cannot listen on {address} port {port} ({error.strerror})",
                    "correct provision.address or provision.port in site.yml",
                ) from None

    def __enter__(self) -> Self:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in self._servers:
            server.shutdown()
        self._close()

    def _close(self) -> None:
        for server in self._servers:
            server.server_close()

    def url(self, address: IPv4Address) -> str:
        """Its URL at one of its addresses."""
        return f"https://{address}:{self._port}"

    def admit(self, guest: Guest, seconds: float) -> str:
        """Gives one machine access for some time; returns the path of its medium."""
        guest.until = time.monotonic() + seconds
        with self._lock:
            self._guests[guest.host] = guest
        return guest.path

    def dismiss(self, host: str) -> None:
        """Revokes its token and its address."""
        with self._lock:
            self._guests.pop(host, None)

    def redacted(self, text: str) -> str:
        """A text without the secrets of admitted machines."""
        with self._lock:
            for guest in self._guests.values():
                text = text.replace(guest.secret, "...").replace(guest.token, "...")
        return text

    def by_medium(self, path: str) -> Guest | None:
        """The machine whose medium has this path."""
        return self._first(lambda guest: guest.path, path)

    def by_token(self, token: str) -> Guest | None:
        """The machine of this token, until it is done."""
        found = self._first(lambda guest: guest.token, token)
        return None if found and found.is_done else found

    def _first(self, of: Callable[[Guest], str], value: str) -> Guest | None:
        with self._lock:
            guests = list(self._guests.values())
        now = time.monotonic()
        # All are compared, each in constant time, so that the duration reveals nothing.
        equal = [g for g in guests if secrets.compare_digest(of(g).encode(), value.encode())]
        return next((guest for guest in equal if now < guest.until), None)

    def report(self, guest: Guest, said: Report) -> None:
        """Passes a report on; the one that ends the installation is the last."""
        if said.get("state") == "installed":
            guest.is_done = True
        self._heard(guest.host, said)


class _Server(ThreadingHTTPServer):
    """The handshake runs in the thread of each request: a silent machine blocks no other."""

    daemon_threads = True

    def __init__(self, at: tuple[str, int], of: BootServer, context: ssl.SSLContext) -> None:
        self.of, self.context = of, context
        super().__init__(at, _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(IDLE_S)
        with self.context.wrap_socket(request, server_side=True) as secure:
            _Handler(secure, client_address, self)

    def handle_error(self, request: object, client_address: object) -> None:
        """Connection errors are ignored; installers try again."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    timeout = IDLE_S
    server_version, sys_version = "appliance", ""

    def do_HEAD(self) -> None:
        self._file()

    def do_GET(self) -> None:
        self._file()

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST_REPORT:
            return self._answer(413)
        # The body is read in any case: otherwise it would be parsed as the next request, or reset the connection before the answer is read.
        body = self.rfile.read(int(length))
        guest = self._guest()
        if guest is None or self.path != "/report":
            return self._refused()
        try:
            said = json.loads(body)
        except ValueError:
            return self._answer(400)
        if not isinstance(said, dict):
            return self._answer(400)
        self.server.of.report(
            guest, {str(key): _checked_report(value) for key, value in said.items()}
        )
        return self._answer(204)

    def _file(self) -> None:
        medium = self.server.of.by_medium(self.path)
        if medium is not None:
            return self._send(medium.medium)
        if self.path == "/image" and self._guest():
            return self._send(self.server.of.disk)
        return self._refused()

    def _guest(self) -> Guest | None:
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        return self.server.of.by_token(token) if kind == "Bearer" else None

    def _send(self, file: Path) -> None:
        """A file or a range of it (RFC 9110, 14.2): BMCs read their medium block by block."""
        with file.open("rb") as source:
            size = file.stat().st_size
            span = _span(self.headers.get("Range", ""), size)
            if span is None:
                self._answer(416, {"Content-Range": f"bytes */{size}"})
                return
            first, end = span
            is_part = "Range" in self.headers
            headers = {"Content-Length": str(end - first), "Accept-Ranges": "bytes"}
            if is_part:
                headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
            self._answer(206 if is_part else 200, headers)
            if self.command != "HEAD":
                self._copy(source, first, end)

    def _copy(self, source: BinaryIO, first: int, end: int) -> None:
        source.seek(first)
        while first < end and (block := source.read(min(BLOCK, end - first))):
            self.wfile.write(block)
            first += len(block)

    def _refused(self) -> None:
        """The same answer for missing files and for those of other machines."""
        self._answer(404)

    def _answer(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {"Content-Length": "0"}).items():
            self.send_header(name, value)
        if headers and "Content-Length" not in headers:
            self.send_header("Content-Length", "0")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Addresses contain secrets: nothing is logged here."""


def _span(asked: str, size: int) -> tuple[int, int] | None:
    """First byte and end of a range; the whole file without one; None for an invalid range."""
    kind, _, spans = asked.partition("=")
    if not asked or kind != "bytes" or "," in spans:
        return 0, size
    first, _, last = spans.partition("-")
    if first.isdecimal() and (last.isdecimal() or not last):
        end = min(int(last) + 1, size) if last else size
        return (int(first), end) if int(first) < end else None
    if not first and last.isdecimal():
        return max(0, size - int(last)), size
    return 0, size


def _checked_report(value: object) -> object:
    """Anyone with a token can send anything: accepts one line of bounded length, or a number."""
    return value if isinstance(value, int | float) else shortened(one_line(str(value)), TOLD)


def _context(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # The module reads them only from a file; this one has mode 0600 and is removed at once.
    with NamedTemporaryFile("w", encoding="ascii") as file:
        file.write(key + certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context
