"""More hosts than this process may hold files open: all are asked, or the limit is named; none is called silent for it."""

import json
import os
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko  # noqa: TID251 - what is slow of it is replaced here: the handshake
import pytest

from appliance.adapters import ssh
from appliance.adapters.remote import Endpoint
from appliance.adapters.ssh import SshRemote
from appliance.engine.look.gather import gather
from appliance.errors import OutOfFiles
from tests.support.facts import facts_of

HOSTS = 1500
LIMIT = 1024
ANSWER = json.dumps(facts_of("any").model_dump(mode="json")).encode()


class Channel:
    """One command at work: it has a pipe, as paramiko's has once it is polled, and answers at once."""

    closed, eof_received, status_event = False, True, threading.Event()

    def __init__(self) -> None:
        self._answer = ANSWER
        self._pipe: tuple[int, ...] = ()

    def fileno(self) -> int:
        self._pipe = os.pipe()
        return self._pipe[0]

    remote_chanid = 0

    @property
    def transport(self) -> "Channel":
        return self

    @property
    def event(self) -> threading.Event:
        done = threading.Event()
        done.set()
        return done

    def _event_pending(self) -> None:
        return None

    def _wait_for_event(self) -> None:
        return None

    def _send_user_message(self, message: paramiko.Message) -> None:
        assert b"python3" in message.asbytes()

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0

    def send(self, data: bytes) -> int:
        return len(data)

    def shutdown_write(self) -> None:
        return None

    def recv_ready(self) -> bool:
        return bool(self._answer)

    def recv_stderr_ready(self) -> bool:
        return False

    def recv(self, size: int) -> bytes:
        said, self._answer = self._answer[:size], self._answer[size:]
        return said

    def exit_status_ready(self) -> bool:
        return True

    def recv_exit_status(self) -> int:
        return 0

    def close(self) -> None:
        for end in self._pipe:
            os.close(end)
        self._pipe = ()


class Client:
    """A login that succeeded, over a connection that is real."""

    def __init__(self) -> None:
        self._keys = paramiko.HostKeys()
        self._sock: socket.socket | None = None

    def get_host_keys(self) -> paramiko.HostKeys:
        return self._keys

    def set_missing_host_key_policy(self, policy: object) -> None:
        return None

    def connect(self, address: str, *, sock: socket.socket, **_: object) -> None:
        self._sock = sock

    def get_transport(self) -> "Client":
        return self

    def allow(self, commands: int) -> None:
        assert commands > 0

    def is_active(self) -> bool:
        return self._sock is not None

    def open_session(self, timeout: float) -> Channel:
        return Channel()

    def close(self) -> None:
        if self._sock:
            self._sock.close()
        self._sock = None


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshRemote]:
    """Their connections wait in one queue of the kernel, so that they hold descriptors on this side only."""
    (tmp_path / "known_hosts").touch()
    monkeypatch.setattr(paramiko, "SSHClient", Client)
    with socket.create_server(("127.0.0.1", 0), backlog=HOSTS + 1) as server:
        address, port = server.getsockname()
        at = (address, port, "root", None, tmp_path / "known_hosts", False)
        with SshRemote([Endpoint(f"gpu-{n}", *at) for n in range(HOSTS)]) as remote:
            yield remote


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """Debian's own for who logs in; as it was after the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_more_hosts_than_descriptors_are_all_asked(hosts: SshRemote) -> None:
    found = gather(hosts, {f"gpu-{n}": {} for n in range(HOSTS)})
    assert not found.unanswered
    assert list(found.facts) == [f"gpu-{n}" for n in range(HOSTS)]


def test_where_connections_stay_open_the_limit_is_named_and_no_host(
    hosts: SshRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "KEPT", HOSTS)
    monkeypatch.setattr(SshRemote, "leave", lambda self, host: None)
    with pytest.raises(OutOfFiles) as caught:
        gather(hosts, {f"gpu-{n}": {} for n in range(HOSTS)})
    assert f"the limit of {LIMIT} open files" in caught.value.message
    assert caught.value.host is None
