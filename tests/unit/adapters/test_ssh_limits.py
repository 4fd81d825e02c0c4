"""Hosts that send more than SSH or an answer needs, before and after the login: read up to a bound, then let go."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import paramiko  # noqa: TID251 - speaks as the other end of the door
import pytest

from appliance.adapters import ssh_limits
from appliance.adapters.remote import Endpoint
from appliance.adapters.ssh import SshRemote, host_key_fingerprint
from appliance.errors import ConnectionFailed, DeadlineExceeded
from tests.support.ssh_server import SshServer, _Login, serving

ID = b"SSH-2.0-OpenSSH_9.2\r\n"
MANY = 64 << 20
"""Bytes that the hostile end would send."""


class Talker:
    """Sends ``first`` and then ``again`` until it is not listened to; ``sent``: how many bytes went."""

    def __init__(self, first: bytes, again: bytes) -> None:
        self.sent = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._talk, args=(first, again), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Waits until it is through."""
        self._thread.join(timeout=20)
        self._server.close()
        assert not self._thread.is_alive()

    def _talk(self, first: bytes, again: bytes) -> None:
        with self._server.accept()[0] as sock, suppress(OSError):
            # What lies in the kernel was not read by anybody: little of it, so that the count says something.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
            sock.settimeout(10)
            sock.sendall(first)
            while self.sent < MANY:
                self.sent += sock.send(again)


BEFORE_LOGIN = {
    "a packet of 2 GiB": (ID + (0x7FFFFFFC).to_bytes(4, "big") + bytes(4), bytes(1 << 16)),
    "a packet of 1 MiB": (ID + (4 + (1 << 20)).to_bytes(4, "big") + bytes(4), bytes(1 << 16)),
    "a line without end": (b"", b"x" * (1 << 16)),
    "lines without end": (b"", b"a line\r\n" * 8192),
    "a long word for its name": (b"SSH-9-" + b"x" * 8000 + b"\r\n", bytes(1 << 16)),
    "packets to be ignored": (ID, (bytes([0, 0, 0, 12, 10, 2]) + bytes(10)) * 4096),
    "packets of no known kind": (ID, (bytes([0, 0, 0, 12, 10, 255]) + bytes(10)) * 4096),
    "a packet shorter than its head": (ID, bytes(1 << 16)),
}


@pytest.mark.parametrize("case", BEFORE_LOGIN)
def test_host_that_talks_without_end_before_the_login_is_let_go(case: str) -> None:
    talker = Talker(*BEFORE_LOGIN[case])
    try:
        with pytest.raises(ConnectionFailed) as refusal:
            host_key_fingerprint("127.0.0.1", talker.port)
    finally:
        talker.close()
    assert len(refusal.value.message) < 500
    # Buffers of the kernel on both ends hold a few MiB.
    assert talker.sent < 16 << 20


@contextmanager
def logged_in(
    tmp_path: Path, work: Callable[[SshServer, paramiko.Channel], None]
) -> Iterator[SshRemote]:
    """A host that does ``work`` in place of any command."""
    with serving(tmp_path) as server:

        def instead(channel: paramiko.Channel, command: str) -> None:
            with suppress(OSError, EOFError, paramiko.SSHException):
                work(server, channel)

        server.work = instead  # type: ignore[method-assign]
        known, key = tmp_path / "known_hosts", tmp_path / "key"
        server.pin(known)
        server.give_key(key)
        endpoint = Endpoint("gpu-1", "127.0.0.1", server.port, "root", key, known, False)
        with SshRemote([endpoint]) as remote:
            yield remote


def _end(channel: paramiko.Channel) -> Any:
    return channel.transport


def _packet(channel: paramiko.Channel, kind: int, size: int) -> None:
    message = paramiko.Message()
    message.add_byte(bytes([kind]))
    message.add_bytes(bytes(size))
    _end(channel)._send_message(message)


def _data(channel: paramiko.Channel, size: int, *, stderr: bool = False) -> None:
    """As much as a message holds, whatever window there is."""
    message = paramiko.Message()
    message.add_byte(bytes([95 if stderr else 94]))
    message.add_int(channel.remote_chanid)
    if stderr:
        message.add_int(1)
    message.add_string(bytes(size))
    _end(channel)._send_message(message)


def refused(tmp_path: Path, work: Callable[[paramiko.Channel], None]) -> tuple[str, int]:
    """What is said of the host, and how often it did its work before it was let go."""
    done = [0]
    over = threading.Event()

    def again(server: SshServer, channel: paramiko.Channel) -> None:
        try:
            # By then the command is under way: its request was answered.
            channel.makefile("rb").read()
            while done[0] < 400_000 and _end(channel).is_active():
                work(channel)
                done[0] += 1
        finally:
            over.set()

    with logged_in(tmp_path, again) as remote:
        with pytest.raises(ConnectionFailed) as refusal:
            remote.run("gpu-1", ["true"], timeout=60)
        assert over.wait(30)
    text = refusal.value.message
    assert refusal.value.host == "gpu-1"
    assert "\n" not in text
    return text, done[0]


def test_packet_that_no_channel_takes_is_refused_after_the_login(tmp_path: Path) -> None:
    said, _ = refused(tmp_path, lambda channel: _packet(channel, 2, 32 << 20))
    assert "announced a packet of" in said


def test_packets_to_be_ignored_end_with_the_bound_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_limits, "PER_COMMAND", (4 << 20, 100_000))
    said, count = refused(tmp_path, lambda channel: _packet(channel, 2, 32 << 10))
    assert "sent more than" in said
    assert count < 1_000


def test_small_packets_end_with_the_bound_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_limits, "PER_COMMAND", (4 << 20, 500))
    said, _ = refused(tmp_path, lambda channel: _packet(channel, 2, 1))
    assert "more packets than" in said


@pytest.mark.parametrize("stderr", [False, True])
def test_answer_that_does_not_keep_to_its_window_is_not_piled_up(
    stderr: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_limits, "WINDOW", 1 << 16)
    monkeypatch.setattr(ssh_limits, "LARGEST_PACKET", 40_000)
    said, _ = refused(tmp_path, lambda channel: _data(channel, 32 << 10, stderr=stderr))
    assert "window" in said or "wrote more than 16 MiB" in said or "sent more than" in said


def test_host_that_asks_for_new_keys_again_and_again_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_limits, "KEY_EXCHANGES", 4)
    said, count = refused(tmp_path, lambda channel: _end(channel).renegotiate_keys())
    assert "new keys too often" in said
    assert count <= 4


def test_command_after_command_has_its_own_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_limits, "PER_COMMAND", (200_000, 1_000))

    def answer(server: SshServer, channel: paramiko.Channel) -> None:
        channel.makefile("rb").read()
        channel.sendall(b"x" * 100_000)
        channel.send_exit_status(0)
        channel.close()

    with logged_in(tmp_path, answer) as remote:
        for _ in range(6):
            assert len(remote.run("gpu-1", ["true"]).stdout) == 100_000


def test_host_that_hangs_up_is_told_at_once(tmp_path: Path) -> None:
    with (
        logged_in(tmp_path, lambda server, channel: _end(channel).close()) as remote,
        pytest.raises(ConnectionFailed, match="connection lost"),
    ):
        remote.run("gpu-1", ["true"], timeout=3600)


def test_host_that_never_starts_the_command_is_held_to_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(_Login, "check_channel_exec_request", lambda *_: over.wait(20) and False)
    with logged_in(tmp_path, lambda server, channel: None) as remote:
        try:
            with pytest.raises(DeadlineExceeded, match=r"did not start within 0\.2 s"):
                remote.run("gpu-1", ["true"], timeout=0.2)
        finally:
            over.set()
