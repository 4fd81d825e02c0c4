"""Serves a bundle by HTTP, read-only: the files of its manifest, and nothing else."""

import os
import sys
import threading
from collections.abc import Callable
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import unquote, urlsplit

from appliance.airgap.manifest import BLOCK, BundleFile, Manifest, opened
from appliance.errors import ConfigError
from appliance.text import one_line, shortened

IDLE_S = 60.0
BY_HASH = "by-hash/SHA256"

Refused = Callable[[str, str], None]


class BundleServer(ThreadingHTTPServer):
    """``refused`` is called, in threads, with client and path of each request for something that is not in the bundle."""

    daemon_threads = True

    def __init__(
        self, folder: Path, manifest: Manifest, address: IPv4Address, port: int, refused: Refused
    ) -> None:
        """Raises ConfigError if the port is unavailable."""
        self.folder, self.refused = folder, refused
        self.files = _by_path(manifest)
        self.sent = 0
        self._lock = threading.Lock()
        try:
            super().__init__((str(address), port), _Handler)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {address} port {port} ({error.strerror})",
                "give an address of this machine with --address, and a free port with --port",
            ) from None

    def handle_error(self, request: object, client_address: tuple[str, int]) -> None:
        """An invalid request is shown like one for a missing file; a lost connection is not."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self.refused(client_address[0], f"an address that cannot be read ({error})")

    def count(self) -> None:
        """One more file was sent."""
        with self._lock:
            self.sent += 1


def _by_path(manifest: Manifest) -> dict[str, BundleFile]:
    """Lists of packages also under the names by which apt asks for a certain state of them."""
    found = {file.path: file for file in manifest.files}
    for file in manifest.files:
        if file.kind == "index":
            found[f"{file.path.rpartition('/')[0]}/{BY_HASH}/{file.sha256}"] = file
    return found


class _Handler(BaseHTTPRequestHandler):
    server: BundleServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "appliance", ""
    timeout = IDLE_S

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Only refusals are shown."""

    def _answer(self, *, body: bool) -> None:
        # Flat repositories are asked for as "/./Packages".
        path = unquote(urlsplit(self.path).path).lstrip("/").replace("/./", "/")
        file = self.server.files.get(path)
        try:
            content = opened(self.server.folder, file.path) if file else None
        except OSError:
            content = None
        if content is None:
            self.server.refused(self.client_address[0], shortened(one_line(path)))
            self._headers(404, 0, 0.0)
            return
        with content:
            state = os.fstat(content.fileno())
            self._headers(200, state.st_size, state.st_mtime)
            if body:
                self._send(content.read, state.st_size)
                self.server.count()

    def _headers(self, code: int, size: int, changed: float) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(size))
        self.send_header("Content-Type", "application/octet-stream")
        if changed:
            self.send_header("Last-Modified", formatdate(changed, usegmt=True))
        self.end_headers()

    def _send(self, read: Callable[[int], bytes], size: int) -> None:
        """Exactly the announced bytes; a shorter file ends the connection."""
        left = size
        try:
            while left and (block := read(min(BLOCK, left))):
                self.wfile.write(block)
                left -= len(block)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            left = 1
        if left:
            self.close_connection = True
