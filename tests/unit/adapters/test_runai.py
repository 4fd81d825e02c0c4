"""The client of Run:ai's REST API: tokens, pages, retries within bounds, and one line with a remedy for each failure."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters import runai
from appliance.adapters.process import run
from appliance.adapters.runai import PAGE, Account, Runai, RunaiFailed, path_of
from appliance.errors import ConfigError
from tests.support.runai_answers import (
    SECRET,
    Answers,
    Handler,
    hang,
    lost,
    reset,
    serving,
    status,
    text,
)

PROJECTS = "/api/v1/org-unit/projects"
RULES = "/api/v1/authorization/access-rules"
TRIES = len(runai.WAITS_S) + 1
NAMED = {"sortBy": "name"}


class World:
    """A control plane, and a client whose waits are recorded instead of slept."""

    def __init__(self, server: Answers) -> None:
        self.server = server
        self.now = 0.0
        self.waited: list[float] = []
        self.hidden: list[str] = []
        account = Account(server.url, "appliance", SECRET)
        self.client = Runai(
            account, sleep=self.waited.append, clock=lambda: self.now, hide=self.hidden.append
        )

    def read(self) -> dict[str, Any] | None:
        return self.client.get(f"{PROJECTS}/id-1", "read project lattice")

    def fails(self) -> RunaiFailed:
        with pytest.raises(RunaiFailed) as failed:
            self.read()
        said = failed.value
        assert said.hint
        assert "\n" not in said.message + said.hint
        assert SECRET not in said.message + said.hint
        return said

    def named(self, *numbers: int) -> None:
        self.server.lists[PROJECTS] = [
            self.server.unit(f"p-{number:05}", id=f"id-{number}") for number in numbers
        ]

    def names(self) -> list[str]:
        found = self.client.every(PROJECTS, "projects", "list projects", NAMED)
        return [one["name"] for one in found]


@pytest.fixture
def world() -> Iterator[World]:
    with serving() as server:
        found = World(server)
        found.named(1)
        with found.client:
            yield found


def test_a_token_is_requested_once_and_hidden(world: World) -> None:
    assert world.read() == world.server.projects["p-00001"]
    assert world.read()
    assert world.server.forms == [
        {
            "grant_type": ["client_credentials"],
            "client_id": ["appliance"],
            "client_secret": [SECRET],
        }
    ]
    assert world.hidden == ["token-1"]
    assert SECRET not in repr(Account("https://x", "c", SECRET))


@pytest.mark.parametrize(
    ("valid", "last"), [(3600, 3539), (30, 14), (None, 3539), ("soon", 3539), (0, 3539)]
)
def test_a_token_is_renewed_before_it_expires(world: World, valid: object, last: float) -> None:
    world.server.expires_in = valid
    world.read()
    world.now = last
    world.read()
    assert world.server.tokens == 1
    world.now = last + 1
    world.read()
    assert world.server.tokens == 2


def test_a_token_that_is_refused_is_renewed_once(world: World) -> None:
    world.read()
    world.server.valid = False
    assert world.read()
    assert world.server.tokens == 2
    world.server.faults.extend([status(401, "Unauthorized")] * 2)
    assert "renew the secret" in world.fails().hint


def test_a_refused_account_is_named_without_its_secret(world: World) -> None:
    account = Account(world.server.url, "appliance", "another")
    with Runai(account) as client, pytest.raises(RunaiFailed) as failed:
        client.get(PROJECTS, "read")
    assert "does not accept the service account appliance (HTTP 401)" in failed.value.message
    assert "secrets.runai_client_secret" in failed.value.hint
    assert "another" not in failed.value.message + failed.value.hint


def test_a_server_that_says_nothing_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.read()
    monkeypatch.setattr(runai, "READ_S", 0.2)
    world.server.faults.extend([hang] * TRIES)
    assert "did not answer within 0.2 s" in world.fails().message
    assert world.waited == list(runai.WAITS_S)


@pytest.mark.parametrize("fault", [reset, status(503), status(502), status(429)])
def test_what_passes_is_tried_again(world: World, fault: Any) -> None:
    world.server.faults.extend([fault, fault])
    assert world.read()
    assert world.waited == [0.5, 1.0]


def test_tries_are_bounded(world: World) -> None:
    world.server.faults.extend([status(503, "starting")] * 20)
    said = world.fails()
    assert said.message == "read project lattice: starting (HTTP 503)"
    assert "runai-backend" in said.hint
    assert len(world.server.seen) == TRIES
    assert world.waited == list(runai.WAITS_S)


def test_retry_after_is_followed_within_a_bound(world: World) -> None:
    world.server.faults.extend(
        [
            status(429, Retry_After="7"),
            status(503, Retry_After="86400"),
            status(503, Retry_After="x"),
        ]
    )
    assert world.read()
    assert world.waited == [7.0, runai.LONGEST_WAIT_S, 2.0]


@pytest.mark.parametrize(
    ("fault", "message", "hint"),
    [
        (status(400, "bad\nrequest"), "bad request (HTTP 400)", "docs/runai.md"),
        (status(403, "no"), "no (HTTP 403)", "give the service account appliance a role"),
        (status(409, "busy"), "busy (HTTP 409)", "run this command again"),
        (text(500, b"<html>" + b"x" * 9000), "<html>xx", "runai-backend"),
        (text(200, b"<html>"), "cannot be read: it is not JSON", "address"),
        (text(200, b'{"a": 1, "a": 2}'), "is in it twice", "address"),
        (text(200, b"[]"), "is not an object", "3.0"),
    ],
)
def test_a_refusal_is_one_line_with_a_remedy(
    world: World, fault: Any, message: str, hint: str
) -> None:
    world.server.faults.extend([fault] * TRIES)
    said = world.fails()
    assert message in said.message
    assert hint in said.hint
    assert len(said.message) < 500


def test_an_answer_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runai, "LONGEST", 1000)
    world.server.faults.append(text(200, b" " * 5000))
    assert "answers more than" in world.fails().message


def test_a_missing_object_is_none(world: World) -> None:
    assert world.client.get(f"{PROJECTS}/other", "read it") is None
    assert world.client.change("DELETE", f"{PROJECTS}/other", "delete it").status == 404
    with pytest.raises(RunaiFailed, match="HTTP 404"):
        world.client.change("PUT", f"{PROJECTS}/other", "change it", {})


def test_pages_are_read_to_their_end(world: World) -> None:
    world.named(*range(1200))
    assert world.names() == [f"p-{number:05}" for number in range(1200)]
    assert len(world.server.seen) == 3
    world.named(*range(PAGE))
    assert len(world.names()) == PAGE


@pytest.mark.parametrize("number", [0, 3, PAGE - 1])
def test_an_entry_that_goes_between_two_pages_hides_no_other(world: World, number: int) -> None:
    world.named(*range(700))
    pending = [number]

    def remove() -> None:
        if pending:
            gone = f"p-{pending.pop():05}"
            world.server.lists[PROJECTS] = [
                one for one in world.server.lists[PROJECTS] if one["name"] != gone
            ]

    world.server.between = remove
    assert world.names() == sorted(world.server.projects)
    assert len(world.server.projects) == 699


def test_an_entry_that_comes_between_two_pages_is_read_once(world: World) -> None:
    world.named(*range(1, 700))
    pending = ["p-00000", "p-00499x"]

    def add() -> None:
        if pending:
            world.server.lists[PROJECTS].append(world.server.unit(pending.pop()))

    world.server.between = add
    assert world.names() == sorted(world.server.projects)


def test_a_list_that_never_holds_still_is_reported(world: World) -> None:
    world.named(*range(700))

    def add() -> None:
        world.server.lists[PROJECTS].append(world.server.unit(f"a-{len(world.server.seen)}"))

    world.server.between = add
    with pytest.raises(RunaiFailed, match="changed while it was read"):
        world.names()


def test_a_list_without_an_order_is_read_until_it_repeats(world: World) -> None:
    rules = [{"id": number, "roleId": 1} for number in range(700)]
    world.server.lists[RULES] = rules
    pending = [0]

    def remove() -> None:
        if pending:
            rules.remove(rules[pending.pop()])

    world.server.between = remove
    found = world.client.every(RULES, "accessRules", "list access rules", {})
    assert [one["id"] for one in found] == list(range(1, 700))
    assert len(world.server.seen) == 6


def test_a_server_with_smaller_pages_is_read_to_its_end(world: World) -> None:
    pages = [
        {"roles": [{"id": 1}, {"id": 2}], "next": 2},
        {"roles": [{"id": 3}], "next": None},
    ]
    faults = [lambda handler, page=page: handler.answer(200, page) for page in pages * 2]
    world.server.faults.extend(faults)
    found = world.client.every("/api/v2/authorization/roles", "roles", "list roles", {})
    assert [one["id"] for one in found] == [1, 2, 3]


def test_an_answer_without_the_list_is_reported(world: World) -> None:
    world.server.faults.append(text(200, b'{"items": []}'))
    with pytest.raises(RunaiFailed, match="has no list of projects"):
        world.names()


def test_a_list_without_entries_may_be_null(world: World) -> None:
    world.server.faults.append(text(200, b'{"projects": null}'))
    assert world.names() == []


def create(world: World, name: str = "new") -> tuple[dict[str, Any], bool]:
    body = {"name": name, "resources": []}
    return world.client.create(
        PROJECTS, f"create project {name}", body, lambda: world.server.projects.get(name)
    )


def test_what_is_created_is_returned(world: World) -> None:
    made, is_new = create(world)
    assert is_new
    assert made["id"] == world.server.projects["new"]["id"]


@pytest.mark.parametrize("fault", [lost, status(409, "exists")])
def test_a_create_whose_answer_was_lost_is_not_repeated(world: World, fault: Any) -> None:
    if fault is not lost:
        world.server.lists[PROJECTS].append(world.server.unit("new"))
    world.server.faults.append(fault)
    made, is_new = create(world)
    assert not is_new
    assert made == world.server.projects["new"]
    assert len(world.server.changes()) == 1


@pytest.mark.parametrize("fault", [reset, status(503), status(429)])
def test_a_create_that_was_not_carried_out_is_repeated(world: World, fault: Any) -> None:
    world.server.faults.append(fault)
    _, is_new = create(world)
    assert is_new
    assert len(world.server.changes()) == 2
    assert len(world.server.projects) == 2


def test_a_create_is_tried_within_a_bound(world: World) -> None:
    world.server.faults.extend([status(503, "later")] * 20)
    with pytest.raises(RunaiFailed, match="later"):
        create(world)
    assert len(world.server.seen) == TRIES


def test_a_conflict_without_an_object_is_reported(world: World) -> None:
    world.server.faults.append(status(409, "the name is used elsewhere"))
    with pytest.raises(RunaiFailed, match=r"used elsewhere \(HTTP 409\)"):
        create(world)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Self-signed, for 127.0.0.1, with its key in the same file."""
    file = tmp_path / "tls.pem"
    key = os.fspath(tmp_path / "key.pem")
    words = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {file}"
    run(words.split())
    file.write_text(file.read_text() + Path(key).read_text())
    return file


def test_a_certificate_is_always_verified(certificate: Path) -> None:
    with serving(certificate) as server:
        url = server.url.replace("http:", "https:")
        with Runai(Account(url, "appliance", SECRET, certificate)) as client:
            assert client.plain("/api/v1/clusters", "clusters", "list clusters")
        with (
            Runai(Account(url, "appliance", SECRET)) as client,
            pytest.raises(RunaiFailed, match="not signed by a trusted CA") as failed,
        ):
            client.plain("/api/v1/clusters", "clusters", "list clusters")
        assert "scheduler.runai.ca" in failed.value.hint
        other = url.replace("127.0.0.1", "localhost")
        with (
            Runai(Account(other, "appliance", SECRET, certificate)) as client,
            pytest.raises(RunaiFailed, match="is for another name"),
        ):
            client.plain("/api/v1/clusters", "clusters", "list clusters")
        assert len(server.forms) == 1


def test_no_server_is_one_line() -> None:
    waited: list[float] = []
    with serving() as server:
        url = server.url
    with (
        Runai(Account(url, "appliance", SECRET), sleep=waited.append) as client,
        pytest.raises(RunaiFailed, match="does not accept connections"),
    ):
        client.get(PROJECTS, "read")
    assert waited == list(runai.WAITS_S)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://runai.example.com", "is not https"),
        ("https://", "is not the address"),
        ("https://runai.example.com/api", "is not the address"),
        ("runai.example.com", "is not the address"),
    ],
)
def test_an_unusable_address_is_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Runai(Account(url, "appliance", SECRET))


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_unusable_ca_is_refused(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match="cannot be used as CA") as failed:
        Runai(Account("https://runai.example.com", "appliance", SECRET, file))
    assert "scheduler.runai.ca" in failed.value.hint


def test_parts_of_a_path_are_quoted() -> None:
    assert path_of("v1", "a/b", 7) == "/api/v1/a%2Fb/7"


def test_a_redirect_is_not_followed(world: World) -> None:
    def away(handler: Handler) -> None:
        handler.answer(302, {}, {"Location": "http://127.0.0.1:1/"})

    world.server.faults.append(away)
    said = world.fails()
    assert "HTTP 302" in said.message
    assert "scheduler.runai.url" in said.hint
