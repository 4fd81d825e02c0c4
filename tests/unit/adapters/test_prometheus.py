"""A Prometheus is asked at an address that is one, and whatever answers there."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

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
    with pytest.raises(ConfigError, match="is no address of a Prometheus"):
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
    ],
)
def test_who_is_no_prometheus_is_told_in_a_line(octets: bytes) -> None:
    with _answering(octets) as address, pytest.raises(ApplianceError, match="does not answer"):
        Prometheus(address).has("up")
