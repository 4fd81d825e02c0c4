"""A limit of open files: raised where this user may, and told as what it is where it is met, never as a host's fault."""

import errno
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko  # noqa: TID251 - refuses here as the kernel does
import pytest

from appliance.adapters import open_files
from appliance.adapters.remote import Endpoint
from appliance.adapters.ssh import SshRemote, host_key_fingerprint
from appliance.errors import OutOfFiles
from tests.support.ssh_server import SshServer, serving

FULL = OSError(errno.EMFILE, "Too many open files")


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """Of this process; as they were after the test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with serving(tmp_path) as running:
        running.give_key(tmp_path / "id")
        running.pin(tmp_path / "known_hosts")
        yield running


def remote(server: SshServer) -> SshRemote:
    home = server.home
    at = (server.address, server.port, "root", home / "id", home / "known_hosts", False)
    return SshRemote([Endpoint("gpu-1", *at)])


def _open() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_the_limit_is_raised_to_what_is_enough(
    limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "ENOUGH", 512)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    open_files.allow()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (512, limits[1])


def test_the_limit_is_never_lowered_and_never_beyond_what_is_allowed(
    limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "ENOUGH", 16)
    open_files.allow()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(open_files, "ENOUGH", 512)
    monkeypatch.setattr(resource, "getrlimit", lambda what: (64, 100))
    monkeypatch.setattr(resource, "setrlimit", lambda what, pair: told.append(pair))
    open_files.allow()
    assert told == [(100, 100)]


def test_a_host_that_could_not_be_asked_for_want_of_a_file_is_not_told_as_silent(
    server: SshServer, limits: tuple[int, int]
) -> None:
    with remote(server) as hosts:
        before = _open()
        hosts.run("gpu-1", ["true"])
        hosts.leave("gpu-1")
        # The server is a thread of this process: what it closes later would be below the limit, and free.
        deadline = time.monotonic() + 10
        while _open() > before and time.monotonic() < deadline:
            time.sleep(0.01)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
        with pytest.raises(OutOfFiles) as caught:
            hosts.run("gpu-1", ["true"])
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert hosts.run("gpu-1", ["echo", "here"]).stdout == "here\n"
    assert f"the limit of {free} open files" in caught.value.message
    assert "ulimit -n" in caught.value.hint
    assert "LimitNOFILE=" in caught.value.hint
    assert caught.value.host is None


def refuse(*_: object, **__: object) -> None:
    raise FULL


def refuse_hidden(*_: object, **__: object) -> None:
    try:
        raise FULL
    except OSError:
        raise paramiko.SSHException("no key could be read") from None


PLACES: dict[str, tuple[object, str, Callable[..., None]]] = {
    "known_hosts": (Path, "stat", refuse),
    "connection": (socket, "create_connection", refuse),
    "private key": (paramiko.SSHClient, "connect", refuse),
    "private key, told otherwise": (paramiko.SSHClient, "connect", refuse_hidden),
    "pipe of a command": (paramiko.Channel, "fileno", refuse),
}


@pytest.mark.parametrize("place", PLACES)
def test_it_is_told_the_same_wherever_it_is_met(
    place: str, server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, name, refusal = PLACES[place]
    server.slow = lambda command: True
    with remote(server) as hosts, monkeypatch.context() as patch:
        patch.setattr(where, name, refusal)
        with pytest.raises(OutOfFiles):
            hosts.run("gpu-1", ["true"])


def test_a_host_key_that_could_not_be_asked_for_is_not_told_as_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(OutOfFiles):
        host_key_fingerprint("10.0.0.1", 22)


def test_the_limit_of_the_whole_machine_has_another_remedy() -> None:
    told = open_files.refusal(OSError(errno.ENFILE, "Too many open files in system"))
    assert told is not None
    assert "fs.file-max" in told.message + told.hint


@pytest.mark.parametrize("error", [ConnectionRefusedError(errno.ECONNREFUSED, "x"), OSError("x")])
def test_what_a_host_refuses_is_not_told_as_a_limit(error: OSError) -> None:
    assert open_files.refusal(error) is None
