"""The adapter for Prometheus: whether it has a series."""

import time
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

from appliance.adapters.json_answers import parsed
from appliance.errors import ApplianceError, ConfigError
from appliance.models.url import server_in

PATIENCE_S = 20.0
"""For each piece of an answer; ANSWER_S for all of it."""
ANSWER_S = 60.0
PIECE = 1 << 16
REACHED = (
    "for the site's own, on its first control host: ssh -N -L 9090:127.0.0.1:9090 root@HOST; then "
    "--prometheus http://127.0.0.1:9090"
)
"""How an operator's machine reaches a Prometheus of stage observe."""
LONGEST = 16 << 20
"""Bytes of an answer; a query counts a few series."""


class _Stay(HTTPRedirectHandler):
    """Prometheus never redirects."""

    def redirect_request(self, *_: object) -> None:
        """An error like any other status."""


class Prometheus:
    """A Prometheus by its address, such as http://10.0.0.10:9090. Raises ConfigError for another kind of address."""

    def __init__(self, address: str) -> None:
        if server_in(address) is None:
            raise ConfigError(
                f"{address} is not the address of a Prometheus", "write it as http://HOST:9090"
            )
        self._address = address.rstrip("/")
        # It is in the management network, which no proxy reaches.
        self._opener = build_opener(ProxyHandler({}), _Stay())

    def has(self, query: str) -> bool:
        """Whether the query returns anything now. Raises ApplianceError without an answer."""
        url = f"{self._address}/api/v1/query?{urlencode({'query': query})}"
        try:
            with self._opener.open(url, timeout=PATIENCE_S) as answer:
                said: Any = parsed(_body(answer).decode(errors="replace"))
                result = said["data"]["result"]
                if said["status"] != "success" or not isinstance(result, list):
                    raise ValueError("its answer is not a query result")
                return bool(result)
        except (HTTPException, OSError, ValueError, KeyError, TypeError) as error:
            raise ApplianceError(
                f"Prometheus at {self._address} does not answer ({error})",
                f"check that it runs: curl ADDRESS/-/ready. To reach it: {REACHED}",
            ) from None


def _body(answer: Any) -> bytes:
    """Raises ValueError if it is too long, or does not end."""
    found, end = bytearray(), time.monotonic() + ANSWER_S
    while piece := answer.read1(PIECE):
        found += piece
        if len(found) > LONGEST or time.monotonic() > end:
            raise ValueError("its answer is incomplete")
    return bytes(found)
