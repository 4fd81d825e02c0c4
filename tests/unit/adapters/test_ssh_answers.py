"""What a host may write and how long it may take, on a channel that does as a hostile host likes; time is the test's own."""

import fcntl
import os
import resource
import time
from collections.abc import Iterator
from typing import Any

import pytest

from appliance.adapters import ssh
from appliance.adapters.ssh import _converse
from appliance.config.secrets import Redactor
from appliance.errors import ConnectionFailed, DeadlineExceeded
from appliance.text import LONGEST

PATIENCE = 45.0
BEYOND_SELECT = 1024
"""FD_SETSIZE of select(2)."""
ENOUGH = 100_000
"""Calls after which a loop that never looks at the time is taken for endless."""


class Channel:
    """``out`` and ``err``: the size of each piece it has to read, without end; ``takes``: of what is sent, at a time."""

    closed = eof_received = False

    def __init__(self, end: int, *, out: int = 0, err: int = 0, takes: int = 1 << 20) -> None:
        self._end, self._out, self._err, self._takes = end, out, err, takes
        self.now, self.calls = 0.0, 0

    def fileno(self) -> int:
        return self._end

    def monotonic(self) -> float:
        """Each look at the clock, and each piece, is 10 ms."""
        self.calls += 1
        assert self.calls < ENOUGH, "it never looks at the time"
        self.now += 0.01
        return self.now

    def recv_ready(self) -> bool:
        return bool(self._out)

    def recv_stderr_ready(self) -> bool:
        return bool(self._err)

    def recv(self, size: int) -> bytes:
        self.monotonic()
        return b"x" * min(size, self._out)

    def recv_stderr(self, size: int) -> bytes:
        self.monotonic()
        return b"x" * min(size, self._err)

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0

    def send(self, data: bytes) -> int:
        self.monotonic()
        return min(self._takes, len(data))

    def shutdown_write(self) -> None:
        return None

    def exit_status_ready(self) -> bool:
        return False


@pytest.fixture
def end() -> Iterator[int]:
    """A descriptor that is always ready to be read."""
    read, write = os.pipe()
    os.close(write)
    yield read
    os.close(read)


def conversation(channel: Channel, monkeypatch: pytest.MonkeyPatch, data: bytes = b"") -> None:
    monkeypatch.setattr(time, "monotonic", channel.monotonic)
    one: Any = channel
    _converse(one, ("python3",), data, PATIENCE, "gpu-2", lambda: False)


@pytest.mark.parametrize("stream", ["out", "err"])
def test_host_that_writes_without_end_is_cut_off(
    stream: str, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "LONGEST_ANSWER", 4 << 20)
    with pytest.raises(ConnectionFailed, match="wrote more than 4 MiB") as refusal:
        conversation(Channel(end, **{stream: 1 << 20}), monkeypatch)
    assert refusal.value.host == "gpu-2"


@pytest.mark.parametrize("stream", ["out", "err"])
def test_host_that_drips_is_held_to_the_deadline(
    stream: str, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = Channel(end, **{stream: 1})
    with pytest.raises(DeadlineExceeded, match="within 45 s"):
        conversation(channel, monkeypatch)
    assert PATIENCE < channel.now < PATIENCE + 1


def test_host_that_keeps_its_exit_code_back_is_waited_for_without_work(
    end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Waits(Channel):
        eof_received = True
        waits = 0

        @property
        def status_event(self) -> "Waits":
            return self

        def wait(self, seconds: float) -> bool:
            self.waits += 1
            self.now += seconds
            return False

    channel = Waits(end)
    with pytest.raises(DeadlineExceeded):
        conversation(channel, monkeypatch)
    assert channel.waits > 0.8 * PATIENCE / 0.06


def test_a_descriptor_beyond_those_select_takes_is_waited_for(
    end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= BEYOND_SELECT:
        pytest.skip("this process may not open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, BEYOND_SELECT + 1), hard))
    high = fcntl.fcntl(end, fcntl.F_DUPFD, BEYOND_SELECT)
    try:
        with pytest.raises(DeadlineExceeded):
            conversation(Channel(high), monkeypatch)
    finally:
        os.close(high)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_host_that_takes_a_byte_at_a_time_is_held_to_the_deadline(
    end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = Channel(end, takes=1)
    with pytest.raises(DeadlineExceeded):
        conversation(channel, monkeypatch, b"x" * ENOUGH)
    assert PATIENCE < channel.now < PATIENCE + 1


def test_host_that_takes_nothing_is_asked_no_more(
    end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeadlineExceeded):
        conversation(Channel(end, takes=0), monkeypatch, b"x")


@pytest.mark.parametrize("before", [0, 300, LONGEST - 30, LONGEST - 10, LONGEST])
def test_a_host_that_repeats_a_secret_shows_no_part_of_it(before: int) -> None:
    """Its words are cut before anybody takes secrets out of them."""
    secret = "s3cret of the site: 4qr0f4vyt1wPlazmmRbP"
    said = ssh._words(ConnectionFailed("x" * before + f" {secret} {secret}"))
    told = Redactor([secret])(f"it does not answer ({said})")
    assert secret[:4] not in told
    assert told.startswith("it does not answer (")
