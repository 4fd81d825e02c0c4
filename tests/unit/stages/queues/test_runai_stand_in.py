"""``appliance queue`` with Run:ai, against the stand-in: two authors read the same documentation, and not each other."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.cli import main as program
from tests.support.impossible_queues import BASE, furnish
from tests.support.runai.server import StandIn, standing
from tests.support.runai.tls import certificate
from tests.support.runai.user import User
from tests.support.runai.world import World

HEAD = """
  runai_client_secret: {{file: secrets/runai_client_secret}}
software: {{kai: "0.18"}}
scheduler:
  kind: runai
  runai: {{url: "{url}", ca: cert.pem, client: "{client}", cluster: rack, role: Viewer}}
"""
TREE = """
  departments: [{name: research}]
  projects:
    - name: team
      department: research
      users: [alice]
      queues: [{name: train, gpu: {quota: 8, limit: 32}}]
    - name: other
      department: research
      queues: [{name: train, gpu: {quota: 4}}]
"""


@dataclass
class Site:
    """The folder of the site, its control plane, and the head of its file."""

    folder: Path
    stand_in: StandIn
    user: User
    head: str

    def write(self, tree: str) -> None:
        (self.folder / "site.yml").write_text(BASE + self.head.lstrip("\n") + tree)

    def names(self, kind: str) -> set[str]:
        return {row.body["name"] for row in self.stand_in.world.tables[kind].values()}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    furnish(tmp_path)
    certificate(tmp_path)
    with standing(tmp_path, World()) as stand_in:
        user = User(stand_in, tmp_path).as_administrator()
        cluster = user.cluster("rack")
        path = f"/api/v1/clusters/{cluster}/cluster-install-info?version=3.0.20"
        stand_in.world.heartbeat(cluster, user.good("GET", path)["bootstrapToken"], "3.0.20")
        made = user.good("POST", "/api/v1/service-accounts", {"name": "appliance"})
        roles = user.good("GET", "/api/v2/authorization/roles")["roles"]
        (number,) = [row["id"] for row in roles if row["name"] == "System administrator"]
        rule = {"subjectId": made["clientId"], "subjectType": "service-account", "roleId": number}
        scope = {"scopeType": "cluster", "scopeId": cluster}
        user.good("POST", "/api/v1/authorization/access-rules", rule | scope)
        secret = tmp_path / "secrets/runai_client_secret"
        secret.touch(mode=0o600)
        secret.write_text(made["clientSecret"])
        head = HEAD.format(url=stand_in.url, client=made["clientId"])
        found = Site(tmp_path, stand_in, user, head)
        found.write(TREE)
        yield found


def ran(site: Site, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    argv = ["appliance", "queue", words[0], "--site", os.fspath(site.folder), *words[1:]]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_tree_is_written_found_equal_and_removed(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(site, monkeypatch, "apply", "--yes") == 0, capsys.readouterr().err
    assert {"team", "other"} <= site.names("projects")
    assert "research" in site.names("departments")
    assert ran(site, monkeypatch, "plan", "--detailed-exitcode") == 0, capsys.readouterr().out
    site.write(TREE[: TREE.index("    - name: other")])
    assert ran(site, monkeypatch, "apply", "--yes") == 0, capsys.readouterr().err
    assert "other" not in site.names("projects")


def test_a_change_by_hand_is_drift_and_repaired(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(site, monkeypatch, "apply", "--yes") == 0, capsys.readouterr().err
    projects = site.stand_in.world.tables["projects"]
    (team,) = [row.body for row in projects.values() if row.body["name"] == "team"]
    for share in team["resources"]:
        share["gpu"]["deserved"] = 1
    assert ran(site, monkeypatch, "plan", "--detailed-exitcode") == 2
    assert "team" in capsys.readouterr().out
    assert ran(site, monkeypatch, "apply", "--yes") == 0, capsys.readouterr().err
    assert ran(site, monkeypatch, "plan", "--detailed-exitcode") == 0


@pytest.mark.parametrize(
    ("method", "path", "more"),
    [
        ("POST", "projects", {"status": 503, "times": 2}),
        ("POST", "projects", {"status": 429, "times": 2, "retry_after": 0}),
        ("GET", "departments", {"status": 503, "times": 2}),
    ],
    ids=["unavailable", "too many requests", "unavailable to readers"],
)
def test_a_fault_for_a_moment_leaves_no_duplicate(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    more: dict[str, int],
) -> None:
    site.stand_in.plant("status", method, path, **more)
    assert ran(site, monkeypatch, "apply", "--yes") == 0
    names = [row.body["name"] for row in site.stand_in.world.tables["projects"].values()]
    assert sorted(names) == sorted(set(names))
    assert ran(site, monkeypatch, "plan", "--detailed-exitcode") == 0
