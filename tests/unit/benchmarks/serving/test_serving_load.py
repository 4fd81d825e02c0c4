"""A server on loopback that answers well, or in one of many bad ways: each is told, each has an end, none passes."""

import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance.adapters import process
from appliance.benchmarks.serving import load
from appliance.benchmarks.serving.request import Request
from appliance.benchmarks.serving.run import ask
from appliance.models.profile import Limit
from appliance.models.result import Status

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
MODELS = b'HTTP/1.1 200 OK\r\n\r\n{"data": [{"id": "tiny"}]}'
DONE = b"data: [DONE]\n\n"
Reply = Callable[[socket.socket], None]


def event(text: str = "a") -> bytes:
    return b"data: " + json.dumps({"choices": [{"text": text}]}).encode() + b"\n\n"


def usage(tokens: object) -> bytes:
    counted = {"prompt_tokens": 7, "completion_tokens": tokens}
    return b"data: " + json.dumps({"choices": [], "usage": counted}).encode() + b"\n\n"


def says(*parts: bytes) -> Reply:
    return lambda peer: peer.sendall(b"".join(parts))


def raising(error: Exception) -> Callable[..., AsyncIterator[bytes]]:
    """A server to which no connection comes about."""

    async def lines(*_: object) -> AsyncIterator[bytes]:
        raise error
        yield b""

    return lines


def in_chunks(*parts: bytes) -> Reply:
    framed = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts)
    return says(CHUNKED, framed, b"0\r\n\r\n")


GOOD = says(OK, event() * 4, usage(4), DONE)


@contextmanager
def serving(
    reply: Reply, tls: ssl.SSLContext | None = None, models: bytes = MODELS
) -> Iterator[int]:
    """A real socket; each connection gets one reply once its request has come."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def one(peer: socket.socket) -> None:
        try:
            with tls.wrap_socket(peer, server_side=True) if tls else peer as talk:
                asked = b""
                while b"\r\n\r\n" not in asked:
                    piece = talk.recv(65536)
                    if not piece:
                        return
                    asked += piece
                if asked.startswith(b"GET"):
                    talk.sendall(models)
                else:
                    reply(talk)
        except OSError:
            pass

    def accept() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(peer,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def request(port: int, scheme: str = "http", **rest: object) -> Request:
    asked = {"rates": (200.0,), "seconds": 0.05, "least": 3, "tokens": 8, "patience": 2.0, **rest}
    return Request.model_validate({"endpoint": f"{scheme}://127.0.0.1:{port}/v1", **asked})


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        in_chunks(event(), event(), usage(2), DONE),
        in_chunks(event(), b'data: {"choices": [{"text": "", "finish_reason": "length"}]}\n\n'),
        says(OK, b": a comment\n\n", event(), event(""), DONE),
        says(OK, b'data: {"choices": [{"delta": {"content": "a"}}]}\r\n\r\n', DONE),
    ],
)
def test_good_streams_pass(reply: Reply) -> None:
    with serving(reply) as port:
        outcome = ask(request(port), {})
    (result,) = outcome.results
    assert result.status is Status.PASS, result.cause
    assert outcome.tables[0].title == "Serving tiny"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (lambda _: None, "closed during"),
        (says(b"\x00\xff garbage"), "closed during"),
        (says(b"220 mail.example\r\n"), "does not use HTTP"),
        (says(b"HTTP/1.1 500 Oops\r\n\r\n"), "status '500'"),
        (says(b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\n\r\n"), "status '302'"),
        (says(OK, event() * 2), "ended early"),
        (says(OK, DONE), "no text"),
        (says(OK, b"data: {not json}\n\n", DONE), "is invalid"),
        (says(OK, b"data: [1]\n\n", DONE), "is invalid"),
        (says(OK, b'data: {"choices": 1}\n\n', DONE), "without choices"),
        (says(OK, b'data: {"error": "full"}\n\n', DONE), "full"),
        (says(OK, event() * 4, usage(3), DONE), "counts 3 tokens"),
        (says(OK, event() * 4, usage(9), DONE), "counts 9 tokens"),
        (says(OK, event(), usage(-1), DONE), "completion_tokens is -1"),
        (says(OK, event(), usage("many"), DONE), "completion_tokens is"),
        (says(CHUNKED, b"zz\r\n"), "does not declare its length"),
        (says(CHUNKED, b"fffffff\r\n"), "incomplete"),
        (says(CHUNKED, b"5\r\nab"), "closed during"),
        (says(OK, b"x" * (1 << 21)), "incomplete"),
        (says(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 500), "incomplete"),
    ],
)
def test_an_answer_that_is_none_fails_and_says_why(reply: Reply, why: str) -> None:
    with serving(reply) as port:
        (result,) = ask(request(port), {}).results
    assert result.status is Status.FAIL
    assert why in result.cause


def test_a_server_that_hangs_has_an_end() -> None:
    silence = threading.Event()

    def hang(_: socket.socket) -> None:
        silence.wait(20)

    with serving(hang) as port:
        (result,) = ask(request(port, patience=0.3), {}).results
    silence.set()
    assert result.status is Status.FAIL
    assert "no complete answer in time" in result.cause


def test_more_tokens_than_events_can_carry_are_not_believed() -> None:
    with serving(says(OK, event(), usage(100), DONE)) as port:
        (result,) = ask(request(port, tokens=128), {}).results
    assert "counts 100 tokens and sent 1 events" in result.cause


def test_higher_rates_are_not_tried_where_nothing_came_back() -> None:
    with serving(lambda _: None) as port:
        outcome = ask(request(port, rates=(100.0, 200.0, 400.0)), {})
    assert len(outcome.measurements) == 1


@pytest.mark.parametrize(
    "models",
    [
        b"HTTP/1.1 200 OK\r\n\r\n<html>",
        b'HTTP/1.1 200 OK\r\n\r\n{"data": []}',
        b"HTTP/1.1 401 No\r\n\r\n",
        b"",
    ],
)
def test_a_server_without_a_list_of_models_is_not_assessed(models: bytes) -> None:
    with serving(GOOD, models=models) as port:
        (result,) = ask(request(port), {}).results
        (named,) = ask(request(port, model="tiny"), {}).results
    assert result.status is Status.NOT_ASSESSED
    assert "--served-model NAME" in result.fix
    assert named.status is Status.PASS


def test_nobody_there_is_not_assessed() -> None:
    with serving(GOOD) as port:
        pass
    (result,) = ask(request(port), {}).results
    assert result.status is Status.NOT_ASSESSED
    assert result.cause.endswith(" cannot be measured: no connection: Connection refused")
    assert "--served-model" not in result.fix


def test_a_server_that_is_not_found_is_told_in_the_systems_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = [ConnectionRefusedError(111, f"Connect call failed ('{at}', 9)") for at in "12"]
    several = ", ".join(map(str, refused))
    for error, told in (
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service"),
        (OSError(f"Multiple exceptions: {several}"), "Connection refused"),
        (OSError("no more words"), "OSError"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(load, "lines", raising(error))
            (result,) = ask(request(9), {}).results
        assert f"cannot be measured: no connection: {told}" in result.cause


def test_limits_are_judged_at_a_rate_that_is_kept() -> None:
    limits = {
        "serving.ttft_p99": Limit(value=0.0001, unit="ms", source="contract"),
        "serving.throughput": Limit(value=1, unit="tokens/s", source="contract"),
    }
    with serving(GOOD) as port:
        outcome = ask(request(port, least=30, rates=(60.0,)), limits)
    found = {result.id: result for result in outcome.results}
    assert found["serving.answers"].status is Status.PASS
    assert found["serving.throughput"].status is Status.PASS
    assert found["serving.ttft_p99"].status is Status.FAIL


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 127.0.0.1, by itself, with its key."""
    folder = tmp_path_factory.mktemp("tls")
    process.run(
        (
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
            ),
            *(
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=127.0.0.1",
                "-addext",
                "subjectAltName=IP:127.0.0.1",
            ),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")),
        )
    )
    return folder


def tls_of(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def test_a_certificate_of_its_own_is_trusted_by_ca_alone(certificate: Path) -> None:
    with serving(GOOD, tls_of(certificate)) as port:
        trusted = ask(request(port, "https", ca=str(certificate / "cert.pem")), {})
        strange = ask(request(port, "https"), {})
    assert trusted.results[0].status is Status.PASS, trusted.results[0].cause
    assert strange.results[0].status is Status.NOT_ASSESSED


def test_the_key_is_shown_nowhere() -> None:
    with serving(GOOD) as port:
        asked = request(port, key="sk-hush")
        outcome = ask(asked, {})
    assert outcome.results[0].status is Status.PASS
    assert "sk-hush" not in repr(outcome) + repr(asked) + asked.model_dump_json()
