"""The adapter for BMCs: Redfish over TLS, with sushy.

Sushy implements the protocol: headers, retries while a BMC is busy, tasks, vendors' quirks. Added here is what a data
center needs: a certificate that is pinned or signed by a given CA, answers of bounded size and time, no redirect to
another machine, no proxy and no .netrc.
"""

import http.client
import logging
import socket
import ssl
import threading
import time
import weakref
import zlib
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
import urllib3.exceptions
from requests.adapters import HTTPAdapter  # noqa: TID251 - the door

from appliance.adapters.json_answers import parsed
from appliance.errors import ApplianceError, ConnectionFailed, DeadlineExceeded
from appliance.text import one_line, shortened

ROOT = "/redfish/v1/"
LARGEST = 8 << 20
"""Bytes of one answer: full event logs and registries are up to 2 MB."""
CONNECT_S, READ_S = 10.0, 45.0
"""A BMC under load takes 20 to 30 s for one resource."""
BLOCK = 1 << 16
ENCODINGS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Encodings of an answer, with the window of zlib."""
REDIRECTS = 3
MATCH_WANTED = (412, 428)
TOLD = 200
"""Characters of a BMC's own text in a message."""
ILL = "check its event log (appliance discover), or restart the BMC"

Document = dict[str, object]

# Sushy logs errors that are raised as exceptions here anyway.
logging.getLogger("sushy").addHandler(logging.NullHandler())
logging.getLogger("sushy").propagate = False


class ResourceFailed(ApplianceError):
    """One resource could not be read or changed; the BMC itself answers. ``status``: of HTTP, 0: none."""

    def __init__(self, message: str, hint: str = "", status: int = 0) -> None:
        super().__init__(message, hint)
        self.status = status


class EmptyAnswer(ResourceFailed):
    """The answer for a resource was empty."""


@dataclass(frozen=True)
class Controller:
    """Address and identity of a BMC: a fingerprint (SHA-256, hex), or the file of a CA."""

    host: str
    address: str
    user: str
    password: str = field(repr=False)
    port: int = 443
    fingerprint: str = ""
    authority: Path | None = None

    @property
    def url(self) -> str:
        """The root of its service."""
        return f"https://{self.address}:{self.port}"


@dataclass(frozen=True)
class Patience:
    """Timeout of one session, and the retry interval for a busy BMC; seconds."""

    whole: float = 180.0
    retries: int = 3
    pause: float = 3.0


class _Refused(requests.exceptions.RequestException):
    """An answer that is refused; ``why`` is shown."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class _Session(requests.Session):
    """Follows redirects on the same machine only: credentials are sent nowhere else."""

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
            raise _Refused(f"it redirects to another machine, {_controller_message(there.netloc)}")
        return target


class _Clock:
    """The deadline of a session: after it nothing is sent, and open sockets are closed, even those that receive data slowly."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def left(self) -> float:
        """Seconds left."""
        return self._ends - time.monotonic()

    def watch(self, open_one: socket.socket) -> None:
        """Closes this one, too."""
        self._open.add(open_one)
        if self.left() <= 0:
            self._cut()

    def stop(self) -> None:
        """The session has ended."""
        self._timer.cancel()

    def _cut(self) -> None:
        for open_one in list(self._open):
            with suppress(OSError):
                # Not that of ssl.SSLSocket, which removes the session while the reader uses it.
                socket.socket.shutdown(open_one, socket.SHUT_RDWR)


class _Unpacked:
    """Unpacks an answer piece by piece: 1 MB of gzip holds 1 GB, and urllib3 would unpack it before it is counted."""

    def __init__(self, encoding: str) -> None:
        """Raises _Refused for anything but one layer of gzip or deflate."""
        encoding = encoding.strip().lower()
        if encoding not in {"", "identity", *ENCODINGS}:
            raise _Refused(f"an answer is encoded as {_controller_message(encoding)}")
        bits = ENCODINGS.get(encoding)
        self._by = zlib.decompressobj(bits) if bits else None

    def next(self, block: bytes, most: int) -> bytes:
        """The unpacked bytes of a block, at most ``most``. Raises _Refused for damaged ones."""
        if self._by is None:
            return block
        try:
            return self._by.decompress(block, most)
        except zlib.error as error:
            raise _Refused(f"an answer cannot be unpacked: {error}") from None


class _Bounded(HTTPAdapter):
    """Reads an answer up to the limits, and accepts only the pinned certificate."""

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
        found, unpacked = bytearray(), _Unpacked(response.raw.headers.get("Content-Encoding", ""))
        while block := response.raw.read1(BLOCK, decode_content=False):
            found += unpacked.next(block, LARGEST + 1 - len(found))
            if len(found) > LARGEST:
                raise _Refused(f"an answer is larger than {LARGEST >> 20} MiB")
            if self._clock.left() <= 0:
                raise _Refused("an answer did not end in time")
        return bytes(found)


def _error_body(body: bytes) -> bytes:
    """What sushy reads from an error; it does not check the format of the answer."""
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
    """Sushy's connector, with one deadline over all requests of a session.

    Sushy closes the connection after each request, because some BMCs fail on connections that live for hours. Here it
    lives for a session: an inventory is 100 requests, and a handshake costs a BMC a third of a second.
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
    """One session with a BMC: logs in when needed, logs out at the end of the block."""

    def __init__(self, known: Controller, patience: Patience | None = None) -> None:
        if not known.fingerprint and known.authority is None:
            raise ConnectionFailed(
                f"the certificate of its BMC, {known.address}, is not pinned",
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
        # A BMC has few sessions, and ends abandoned ones only after half an hour.
        if self._session_path and self.connector.clock.left() > 0:
            with suppress(ApplianceError):
                self._asked("DELETE", self._session_path)
        self.connector.clock.stop()
        self.connector.close()

    def root(self) -> Document:
        """The service root, which needs no password. Raises ConnectionFailed if this is not a Redfish service."""
        try:
            found = self.get(ROOT)
        except ResourceFailed as error:
            if error.status >= 500:
                raise ConnectionFailed(
                    f"its BMC returned an error: {error.message}",
                    "restart the BMC, then try again",
                ) from None
            raise self._no_service(error.message) from None
        if not isinstance(found.get("Systems"), dict):
            raise self._no_service("it lists no systems")
        return found

    def log_in(self, root: Document) -> None:
        """Uses sessions if the service has them, else sends the password with every request. Raises ConnectionFailed."""
        links = root.get("Links")
        sessions = links.get("Sessions") if isinstance(links, dict) else None
        path = sessions.get("@odata.id") if isinstance(sessions, dict) else None
        if isinstance(path, str) and self._has_session(path):
            return
        self.connector.set_http_basic_auth(self.known.user, str(self.known.password))

    def get(self, path: str) -> Document:
        """A resource. Raises ResourceFailed if it cannot be read, ConnectionFailed if nothing can."""
        response = self._asked("GET", path)
        if not response.content.strip():
            raise EmptyAnswer(
                f"{_controller_message(path)} cannot be read: the answer is empty",
                status=response.status_code,
            )
        try:
            found = parsed(response.content.decode("utf-8", "replace"))
        except ValueError as error:
            raise ResourceFailed(
                f"{_controller_message(path)} cannot be read: {_controller_message(str(error))}"
            ) from None
        if not isinstance(found, dict):
            raise ResourceFailed(f"{_controller_message(path)} cannot be read: it has no fields")
        return found

    def post(self, path: str, body: Document) -> requests.Response:
        """Calls an action. Raises like ``get``."""
        return self._asked("POST", path, body)

    def patch(self, path: str, body: Document) -> None:
        """Changes fields of a resource. Raises like ``get``.

        Some BMCs accept a change only with the ETag that the client has read (If-Match of RFC 9110).
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
        """Removes a resource. Raises like ``get``."""
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
        with suppress(ValueError):
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
            raise ResourceFailed(f"a link leads to {_controller_message(path) or 'nowhere'}")
        try:
            done: requests.Response = self.connector._op(method, path, data=body, headers=headers)
        except sushy.exceptions.AccessError:
            raise self._denied() from None
        except sushy.exceptions.HTTPError as error:
            said = f": {_controller_message(error.detail)}" if isinstance(error.detail, str) else ""
            message = f"{_controller_message(path)} answers {error.status_code}{said}"
            ill = error.status_code >= 500
            raise ResourceFailed(message, ILL if ill else "", error.status_code) from None
        except sushy.exceptions.SushyError as error:
            if self.connector.clock.left() <= 0:
                raise _too_long() from None
            raise self._unreached(error.__context__, path) from None
        except (ValueError, urllib3.exceptions.HTTPError, http.client.HTTPException) as error:
            # requests and sushy raise other exceptions for malformed headers: addresses, encodings, lengths.
            if self.connector.clock.left() <= 0:
                raise _too_long() from None
            raise ResourceFailed(
                f"{_controller_message(path)} cannot be read: {_controller_message(str(error))}"
            ) from None
        if self.connector.clock.left() <= 0:
            raise _too_long()
        return done

    def _denied(self) -> ConnectionFailed:
        return ConnectionFailed(
            f"its BMC rejected user {self.known.user} or its password",
            "check hosts[].bmc.user and password in site.yml; some BMCs lock the account for minutes",
        )

    def _no_service(self, why: str) -> ConnectionFailed:
        return ConnectionFailed(
            f"{self.known.address} port {self.known.port} is not a Redfish service: {why}",
            "check hosts[].bmc.address in site.yml, and that Redfish is enabled on the BMC",
        )

    def _unreached(self, cause: BaseException | None, path: str) -> ApplianceError:
        at = f"{self.known.address} port {self.known.port}"
        match cause:
            case _Refused(why=why):
                return ResourceFailed(f"{_controller_message(path)}: {why}")
            case requests.exceptions.SSLError():
                return self._distrusted()
            case requests.exceptions.ConnectTimeout() | requests.exceptions.ReadTimeout():
                return ConnectionFailed(
                    f"its BMC, {at}, does not answer",
                    "check its cable and its address; a BMC that hangs can be restarted with its own button",
                )
            case requests.exceptions.TooManyRedirects():
                return ResourceFailed(f"{_controller_message(path)} redirects endlessly")
        return ConnectionFailed(
            f"its BMC, {at}, cannot be reached: {_root_cause(cause)}",
            "check hosts[].bmc.address in site.yml, and the network between",
        )

    def _distrusted(self) -> ConnectionFailed:
        if self.known.authority:
            return ConnectionFailed(
                f"the certificate of its BMC, {self.known.address}, is not signed for it by {self.known.authority}",
                "install a certificate of that CA with this address on the BMC, or pin the current one: "
                "remove hosts[].bmc.authority from site.yml, then appliance trust --bmc",
            )
        try:
            shown = certificate(self.known.address, self.known.port)
        except ApplianceError as error:
            return ConnectionFailed(error.message, error.hint)
        if shown == self.known.fingerprint:
            return ConnectionFailed(
                f"its BMC, {self.known.address}, aborted the TLS handshake",
                "restart the BMC",
            )
        return ConnectionFailed(
            f"the certificate of its BMC, {self.known.address}, differs from the pinned one; it shows SHA256 {shown}",
            "the BMC was reset or replaced, or the connection is intercepted: find out which, then appliance trust --bmc",
        )


def certificate(address: str, port: int) -> str:
    """Fingerprint (SHA-256, hex) of a machine's certificate, without any verification."""
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
            f"{address} port {port} does not support current TLS: {_controller_message(str(error.reason))}",
            "check hosts[].bmc.address in site.yml; an old BMC needs newer firmware",
        ) from None
    except OSError as error:
        raise ConnectionFailed(
            f"{address} port {port} cannot be reached: {_root_cause(error)}",
            "check hosts[].bmc.address in site.yml, and the network between",
        ) from None
    if not shown:
        raise ConnectionFailed(f"{address} port {port} shows no certificate")
    return sha256(shown).hexdigest()


def _too_long() -> DeadlineExceeded:
    return DeadlineExceeded("its BMC takes too long", "try again; restart the BMC if it stays slow")


def _controller_message(text: str) -> str:
    return shortened(one_line(text), TOLD)


def _root_cause(error: BaseException | None) -> str:
    """The innermost reason of an error: the outer ones repeat objects and addresses."""
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
    return _controller_message(str(seen[-1])) if seen else "the reason is unknown"


def _reason(args: Iterable[object]) -> BaseException | None:
    found = next((a for a in args if isinstance(a, BaseException)), None)
    return found or next(
        (r for a in args if isinstance(r := getattr(a, "reason", None), BaseException)), None
    )
