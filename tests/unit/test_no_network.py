"""Unit tests cannot reach another machine."""

import socket

import pytest

BLOCKED = "unit tests have no network"


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1"])
def test_a_connection_to_another_machine_is_refused(address: str) -> None:
    with pytest.raises(OSError, match=BLOCKED):
        socket.create_connection((address, 9), timeout=1)


def test_the_name_of_another_machine_is_not_resolved() -> None:
    with pytest.raises(OSError, match=BLOCKED):
        socket.getaddrinfo("example.org", 443)


def test_this_machine_is_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
