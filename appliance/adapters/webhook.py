"""The adapter for a webhook: JSON posted to one HTTPS server, with bounded time and retries."""

import hashlib
import hmac
import http.client
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from appliance import __version__
from appliance.errors import ApplianceError

SECONDS = 5.0
"""For the connection, and for each piece of an answer."""
PAUSES = (1.0, 2.0)
"""Seconds before each further try."""
SIGNATURE = "X-Appliance-Signature"
_BUSY = frozenset({408, 425, 429})
"""Statuses of a server that asks for another try, as all from 500 on do."""


class Webhook:
    """One receiver. ``token`` and ``key`` may be empty. Error messages never contain the URL, which is a secret."""

    def __init__(
        self, url: str, token: str = "", key: str = "", authority: Path | None = None
    ) -> None:
        self._url, self._token, self._key, self._authority = url, token, key, authority

    def post(self, body: bytes, pause: Callable[[float], object] = time.sleep) -> None:
        """Deliver ``body``. Raises ApplianceError if the last try fails, or at once if another would fail, too."""
        for wait in (*PAUSES, None):
            try:
                status = self._status(body)
            except ssl.SSLCertVerificationError as error:
                raise ApplianceError(
                    f"the receiver's certificate is not trusted ({error.verify_message})",
                    "name its CA in notify.authority",
                ) from None
            except TimeoutError:
                why = f"the receiver did not answer within {SECONDS:g} seconds"
            except (OSError, http.client.HTTPException, ValueError) as error:
                why = f"the receiver cannot be reached ({getattr(error, 'strerror', None) or type(error).__name__})"
            else:
                if 200 <= status < 300:
                    return
                why = f"the receiver answered {status}"
                if 300 <= status < 400:
                    raise ApplianceError(f"{why}; redirects are not followed", REMEDY)
                if status < 500 and status not in _BUSY:
                    raise ApplianceError(why, REMEDY)
            if wait is None:
                raise ApplianceError(why, REMEDY)
            pause(wait)

    def _status(self, body: bytes) -> int:
        at = urlsplit(self._url)
        context = ssl.create_default_context(cafile=self._authority)
        # A proxy of the environment would read who the receiver is.
        wire = http.client.HTTPSConnection(at.netloc, timeout=SECONDS, context=context)
        try:
            path = (at.path or "/") + (f"?{at.query}" if at.query else "")
            wire.request("POST", path, body, self._headers(body))
            return wire.getresponse().status
        finally:
            wire.close()

    def _headers(self, body: bytes) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": f"appliance/{__version__}"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token!s}"
        if self._key:
            digest = hmac.new(str(self._key).encode(), body, hashlib.sha256).hexdigest()
            headers[SIGNATURE] = f"sha256={digest}"
        return headers


REMEDY = "check secret notify.url, and that the receiver accepts POST with its token"
