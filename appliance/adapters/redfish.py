"""The one door to management controllers: Redfish over TLS, by sushy.

Sushy brings the protocol: headers, retries while a controller is busy, tasks, the quirks of makers. Added here is what a
hall needs: a certificate that is pinned or signed by a named authority, answers of bounded size and time, no redirect to
another machine, no proxy and no .netrc.
"""

import logging
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

import requests  # noqa: TID251 - the door
import sushy.connector  # noqa: TID251 - the door
import sushy.exceptions  # noqa: TID251 - the door
import urllib3.connection
from requests.adapters import HTTPAdapter  # noqa: TID251 - the door

from appliance.adapters.answers import parsed
from appliance.errors import ApplianceError, ConnectionFailed, DeadlineExceeded
from appliance.text import one_line, shortened

ROOT = "/redfish/v1/"
LARGEST = 8 << 20
"""Bytes of one answer: full event logs and registries come to 2 MB."""
CONNECT_S, READ_S = 10.0, 45.0
"""A controller under load takes 20 to 30 s for one resource."""
BLOCK = 1 << 16
REDIRECTS = 3
MATCH_WANTED = (412, 428)
TOLD = 200
"""Characters of a controller's own words in a message."""
ILL = "look at its event log (appliance discover), or restart the controller"

Document = dict[str, object]

# Sushy warns and logs errors of what is an exception here anyway.
logging.getLogger("sushy").addHandler(logging.NullHandler())
logging.getLogger("sushy").propagate = False


class ResourceFailed(ApplianceError):
    """One resource could not be read or changed; the controller itself answers. ``status``: of HTTP, 0: none."""

    def __init__(self, message: str, hint: str = "", status: int = 0) -> None:
        super().__init__(message, hint)
        self.status = status


@dataclass(frozen=True)
class Controller:
    """Where a controller is, and by what it is known: a fingerprint (SHA-256, hex), or the authority's file."""

    host: str
    address: str
    user: str
    password: str = field(repr=False)
    port: int = 443
    fingerprint: str = ""
    authority: Path | None = None

    @property
    def url(self) -> str:
        """Where its service begins."""
        return f"https://{self.address}:{self.port}"


@dataclass(frozen=True)
class Patience:
    """How long one conversation may take, and how often a busy controller is asked again; seconds."""

    whole: float = 180.0
    retries: int = 3
    pause: float = 3.0


class _Refused(requests.exceptions.RequestException):
    """An answer that is not taken; ``why`` is told."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class _Session(requests.Session):
    """Follows a redirect on the same machine only: credentials go nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False
        self.max_redirects = REDIRECTS

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        if target is None:
            return None
        here, there = urlsplit(resp.url), urlsplit(urljoin(resp.url, target))
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise _Refused(f"it sends the program elsewhere, to {_told(there.netloc)}")
        return target


class _Clock:
    """A conversation's end: from then on nothing is sent, and sockets that wait for a drip of bytes are cut."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def left(self) -> float:
        """Seconds until then."""
        return self._ends - time.monotonic()

    def watch(self, open_one: socket.socket) -> None:
        """Cuts this one, too."""
        self._open.add(open_one)
        if self.left() <= 0:
            self._cut()

    def stop(self) -> None:
        """The conversation is over."""
        self._timer.cancel()

    def _cut(self) -> None:
        for open_one in list(self._open):
            with suppress(OSError):
                # Not that of ssl.SSLSocket, which takes the reader's session away under its hands.
                socket.socket.shutdown(open_one, socket.SHUT_RDWR)


class _Bounded(HTTPAdapter):
    """Reads an answer as far as it may go, and takes no certificate but the pinned one."""

    def __init__(self, fingerprint: str, clock: _Clock) -> None:
        self._fingerprint = fingerprint
        self._clock = clock
        super().__init__()

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        clock = self._clock

        class Watched(urllib3.connection.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                clock.watch(self.sock)

        pool = super().get_connection_with_tls_context(*args, **kwargs)
        pool.ConnectionCls = Watched
        return pool

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        if self._fingerprint:
            kwargs["assert_fingerprint"] = self._fingerprint
        super().init_poolmanager(*args, **kwargs)

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        kwargs["stream"] = True
        response = super().send(*args, **kwargs)
        body = self._body(response)
        response._content = _error_body(body) if response.status_code >= 400 else body
        response._content_consumed = True
        return response

    def _body(self, response: requests.Response) -> bytes:
        found = bytearray()
        while block := response.raw.read1(BLOCK):
            found += block
            if len(found) > LARGEST:
                raise _Refused(f"an answer is larger than {LARGEST >> 20} MiB")
            if self._clock.left() <= 0:
                raise _Refused("an answer did not end in time")
        return bytes(found)


def _error_body(body: bytes) -> bytes:
    """What sushy reads of an error; it takes the form of the answer for granted."""
    with suppress(ValueError):
        found = parsed(body.decode("utf-8", "replace"))
        error = found.get("error") if isinstance(found, dict) else None
        infos = error.get("@Message.ExtendedInfo") if isinstance(error, dict) else None
        if isinstance(error, dict) and (infos is None or _are_messages(infos)):
            return body
    return b""


def _are_messages(infos: object) -> bool:
    return isinstance(infos, list) and all(isinstance(info, dict) for info in infos)


class _Connector(sushy.connector.Connector):  # type: ignore[misc]
    """Sushy's, with a deadline over all requests of a conversation together.

    Sushy closes the connection after each request, for some controllers choke on one that lives for hours. Here it lives
    for a conversation: an inventory is 100 requests, and a handshake costs a controller a third of a second.
    """

    def __init__(self, known: Controller, patience: Patience) -> None:
        self.clock = _Clock(patience.whole)
        super().__init__(
            known.url,
            verify=str(known.authority) if known.authority else False,
            server_side_retries=patience.retries,
            server_side_retries_delay=patience.pause,
        )
        self._session = _Session()
        self._session.mount("https://", _Bounded(known.fingerprint, self.clock))

    def _op(self, *args: Any, **kwargs: Any) -> requests.Response:
        if (left := self.clock.left()) <= 0:
            raise _too_long()
        kwargs["timeout"] = (min(CONNECT_S, left), min(READ_S, left))
        done: requests.Response = super()._op(*args, **kwargs)
        return done


class Redfish:
    """One conversation with a controller: logs in at the first need, logs out at the end of the block."""

    def __init__(self, known: Controller, patience: Patience | None = None) -> None:
        if not known.fingerprint and known.authority is None:
            raise ConnectionFailed(
                f"the certificate of its controller, {known.address}, is not pinned",
                "compare and pin it: appliance trust --bmc",
            )
        self.known = known
        self.connector = _Connector(known, patience or Patience())
        self.must_change_password = False
        self._session_path = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A controller keeps few sessions, and ends those left behind after half an hour only.
        if self._session_path and self.connector.clock.left() > 0:
            with suppress(ApplianceError):
                self._asked("DELETE", self._session_path)
        self.connector.clock.stop()
        self.connector.close()

    def root(self) -> Document:
        """The service root, which needs no password. Raises ConnectionFailed where this is no Redfish service."""
        try:
            found = self.get(ROOT)
        except ResourceFailed as error:
            if error.status >= 500:
                raise ConnectionFailed(
                    f"its controller is ill: {error.message}",
                    "restart the controller, then try again",
                ) from None
            raise self._no_service(error.message) from None
        if not isinstance(found.get("Systems"), dict):
            raise self._no_service("it names no systems")
        return found

    def log_in(self, root: Document) -> None:
        """A session where the service has some, else the password with every request. Raises ConnectionFailed."""
        links = root.get("Links")
        sessions = links.get("Sessions") if isinstance(links, dict) else None
        path = sessions.get("@odata.id") if isinstance(sessions, dict) else None
        if isinstance(path, str) and self._has_session(path):
            return
        self.connector.set_http_basic_auth(self.known.user, str(self.known.password))

    def get(self, path: str) -> Document:
        """A resource. Raises ResourceFailed where it cannot be had, ConnectionFailed where nothing can."""
        response = self._asked("GET", path)
        try:
            found = parsed(response.content.decode("utf-8", "replace"))
        except ValueError as error:
            raise ResourceFailed(f"{_told(path)} cannot be read: {_told(str(error))}") from None
        if not isinstance(found, dict):
            raise ResourceFailed(f"{_told(path)} cannot be read: it has no fields")
        return found

    def post(self, path: str, body: Document) -> requests.Response:
        """Asks for an action. Raises as ``get``."""
        return self._asked("POST", path, body)

    def patch(self, path: str, body: Document) -> None:
        """Changes fields of a resource. Raises as ``get``.

        Some controllers take a change of nothing but what the client has seen, by its tag (If-Match of RFC 9110).
        """
        try:
            self._asked("PATCH", path, body)
        except ResourceFailed as error:
            if error.status not in MATCH_WANTED:
                raise
            tag = self._asked("GET", path).headers.get("ETag")
            if not tag:
                raise
            self._asked("PATCH", path, body, {"If-Match": tag})

    def delete(self, path: str) -> None:
        """Removes a resource. Raises as ``get``."""
        self._asked("DELETE", path)

    def _has_session(self, path: str) -> bool:
        body: Document = {"UserName": self.known.user, "Password": str(self.known.password)}
        try:
            made = self.post(path, body)
        except ResourceFailed:
            return False
        token, place = made.headers.get("X-Auth-Token"), made.headers.get("Location", "")
        if not token:
            return False
        self.must_change_password = b"PasswordChangeRequired" in made.content
        self._session_path = urlsplit(place).path
        self.connector.set_http_session_auth(token)
        return True

    def _asked(
        self,
        method: str,
        path: str,
        body: Document | None = None,
        headers: dict[str, str] | None = None,
    ) -> requests.Response:
        if not path.startswith("/") or path.startswith("//"):
            raise ResourceFailed(f"a link leads to {_told(path) or 'nowhere'}")
        try:
            done: requests.Response = self.connector._op(method, path, data=body, headers=headers)
        except sushy.exceptions.AccessError:
            raise self._denied() from None
        except sushy.exceptions.HTTPError as error:
            said = f": {_told(error.detail)}" if isinstance(error.detail, str) else ""
            message = f"{_told(path)} answers {error.status_code}{said}"
            ill = error.status_code >= 500
            raise ResourceFailed(message, ILL if ill else "", error.status_code) from None
        except sushy.exceptions.SushyError as error:
            if self.connector.clock.left() <= 0:
                raise _too_long() from None
            raise self._unreached(error.__context__, path) from None
        if self.connector.clock.left() <= 0:
            raise _too_long()
        return done

    def _denied(self) -> ConnectionFailed:
        return ConnectionFailed(
            f"its controller takes neither user {self.known.user} nor the password",
            "look at hosts[].bmc.user and password in site.yml; some controllers lock the account for minutes",
        )

    def _no_service(self, why: str) -> ConnectionFailed:
        return ConnectionFailed(
            f"{self.known.address} port {self.known.port} is no Redfish service: {why}",
            "look at hosts[].bmc.address in site.yml, and whether Redfish is switched on in the controller",
        )

    def _unreached(self, cause: BaseException | None, path: str) -> ApplianceError:
        at = f"{self.known.address} port {self.known.port}"
        match cause:
            case _Refused(why=why):
                return ResourceFailed(f"{_told(path)}: {why}")
            case requests.exceptions.SSLError():
                return self._distrusted()
            case requests.exceptions.ConnectTimeout() | requests.exceptions.ReadTimeout():
                return ConnectionFailed(
                    f"its controller, {at}, does not answer",
                    "look at its cable and its address; a controller that hangs is restarted by its own button",
                )
            case requests.exceptions.TooManyRedirects():
                return ResourceFailed(f"{_told(path)} redirects without an end")
        return ConnectionFailed(
            f"its controller, {at}, cannot be reached: {_root_cause(cause)}",
            "look at hosts[].bmc.address in site.yml, and at the network between",
        )

    def _distrusted(self) -> ConnectionFailed:
        if self.known.authority:
            return ConnectionFailed(
                f"the certificate of its controller, {self.known.address}, is not one that {self.known.authority} signed for it",
                "put a certificate of that authority with this address on the controller, or pin the one it has: "
                "take hosts[].bmc.authority out of site.yml, then appliance trust --bmc",
            )
        try:
            shown = certificate(self.known.address, self.known.port)
        except ApplianceError as error:
            return ConnectionFailed(error.message, error.hint)
        if shown == self.known.fingerprint:
            return ConnectionFailed(
                f"its controller, {self.known.address}, ends the TLS handshake",
                "restart the controller",
            )
        return ConnectionFailed(
            f"the certificate of its controller, {self.known.address}, is not the pinned one; it shows SHA256 {shown}",
            "somebody stands between, or the controller was reset or replaced: find out which, then appliance trust --bmc",
        )


def certificate(address: str, port: int) -> str:
    """Fingerprint (SHA-256, hex) of the certificate that a machine shows; says nothing of whether it is the right one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((address, port), timeout=CONNECT_S) as plain,
            context.wrap_socket(plain) as secure,
        ):
            shown = secure.getpeercert(binary_form=True)
    except ssl.SSLError as error:
        raise ConnectionFailed(
            f"{address} port {port} speaks no TLS of today: {_told(str(error.reason))}",
            "look at hosts[].bmc.address in site.yml; an old controller needs newer firmware",
        ) from None
    except OSError as error:
        raise ConnectionFailed(
            f"{address} port {port} cannot be reached: {_root_cause(error)}",
            "look at hosts[].bmc.address in site.yml, and at the network between",
        ) from None
    if not shown:
        raise ConnectionFailed(f"{address} port {port} shows no certificate")
    return sha256(shown).hexdigest()


def _too_long() -> DeadlineExceeded:
    return DeadlineExceeded(
        "its controller takes too long", "try again; restart a controller that stays slow"
    )


def _told(text: str) -> str:
    return shortened(one_line(text), TOLD)


def _root_cause(error: BaseException | None) -> str:
    """The innermost reason of an error, for those outside repeat objects and addresses."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__ or _reason(error.args)
    for inner in reversed(seen):
        if (
            isinstance(inner, OSError)
            and inner.strerror
            and not isinstance(inner, requests.exceptions.RequestException)
        ):
            return inner.strerror.lower()
        if isinstance(inner, TimeoutError):
            return "it does not answer"
    return _told(str(seen[-1])) if seen else "no reason is known"


def _reason(args: Iterable[object]) -> BaseException | None:
    found = next((a for a in args if isinstance(a, BaseException)), None)
    return found or next(
        (r for a in args if isinstance(r := getattr(a, "reason", None), BaseException)), None
    )
