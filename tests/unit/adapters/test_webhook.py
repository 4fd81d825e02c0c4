"""A webhook on a real TLS server: what is sent, and what a bad receiver costs."""

import hashlib
import hmac
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters import webhook
from appliance.adapters.webhook import SIGNATURE, Webhook
from appliance.errors import ApplianceError
from tests.support.event_receiver import Receiver, receiving

TOKEN, KEY = "a-token-of-the-site", "a key of the site, long enough"
BODY = b'{"event": "run_started"}'


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    with receiving(tmp_path / "receiver") as made:
        yield made


def hook(receiver: Receiver) -> Webhook:
    return Webhook(receiver.url, TOKEN, KEY, receiver.authority)


def refused(receiver: Receiver, one: Webhook | None = None) -> tuple[str, list[float]]:
    """Why the receiver did not take an event, and the pauses between the tries."""
    pauses: list[float] = []
    with pytest.raises(ApplianceError) as failed:
        (one or hook(receiver)).post(BODY, pauses.append)
    said = f"{failed.value.message} {failed.value.hint}"
    assert not {TOKEN, KEY, receiver.path} & set(said.split())
    assert receiver.url not in said
    return said, pauses


def test_an_event_is_posted_once_with_token_and_signature(receiver: Receiver) -> None:
    hook(receiver).post(BODY)
    (headers,) = receiver.seen
    assert receiver.bodies == [BODY]
    assert headers["path"] == receiver.path
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert (
        headers[SIGNATURE] == "sha256=" + hmac.new(KEY.encode(), BODY, hashlib.sha256).hexdigest()
    )


def test_without_token_and_key_neither_is_sent(receiver: Receiver) -> None:
    Webhook(receiver.url, authority=receiver.authority).post(BODY)
    assert not {"Authorization", SIGNATURE} & set(receiver.seen[0])


def test_an_unknown_certificate_is_refused_and_not_tried_again(receiver: Receiver) -> None:
    said, pauses = refused(receiver, Webhook(receiver.url, TOKEN, KEY))
    assert "certificate is not trusted" in said
    assert "notify.authority" in said
    assert not receiver.bodies
    assert not pauses


def test_a_server_error_is_tried_three_times(receiver: Receiver) -> None:
    receiver.statuses = [500, 503, 500]
    said, pauses = refused(receiver)
    assert "answered 500" in said
    assert len(receiver.bodies) == 3
    assert pauses == [1.0, 2.0]
    receiver.statuses = [500]
    hook(receiver).post(BODY, pauses.append)
    assert len(receiver.bodies) == 5


def test_a_refusal_is_not_tried_again(receiver: Receiver) -> None:
    receiver.statuses = [403]
    said, pauses = refused(receiver)
    assert "answered 403" in said
    assert len(receiver.bodies) == 1
    assert pauses == []


def test_a_redirect_is_not_followed(receiver: Receiver, tmp_path: Path) -> None:
    with receiving(tmp_path / "other") as other:
        receiver.statuses, receiver.headers = [307], {"Location": other.url}
        said, _ = refused(receiver)
        assert other.bodies == []
    assert "redirects are not followed" in said
    assert len(receiver.bodies) == 1


def test_a_slow_receiver_ends_each_try(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "SECONDS", 0.3)
    receiver.delay = 30.0
    begun = time.monotonic()
    said, pauses = refused(receiver)
    assert time.monotonic() - begun < 5
    assert "did not answer within" in said
    assert len(pauses) == 2


def test_a_port_without_a_server_is_named(receiver: Receiver) -> None:
    said, _ = refused(receiver, Webhook("https://127.0.0.1:1/x", authority=receiver.authority))
    assert "Connection refused" in said


def test_a_proxy_of_the_environment_gets_nothing(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    hook(receiver).post(BODY)
    assert receiver.bodies == [BODY]
