"""The server that machines are installed from, over real TLS, with the installer's own client."""

import hashlib
import http.client
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from appliance.errors import ConfigError
from appliance.provision.ramdisk import server as client
from appliance.provision.ramdisk.server import Server
from appliance.provision.ramdisk.shared import Refused
from appliance.provision.server import BootServer, Guest, Report

HERE, OTHER = IPv4Address("127.0.0.1"), IPv4Address("127.0.0.2")
IMAGE = bytes(range(256)) * 40_000


class Hall:
    """A server with two machines, and what it heard."""

    def __init__(self, folder: Path) -> None:
        self.heard: list[tuple[str, Report]] = []
        disk = folder / "disk"
        disk.write_bytes(IMAGE)
        self.port = free_port()
        self.server = BootServer([HERE, OTHER], self.port, disk, lambda host, said: self.heard.append((host, said)))  # fmt: skip
        self.one, self.two = (self._guest(folder, name) for name in ("gpu-1", "gpu-2"))
        self.path = self.server.admit(self.one, 60)
        self.server.admit(self.two, 60)

    def _guest(self, folder: Path, name: str) -> Guest:
        medium = folder / f"{name}.iso"
        medium.write_bytes(name.encode() * 1000)
        return Guest(name, medium)

    def as_machine(self, token: str = "", certificate: str = "") -> Server:
        fingerprint = certificate or self.server.fingerprint
        settings = {"url": self.server.url(HERE), "certificate": fingerprint, "token": token or self.one.token}  # fmt: skip
        return Server(settings)

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, str]:
        context = ssl.create_default_context(cadata=self.server.certificate)
        connection = http.client.HTTPSConnection(str(HERE), self.port, context=context, timeout=10)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers.get("Content-Range", "")
        finally:
            connection.close()


PORTS = iter(range(21_000 + 500 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]), 32_000))


def free_port() -> int:
    """Below those the kernel gives to whoever connects (ip(7), ip_local_port_range), and no other process's of this run."""
    for port in PORTS:
        with suppress(OSError), socket.create_server((str(HERE), port)):
            return port
    raise AssertionError("all ports are taken")


@pytest.fixture
def hall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hall]:
    monkeypatch.setattr(client, "PAUSE_S", 0.01)
    made = Hall(tmp_path)
    with made.server:
        yield made


def test_a_machine_fetches_the_image_and_reports(hall: Hall) -> None:
    machine = hall.as_machine()
    download = machine.image()
    found = b"".join(iter(lambda: download.read(1 << 20), b""))
    assert hashlib.sha256(found).digest() == hashlib.sha256(IMAGE).digest()
    assert machine.report({"state": "writing", "percent": 4}) > 1.7e9
    assert hall.heard == [("gpu-1", {"state": "writing", "percent": 4})]


def test_a_controller_fetches_the_medium_block_by_block(hall: Hall) -> None:
    path = hall.path
    assert hall.get(path) == (200, b"gpu-1" * 1000, "")
    assert hall.get(path, "HEAD") == (200, b"", "")
    assert hall.get(path, Range="bytes=5-9") == (206, b"gpu-1", "bytes 5-9/5000")
    assert hall.get(path, Range="bytes=-5")[1] == b"gpu-1"
    assert hall.get(path, Range="bytes=5000-")[0] == 416


def test_nobody_sees_what_is_anothers(hall: Hall) -> None:
    mine = f"/medium/{hall.one.secret}"
    for path in (f"{mine}/gpu-2.iso", f"{mine}/", "/medium/gpu-1.iso", "/image", "/", "/../disk"):
        assert hall.get(path)[0] == 404
    with pytest.raises(Refused, match="answered 404"):
        hall.as_machine("guess").report({"state": "started"})
    assert hall.heard == []


def test_a_token_works_until_its_host_is_installed(hall: Hall) -> None:
    machine = hall.as_machine()
    machine.report({"state": "installed", "host_key": "ssh-ed25519 AAAA"})
    with pytest.raises(Refused, match="answered 404"):
        machine.report({"state": "installed", "host_key": "another"})
    assert hall.as_machine(hall.two.token).report({"state": "started"})


def test_who_is_refused_may_ask_again_on_the_same_line(hall: Hall) -> None:
    context = ssl.create_default_context(cadata=hall.server.certificate)
    line = http.client.HTTPSConnection(str(HERE), hall.port, context=context, timeout=10)
    with closing(line):
        for _ in range(2):
            line.request("POST", "/report", b'{"state": "started"}', {"Authorization": "Bearer x"})
            answer = line.getresponse()
            answer.read()
            assert answer.status == 404


def test_a_token_works_for_its_time(hall: Hall) -> None:
    assert hall.get(hall.server.admit(hall.one, -1))[0] == 404
    with pytest.raises(Refused, match="answered 404"):
        hall.as_machine().report({"state": "started"})


def test_a_host_that_was_dismissed_sees_nothing(hall: Hall) -> None:
    hall.server.dismiss("gpu-1")
    assert hall.get(hall.path)[0] == 404


def test_a_machine_tells_nobody_else_its_token(hall: Hall) -> None:
    """A man in the middle differs from that of the boot medium, and gets no request at all."""
    with pytest.raises(Refused, match="differs from that of the boot medium"):
        hall.as_machine(certificate="0" * 64).report({"state": "started"})
    assert hall.heard == []


def test_a_machine_goes_on_where_the_line_broke(hall: Hall) -> None:
    download = hall.as_machine().image()
    first = download.read(1000)
    assert download._answer
    download._answer.close()
    download._hang_up()
    rest = b"".join(iter(lambda: download.read(1 << 20), b""))
    assert first + rest == IMAGE


@pytest.mark.parametrize("body", [b"[]", b"{", b'"x"', b"{" * 9000])
def test_a_report_that_is_none_is_refused(hall: Hall, body: bytes) -> None:
    context = ssl.create_default_context(cadata=hall.server.certificate)
    connection = http.client.HTTPSConnection(str(HERE), hall.port, context=context, timeout=10)
    connection.request("POST", "/report", body, {"Authorization": f"Bearer {hall.one.token}"})
    assert connection.getresponse().status in (400, 413)
    connection.close()
    assert hall.heard == []


def test_what_a_machine_says_is_one_short_line(hall: Hall) -> None:
    hall.as_machine().report({"state": "refused", "message": "a\nb\x1b[31m" + "c" * 5000})
    said = str(hall.heard[0][1]["message"])
    assert "\n" not in said
    assert "\x1b" not in said
    assert len(said) <= 301


def test_a_silent_connection_holds_up_nobody(hall: Hall) -> None:
    with socket.create_connection((str(HERE), hall.port)):
        assert hall.as_machine().report({"state": "started"})


def test_a_port_that_is_taken_is_told(hall: Hall, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1 port {hall.port}"):
        BootServer([HERE], hall.port, tmp_path / "disk", lambda host, said: None)


def test_secrets_are_in_no_repr(hall: Hall) -> None:
    assert hall.one.token not in repr(hall.one)
    assert hall.one.secret not in repr(hall.one)


def test_an_address_is_not_repeated(hall: Hall) -> None:
    told = hall.server.redacted(f"cannot fetch {hall.path}")
    assert told == "cannot fetch /medium/.../gpu-1.iso"


def test_controllers_and_hosts_may_be_in_two_networks(hall: Hall) -> None:
    context = ssl.create_default_context(cadata=hall.server.certificate)
    connection = http.client.HTTPSConnection(str(OTHER), hall.port, context=context, timeout=10)
    connection.request("GET", hall.path)
    assert connection.getresponse().read() == b"gpu-1" * 1000
    connection.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.3", hall.port), timeout=5)


def test_of_two_addresses_one_that_is_taken_frees_the_other(hall: Hall, tmp_path: Path) -> None:
    third = IPv4Address("127.0.0.4")
    # In order of their numbers: the last is the one that fails.
    with socket.create_server(("127.0.0.5", 0)) as taken:
        port = int(taken.getsockname()[1])
        with pytest.raises(ConfigError, match=r"127\.0\.0\.5 port"):
            BootServer([third, IPv4Address("127.0.0.5")], port, tmp_path / "d", lambda host, said: None)  # fmt: skip
    socket.create_server((str(third), port)).close()


def test_many_machines_are_served_at_once(hall: Hall) -> None:
    """None waits for another's end: an installer gives up where nothing comes for half a minute."""
    downloads = [hall.as_machine().image() for _ in range(40)]
    assert all(len(download.read(1000)) == 1000 for download in downloads)
    for download in downloads:
        download._hang_up()
