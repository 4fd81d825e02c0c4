"""The adapter for NetBox: its REST interface, read only, over verified TLS."""

import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from appliance.adapters.json_answers import parsed
from appliance.errors import ApplianceError, ConfigError, ConnectionFailed
from appliance.text import one_line, shortened

PATIENCE_S, WHOLE_S = 30.0, 600.0
"""For each piece of an answer; for all of an import."""
PIECE = 1 << 16
LONGEST = 32 << 20
"""Bytes of one page."""
PAGE = 200
"""Objects of a page: NetBox allows 1000 (MAX_PAGE_SIZE), and its default is 50."""
MOST = 100_000
"""Objects of one list: 10,000 hosts with ten ports each."""
TOLD = 200
"""Characters of a server's own text in a message."""
SECOND_KIND = "nbt_"
"""Tokens of NetBox 4.5 and newer begin with this, and are sent as bearer tokens."""

Item = Mapping[str, Any]


class _Stay(HTTPRedirectHandler):
    """The token is sent to this server only."""

    def redirect_request(self, *_: object) -> None:
        """An error like any other status."""


class NetBox:
    """A NetBox by its address, ``https://HOST[:PORT][/PATH]``. Raises ConfigError for an unusable authority."""

    def __init__(self, address: str, token: str, authority: Path | None = None) -> None:
        self._address = address.rstrip("/")
        kind = "Bearer" if token.startswith(SECOND_KIND) else "Token"
        self._headers = {"Authorization": f"{kind} {token}", "Accept": "application/json"}
        self._ends = time.monotonic() + WHOLE_S
        self._opener = build_opener(
            ProxyHandler({}), _Stay(), HTTPSHandler(context=_context(authority))
        )

    def all(self, path: str, query: Sequence[tuple[str, str]] = ()) -> Iterator[Item]:
        """The objects of a list, such as ``dcim/devices``, page by page. Raises ConnectionFailed, ApplianceError."""
        start = f"{self._address}/api/{path}/"
        seen, limit = 0, [*query, ("limit", str(PAGE)), ("ordering", "id")]
        while True:
            page = self._page(f"{start}?{urlencode([*limit, ('offset', str(seen))])}")
            found = page.get("results")
            if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
                raise self._strange("its answer is not a list of objects")
            yield from found
            seen += len(found)
            if seen > MOST:
                raise self._strange(f"its list {path} has more than {MOST} objects")
            # Addresses of further pages are not followed: behind a proxy, they name another server.
            if not page.get("next") or not found:
                return

    def _page(self, url: str) -> Item:
        try:
            with self._opener.open(
                Request(url, headers=self._headers), timeout=PATIENCE_S
            ) as answer:
                found = parsed(self._body(answer).decode("utf-8", "replace"))
        except HTTPError as error:
            raise self._refused(error) from None
        except ValueError as error:
            raise self._strange(_said(error)) from None
        except (HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise ConnectionFailed(
                    f"the certificate of {self._address} is not trusted ({reason.verify_message})",
                    "name the CA certificate that signed it: --authority FILE",
                ) from None
            raise ConnectionFailed(
                f"{self._address} does not answer ({_said(reason)})",
                "check the address, and that it can be reached from here",
            ) from None
        if not isinstance(found, dict):
            raise self._strange("its answer has no fields")
        return found

    def _body(self, answer: Any) -> bytes:
        found = bytearray()
        while piece := answer.read1(PIECE):
            found += piece
            if len(found) > LONGEST:
                raise ValueError(f"a page is larger than {LONGEST >> 20} MiB")
            if time.monotonic() > self._ends:
                raise ValueError(f"the import takes more than {WHOLE_S / 60:g} minutes")
        return bytes(found)

    def _refused(self, error: HTTPError) -> ApplianceError:
        if error.code in {401, 403}:
            return ConnectionFailed(
                f"{self._address} rejected the token ({error.code})",
                "use a token that may view devices, interfaces and addresses",
            )
        if error.code == 400:
            # NetBox names the filter, such as a site that it does not have.
            said = _said(error.read(PIECE).decode("utf-8", "replace"))
            return ConfigError(
                f"{self._address} refuses the filter: {said}", "correct it in --from-netbox"
            )
        return ConnectionFailed(
            f"{self._address} answers {error.code}",
            "check the address: the REST interface is below ADDRESS/api/",
        )

    def _strange(self, why: str) -> ConnectionFailed:
        return ConnectionFailed(
            f"{self._address} gives no usable answer: {why}",
            "check that this is the address of NetBox, without /api",
        )


def _context(authority: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if authority is None else str(authority))
    except OSError as error:
        # ssl.SSLError, for a file without certificate, is an OSError, too.
        raise ConfigError(
            f"{authority} is not usable as CA certificate ({_said(error.strerror or error)})",
            "name a file of certificates in PEM",
        ) from None


def _said(error: object) -> str:
    return shortened(one_line(str(error)), TOLD)


def is_private(address: str) -> bool:
    """Whether a token sent to this address cannot be read on the way: TLS, or this machine."""
    at = urlsplit(address)
    return at.scheme == "https" or at.hostname in {"127.0.0.1", "localhost"}
