"""Reads the API of the cluster, and changes objects of it, with the identity in a kubeconfig that kubeadm wrote.

A request takes about 4 ms of processor time. kubectl takes 75 ms: it starts, loads its kinds, and discovers those of the API each time.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import time

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.problems import Denied, Late, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence
    from typing import Any

FIELD = re.compile(
    r"^[ -]*(server|(?:certificate-authority|client-certificate|client-key)(?:-data)?): *(\S+)",
    re.M,
)
SERVER = re.compile(r"https://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(\d{1,5}))?/?")
HTTPS = 443
SECONDS = 5.0
"""Seconds for one request and its answer."""
MOST = 32 << 20
"""Maximum bytes of one answer. A node takes about 15 KB, a pod 10 KB."""
PART = 1 << 16
OK, CREATED = "200", "201"
JSON = "application/json"
ANY = JSON + ", */*"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
"""Kinds of patches. The strategic one merges conditions by type; other conditions stay."""
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Only names, labels and annotations of the objects in a list."""
FAILS = "[-]"
"""Mark of failed checks in /readyz, one per line."""


class Api:
    """The API server of a kubeconfig. Every method raises Unreadable, Denied, or Late."""

    def __init__(self, ask: Ask, kubeconfig: str) -> None:
        self._ask, self._place = ask, kubeconfig
        known = self._fields()
        server = SERVER.fullmatch(known.get("server", ""))
        if not server:
            raise Unreadable(kubeconfig + " names no server")
        self._host = server.group(1).strip("[]")
        self._address = (self._host, int(server.group(2) or HTTPS))
        self._named = server.group(1) + ":" + str(self._address[1])
        self._context = self._trusting(known)

    def text(self, path: str, accept: str = ANY) -> str:
        """Return the answer to a request for this path."""
        code, body = self._answered(path, "GET", [("Accept", accept)])
        if code != OK:
            raise Unreadable(f"{self._named} answered {code or 'nothing'}: {_said(body)}")
        return body

    def refusal(self, path: str, content: str, user: str, groups: tuple[str, ...]) -> str:
        """Return why the API would refuse to create this object for this user; empty if it would not. Creates nothing."""
        names = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
        sent = [*names, ("Accept", JSON), ("Content-Type", JSON)]
        code, body = self._answered(path + "?dryRun=All", "POST", sent, content)
        return "" if code == CREATED else f"{code or 'no answer'}: {_said(body)}"

    def change(self, path: str, content: str, kind: str, verb: str = "PATCH") -> None:
        """Change an object by a patch of this kind. If the patch has another resourceVersion, the object stays, and Unreadable is raised."""
        sent = [("Accept", JSON), ("Content-Type", kind)]
        code, body = self._answered(path, verb, sent, content)
        if code not in (OK, CREATED):
            raise Unreadable(f"{self._named} answered {code or 'nothing'}: {_said(body)}")

    def _answered(
        self, path: str, verb: str, headers: Sequence[tuple[str, str]], content: str = ""
    ) -> tuple[str, str]:
        """Return status and body of an answer."""
        patience = self._ask.scaled(SECONDS)
        end = time.monotonic() + patience
        try:
            with self._connected(patience) as wire:
                answer = _answer(wire, _request(self._host, path, verb, headers, content), end)
        except (socket.timeout, TimeoutError):  # noqa: UP041 - Python 3.8 and 3.9 know it by no other name
            raise Late(f"{self._named} did not answer within {patience:g} s") from None
        except OSError as error:
            raise Unreadable(self._named + ": " + _reason(error)) from None
        if len(answer) > MOST:
            raise Unreadable(f"{self._named} answered {path} with more than {MOST >> 20} MiB")
        head, _, body = answer.decode("utf-8", "replace").partition("\r\n\r\n")
        return " ".join(head.split(None, 2)[1:2]), body

    def object(self, path: str, accept: str = ANY) -> dict[str, Any]:
        """Return an object of the API."""
        try:
            found = json.loads(self.text(path, accept))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Unreadable(self._named + " returned no JSON for " + path)
        return found

    def items(self, path: str, kind: str, accept: str = ANY) -> list[dict[str, Any]]:
        """Return the objects of a list, each with its kind, which the API omits in lists."""
        try:
            items = self.object(path, accept)["items"]
            named = all(isinstance(item["metadata"]["name"], str) for item in items)
        except (KeyError, TypeError):
            named = False
        if not named:
            raise Unreadable(f"{self._named} returned no list of kind {kind}")
        return [{**item, "kind": kind} for item in items]

    def _connected(self, patience: float) -> ssl.SSLSocket:
        """Return a connection to the verified server. A truncated answer raises OSError."""
        with socket.create_connection(self._address, patience) as plain:
            return self._context.wrap_socket(
                plain, server_hostname=self._host, suppress_ragged_eofs=False
            )

    def _fields(self) -> dict[str, str]:
        try:
            found = FIELD.findall(files.read(self._ask.path(self._place)))
        except PermissionError:
            raise Denied("needs root to read " + self._place) from None
        except OSError as error:
            raise Unreadable(f"{self._place}: {error.strerror}") from None
        known = {name: value.strip("\"'") for name, value in found}
        if len(known) < len(found):
            raise Unreadable(
                self._place + " names several clusters or users; kubeadm writes one of each"
            )
        return known

    def _trusting(self, known: dict[str, str]) -> ssl.SSLContext:
        """Return a context that trusts only the cluster's CA and has the kubeconfig's certificate."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        parts = ("certificate-authority", "client-certificate", "client-key")
        try:
            authority, certificate, key = (self._pem(known, part) for part in parts)
            context.load_verify_locations(cadata=authority)
            _identify(context, (certificate + "\n" + key).encode())
        except ssl.SSLError:
            raise Unreadable(self._place + ": its certificate or key is damaged") from None
        except OSError as error:
            raise Unreadable(f"{self._place}: {_reason(error)}") from None
        except ValueError:
            raise Unreadable(self._place + " holds a certificate that cannot be read") from None
        return context

    def _pem(self, known: dict[str, str], part: str) -> str:
        """Return a part of the kubeconfig, embedded or from the named file. Raises OSError, ValueError."""
        if part + "-data" in known:
            return base64.b64decode(known[part + "-data"], validate=True).decode("ascii")
        if part in known:
            return files.read(self._ask.path(known[part]))
        raise Unreadable(f"{self._place} has no {part}")


def _identify(context: ssl.SSLContext, pem: bytes) -> None:
    """Load the client certificate through a file in memory, because Python loads keys only from files. Raises OSError."""
    fd = os.memfd_create("identity")
    try:
        os.write(fd, pem)
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def _request(
    host: str, path: str, verb: str, headers: Sequence[tuple[str, str]], content: str
) -> bytes:
    body = content.encode()
    lines = [
        f"{verb} {path} HTTP/1.0",
        f"Host: {host}",
        *(f"{name}: {value}" for name, value in headers),
        *((f"Content-Length: {len(body)}",) if body else ()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _answer(wire: socket.socket, request: bytes, end: float) -> bytes:
    """Return head and body, slightly more than ``MOST`` at most. With HTTP/1.0, the server does not chunk and closes. Raises OSError."""
    wire.sendall(request)
    answer = bytearray()
    while len(answer) <= MOST:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        wire.settimeout(left)
        part = wire.recv(PART)
        if not part:
            break
        answer += part
    return bytes(answer)


def _reason(error: OSError) -> str:
    """Return a short reason: that of OpenSSL without its source line."""
    told = getattr(error, "verify_message", "") or getattr(error, "reason", "") or error.strerror
    at = f" ({error.filename})" if error.filename else ""
    return str(told or type(error).__name__) + at


def _said(body: str) -> str:
    """Return why the API refused: the failed checks, the message of a Status, or the whole text."""
    fails = [line for line in body.split("\n") if line.startswith(FAILS)]
    try:
        message = json.loads(body).get("message", "")
    except (ValueError, AttributeError):
        message = ""
    return "; ".join(fails) or str(message or " ".join(body.split()) or "no reason given")[:400]
