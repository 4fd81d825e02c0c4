"""A server that sends a byte now and then holds no host."""

import io
import signal
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n"
SLOWLY = 0.05
"""Seconds between bytes, far below any timeout of a socket; all of them take longer than the whole time."""


@pytest.fixture
def serve() -> Iterator[Callable[[bytes, bytes], str]]:
    """Starts a server that sends the first at once, and the other byte by byte."""
    ended = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def start(first: bytes, slowly: bytes) -> str:
        def answer() -> None:
            try:
                wire, _ = listening.accept()
            except OSError:
                return  # The test ended before anybody came.
            with wire:
                try:
                    wire.recv(1 << 16)
                    wire.sendall(first)
                    for byte in slowly:
                        if ended.wait(SLOWLY):
                            return
                        wire.sendall(bytes([byte]))
                except OSError:
                    pass

        threads.append(threading.Thread(target=answer))
        threads[-1].start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}/x"

    yield start
    ended.set()
    # A call of accept that nobody answers comes back.
    listening.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()
    listening.close()


@pytest.mark.parametrize(
    ("first", "slowly"),
    [(HEAD, b"x" * 40), (b"", HEAD + b"x" * 40), (b"HTTP/1.1 200 OK\r\nX: ", b"y" * 40)],
)
def test_a_server_that_drips_is_given_up(
    plugin: Callable[[str], ModuleType],
    serve: Callable[[bytes, bytes], str],
    first: bytes,
    slowly: bytes,
) -> None:
    url = serve(first, slowly)
    with pytest.raises(OSError, match=r"it was not whole within 0\.3 s"):
        plugin("module_utils.download").downloaded(
            lambda: urllib.request.urlopen(url, timeout=5), 1000, 0.3
        )


def test_what_comes_is_whole_or_cut_at_the_bound(
    plugin: Callable[[str], ModuleType], serve: Callable[[bytes, bytes], str]
) -> None:
    download = plugin("module_utils.download")
    url = serve(HEAD + b"x" * 40, b"")
    assert download.downloaded(lambda: urllib.request.urlopen(url), 1000, 30) == b"x" * 40
    assert download.downloaded(lambda: io.BytesIO(b"x" * 99), 7, 30) == b"x" * 7


def test_an_alarm_that_was_set_before_is_that_of_before(
    plugin: Callable[[str], ModuleType],
) -> None:
    before = signal.getsignal(signal.SIGALRM)
    plugin("module_utils.download").downloaded(lambda: io.BytesIO(b"x"), 7, 30)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("module", ["signing_key", "archived_program"])
def test_a_mirror_that_drips_ends_the_module(
    plugin: Callable[[str], ModuleType],
    run: Callable[..., dict[str, Any]],
    serve: Callable[[bytes, bytes], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    module: str,
) -> None:
    monkeypatch.setattr(
        plugin(f"module_utils.resources.{module}"), "MOST_SECONDS", 0.3, raising=False
    )
    given = {"url": serve(HEAD, b"x" * 40), "path": str(tmp_path / "x")}
    if module == "signing_key":
        given["fingerprint"] = "1" * 40
    else:
        given |= {"sha256": "1" * 64, "member": "x"}
    assert "it was not whole within 0.3 s" in run(module, **given)["msg"]
    assert not (tmp_path / "x").exists()


def test_an_api_that_drips_is_not_ready(
    plugin: Callable[[str], ModuleType],
    serve: Callable[[bytes, bytes], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = plugin("module_utils.resources.kubeadm_member")
    url = serve(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 20 + b"\r\n\r\n")
    real = urllib.request.urlopen
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: real(url, timeout=5))
    monkeypatch.setattr(member, "PATIENCE", 0.3)
    assert not member.ready("127.0.0.1")
