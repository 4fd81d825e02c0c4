"""A Prometheus is asked at an address that is one, and whatever answers there."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from appliance.adapters import prometheus
from appliance.adapters.prometheus import Prometheus
from appliance.errors import ApplianceError, ConfigError
from appliance.models.url import server_in


@pytest.mark.parametrize(
    "address",
    [
        *("", "10.0.0.10", "http://", "ftp://host", "file:///etc/passwd", "http://host:99999"),
        *(
            "http://host:0",
            "http://host:x",
            "http://[::1",
            "http://a b",
            "http://h/a b",
            "http://h\n",
        ),
        *("http://\u00e4.example", "http://a..b", "http://-x", f"http://{'a' * 64}", "http://h/?x"),
        *("http://h/#x", f"http://{'a.' * 150}b", "http://[::g]"),
    ],
)
def test_what_no_client_can_ask_is_refused_in_a_line(address: str) -> None:
    assert server_in(address) is None
    with pytest.raises(ConfigError, match="is not the address of a Prometheus"):
        Prometheus(address)


@pytest.mark.parametrize(
    "address",
    [
        "http://10.0.0.10:9090",
        "https://prometheus.example.com/x/",
        "http://[fd00::1]:9090",
        "http://h",
        "http://prometheus_1.example.com.:9090",
    ],
)
def test_what_a_client_can_ask_is_taken(address: str) -> None:
    assert server_in(address) is not None
    Prometheus(address)


@contextmanager
def _answering(octets: bytes) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(octets)

        thread = Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    "octets",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\n\r\nno JSON",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n\r\n[]",
        b"HTTP/1.1 503 no\r\n\r\n",
        b'HTTP/1.1 200 OK\r\n\r\n{"status": "error", "data": {"result": [1]}}',
        b'HTTP/1.1 200 OK\r\n\r\n{"status": "success", "data": {"result": "none"}}',
    ],
)
def test_who_is_no_prometheus_is_told_in_a_line(octets: bytes) -> None:
    with _answering(octets) as address, pytest.raises(ApplianceError, match="does not answer"):
        Prometheus(address).has("up")


FOUND = b'HTTP/1.1 200 OK\r\n\r\n{"status": "success", "data": {"result": [1]}}'


def test_a_series_that_is_there_is_found() -> None:
    with _answering(FOUND) as address:
        assert Prometheus(address).has("up")


@pytest.mark.parametrize("bound", ["LONGEST", "ANSWER_S"])
def test_an_answer_without_an_end_is_none(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, bound, 0)
    with _answering(FOUND) as address, pytest.raises(ApplianceError, match="is incomplete"):
        Prometheus(address).has("up")


def test_nobody_is_asked_elsewhere() -> None:
    with _answering(FOUND) as other:
        moved = f"HTTP/1.1 302 Found\r\nLocation: {other}/x\r\nContent-Length: 0\r\n\r\n".encode()
        with _answering(moved) as address, pytest.raises(ApplianceError, match="302"):
            Prometheus(address).has("up")
        assert Prometheus(other).has("up")
