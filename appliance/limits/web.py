"""One request over HTTP(S): bounded in time and size, with the answerer's clock."""

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
"""Bytes of an answer at most."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Answer(NamedTuple):
    """``skew``: seconds the answerer's clock is ahead of ours; None where it does not say."""

    status: int
    body: bytes
    retry_after: str
    skew: float | None


class NoAnswer(Trouble):
    """Nothing came back; the next try may be luckier."""


def secure(url: str) -> bool:
    """Whether what is sent there cannot be read on the way."""
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in LOOPBACK


def ask(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    context: ssl.SSLContext | None = None,
) -> Answer:
    """The answer to one request. Raises NoAnswer, and Trouble for a certificate that does not verify."""
    parts = urlsplit(url)
    server = f"{parts.scheme}://{parts.netloc}"
    try:
        if parts.scheme == "https":
            wire: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.netloc, timeout=SECONDS, context=context or ssl.create_default_context()
            )
        else:
            wire = http.client.HTTPConnection(parts.netloc, timeout=SECONDS)
        try:
            wire.request(
                method, parts.path + (f"?{parts.query}" if parts.query else ""), body, dict(headers)
            )
            said = wire.getresponse()
            content = said.read(MOST + 1)
        finally:
            wire.close()
    except ssl.SSLCertVerificationError as error:
        raise Trouble(
            f"the certificate of {server} does not verify: {error.verify_message}"
        ) from None
    except TimeoutError:
        raise NoAnswer(f"{server} did not answer in {SECONDS:g} s") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise NoAnswer(f"{server} does not answer: {why}") from None
    if len(content) > MOST:
        raise Trouble(f"{server} answered with more than {MOST >> 20} MiB")
    return Answer(
        said.status, content, said.headers.get("Retry-After", ""), _skew(said.headers.get("Date"))
    )


def _skew(date: str | None) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time() if date else None
    except (TypeError, ValueError):
        return None
