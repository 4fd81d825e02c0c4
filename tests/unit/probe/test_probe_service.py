"""A port above 1023 is whoever's was there first: what a person's program answers there is no word of a service."""

import os
import socket
import subprocess  # noqa: TID251 - a server that runs on
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from appliance.engine.look.answer_limits import LONGEST, LONGEST_BESIDE
from appliance.probe import collect, sockets
from appliance.probe.ask import Ask
from appliance.stages.kubernetes.collect import cluster
from appliance.stages.observe import collect as observe
from appliance.stages.slurm.collect.slurm import nodes

Grow = Callable[[dict[str, Any]], str]
SERVES = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    wire, _ = server.accept()
    wire.recv(4096)
    wire.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\nok")
    wire.close()
"""
AS = ("setpriv", "--reuid=4321", "--regid=4321", "--clear-groups")


@contextmanager
def _served(*become: str) -> Iterator[tuple[str, int]]:
    words = [*become, sys.executable if not become else "/usr/bin/python3", "-c", SERVES]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield "127.0.0.1", int(server.stdout.readline())
        finally:
            server.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user here")
def test_a_persons_program_is_no_service(grow: Grow) -> None:
    with _served(*AS) as address:
        with (
            pytest.raises(sockets.Stranger, match="account 4321 holds port"),
            sockets.connected(address, 3.0),
        ):
            pass
        assert cluster.health(address) == f"does not answer: account 4321 holds port {address[1]}"
        assert cluster.etcd(address) is None
        ask = Ask({}, grow({}))
        assert observe.collect(ask, address) == {"observe": None}
        assert ask.errors == {}
        grow({"/usr/bin/prometheus": {"when": {}}})
        observe.collect(ask, address)
        assert "; account 4321 holds port" in ask.errors["observe"]


LISTENS = """
import socket, sys, time
kind = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
held = socket.socket(kind)
if kind == socket.AF_INET6:
    held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(sys.argv[3]))
held.bind((sys.argv[1], int(sys.argv[2])))
held.listen()
print("ready", flush=True)
time.sleep(60)
"""


@contextmanager
def _held(place: str, port: int, only_v6: int = 1) -> Iterator[None]:
    words = [*AS, "/usr/bin/python3", "-c", LISTENS, place, str(port), str(only_v6)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            assert server.stdout.readline() == "ready\n"
            yield
        finally:
            server.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user here")
@pytest.mark.parametrize("place", ["::1", "127.0.0.2", "::", "::ffff:127.0.0.2"])
def test_a_person_on_another_address_hides_no_service(place: str) -> None:
    """The kernel leads no connection to them, so that health and deployments must go on."""
    with _served() as address, _held(place, address[1], int("." not in place)):
        assert cluster.health(address) == "ok"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user here")
@pytest.mark.parametrize(
    ("place", "only_v6"), [("127.0.0.1", 0), ("0.0.0.0", 0), ("::", 0), ("::ffff:127.0.0.1", 0)]
)
def test_a_person_who_takes_the_connection_is_a_stranger(place: str, only_v6: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        _held(place, port, only_v6),
        pytest.raises(sockets.Stranger, match="account 4321"),
        sockets.connected(("127.0.0.1", port), 3.0),
    ):
        pass


def test_a_service_is_asked() -> None:
    with _served() as address:
        assert cluster.health(address) == "ok"


def test_who_took_the_port_for_a_moment_is_no_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """It listened before the question, or after it, and not both times."""
    for seen in ([{0}, set()], [set(), {0}], [{0}, {4321}]):
        told = iter(seen)
        monkeypatch.setattr(sockets, "_owners", lambda *_, told=told: next(told))
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            pytest.raises(ConnectionRefusedError),
            sockets.connected(server.getsockname(), 3.0),
        ):
            pass


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_kernel_and_its_tables_name_the_same_owner(family: socket.AddressFamily) -> None:
    place = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    table = "tcp6" if family == socket.AF_INET6 else "tcp"
    with socket.create_server((place, 0), family=family) as server:
        port = server.getsockname()[1]
        one = sockets.Listener(socket.inet_pton(family, place), port, os.geteuid())
        assert one in [found._replace(only_v6=False) for found in sockets._asked(family)]
        assert one in sockets._listed(table)
    assert port not in {found.port for found in sockets._asked(family)}


def test_a_kernel_that_cannot_be_asked_has_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "BY_FAMILY", 99)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        own = sockets.Listener(socket.inet_aton("127.0.0.1"), port, os.geteuid())
        assert own in sockets._asked(socket.AF_INET)


class _Area:
    def __init__(self, area: str, answer: dict[str, Any]) -> None:
        self.area, self.answer = area, answer


@pytest.mark.parametrize("text", ["x" * 900, "\x01" * 150, "ü" * 900])
def test_an_area_that_says_too_much_costs_itself_and_not_the_host(text: str) -> None:
    areas = [_Area("os", {"os": {"id": "debian"}}), _Area("slurm", {"slurm": [text] * 5000})]
    ask = Ask({})
    left = collect.within(ask, areas)  # type: ignore[arg-type]
    assert [one.area for one in left] == ["os"]
    assert "exceed the size limit of the area" in ask.errors["slurm"]


def test_what_is_within_the_bound_is_within_the_engines() -> None:
    assert collect.LONGEST < LONGEST
    assert collect.LONGEST_BESIDE < LONGEST_BESIDE


def test_a_reason_of_a_node_takes_no_more_than_its_room() -> None:
    line = f"NodeName=gpu-1 CPUTot=8 RealMemory=1000 State=IDLE Reason={'A' * 200_000}"
    assert len(nodes(line)[0]["reason"]) <= 1000
