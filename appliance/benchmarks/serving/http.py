"""A small HTTP/1.1 client for streams: one request a connection, TLS verified, every line and every answer bounded."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from appliance.benchmarks.serving.stream import Refused
from appliance.ownership import require
from appliance.text import quoted

LONGEST_LINE = 1 << 20
MOST_BYTES = 16 << 20
MOST_HEADERS = 200


@dataclass(frozen=True)
class Server:
    """The address of the server; ``path`` is "/v1" or its replacement. ``key``: of the API, never shown."""

    host: str
    port: int
    path: str
    tls: ssl.SSLContext | None
    key: str = ""

    def head(self, method: str, path: str, length: int) -> bytes:
        """The request's head."""
        named = f"[{self.host}]" if ":" in self.host else self.host
        lines = [
            f"{method} {self.path}{path} HTTP/1.1",
            f"Host: {named}:{self.port}",
            "Accept: text/event-stream, application/json",
            "Connection: close",
            f"Content-Length: {length}",
            *(["Content-Type: application/json"] if length else []),
            *([f"Authorization: Bearer {self.key}"] if self.key else []),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def server(endpoint: str, ca: str = "", key: str = "") -> Server:
    """Raises OSError or ssl.SSLError where ``ca`` is no file of certificates, Untrusted where others may write it."""
    if ca:
        require(Path(ca))
    at = urlsplit(endpoint)
    tls = ssl.create_default_context(cafile=ca or None) if at.scheme == "https" else None
    port = at.port or (443 if tls else 80)
    return Server(at.hostname or "", port, at.path.rstrip("/") or "/v1", tls, key)


async def lines(at: Server, method: str, path: str, body: Any = None) -> AsyncIterator[bytes]:
    """Yields the lines of an answer with status 200. Raises Refused, and OSError without a connection."""
    data = b"" if body is None else json.dumps(body).encode()
    reader, writer = await asyncio.open_connection(at.host, at.port, ssl=at.tls, limit=LONGEST_LINE)
    try:
        writer.write(at.head(method, path, len(data)) + data)
        await writer.drain()
        chunked = await _headers(reader)
        rest = b""
        async for piece in _chunks(reader) if chunked else _pieces(reader):
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.rstrip(b"\r")
            if len(rest) > LONGEST_LINE:
                raise Refused("a line of the answer is incomplete")
        if rest:
            yield rest
    finally:
        writer.close()
        with suppress(OSError, ssl.SSLError, asyncio.TimeoutError):
            await asyncio.wait_for(writer.wait_closed(), 1)


async def _headers(reader: asyncio.StreamReader) -> bool:
    """Whether the answer comes in chunks."""
    status = (await _line(reader)).split(maxsplit=2)
    if len(status) < 2 or not status[0].startswith(b"HTTP/1."):
        raise Refused("the server does not use HTTP")
    chunked = False
    for _ in range(MOST_HEADERS):
        line = await _line(reader)
        if not line:
            break
        name, _, value = line.partition(b":")
        chunked |= name.strip().lower() == b"transfer-encoding" and b"chunked" in value.lower()
    else:
        raise Refused("the headers of the answer are incomplete")
    if status[1] != b"200":
        raise Refused(f"the server answers with status {quoted(status[1].decode('latin-1'))}")
    return chunked


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        line = await reader.readline()
    except ValueError:
        raise Refused("a line of the answer is incomplete") from None
    if not line.endswith(b"\n"):
        raise Refused("the connection was closed during the answer")
    return line.rstrip(b"\r\n")


async def _pieces(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    total = 0
    while piece := await reader.read(65536):
        total += len(piece)
        if total > MOST_BYTES:
            raise Refused("the answer is incomplete")
        yield piece


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    total = 0
    while True:
        try:
            size = int((await _line(reader)).split(b";")[0], 16)
        except ValueError:
            raise Refused("a chunk of the answer does not declare its length") from None
        total += size
        if size < 0 or total > MOST_BYTES:
            raise Refused("the answer is incomplete")
        if not size:
            return
        try:
            yield await reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise Refused("the connection was closed during the answer") from None
        if await _line(reader):
            raise Refused("a chunk of the answer exceeds its declared length")
