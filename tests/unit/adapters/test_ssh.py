"""What a user reads when a host cannot be reached, on sockets of this machine only."""

import io
import os
import socket
import threading
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import paramiko  # noqa: TID251 - makes keys
import pytest
from rich.console import Console

from appliance.adapters import ssh
from appliance.adapters.remote import Endpoint, known_hosts_name
from appliance.adapters.ssh import SshRemote
from appliance.engine.look.gather import gather
from appliance.errors import AnotherKey, ConnectionFailed
from appliance.models.result import CheckResult, Status
from appliance.report.console import findings_list
from appliance.report.findings import findings
from tests.support.ssh_server import SshServer, serving

ED25519 = "AAAAC3NzaC1lZDI1NTE5AAAAIPD3fvc9ojzzmnW5Gb2AQXUtwJVfPv6VeOMOMcXqRgOI"


def remote(tmp_path: Path, port: int, known_hosts: str = "") -> SshRemote:
    file = tmp_path / "known_hosts"
    file.write_text(known_hosts)
    endpoint = Endpoint("gpu-1", "127.0.0.1", port, "root", None, file, False)
    return SshRemote([endpoint], connect_timeout=1.0, banner_timeout=1.0)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A server that accepts and says nothing, as a frozen host does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def strict_port() -> Iterator[int]:
    """A server that offers a key exchange nobody here knows."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)

        def serve() -> None:
            with suppress(OSError):
                sock = server.accept()[0]
                with sock:
                    sock.sendall(b"SSH-2.0-strict\r\n" + _offer("sntrup1277-sha512"))
                    while sock.recv(4096):
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(timeout=6)


def _offer(exchange: str) -> bytes:
    """A packet SSH_MSG_KEXINIT (RFC 4253, 6 and 7.1); all but the key exchange is common."""
    lists = (exchange, "ssh-ed25519", *2 * ["aes128-ctr"], *2 * ["hmac-sha2-256"], *2 * ["none"])
    names = b"".join(len(n).to_bytes(4, "big") + n.encode() for n in (*lists, "", ""))
    payload = b"\x14" + bytes(16) + names + bytes(5)
    padding = 8 - (len(payload) + 5) % 8 + 8
    head = (len(payload) + padding + 1).to_bytes(4, "big") + bytes([padding])
    return head + payload + bytes(padding)


@pytest.fixture
def closing_port() -> Iterator[int]:
    """A server that hangs up at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)

        def serve() -> None:
            try:
                server.accept()[0].close()
            except OSError:
                return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(timeout=6)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_closed_port_is_named_with_its_remedy(tmp_path: Path) -> None:
    with remote(tmp_path, free_port()) as hosts, pytest.raises(ConnectionFailed) as caught:
        hosts.run("gpu-1", ["true"])
    assert "refuses connections on port" in caught.value.message
    assert "sshd" in caught.value.hint
    assert caught.value.host == "gpu-1"


def test_small_messages_do_not_wait_for_the_acknowledgement_of_others(silent_port: int) -> None:
    with ssh._dial("127.0.0.1", silent_port, 1.0) as sock:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_sshd_without_an_algorithm_in_common_is_no_host_that_hangs(
    tmp_path: Path, strict_port: int
) -> None:
    known = f"{known_hosts_name('127.0.0.1', strict_port)} ssh-ed25519 {ED25519}\n"
    with pytest.raises(ConnectionFailed) as caught, remote(tmp_path, strict_port, known) as hosts:
        hosts.run("gpu-1", ["true"])
    assert "no algorithm in common" in caught.value.message
    assert "curve25519-sha256@libssh.org" in caught.value.hint


@pytest.mark.parametrize(
    ("port", "message", "hint"),
    [
        ("silent_port", "SSH does not answer", "hangs"),
        ("closing_port", "sshd closes them at once", "sshd -t"),
    ],
)
def test_host_that_hangs_is_told_apart_from_one_that_is_off_and_logs_nothing(
    port: str,
    message: str,
    hint: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capfd: pytest.CaptureFixture[str],
) -> None:
    number: int = request.getfixturevalue(port)
    with remote(tmp_path, number) as hosts, pytest.raises(ConnectionFailed) as caught:
        hosts.reach("gpu-1")
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert capfd.readouterr().err == ""


def test_missing_known_hosts_asks_to_pin(tmp_path: Path) -> None:
    endpoint = Endpoint("gpu-1", "127.0.0.1", 22, "root", None, tmp_path / "none", False)
    with SshRemote([endpoint]) as hosts, pytest.raises(ConnectionFailed) as caught:
        hosts.run("gpu-1", ["true"])
    assert "appliance trust" in caught.value.hint


def test_known_hosts_brackets_only_other_ports() -> None:
    assert known_hosts_name("10.0.0.1", 22) == "10.0.0.1"
    assert known_hosts_name("10.0.0.1", 2222) == "[10.0.0.1]:2222"


def test_another_kind_of_key_is_not_told_as_the_same_key_changed(tmp_path: Path) -> None:
    pinned = paramiko.PKey.from_type_string("ssh-ed25519", b64decode(ED25519))
    endpoint = Endpoint("gpu-1", "127.0.0.1", 22, "root", None, tmp_path, False)
    shown = paramiko.ECDSAKey.generate()
    told = ssh._refusal(endpoint, paramiko.BadHostKeyException("gpu-1", shown, pinned))
    assert told.message == "shows an ecdsa host key, but an ed25519 key is pinned"
    assert "/etc/ssh/ssh_host_ed25519_key" in told.hint
    changed = paramiko.BadHostKeyException("gpu-1", shown, paramiko.ECDSAKey.generate())
    assert ssh._refusal(endpoint, changed).message.startswith("host key changed")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with serving(tmp_path) as running:
        running.give_key(tmp_path / "id")
        running.pin(tmp_path / "known_hosts")
        yield running


def remote_to(server: SshServer, *hosts: str) -> SshRemote:
    home = server.home
    at = (server.address, server.port, "root", home / "id", home / "known_hosts", False)
    return SshRemote([Endpoint(host, *at) for host in hosts or ("gpu-1",)])


def test_a_host_that_is_slow_to_let_in_is_no_host_that_hangs(server: SshServer) -> None:
    home = server.home
    at = (server.address, server.port, "root", home / "id", home / "known_hosts", False)
    server.channels = [0.6, 0.0, 9.0]
    with SshRemote([Endpoint("gpu-1", *at)], banner_timeout=0.3, login_timeout=5.0) as hosts:
        assert hosts.run("gpu-1", ["true"]).returncode == 0
        assert hosts.run("gpu-1", ["true"]).returncode == 0
        with pytest.raises(ConnectionFailed, match="no longer answers on its connection"):
            hosts.run("gpu-1", ["true"])


def test_a_client_is_given_the_keys_of_its_own_host_only(server: SshServer) -> None:
    file = server.home / "known_hosts"
    others = "".join(f"10.0.0.{n} ssh-ed25519 {ED25519}\n" for n in range(50))
    file.write_text(others + file.read_text())
    with remote_to(server) as hosts:
        assert hosts.run("gpu-1", ["echo", "here"]).stdout == "here\n"
        (connection,) = hosts._connections.values()
    assert connection.client.get_host_keys().keys() == [
        known_hosts_name(server.address, server.port)
    ]


@pytest.mark.parametrize(
    ("pinned", "said"),
    [
        ("{other} {kind} {key}", "has no pinned"),
        ("{name} {kind} {second}", "host key changed"),
        ("{name} ssh-ed25519 " + ED25519, "shows an ecdsa host key, but an ed25519 key is pinned"),
        ("{name} {kind} {key}\n@revoked {name} {kind} {second}", "known_hosts: line 2 is not"),
    ],
)
def test_a_host_whose_key_is_not_the_pinned_one_is_not_logged_in_to(
    pinned: str, said: str, server: SshServer
) -> None:
    words = {
        "name": known_hosts_name(server.address, server.port),
        "other": server.address,
        "kind": server.host_key.get_name(),
        "key": server.host_key.get_base64(),
        "second": paramiko.ECDSAKey.generate().get_base64(),
    }
    (server.home / "known_hosts").write_text(pinned.format(**words))
    with remote_to(server) as hosts, pytest.raises(ConnectionFailed) as caught:
        hosts.run("gpu-1", ["true"])
    assert said in caught.value.message
    assert isinstance(caught.value, AnotherKey) is ("host key" in said)
    assert server.commands == []


def test_of_connections_without_work_those_used_last_are_kept(
    server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "KEPT", 2)
    with remote_to(server, "a", "b", "c") as hosts:
        for host in ("a", "b", "a"):
            hosts.run(host, ["true"])
        second = hosts._connections["b"].transport
        hosts.run("c", ["true"])
        assert list(hosts._connections) == ["a", "c"]
        assert not second.is_active()
        assert hosts.run("b", ["echo", "again"]).stdout == "again\n"
        assert list(hosts._connections) == ["c", "b"]


def test_a_connection_with_work_stays_whatever_else_is_asked(
    server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "KEPT", 0)
    gate = server.home / "gate"
    os.mkfifo(gate)
    with remote_to(server, "busy", "idle") as hosts, ThreadPoolExecutor() as pool:
        answer = pool.submit(hosts.run, "busy", ["cat", str(gate)])
        with gate.open("w") as opened:
            hosts.run("idle", ["true"])
            hosts.leave("busy")
            assert list(hosts._connections) == ["busy"]
            opened.write("through")
        assert answer.result().stdout == "through"
        assert not hosts._connections


def test_commands_side_by_side_share_the_connection(server: SshServer) -> None:
    gate = server.home / "gate"
    os.mkfifo(gate)
    with remote_to(server) as hosts, ThreadPoolExecutor() as pool:
        answer = pool.submit(hosts.run, "gpu-1", ["cat", str(gate)])
        with gate.open("w"):
            (connection,) = hosts._connections.values()
            hosts.run("gpu-1", ["true"])
            assert connection.users == 1
        answer.result()
        assert connection.users == 0
        assert list(hosts._connections.values()) == [connection]


@pytest.mark.parametrize("lost", [False, True])
def test_a_host_that_was_left_or_lost_is_connected_to_anew(lost: bool, server: SshServer) -> None:
    with remote_to(server) as hosts:
        hosts.run("gpu-1", ["true"])
        (connection,) = hosts._connections.values()
        if lost:
            connection.client.close()
        else:
            hosts.leave("gpu-1")
        assert not connection.transport.is_active()
        assert hosts.run("gpu-1", ["echo", "again"]).stdout == "again\n"


def test_a_host_that_was_never_asked_can_be_left(server: SshServer) -> None:
    with remote_to(server) as hosts:
        hosts.leave("gpu-1")
        assert server.commands == []


@pytest.fixture
def everywhere(tmp_path: Path) -> Iterator[SshServer]:
    """A server on every address of this machine."""
    with serving(tmp_path, "0.0.0.0") as running:
        running.give_key(tmp_path / "id")
        yield running


def shown_silent(server: SshServer, port: int, pinned: str) -> str:
    """What a terminal shows of 40 hosts at addresses of their own that do not answer."""
    addresses = {f"gpu-{n}": f"127.0.1.{n}" for n in range(1, 41)}
    file = server.home / "known_hosts"
    lines = [f"{known_hosts_name(a, port)} {pinned}\n" for a in addresses.values() if pinned]
    file.write_text("".join(lines))
    endpoints = [
        Endpoint(host, address, port, "root", server.home / "id", file, False)
        for host, address in addresses.items()
    ]
    with SshRemote(endpoints, connect_timeout=5.0, banner_timeout=5.0) as hosts:
        silent = gather(hosts, {host: {} for host in addresses}).unanswered
    results = [
        CheckResult(id="host.reachable", target=h, status=Status.FAIL, cause=u.cause, fix=u.fix)
        for h, u in silent.items()
    ]
    console = Console(file=io.StringIO(), width=200)
    findings_list(console, findings(results))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("trouble", ["refused", "not pinned"])
def test_hosts_that_are_silent_for_one_reason_are_told_in_one_line(
    trouble: str, everywhere: SshServer
) -> None:
    host_key = f"{everywhere.host_key.get_name()} {everywhere.host_key.get_base64()}"
    if trouble == "refused":
        told = shown_silent(everywhere, free_port(), host_key)
        assert "refuses connections on port" in told
    else:
        told = shown_silent(everywhere, everywhere.port, "")
        assert "has no pinned" in told
    (line,) = [line for line in told.splitlines() if "host.reachable" in line]
    assert "gpu-[1-40]" in line


@pytest.mark.parametrize("error", [TimeoutError("timed out"), OSError(113, "No route to host")])
def test_where_nothing_answers_the_address_is_not_part_of_the_reason(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", fail)
    told = set()
    for address in ("10.0.0.1", "10.0.0.2"):
        with pytest.raises(ConnectionFailed) as caught:
            ssh.host_key_fingerprint(address, 22)
        told.add((caught.value.message, caught.value.hint))
    assert len(told) == 1


@pytest.mark.parametrize(
    "error",
    [paramiko.AuthenticationException("no"), paramiko.SSHException("no banner"), EOFError()],
)
def test_where_ssh_fails_the_address_is_not_part_of_the_reason(
    error: Exception, tmp_path: Path
) -> None:
    told = set()
    for host, address in (("gpu-1", "10.0.0.1"), ("gpu-2", "10.0.0.2")):
        endpoint = Endpoint(host, address, 22, "root", tmp_path / "id", tmp_path, False)
        failure = ssh._refusal(endpoint, error)
        assert failure.host == host
        told.add((failure.message, failure.hint))
    assert len(told) == 1


def test_a_host_that_sends_no_version_hangs_and_one_that_does_loses_packets(
    tmp_path: Path,
) -> None:
    endpoint = Endpoint("gpu-1", "10.0.0.1", 22, "root", tmp_path / "id", tmp_path, False)
    error = paramiko.SSHException("No existing session")
    assert "key exchange" in ssh._refusal(endpoint, error, greeted=True).message
    hangs = ssh._refusal(endpoint, error, greeted=False)
    assert "SSH does not answer" in hangs.message
    assert "console hangs" in hangs.hint
