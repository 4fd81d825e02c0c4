"""Hosts get the files of the manifest, and nothing else."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from appliance.airgap.serve import BundleServer
from appliance.errors import ConfigError
from tests.unit.airgap.test_manifest import made

FILES = {"nvidia/InRelease": "signed", "nvidia/a.deb": "package", "debian/dists/bookworm/main/Packages.xz": "list"}  # fmt: skip
LOOPBACK = IPv4Address("127.0.0.1")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BundleServer]:
    folder = tmp_path / "bundle"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    found = made(folder, FILES)
    index = found.files[2].model_copy(update={"kind": "index"})
    found = found.model_copy(update={"files": (*found.files[:2], index)})
    refused: list[str] = []
    with BundleServer(folder, found, LOOPBACK, 0, lambda _, path: refused.append(path)) as made_:
        made_.told = refused  # type: ignore[attr-defined]
        threading.Thread(target=made_.serve_forever, args=(0.02,), daemon=True).start()
        yield made_
        made_.shutdown()


def _get(server: BundleServer, path: str, method: str = "GET") -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest(method, path)
    connection.endheaders()
    with closing(connection):
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_files_of_the_manifest_are_served(server: BundleServer) -> None:
    for path, text in FILES.items():
        assert _get(server, f"/{path}") == (200, text)
    assert _get(server, "/nvidia/./a.deb") == (200, "package")
    assert _get(server, "/nvidia/a%2edeb") == (200, "package")
    assert _get(server, "/nvidia/a.deb", "HEAD") == (200, "")


def test_apt_may_ask_for_a_list_by_its_digest(server: BundleServer) -> None:
    digest = next(f.sha256 for f in server.files.values() if f.kind == "index")
    assert _get(server, f"/debian/dists/bookworm/main/by-hash/SHA256/{digest}") == (200, "list")
    assert _get(server, f"/debian/dists/bookworm/main/by-hash/SHA256/{'0' * 64}")[0] == 404


@pytest.mark.parametrize(
    "path",
    ["/", "/nvidia", "/nvidia/", "/bundle.json", "/../secret", "/nvidia/../../secret", "/%2e%2e/secret", "//secret", "/extra.deb"],
)  # fmt: skip
def test_nothing_else_is(server: BundleServer, path: str) -> None:
    (server.folder / "extra.deb").write_text("x")
    assert _get(server, path) == (404, "")
    assert len(server.told) == 1  # type: ignore[attr-defined]


def test_a_link_in_the_place_of_a_file_is_not_followed(
    server: BundleServer, tmp_path: Path
) -> None:
    (server.folder / "nvidia/a.deb").unlink()
    (server.folder / "nvidia/a.deb").symlink_to(tmp_path / "secret")
    assert _get(server, "/nvidia/a.deb") == (404, "")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_written(server: BundleServer, method: str) -> None:
    assert _get(server, "/nvidia/a.deb", method)[0] == 501
    assert (server.folder / "nvidia/a.deb").read_text() == "package"


def test_a_port_in_use_is_told(server: BundleServer) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 127\.0\.0\.1 port"):
        BundleServer(server.folder, made(server.folder, {}), LOOPBACK, server.server_port, lambda *_: None)  # fmt: skip


def test_an_address_that_cannot_be_read_is_one_line(
    server: BundleServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as client:
        client.sendall(b"GET http://[/ HTTP/1.0\r\n\r\n")
        assert client.recv(100) == b""
    assert server.told == ["an address that cannot be read (Invalid IPv6 URL)"]  # type: ignore[attr-defined]
    assert "Traceback" not in capsys.readouterr().err
