"""The program as a host has it: one file, its settings, its own kubeconfig, and what it leaves behind."""

import json
import subprocess  # noqa: TID251 - runs the program as a host does
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from appliance.limits import command, tell, token
from appliance.limits.api import Api
from appliance.limits.bundle import executable
from appliance.limits.rules import parse, words
from appliance.limits.trouble import Trouble, Unknown
from tests.support.limits_world import Handler, World, status

SETTINGS = {
    "version": 1,
    "identity": "head",
    "prometheus": "http://10.0.0.1:9090",
    "dry_run": False,
    "textfiles": "/nowhere",
}
KUBECTL = """#!/bin/sh
echo "$*" >> {log}
case "$*" in
  *"config view"*) printf '%s YXV0aG9yaXR5' {server} ;;
  *"create --raw"*) cat > {body}; echo '{{"status": {{"token": "t-1"}}}}' ;;
  *) [ -e {account} ] && echo '{{}}' && exit 0; echo 'Error from server (NotFound): x' >&2; exit 1 ;;
esac
"""


def run(*words: str, program: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-ISB", str(program), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "appliance-limits"
    file.write_bytes(executable())
    return file


def test_one_file_of_the_standard_library_alone(program: Path) -> None:
    shown = run("--help", program=program)
    assert shown.returncode == 0
    assert "appliance-limits show" in shown.stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "No such file"),
        ("{", "is no JSON"),
        ("[]", "is not of version 1"),
        (json.dumps({**SETTINGS, "version": 2}), "is not of version 1"),
        (json.dumps({**SETTINGS, "more": 1}), "is not of version 1"),
    ],
)
def test_settings_it_does_not_know_are_one_line(
    program: Path, tmp_path: Path, text: str | None, told: str
) -> None:
    file = tmp_path / "limits.json"
    if text is not None:
        file.write_text(text)
    done = run("run", "--file", str(file), program=program)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert told in done.stderr


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        ("{}", 0o644, "accessible to other users"),
        ("{}", 0o600, "not a kubeconfig of this program"),
        ("apiVersion: v1", 0o600, "not a kubeconfig of this program"),
        (
            '{"clusters": [{"cluster": {"server": "http://10.0.0.1"}}], "users": [{"user": {"token": "x"}}]}',
            0o600,
            "not https",
        ),
        (
            '{"clusters": [{"cluster": {"server": "https://10.0.0.1"}}], "users": [{"user": {"token": "x"}}]}',
            0o600,
            "no CA certificate",
        ),
    ],
)
def test_a_kubeconfig_that_is_careless_is_refused(
    tmp_path: Path, text: str, mode: int, told: str
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(Trouble, match=told):
        Api(str(file))


def test_calls_of_a_round_share_a_connection(world: World) -> None:
    """A handshake for each of two calls a namespace was most of what a round of 200 projects took."""
    api = Api(str(world.file))
    for name in ("a", "b", "c"):
        world.server.put(f"/api/v1/namespaces/{name}", {"metadata": {"name": name}})
        assert api.get(f"/api/v1/namespaces/{name}") is not None
    assert api.get("/api/v1/namespaces/nobody") is None
    assert world.server.opened == 1
    api.close()
    assert api.get("/api/v1/namespaces/a") is not None
    assert world.server.opened == 2


def test_a_connection_the_server_has_ended_meanwhile_is_opened_anew(world: World) -> None:
    def answer_and_go(handler: Handler) -> None:
        handler.answer(200, {"metadata": {}})
        handler.close_connection = True

    world.server.faults.append(("GET", "/namespaces", answer_and_go))
    api = Api(str(world.file), sleep=lambda _: pytest.fail("it waited"))
    world.server.put("/api/v1/namespaces/a", {"metadata": {"name": "a"}})
    assert api.get("/api/v1/namespaces/a") == {"metadata": {}}
    found = api.get("/api/v1/namespaces/a")
    assert found is not None
    assert found["metadata"]["name"] == "a"
    assert world.server.opened == 2


def listing(
    world: World, answers: list[tuple[int, dict[str, object]]]
) -> tuple[Api, list[dict[str, str]]]:
    """A server that answers lists so, and what it was asked."""
    asked: list[dict[str, str]] = []

    def one(status: int, body: dict[str, object]) -> Callable[[Handler], None]:
        def act(handler: Handler) -> None:
            query = parse_qs(urlsplit(handler.path).query)
            asked.append({key: values[0] for key, values in query.items() if key != "limit"})
            handler.answer(status, body)

        return act

    world.server.faults.extend(("GET", "/pods", one(*answer)) for answer in answers)
    return Api(str(world.file), sleep=lambda _: None), asked


SINCE_7 = {"resourceVersion": "7", "resourceVersionMatch": "NotOlderThan"}


def test_only_the_first_list_of_a_round_waits_for_the_newest(world: World) -> None:
    """With a wait of 0.1 s for each list a round of 200 projects took over 20 s, whatever was in them."""
    page: dict[str, object] = {
        "items": [],
        "metadata": {"resourceVersion": "7", "continue": "there is more"},
    }
    end: dict[str, object] = {"items": [], "metadata": {"resourceVersion": "9"}}
    api, asked = listing(
        world,
        [(200, end | {"metadata": {"resourceVersion": "7"}}), (200, page), (200, end), (200, end)],
    )
    for _ in range(3):
        assert list(api.items("/api/v1/namespaces/a/pods")) == []
    assert asked == [{}, SINCE_7, {"continue": "there is more"}, SINCE_7]


def test_a_server_that_counts_otherwise_is_asked_as_before(world: World) -> None:
    known: dict[str, object] = {"items": [], "metadata": {"resourceVersion": "7"}}
    refusal: dict[str, object] = {"message": "Too large resource version: 7, current: 3"}
    api, asked = listing(world, [(200, known), *[(504, refusal)] * 3, (200, known), (200, known)])
    for _ in range(3):
        assert list(api.items("/api/v1/namespaces/a/pods")) == []
    assert asked == [{}, *[SINCE_7] * 3, {}, {}]


def test_a_list_that_is_refused_either_way_is_a_trouble(world: World) -> None:
    known: dict[str, object] = {"items": [], "metadata": {"resourceVersion": "7"}}
    refusal: dict[str, object] = {"message": "no"}
    api, asked = listing(world, [(200, known), (403, refusal), (403, refusal)])
    assert list(api.items("/api/v1/namespaces/a/pods")) == []
    with pytest.raises(Trouble, match="no"):
        list(api.items("/api/v1/namespaces/a/pods"))
    assert asked == [{}, SINCE_7, {}]


def test_a_round_leaves_state_and_metrics(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tell, "STATE", str(tmp_path / "state.json"))
    monkeypatch.setattr(tell.state, "__defaults__", (str(tmp_path / "state.json"),))
    world.pod("puzzle", age=7)
    world.server.time = world.wall
    seen = command.look(world.keeper, str(world.file))
    command.leave(seen, world.keeper, 5.0, str(tmp_path))
    state = json.loads((tmp_path / "state.json").read_text())
    assert (state["leader"], state["pods"], state["problem"], state["waits"]) == (True, 1, "", "")
    lines = (tmp_path / "appliance_limits.prom").read_text().splitlines()
    assert 'appliance_limits_unknown{limit="idle"} 1' in lines
    assert "appliance_limits_leader 1" in lines
    assert "appliance_limits_success_timestamp_seconds 5" in lines
    named = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {line.split("{")[0].split()[0] for line in lines if not line.startswith("#")} == named


def test_without_an_account_it_waits(world: World, tmp_path: Path) -> None:
    seen = command.look(world.keeper, str(tmp_path / "none"))
    assert "appliance queue apply" in seen["waits"]
    assert seen["problem"] == ""


def test_an_answer_of_another_shape_ends_no_program(world: World) -> None:
    world.server.faults.append(("GET", "/configmaps", lambda h: h.answer(200, {"items": [{}]})))
    world.server.time = world.wall
    assert "an answer is invalid" in command.look(world.keeper, str(world.file))["problem"]


@pytest.mark.parametrize(
    "said", ["", "[]", '{"timeLimit": "8h"}', '{"queue": "q", "timeLimit": "soon"}']
)
def test_limits_that_cannot_be_read_are_unknown(said: str) -> None:
    with pytest.raises(Unknown):
        parse(said)


def test_durations_are_words() -> None:
    assert [words(s) for s in (28800, 1800, 90, 86400)] == ["8 h", "30 min", "90 s", "24 h"]


class Kubectl:
    """A kubectl that makes tokens for a service account once it is there."""

    def __init__(self, folder: Path, server: str) -> None:
        self.log, self.body, self.account = folder / "log", folder / "body", folder / "account"
        place = folder / "bin"
        place.mkdir()
        file = place / "kubectl"
        file.write_text(
            KUBECTL.format(log=self.log, body=self.body, account=self.account, server=server)
        )
        file.chmod(0o755)
        self.path = f"{place}:/usr/bin:/bin"


def test_a_token_is_made_once_and_anew_when_it_is_refused(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = Kubectl(tmp_path, world.server.url)
    monkeypatch.setenv("PATH", kubectl.path)
    file = tmp_path / "own"
    assert "waits for appliance queue apply" in token.renew(str(file), "admin")
    assert not file.exists()
    kubectl.account.touch()
    assert token.renew(str(file), "admin") == "made anew"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(kubectl.body.read_text())["spec"] == {"expirationSeconds": 86400}
    monkeypatch.undo()
    monkeypatch.setenv("PATH", kubectl.path)
    assert token.renew(str(file), "admin") == "good for hours yet"
    world.server.faults.append(("GET", "/configmaps", status(401)))
    assert token.renew(str(file), "admin") == "made anew"
    assert "t-1" not in kubectl.log.read_text()


def test_kubectl_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Trouble, match="kubectl: No such file"):
        token.renew(str(tmp_path / "own"), "admin")
