"""Role observe: who may connect to what has no login, by the rendered table in network namespaces of a kernel."""

import json
import os
import shutil
import subprocess  # noqa: TID251 - namespaces of the kernel, with which the adapter has nothing to do
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.rendering import rendered

TEMPLATE = "observe/etc/nftables.d/appliance-observe.nft.j2"
TABLE = "table inet appliance_observe"
HEAD, GPU, SECOND = "10.9.0.1", "10.9.0.2", "10.9.0.3"
FABRIC = "10.9.1.2"
"""Another address of the GPU host."""
ROOT, SERVICE, ADMIN, GRAFANA, USER, NOBODY = 0, 1, 5, 33, 1500, 65534
NAMES = {"__observe_account": "daemon", "observe_readers": ["games"]}
"""Accounts of every Debian, in place of prometheus and of an admin."""
TARGETS = [
    {"instance": "head", "address": f"{HEAD}:9100", "roles": "control"},
    {"instance": "gpu-1", "address": f"{GPU}:9100", "roles": "gpu"},
]
PROGRAM = """
import json, os, socket, sys, time
for uid, host, port in json.loads(sys.argv[1]):
    if os.fork() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, port))
        server.listen()
        os.write(1, b".")
        time.sleep(600)
sys.stdin.read()
"""
"""Listens as the accounts it is given, until its input ends."""
ASK = """
import json, os, socket, sys
"".encode("idna")  # before the libraries are out of reach
said = []
for uid, source, host, port in json.loads(sys.argv[1]):
    out, into = os.pipe()
    if os.fork() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        wire = socket.socket()
        wire.settimeout(0.5)
        wire.bind((source, 0))
        try:
            wire.connect((host, port))
            os.write(into, b"true")
        except (ConnectionRefusedError, TimeoutError):
            os.write(into, b"false")
        os._exit(0)
    os.close(into)
    said.append(json.loads(os.read(out, 9)))
print(json.dumps(said))
"""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("nft") or not shutil.which("ip"),
    reason="needs root, nft and ip",
)


def run(*argv: str, input: str = "") -> str:
    return subprocess.run(argv, input=input, text=True, check=True, capture_output=True).stdout


def table(host: str, **more: object) -> str:
    head = host == "head"
    given: dict[str, Any] = {
        "observe_address": HEAD if head else GPU,
        "observe_server": head,
        "observe_prometheus": HEAD,
        "observe_ports": [9090, 9093, 9100, 9400, 2381] if head else [9100, 9400, 5555],
        "observe_askers": [SECOND] if head else [],
        "observe_targets": TARGETS if head else [],
        "observe_open_to": [],
        "observe_grafana": False,
        **NAMES,
        **more,
    }
    return rendered(("observe",), host, given)[TEMPLATE]


@dataclass(frozen=True)
class Rack:
    """Namespaces of the head, a GPU host, a second control host, and a pod on the head."""

    names: dict[str, str]

    def inside(self, host: str, *argv: str, input: str = "") -> str:
        return run("ip", "netns", "exec", self.names[host], *argv, input=input)

    def let_in(self, host: str, *attempts: tuple[int, str, int], source: str = "") -> list[bool]:
        listed = json.dumps([(uid, source, to, port) for uid, to, port in attempts])
        said: list[bool] = json.loads(self.inside(host, sys.executable, "-ISc", ASK, listed))
        return said


LISTENING = {
    "head": [
        (SERVICE, "127.0.0.1", 9090),
        (ROOT, HEAD, 9090),
        (SERVICE, "127.0.0.1", 9093),
        (SERVICE, HEAD, 9100),
        (ROOT, "127.0.0.1", 2381),
    ],
    "gpu": [(SERVICE, GPU, 9100), (ROOT, "0.0.0.0", 9400), (ROOT, "127.0.0.1", 5555)],
}


def _wires(names: dict[str, str]) -> None:
    for name in names.values():
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
    head = names["head"]
    run("ip", "-n", head, "link", "add", "br0", "type", "bridge")
    run("ip", "-n", head, "addr", "add", f"{HEAD}/23", "dev", "br0")
    run("ip", "-n", head, "link", "set", "br0", "up")
    for name, address in (("gpu", GPU), ("second", SECOND)):
        other = names[name]
        run("ip", "-n", head, "link", "add", name, "type", "veth", "peer", "eth0", "netns", other)
        run("ip", "-n", head, "link", "set", name, "master", "br0", "up")
        run("ip", "-n", other, "addr", "add", f"{address}/23", "dev", "eth0")
        run("ip", "-n", other, "link", "set", "eth0", "up")
    run("ip", "-n", names["gpu"], "addr", "add", f"{FABRIC}/32", "dev", "lo")
    run("ip", "-n", head, "route", "add", FABRIC, "via", GPU)
    pod = names["pod"]
    run("ip", "-n", head, "link", "add", "pod", "type", "veth", "peer", "eth0", "netns", pod)
    run("ip", "-n", head, "addr", "add", "10.244.0.1/24", "dev", "pod")
    run("ip", "-n", head, "link", "set", "pod", "up")
    run("ip", "-n", pod, "addr", "add", "10.244.0.2/24", "dev", "eth0")
    run("ip", "-n", pod, "link", "set", "eth0", "up")
    run("ip", "-n", pod, "route", "add", "default", "via", "10.244.0.1")
    enter = ("ip", "netns", "exec", head)
    run(*enter, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    # A switch between the hosts does not filter, as br_netfilter would have this bridge do.
    bridged = "/proc/sys/net/bridge/bridge-nf-call-iptables"
    run(*enter, "sh", "-c", f"if test -e {bridged}; then echo 0 > {bridged}; fi")
    masked = "table ip pods { chain out { type nat hook postrouting priority srcnat; ip saddr 10.244.0.0/24 masquerade; }; }"
    run(*enter, "nft", "-f", "-", input=masked)


@pytest.fixture(scope="module")
def rack() -> Iterator[Rack]:
    names = {name: f"ob{os.getpid()}-{name}" for name in ("head", "gpu", "second", "pod")}
    servers = []
    try:
        _wires(names)
        for host, listed in LISTENING.items():
            argv = ("ip", "netns", "exec", names[host], sys.executable, "-ISc", PROGRAM)
            server = subprocess.Popen(
                (*argv, json.dumps(listed)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            servers.append(server)
            assert server.stdout is not None
            assert server.stdout.read(len(listed)) == b"." * len(listed)
        found = Rack(names)
        found.inside("head", "nft", "-f", "-", input=table("head"))
        found.inside("gpu", "nft", "-f", "-", input=table("gpu"))
        yield found
    finally:
        for server in servers:
            os.killpg(server.pid, 9)
            server.communicate()
        for name in names.values():
            subprocess.run(("ip", "netns", "del", name), check=False, capture_output=True)


OPEN_ON_HEAD = [
    *((HEAD, 9090), ("127.0.0.1", 9090), ("127.0.0.1", 9093)),
    *((HEAD, 9100), (GPU, 9100), (GPU, 9400), ("127.0.0.1", 2381)),
]
"""What Prometheus and its host's root ask."""


@pytest.mark.parametrize("uid", [ROOT, SERVICE, ADMIN])
def test_services_root_and_admins_are_let_in_on_the_head(rack: Rack, uid: int) -> None:
    asked = [(uid, to, port) for to, port in OPEN_ON_HEAD]
    assert rack.let_in("head", *asked) == [True] * len(asked)


@pytest.mark.parametrize("uid", [USER, NOBODY, GRAFANA])
def test_nobody_else_is_let_in_on_the_head_whatever_the_way(rack: Rack, uid: int) -> None:
    ways = [*OPEN_ON_HEAD, ("127.0.0.9", 9090), ("0.0.0.0", 9090)]
    assert not any(rack.let_in("head", *((uid, to, port) for to, port in ways)))
    # From the address that exporters open to, at an address that the head does not know of.
    assert not any(rack.let_in("head", (uid, FABRIC, 9400), source=HEAD))


def test_grafana_is_let_in_where_it_is_installed_and_to_prometheus_alone(rack: Rack) -> None:
    text = table("head", observe_grafana=True).replace('"grafana"', '"www-data"')
    rack.inside("head", "nft", "-f", "-", input=text)
    asked = [(GRAFANA, "127.0.0.1", port) for port in (9090, 9093, 2381)]
    found = rack.let_in("head", *asked)
    rack.inside("head", "nft", "-f", "-", input=table("head"))
    assert found == [True, False, False]


def test_users_of_a_gpu_host_ask_neither_its_exporters_nor_the_head(rack: Rack) -> None:
    own = [(GPU, 9100), (GPU, 9400), ("127.0.0.1", 9400), ("127.0.0.1", 5555)]
    ways = [*own, (HEAD, 9090), (HEAD, 9100)]
    assert not any(rack.let_in("gpu", *((USER, to, port) for to, port in ways)))
    # Its root may ask about the host itself, and nothing of others.
    found = rack.let_in("gpu", *((ROOT, to, port) for to, port in ways))
    assert found == [*[True] * len(own), False, False]


def test_another_control_host_asks_prometheus_and_no_exporter(rack: Rack) -> None:
    ways = [(HEAD, 9090), (HEAD, 9100), (GPU, 9100), (GPU, 9400)]
    assert rack.let_in("second", *((ROOT, *way) for way in ways)) == [True, False, False, False]


def test_another_monitoring_is_let_in_where_the_site_says_so(rack: Rack) -> None:
    asked = [(USER, HEAD, 9090), (USER, GPU, 9100), (USER, HEAD, 9093)]
    assert not any(rack.let_in("pod", *asked))
    open_to = [f"{SECOND}/32", "10.9.0.0/30"]
    text = {
        name: table(name, observe_open_to=open_to, observe_askers=[]) for name in ("head", "gpu")
    }
    for name in text:
        rack.inside(name, "nft", "-f", "-", input=text[name])
    found = rack.let_in("second", *asked)
    for name in text:
        rack.inside(name, "nft", "-f", "-", input=table(name))
    assert found == [True, True, False]


def test_a_pod_does_not_pass_for_its_host(rack: Rack) -> None:
    ways = [(HEAD, 9090), (HEAD, 9100), (GPU, 9100), (GPU, 9400)]
    assert not any(rack.let_in("pod", *((ROOT, *way) for way in ways)))


def test_a_user_who_takes_a_port_answers_nobody(rack: Rack) -> None:
    name = ("ip", "netns", "exec", rack.names["second"])
    run(*name, "nft", "-f", "-", input=table("head", observe_address=SECOND))
    argv = (*name, sys.executable, "-ISc", PROGRAM, json.dumps([(USER, "127.0.0.1", 9093)]))
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as server:
        assert server.stdout is not None
        assert server.stdout.read(1) == b"."
        found = rack.let_in("second", (ROOT, "127.0.0.1", 9093))
        run(*name, "nft", "delete", TABLE.split()[0], "inet", "appliance_observe")
        without = rack.let_in("second", (ROOT, "127.0.0.1", 9093))
        os.killpg(server.pid, 9)
    assert (found, without) == ([False], [True])


BY_ROOT = [("127.0.0.1", 9400), (SECOND, 9400), ("127.0.0.1", 2381)]


@pytest.mark.parametrize(
    ("uid", "answers"), [(ROOT, True), (USER, False), (SERVICE, False), (NOBODY, False)]
)
def test_nobody_but_root_answers_while_an_exporter_or_etcd_is_down(
    rack: Rack, uid: int, *, answers: bool
) -> None:
    name = ("ip", "netns", "exec", rack.names["second"])
    run(*name, "nft", "-f", "-", input=table("head", observe_address=SECOND))
    listed = json.dumps([(uid, *way) for way in BY_ROOT])
    with subprocess.Popen(
        (*name, sys.executable, "-ISc", PROGRAM, listed),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.read(len(BY_ROOT)) == b"." * len(BY_ROOT)
        found = rack.let_in("second", *((ROOT, *way) for way in BY_ROOT))
        run(*name, "nft", "delete", TABLE.split()[0], "inet", "appliance_observe")
        without = rack.let_in("second", *((ROOT, *way) for way in BY_ROOT))
        os.killpg(server.pid, 9)
    assert (found, without) == ([answers] * len(BY_ROOT), [True] * len(BY_ROOT))


def test_ports_that_are_not_served_here_are_nobodys_business() -> None:
    text = table("gpu", observe_ports=[9100])
    assert "skuid 0 accept" not in text
    assert "{ 2381, 9400 } meta skuid 0 accept" in table("head")
    assert "{ 5555, 9400 } meta skuid 0 accept" in table("gpu")
