"""Requests over HTTP(S): bounded in time and size, with the server's clock."""

from __future__ import annotations

import http.client
import ssl
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from appliance.limits.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS = 20.0
MOST = 128 << 20
"""Maximum bytes of an answer."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Answer(NamedTuple):
    """``skew``: seconds by which the server's clock is ahead of ours; None if it sends no date."""

    status: int
    body: bytes
    retry_after: str
    skew: float | None


class NoAnswer(Trouble):
    """No answer arrived; a retry may succeed."""


def secure(url: str) -> bool:
    """Return whether requests there are protected: by TLS, or because they stay on this host."""
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in LOOPBACK


class Wire:
    """A connection to one server, kept open between requests: a handshake costs more than most answers."""

    def __init__(self, server: str, context: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(server)
        self._server = f"{parts.scheme}://{parts.netloc}"
        self._place, self._context = parts.netloc, context
        if parts.scheme == "https" and context is None:
            self._context = ssl.create_default_context()
        self._open: http.client.HTTPConnection | None = None

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        opened, self._open = getattr(self, "_open", None), None
        if opened is not None:
            opened.close()

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Answer:
        """Return the answer to one request. Raises NoAnswer, or Trouble for a certificate that does not verify."""
        opened, self._open = self._open, None
        try:
            if opened is not None:
                try:
                    return self._answer(opened, method, path, headers, body)
                except ConnectionError:
                    # A server ends what was idle for long, and has not read the request then.
                    pass
            return self._answer(self._new(), method, path, headers, body)
        except ssl.SSLCertVerificationError as error:
            raise Trouble(
                f"the certificate of {self._server} does not verify: {error.verify_message}"
            ) from None
        except TimeoutError:
            raise NoAnswer(f"{self._server} did not answer in {SECONDS:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            raise NoAnswer(f"{self._server} does not answer: {why}") from None

    def _new(self) -> http.client.HTTPConnection:
        if self._context is not None:
            return http.client.HTTPSConnection(self._place, timeout=SECONDS, context=self._context)
        return http.client.HTTPConnection(self._place, timeout=SECONDS)

    def _answer(
        self,
        wire: http.client.HTTPConnection,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Answer:
        try:
            wire.request(method, path, body, dict(headers))
            said = wire.getresponse()
            content = said.read(MOST + 1)
            if said.isclosed() and wire.sock is not None:
                self._open = wire
        finally:
            if self._open is not wire:
                wire.close()
        if len(content) > MOST:
            raise Trouble(f"{self._server} answered with more than {MOST >> 20} MiB")
        skew = _skew(said.headers.get("Date"))
        return Answer(said.status, content, said.headers.get("Retry-After", ""), skew)


def ask(method: str, url: str, headers: Mapping[str, str]) -> Answer:
    """Return the answer to a single request to a server. Raises as Wire.ask."""
    parts = urlsplit(url)
    wire = Wire(url)
    try:
        return wire.ask(method, parts.path + (f"?{parts.query}" if parts.query else ""), headers)
    finally:
        wire.close()


def _skew(date: str | None) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time() if date else None
    except (TypeError, ValueError):
        return None
