"""The door to a Prometheus: whether it has a series."""

from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from appliance.adapters.answers import parsed
from appliance.errors import ApplianceError, ConfigError
from appliance.models.url import server_in

PATIENCE_S = 20.0
REACHED = (
    "ssh -N -L 9090:127.0.0.1:9090 root@HOST for the site's own, on its first control host; then "
    "--prometheus http://127.0.0.1:9090"
)
"""The way in to a Prometheus that stage observe made, from the machine of the operator."""
LONGEST = 16 << 20
"""Bytes of an answer; a query counts a few series."""


class Prometheus:
    """A Prometheus by its address, as http://10.0.0.10:9090. Raises ConfigError for another kind of address."""

    def __init__(self, address: str) -> None:
        if server_in(address) is None:
            raise ConfigError(
                f"{address} is no address of a Prometheus", "give one as http://HOST:9090"
            )
        self._address = address.rstrip("/")
        # It stands in the management network, which no proxy leads to.
        self._opener = build_opener(ProxyHandler({}))

    def has(self, query: str) -> bool:
        """Whether the query returns anything now. Raises ApplianceError where nobody answers."""
        url = f"{self._address}/api/v1/query?{urlencode({'query': query})}"
        try:
            with self._opener.open(url, timeout=PATIENCE_S) as answer:
                said: Any = parsed(answer.read(LONGEST).decode(errors="replace"))
                return bool(said["data"]["result"])
        except (HTTPException, OSError, ValueError, KeyError, TypeError) as error:
            raise ApplianceError(
                f"Prometheus at {self._address} does not answer ({error})",
                f"see whether it runs: curl ADDRESS/-/ready. The way to it: {REACHED}",
            ) from None
