"""The console in a browser: a real server, asked by real HTTP requests and WebSockets."""

import asyncio
import http.client
import os
import socket
import subprocess  # noqa: TID251 - the server, as a terminal starts it
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.site_files import ready_site

aiohttp = pytest.importorskip("aiohttp", reason="extra web is not installed")
pytest.importorskip("textual_serve", reason="extra web is not installed")
ENOUGH_S = 60.0


@dataclass
class Served:
    """A console on ``port``; ``token`` as printed."""

    process: subprocess.Popen[str]
    port: int
    token: str

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def cookie(self) -> str:
        return f"appliance-{self.port}={self.token}"

    def ask(self, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
        wire = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        wire.request("GET", path, headers=headers)
        answer = wire.getresponse()
        text = answer.read().decode(errors="replace")
        wire.close()
        return answer.status, dict(answer.getheaders()), text

    async def connect(self, until: bytes, send: str = "", **headers: str) -> bytes:
        """All that the console draws until the text appears. Raises WSServerHandshakeError if it is refused."""
        found = b""
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"{self.origin}/ws?width=100&height=30", headers=headers) as wire,
        ):
            while until not in found:
                message = await wire.receive(ENOUGH_S)
                if message.type is not aiohttp.WSMsgType.BINARY:
                    break
                found += message.data
            if send:
                await wire.send_json(["stdin", send])
                while (await wire.receive(ENOUGH_S)).type is aiohttp.WSMsgType.BINARY:
                    pass
                return found + b"closed"
        return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def start(site: Path, port: int) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "appliance",
        "console",
        "--site",
        str(site),
        "--web",
        str(port),
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    site = ready_site(tmp_path_factory.mktemp("web") / "site", 2)
    port = free_port()
    process = start(site, port)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"Open http://127.0.0.1:{port}/?token="), process.communicate()
        yield Served(process, port, urlsplit(line.split()[1]).query.removeprefix("token="))
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_the_printed_address_opens_the_page_and_the_token_leaves_the_address(
    served: Served,
) -> None:
    status, headers, _ = served.ask(f"/?token={served.token}")
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert cookie.startswith(served.cookie)
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    status, headers, page = served.ask("/", Cookie=served.cookie)
    assert status == 200
    assert served.token not in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_the_page_names_no_other_server(served: Served) -> None:
    _, _, page = served.ask("/", Cookie=served.cookie)
    for mark in ("href=", "src="):
        for part in page.split(mark)[1:]:
            assert part.startswith('"/static/'), part[:60]
    assert page.count("://") == page.count(f"ws://127.0.0.1:{served.port}/ws") == 1
    for path in ("/static/js/textual.js", "/static/css/xterm.css"):
        assert served.ask(path, Cookie=served.cookie)[0] == 200


@pytest.mark.parametrize("path", ["/", "/static/js/textual.js", "/ws", "/?token=wrong"])
def test_without_the_token_nothing_is_served(path: str, served: Served) -> None:
    assert served.ask(path, Origin=served.origin)[0] == 403
    assert served.ask(path, Origin=served.origin, Cookie=f"appliance-{served.port}=x")[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1"])
def test_another_host_name_is_refused_even_with_the_token(host: str, served: Served) -> None:
    status, _, text = served.ask("/", Host=host, Cookie=served.cookie)
    assert (status, text) == (403, "unknown Host\n")


@pytest.mark.parametrize("path", ["/", "/ws", "/static/js/textual.js"])
def test_another_origin_is_refused_even_with_the_token(path: str, served: Served) -> None:
    status, _, text = served.ask(path, Origin="http://evil.example", Cookie=served.cookie)
    assert (status, text) == (403, "unknown Origin\n")


def test_a_websocket_without_origin_or_token_is_refused(served: Served) -> None:
    for headers in ({"Cookie": served.cookie}, {"Origin": served.origin}):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            asyncio.run(served.connect(b"", **headers))
        assert refused.value.status == 403


def test_the_console_is_drawn_and_its_key_ends_the_session(served: Served) -> None:
    headers = {"Origin": served.origin, "Cookie": served.cookie}
    drawn = asyncio.run(served.connect(b"? help", send="q", **headers))
    assert b"Findings" in drawn
    assert drawn.endswith(b"closed")


def test_the_server_listens_on_loopback_alone(served: Served) -> None:
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    rows = [line.split() for table in tables for line in table.read_text().splitlines()[1:]]
    listening = "0A"
    found = [
        row[1] for row in rows if row[3] == listening and row[1].endswith(f":{served.port:04X}")
    ]
    assert found == [f"0100007F:{served.port:04X}"]


def test_a_port_in_use_is_named(served: Served, tmp_path: Path) -> None:
    process = start(ready_site(tmp_path / "site", 1), served.port)
    _, said = process.communicate(timeout=ENOUGH_S)
    assert process.returncode == 1
    assert f"port {served.port} of 127.0.0.1 cannot be used" in said
    assert "Traceback" not in said
