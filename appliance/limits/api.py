"""Client of the Kubernetes API, with a kubeconfig in JSON and a token. Each call is tried a limited number of times."""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import stat
import time
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from appliance.limits import web
from appliance.limits.trouble import Conflict, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Resource = dict[str, Any]

WAITS_S = (0.5, 2.0)
LONGEST_WAIT_S = 10.0
PAGE = 500
PASSING = frozenset({429, 500, 502, 503, 504})
JSON, MERGE = "application/json", "application/merge-patch+json"
METADATA = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Only names, labels and owners of the objects in a list."""


class Api:
    """``skew`` is the largest difference seen between the server's clock and ours, in seconds; None: unknown."""

    def __init__(self, kubeconfig: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self.server, self._token, context = _read(kubeconfig)
        self._wire = web.Wire(self.server, context)
        self._path = urlsplit(self.server).path
        self._kubeconfig, self._sleep = kubeconfig, sleep
        self.skew: float | None = None
        self._seen = ""
        self._told_so = True

    def close(self) -> None:
        """Close the connection kept for the next call."""
        self._wire.close()

    def get(self, path: str) -> Resource | None:
        """Return one resource; None if it does not exist."""
        return self._call("GET", path)

    def items(
        self, path: str, query: Mapping[str, str] | None = None, accept: str = JSON
    ) -> Iterator[Resource]:
        """Return all resources of a list, page by page, as of this object's list or later.

        A server asked for the newest list waits until its database has confirmed that it is the newest, a tenth
        of a second for each list (Kubernetes 1.31 and later). After the first list of a round, the others need
        not wait.
        """
        asked = {"limit": str(PAGE), **(query or {})}
        since = self._since()
        while True:
            try:
                where = f"{path}?{urlencode({**asked, **since})}"
                found = self._call("GET", where, accept=accept) or {}
            except Trouble:
                if not since:
                    raise
                # Resources in another database have other version numbers; the server answers that the number is too large.
                since, self._told_so = {}, False
                continue
            meta = found.get("metadata") or {}
            if "continue" not in asked:
                self._seen = str(meta.get("resourceVersion") or "") or self._seen
            yield from found.get("items") or ()
            if not meta.get("continue"):
                return
            asked["continue"], since = meta["continue"], {}

    def _since(self) -> dict[str, str]:
        if not self._seen or not self._told_so:
            return {}
        return {"resourceVersion": self._seen, "resourceVersionMatch": "NotOlderThan"}

    def create(self, path: str, resource: Resource) -> Resource | None:
        """Create it. Raises Conflict if it exists."""
        return self._call("POST", path, resource)

    def replace(self, path: str, resource: Resource) -> Resource | None:
        """Replace the version that was read. Raises Conflict if that is not the newest."""
        return self._call("PUT", path, resource)

    def patch(self, path: str, change: Resource) -> Resource | None:
        """Change the named fields; None if the resource does not exist."""
        return self._call("PATCH", path, change)

    def delete(self, path: str, uid: str, grace: int) -> Resource | None:
        """Delete the resource with this UID, not a later one with the same name.

        ``grace`` in seconds also shortens the grace period of one that is already being deleted.
        """
        body = {"preconditions": {"uid": uid}, "gracePeriodSeconds": grace}
        return self._call("DELETE", path, body)

    def _call(
        self, method: str, path: str, body: Resource | None = None, accept: str = JSON
    ) -> Resource | None:
        what = f"{method} {path.partition('?')[0]}"
        for wait in (*WAITS_S, None):
            try:
                answer = self._once(method, path, body, accept)
            except web.NoAnswer:
                if wait is None:
                    raise
                self._sleep(wait)
                continue
            if answer.status == 404:
                return None
            if answer.status < 300:
                return _document(what, answer.body)
            if wait is None or answer.status not in PASSING:
                raise self._refusal(what, answer)
            asked = answer.retry_after
            self._sleep(
                min(float(asked) if asked.isascii() and asked.isdigit() else wait, LONGEST_WAIT_S)
            )
        raise AssertionError("the last try returns or raises")

    def _once(self, method: str, path: str, body: Resource | None, accept: str) -> web.Answer:
        headers = {
            "Accept": accept,
            "Authorization": f"Bearer {self._token}",
            "User-Agent": "appliance-limits",
        }
        data = None
        if body is not None:
            headers["Content-Type"] = MERGE if method == "PATCH" else JSON
            data = json.dumps(body).encode()
        answer = self._wire.ask(method, self._path + path, headers, data)
        if answer.skew is not None and abs(answer.skew) >= abs(self.skew or 0.0):
            self.skew = answer.skew
        return answer

    def _refusal(self, what: str, answer: web.Answer) -> Trouble:
        if answer.status == 401:
            return Trouble(f"{what}: the API server rejected the token in {self._kubeconfig}")
        try:
            said = str(json.loads(answer.body)["message"])
        except (ValueError, KeyError, TypeError):
            said = ""
        line = f"{what}: {' '.join(said.split())[:300] or 'no reason given'} (HTTP {answer.status})"
        return Conflict(line) if answer.status == 409 else Trouble(line)


def _document(what: str, body: bytes) -> Resource:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Trouble(f"{what}: the answer is not a JSON object")
    return found


def _read(file: str) -> tuple[str, str, ssl.SSLContext | None]:
    try:
        with open(file, encoding="utf-8") as opened:  # noqa: PTH123
            if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & 0o077:
                raise Trouble(f"{file} is accessible to other users: chmod 600 {file}")
            document = json.load(opened)
        cluster = document["clusters"][0]["cluster"]
        server, token = cluster["server"], document["users"][0]["user"]["token"]
        authority = base64.b64decode(cluster.get("certificate-authority-data", "")).decode()
    except OSError as error:
        raise Trouble(f"{file}: {error.strerror}") from None
    except (ValueError, KeyError, IndexError, TypeError, binascii.Error):
        raise Trouble(f"{file} is not a kubeconfig of this program") from None
    if not web.secure(server):
        raise Trouble(f"{file}: {server} is not https")
    if not server.startswith("https:"):
        return server, token, None
    if not authority:
        raise Trouble(f"{file} has no CA certificate, which is required")
    try:
        return server, token, ssl.create_default_context(cadata=authority)
    except ssl.SSLError:
        raise Trouble(f"{file}: the CA certificate is invalid") from None
