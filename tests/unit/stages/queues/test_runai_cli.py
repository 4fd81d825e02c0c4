"""``appliance queue`` with Run:ai: by the site's address, CA and secret, and without the secret in any output."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.cli import main as program
from tests.support.fake_kubernetes import serving as cluster
from tests.support.runai_answers import CLUSTER, SECRET, Answers, Handler, serving
from tests.support.runai_world import PLAIN, RunaiWorld

TRUSTED = """
  runai_client_secret: {{file: secrets/runai_client_secret}}
software: {{kai: "0.18"}}
scheduler:
  kind: runai
  runai:
    url: {url}
    ca: tls.pem
    client: appliance
    cluster: rack
    role: Viewer
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Answers]:
    """A control plane with a certificate of its own, and the site that names it."""
    key, certificate = os.fspath(tmp_path / "key.pem"), tmp_path / "tls.pem"
    words = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
    run(words.split())
    certificate.write_text(certificate.read_text() + Path(key).read_text())
    with serving(certificate) as found, cluster() as api:
        found.lists["/api/v1/clusters"] = [{"uuid": CLUSTER, "name": "rack"}]
        world = RunaiWorld(found, api, tmp_path)
        url = found.url.replace("http:", "https:")
        world.write(PLAIN, TRUSTED.format(url=url))
        yield found


def ran(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    argv = ["appliance", "queue", words[0], "--site", os.fspath(folder), *words[1:]]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_plan_and_apply_as_a_script_runs_them(
    server: Answers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ran(tmp_path, monkeypatch, "plan", "--detailed-exitcode") == 2
    said = capsys.readouterr()
    assert "+ Department research" in said.out
    assert "3 to create (0 as described)" in said.out
    assert ran(tmp_path, monkeypatch, "apply", "--yes") == 0
    applied = capsys.readouterr()
    assert "create   AccessRule user alice in team" in applied.out
    assert "3 changes made" in applied.out
    assert server.lists["/api/v1/authorization/access-rules"][0]["roleId"] == 3
    assert ran(tmp_path, monkeypatch, "plan", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["changes"] == []
    assert document["server"].startswith("https://127.0.0.1:")
    for text in (said.out, said.err, applied.out, applied.err, json.dumps(document)):
        assert SECRET not in text
        assert "token-1" not in text
    for file in (tmp_path / "runs").rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


def test_show_and_render_contact_nothing(
    server: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ran(tmp_path, monkeypatch, "show") == 0
    assert ran(tmp_path, monkeypatch, "render", "--output", os.fspath(tmp_path / "out")) == 0
    assert not (tmp_path / "out/values/control-plane.yml").exists(), "stage runai has it"
    assert server.forms == []


def test_a_secret_that_the_control_plane_repeats_is_hidden(
    server: Answers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def repeat(handler: Handler) -> None:
        handler.answer(400, {"code": 400, "message": f"no {SECRET} and token-1"})

    server.faults.append(repeat)
    assert ran(tmp_path, monkeypatch, "plan") == 1
    said = capsys.readouterr().err
    assert "list clusters: no *** and *** (HTTP 400)" in said
    assert "fix: " in said
