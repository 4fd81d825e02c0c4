"""The adapter for the REST API of Run:ai's control plane: JSON over TLS, with a token of a service account.

Behavior as documented for 3.0 (docs.nvidia.com/run-ai/self-hosted):
- token: reference/rest-api/getting-started/how-to-authenticate-to-the-api
- answers and errors: reference/rest-api/endpoints/organizations/projects
  (an error is ``code``, ``message`` and perhaps ``details``; 202: accepted; 409: the name exists; 503: later)
- lists: ``limit`` of 1 to 500 and ``offset``; those of access rules have ``totalRecords``, some others ``next``
The API documents no limit of requests and no key for repeated requests.
"""

import json
import socket
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import urllib3

from appliance.adapters.json_answers import parsed
from appliance.errors import ApplianceError, ConfigError
from appliance.models.url import server_in
from appliance.text import one_line, shortened

Document = dict[str, Any]
Find = Callable[[], Document | None]
"""Reads the object that a request would create, None if it does not exist."""

TOKEN = "/api/v2/token"
PAGE = 500
"""Entries of a page, the most that the API documents."""
LISTINGS = 4
"""How often a list is read from its start if it changes while it is read."""
MOST_PAGES = 400

CONNECT_S, READ_S = 5.0, 30.0
WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0)
LONGEST_WAIT_S = 30.0
"""A server's Retry-After never delays a request longer than this."""
TRANSIENT = frozenset({500, 502, 503, 504})
LONGEST = 64 << 20
"""Bytes of an answer; a page of 500 projects with ten node pools each is 3 MB."""
WHOLE_S = 120.0
PIECE = 1 << 16
SHOWN = 300
"""Characters of the control plane's own text in a message."""

VALID_S = 3600.0
"""Lifetime of a token whose answer does not contain one; documented is an hour."""
MARGIN_S = 60.0
"""A token is replaced this long before it expires."""


class RunaiFailed(ApplianceError):
    """The control plane did not answer, or refused a request. ``status``: of HTTP, 0: none."""

    def __init__(self, message: str, hint: str = "", status: int = 0) -> None:
        # Names and messages of the control plane are untrusted text.
        super().__init__(one_line(message), one_line(hint))
        self.status = status


class _NoAnswer(RunaiFailed):
    """No answer arrived; whether the request was carried out is unknown."""


@dataclass(frozen=True)
class Account:
    """A control plane, and the service account that this program uses there.

    ``url``: its address, without a path; ``authority``: file of the CA certificates, None: those of this machine.
    ``user``: the account of a person instead, whose password ``secret`` is; only the first administrator logs in this way.
    """

    url: str
    client: str
    secret: str = field(repr=False)
    authority: Path | None = None
    user: str = ""


class Answer(NamedTuple):
    """Status of HTTP, and the document; {} if the answer has none."""

    status: int
    document: Any
    retry_after: str = ""


class Runai:
    """A control plane. Each request is tried once, and again after each of ``waits`` (seconds)."""

    def __init__(
        self,
        account: Account,
        *,
        waits: Sequence[float] = WAITS_S,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        hide: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``hide`` gets each new token, so that no output contains it. Raises ConfigError for an unusable address or CA."""
        at = server_in(account.url)
        if at is None or at.path not in ("", "/"):
            raise ConfigError(
                f"{account.url} is not the address of a control plane",
                "write it as https://NAME under scheduler.runai.url",
            )
        if at.scheme != "https" and at.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise ConfigError(
                f"{account.url} is not https",
                "name the control plane's TLS port: its token is sent",
            )
        self.server = account.url.rstrip("/")
        self._account = account
        self._waits = waits
        self._sleep = sleep
        self._clock = clock
        self._hide = hide
        self._token = ""
        self._ends = 0.0
        self._tls = _trusting(account.authority)
        self._pool = urllib3.PoolManager(ssl_context=self._tls, maxsize=1)

    def __enter__(self) -> "Runai":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.clear()

    def get(self, path: str, doing: str) -> Document | None:
        """One object, None if it does not exist. Raises RunaiFailed."""
        answer = self._repeated("GET", path, doing, None, {404})
        return None if answer.status == 404 else _object(answer, doing)

    def certificate_ends(self) -> float | None:
        """When the served certificate ends, in seconds since 1970; None without TLS. Raises RunaiFailed."""
        at = server_in(self.server)
        if at is None or at.scheme != "https" or at.hostname is None:
            return None
        place = (at.hostname, at.port or 443)
        try:
            with (
                socket.create_connection(place, CONNECT_S) as plain,
                self._tls.wrap_socket(plain, server_hostname=at.hostname) as secured,
            ):
                served: Any = secured.getpeercert() or {}
        except ssl.SSLError as error:
            raise RunaiFailed(*_untrusted(self.server, str(error))) from None
        except OSError as error:
            raise RunaiFailed(
                f"{self.server} does not accept connections ({error.strerror or error})",
                "check the name and port in scheduler.runai, and that the control plane runs",
            ) from None
        end = served.get("notAfter")
        return float(ssl.cert_time_to_seconds(end)) if end else None

    def change(self, method: str, path: str, doing: str, body: object = None) -> Answer:
        """Changes or deletes an object (PUT, PATCH, DELETE); a missing one counts as deleted. Raises RunaiFailed."""
        absent = {404} if method == "DELETE" else ()
        return self._repeated(method, path, doing, body, absent)

    def create(self, path: str, doing: str, body: object, find: Find) -> tuple[Document, bool]:
        """Creates an object, and returns it with True; or one that ``find`` reads, with False.

        A request whose result is unknown is never repeated blindly: ``find`` first reads whether it was carried out.
        409 means that another client created an object of this name: the caller compares it. Raises RunaiFailed.
        """
        for wait in (*self._waits, None):
            try:
                answer = self._authorized("POST", path, doing, body)
            except _NoAnswer as error:
                failure: RunaiFailed = error
                answer = Answer(0, {})
            else:
                if answer.status < 300:
                    return _object(answer, doing), True
                failure = self._refused(doing, answer)
            if answer.status not in {0, 409, 429, *TRANSIENT}:
                raise failure
            if answer.status != 429 and (found := find()) is not None:
                return found, False
            if wait is None or answer.status == 409:
                raise failure
            self._sleep(_wait(answer.retry_after, wait))
        raise AssertionError("the last try returns or raises")

    def every(self, path: str, key: str, doing: str, query: Mapping[str, str]) -> list[Document]:
        """All entries of a list, in pages. A list that changes while it is read is read again from its start.

        With ``sortBy`` by a unique name, pages overlap by one entry: if two pages do not meet, entries were added or removed.
        Any other list of several pages is read until two readings in a row have the same entries, each once.
        Raises RunaiFailed if the list never holds still.
        """
        ordered = query.get("sortBy") == "name"
        last: set[object] | None = None
        for _ in range(LISTINGS):
            found, pages = self._listing(path, key, doing, query, 1 if ordered else 0)
            if found is None:
                continue
            seen = {_identity(entry) for entry in found}
            if pages == 1 or (len(seen) == len(found) and (ordered or seen == last)):
                return found
            last = seen
        raise RunaiFailed(
            f"{doing}: the list changed while it was read, {LISTINGS} times",
            "run this command again when no other client changes Run:ai",
        )

    def plain(self, path: str, key: str, doing: str) -> list[Document]:
        """All entries of a list that has no pages: a bare list, or one under ``key``. Raises RunaiFailed."""
        answer = self._repeated("GET", path, doing, None, ())
        return _entries(answer.document, key, doing, self.server)

    def _listing(
        self, path: str, key: str, doing: str, query: Mapping[str, str], overlap: int
    ) -> tuple[list[Document] | None, int]:
        """The whole list and its number of pages; None for a list whose pages do not meet."""
        found: list[Document] = []
        for number in range(1, MOST_PAGES + 1):
            shared = overlap if found else 0
            asked = {**query, "limit": str(PAGE), "offset": str(len(found) - shared)}
            answer = self._repeated("GET", f"{path}?{urlencode(asked)}", doing, None, ())
            page = _entries(answer.document, key, doing, self.server)
            if shared and (not page or _identity(page[0]) != _identity(found[-1])):
                return None, number
            found += page[shared:]
            if len(page) <= shared or not _continues(answer.document, len(page), len(found)):
                return found, number
        raise RunaiFailed(
            f"{doing}: {self.server} answers more than {MOST_PAGES} pages",
            "check that the address is that of a Run:ai control plane",
        )

    def _repeated(
        self, method: str, path: str, doing: str, body: object, answers: Collection[int]
    ) -> Answer:
        """A request that can be repeated, because its result does not depend on how often it is carried out."""
        for wait in (*self._waits, None):
            try:
                answer = self._authorized(method, path, doing, body)
            except _NoAnswer:
                if wait is None:
                    raise
                self._sleep(wait)
                continue
            if answer.status < 300 or answer.status in answers:
                return answer
            if wait is None or answer.status not in {429, *TRANSIENT}:
                raise self._refused(doing, answer)
            self._sleep(_wait(answer.retry_after, wait))
        raise AssertionError("the last try returns or raises")

    def _authorized(self, method: str, path: str, doing: str, body: object) -> Answer:
        """One try, with a new token if the old one has expired or is refused."""
        for is_last in (False, True):
            if not self._token or self._clock() >= self._ends:
                self._renew()
            headers = {"Authorization": f"Bearer {self._token}"}
            data = None
            if body is not None:
                headers["Content-Type"] = "application/json"
                data = json.dumps(body).encode()
            answer = self._once(method, path, doing, headers, data)
            if answer.status != 401 or is_last:
                return answer
            self._token = ""
        raise AssertionError("the last try returns")

    def _renew(self) -> None:
        """A token by client credentials. The secret is in the body of this request only."""
        doing = "get a token"
        form = _grant(self._account)
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        for wait in (*self._waits, None):
            try:
                answer = self._once("POST", TOKEN, doing, headers, urlencode(form).encode())
            except _NoAnswer as error:
                if wait is None:
                    # Not again by the request that needs the token: it was tried often enough.
                    raise RunaiFailed(error.message, error.hint) from None
                self._sleep(wait)
                continue
            if answer.status < 300 or wait is None or answer.status not in {429, *TRANSIENT}:
                break
            self._sleep(_wait(answer.retry_after, wait))
        token = answer.document.get("access_token") if isinstance(answer.document, dict) else None
        if answer.status >= 300 or not isinstance(token, str) or not token.isascii():
            raise self._no_token(answer)
        self._hide(token)
        self._token = token
        given = answer.document.get("expires_in")
        valid = float(given) if isinstance(given, int | float) and given > 0 else VALID_S
        self._ends = self._clock() + max(valid - MARGIN_S, valid / 2)

    def _no_token(self, answer: Answer) -> RunaiFailed:
        if answer.status in TRANSIENT or answer.status == 429:
            return self._refused("get a token", answer)
        if answer.status >= 300 and self._account.user:
            return RunaiFailed(
                f"{self.server} does not accept the password of {self._account.user} (HTTP {answer.status})",
                "correct secrets.runai_admin_password, or scheduler.runai.install.admin",
                answer.status,
            )
        if answer.status >= 300:
            return RunaiFailed(
                f"{self.server} does not accept the service account {self._account.client} (HTTP {answer.status})",
                "check scheduler.runai.client and secrets.runai_client_secret; renew the secret in Run:ai under service accounts",
                answer.status,
            )
        return RunaiFailed(
            f"{self.server} answers without a token",
            "check that the address is that of a Run:ai control plane",
            answer.status,
        )

    def _once(
        self, method: str, path: str, doing: str, headers: Mapping[str, str], data: bytes | None
    ) -> Answer:
        sent = {"Accept": "application/json", "User-Agent": "appliance", **headers}
        try:
            answer = self._pool.request(
                method,
                self.server + path,
                headers=sent,
                body=data,
                timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            found = _body(answer, doing, self.server)
        except urllib3.exceptions.SSLError as error:
            raise RunaiFailed(*_untrusted(self.server, str(error))) from None
        except urllib3.exceptions.NewConnectionError:
            raise _NoAnswer(
                f"{doing}: {self.server} does not accept connections",
                "check the name and port in scheduler.runai, and that the control plane runs",
            ) from None
        except urllib3.exceptions.TimeoutError:
            raise _NoAnswer(
                f"{doing}: {self.server} did not answer within {READ_S:g} s",
                "check the pods of namespace runai-backend, then run this command again",
            ) from None
        except urllib3.exceptions.HTTPError as error:
            raise _NoAnswer(
                f"{doing}: {self.server} closed the connection ({type(error).__name__})",
                "check the ingress and the pods of namespace runai-backend, then run this command again",
            ) from None
        return Answer(
            answer.status,
            _document(found, answer.status, doing, self.server),
            answer.headers.get("Retry-After") or "",
        )

    def _refused(self, doing: str, answer: Answer) -> RunaiFailed:
        remedies = {
            400: "compare the site with what docs/runai.md lists, and the release of Run:ai with docs/support.md",
            401: "renew the secret of the service account in Run:ai, and check the clock of the control plane",
            403: f"give the service account {self._account.client} a role that may do this, in the scope of the cluster",
            404: "run this command again; if this lasts, check the release of Run:ai (3.0 or newer is needed)",
            409: "another client created or changes it: run this command again",
            429: "Run:ai is overloaded: run this command again later",
        }
        later = "check the pods of namespace runai-backend, then run this command again"
        moved = "write the address of the control plane itself in scheduler.runai.url"
        remedy = remedies.get(answer.status, moved if answer.status < 400 else later)
        return RunaiFailed(
            f"{doing}: {_said(answer.document) or 'no reason was given'} (HTTP {answer.status})",
            remedy,
            answer.status,
        )


def _grant(account: Account) -> dict[str, str]:
    """The form of a token request."""
    if account.user:
        client = {"client_id": account.client} if account.client else {}
        login = {"username": account.user, "password": str(account.secret)}
        return {"grant_type": "password", **login, **client}
    return {
        "grant_type": "client_credentials",
        "client_id": account.client,
        "client_secret": str(account.secret),
    }


def path_of(*parts: object) -> str:
    """A path of the API below /api, each part quoted."""
    return "/api/" + "/".join(quote(str(part), safe="") for part in parts)


def _trusting(authority: Path | None) -> ssl.SSLContext:
    """Verifies certificates, always. Raises ConfigError if the CA's file is unusable."""
    try:
        return ssl.create_default_context(cafile=authority)
    except OSError as error:
        reason = error.strerror if not isinstance(error, ssl.SSLError) else "no certificates in PEM"
        raise ConfigError(
            f"{authority} cannot be used as CA ({reason})",
            "name a file of CA certificates in PEM under scheduler.runai.ca",
        ) from None


def _untrusted(server: str, why: str) -> tuple[str, str]:
    signs = {
        "certificate has expired": "has expired",
        "Hostname mismatch": "is for another name",
        "IP address mismatch": "is for another address",
        "self-signed": "is not signed by a trusted CA",
        "self signed": "is not signed by a trusted CA",
        "unable to get local issuer": "is not signed by a trusted CA",
    }
    reason = next((words for sign, words in signs.items() if sign in why), "cannot be verified")
    return (
        f"the certificate of {server} {reason}",
        "renew it, or name its CA under scheduler.runai.ca; verification is never skipped",
    )


def _body(answer: Any, doing: str, server: str) -> bytes:
    """The whole answer. Raises RunaiFailed if it is too large, or does not end."""
    found, end = bytearray(), time.monotonic() + WHOLE_S
    # Not decompressed: no compression is requested, and a small answer could expand to any size.
    while piece := answer.read1(PIECE, decode_content=False):
        found += piece
        if len(found) > LONGEST or time.monotonic() > end:
            answer.close()
            much = f"more than {LONGEST >> 20} MiB" if len(found) > LONGEST else "without an end"
            raise RunaiFailed(
                f"{doing}: {server} answers {much}",
                "check that the address is that of a Run:ai control plane",
            )
    answer.release_conn()
    return bytes(found)


def _document(body: bytes, status: int, doing: str, server: str) -> object:
    """The JSON of an answer. An error may have any text; only a success must be JSON."""
    if not body.strip():
        return {}
    try:
        return parsed(body.decode(errors="replace"))
    except ValueError as error:
        if status >= 300:
            return {"message": body[:4096].decode(errors="replace")}
        raise RunaiFailed(
            f"{doing}: the answer of {server} cannot be read: {shortened(one_line(str(error)), SHOWN)}",
            "check that the address is that of a Run:ai control plane",
            status,
        ) from None


def _object(answer: Answer, doing: str) -> Document:
    if not isinstance(answer.document, dict):
        raise RunaiFailed(
            f"{doing}: the answer is not an object",
            "check the release of Run:ai (3.0 or newer is needed)",
            answer.status,
        )
    return answer.document


def _entries(document: object, key: str, doing: str, server: str) -> list[Document]:
    """The entries of a list: bare, or under its key. Null is a list without entries."""
    found = document.get(key, "") if isinstance(document, dict) else document
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise RunaiFailed(
            f"{doing}: the answer of {server} has no list of {key}",
            "check the address, and the release of Run:ai (3.0 or newer is needed)",
        )
    return found


def _continues(document: object, page: int, count: int) -> bool:
    """Whether another page follows. A control plane may answer fewer entries than requested, and announce the rest."""
    if page >= PAGE or not isinstance(document, dict):
        return page >= PAGE
    total = document.get("totalRecords")
    return document.get("next") is not None or (isinstance(total, int) and count < total)


def _identity(entry: Document) -> object:
    return entry.get("id", entry.get("uuid", entry.get("name")))


def _said(document: object) -> str:
    """The control plane's own words: ``message`` and ``details``, or those of OAuth."""
    if not isinstance(document, dict):
        return ""
    words: Iterator[Any] = (document.get(key) for key in ("message", "error_description", "error"))
    parts = [next((w for w in words if isinstance(w, str) and w), ""), document.get("details")]
    said = ": ".join(part for part in parts if isinstance(part, str) and part)
    return shortened(one_line(said), SHOWN)


def _wait(retry_after: str, planned: float) -> float:
    given = float(retry_after) if retry_after.isdecimal() and len(retry_after) < 10 else planned
    return min(given, LONGEST_WAIT_S)
