"""The client of the control machine's server: verifies its certificate, and identifies itself by a token."""

import hashlib
import http.client
import json
import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from appliance.provision.ramdisk.shared import Refused

ATTEMPTS = 8
PAUSE_S = 5.0
TIMEOUT_S = 30.0
LOOK = "check the route between them, the firewall of the control machine, and that the installing command still runs there"


class Server:
    """``settings``: url, certificate (SHA-256 of its DER form, hex) and token."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._at = urlsplit(settings["url"])
        self._certificate = settings["certificate"]
        self._token = settings["token"]

    def report(self, document: Mapping[str, Any]) -> float:
        """Reports the host's progress; returns the server's time, seconds since 1970. Raises Refused."""
        answer = self._request("POST", "/report", json.dumps(document).encode())
        with answer:
            answer.read()
        return parsedate_to_datetime(answer.headers["Date"]).timestamp()

    def image(self) -> "Download":
        """The compressed image."""
        return Download(self)

    def opened(self, offset: int) -> http.client.HTTPResponse:
        """The image from this byte on."""
        return self._request("GET", "/image", headers={"Range": f"bytes={offset}-"})

    def _request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}
    ) -> http.client.HTTPResponse:
        why = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE_S)
            connection = None
            try:
                connection = self._connected()
                connection.request(
                    method,
                    path,
                    body,
                    {"Authorization": f"Bearer {self._token}", "Connection": "close", **headers},
                )
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                why = str(error) or type(error).__name__
                if connection:
                    connection.close()
                continue
            if answer.status in (200, 204, 206):
                return answer
            with answer:
                words = answer.read(400).decode("utf-8", "replace")
            if answer.status < 500:
                raise Refused(f"the control machine answered {answer.status}: {words}", LOOK)
            why = f"it answered {answer.status}"
        raise Refused(f"the control machine, {self._at.netloc}, cannot be reached: {why}", LOOK)

    def _connected(self) -> http.client.HTTPSConnection:
        """The certificate is compared with the pinned one, not validated: a new machine's clock is wrong."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(
            self._at.hostname or "", self._at.port, timeout=TIMEOUT_S, context=context
        )
        connection.connect()
        shown = hashlib.sha256(connection.sock.getpeercert(binary_form=True) or b"").hexdigest()
        if shown != self._certificate:
            connection.close()
            raise Refused(
                f"the certificate of {self._at.netloc} differs from that of the boot medium",
                "an old medium was booted, or the connection is intercepted: start appliance provision install again",
            )
        return connection


class Download:
    """Reads the image; resumes at the same byte after a lost connection."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._at = 0
        self._answer: http.client.HTTPResponse | None = None

    def read(self, size: int, /) -> bytes:
        """The next bytes, b"" at the end. Raises Refused."""
        for _ in range(ATTEMPTS):
            try:
                if self._answer is None:
                    self._answer = self._server.opened(self._at)
                block = self._answer.read(size)
                left = self._answer.length
            except OSError:
                block, left = b"", 1
            self._at += len(block)
            if left and len(block) < size:
                self._hang_up()
            if block or not left:
                return block
        raise Refused("the connection to the control machine fails again and again", LOOK)

    def _hang_up(self) -> None:
        if self._answer is not None:
            self._answer.close()
        self._answer = None
