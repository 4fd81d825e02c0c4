"""``appliance queue`` with Run:ai, against the stand-in: two authors read the same documentation, and not each other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runai.organisation import TREE, Site, organised, ran


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with organised(tmp_path) as found:
        yield found


def test_a_tree_is_written_found_equal_and_removed(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(site, "apply", "--yes") == 0, capsys.readouterr().err
    assert {"team", "other"} <= set(site.names("projects"))
    assert "research" in site.names("departments")
    assert ran(site, "plan", "--detailed-exitcode") == 0, capsys.readouterr().out
    site.write(TREE[: TREE.index("    - name: other")])
    assert ran(site, "apply", "--yes") == 0, capsys.readouterr().err
    assert "other" not in site.names("projects")


def test_a_change_by_hand_is_drift_and_repaired(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(site, "apply", "--yes") == 0, capsys.readouterr().err
    projects = site.stand_in.world.tables["projects"]
    (team,) = [row.body for row in projects.values() if row.body["name"] == "team"]
    for share in team["resources"]:
        share["gpu"]["deserved"] = 1
    assert ran(site, "plan", "--detailed-exitcode") == 2
    assert "team" in capsys.readouterr().out
    assert ran(site, "apply", "--yes") == 0, capsys.readouterr().err
    assert ran(site, "plan", "--detailed-exitcode") == 0


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
    method: str,
    path: str,
    more: dict[str, int],
) -> None:
    site.stand_in.plant("status", method, path, **more)
    assert ran(site, "apply", "--yes") == 0
    names = [row.body["name"] for row in site.stand_in.world.tables["projects"].values()]
    assert sorted(names) == sorted(set(names))
    assert ran(site, "plan", "--detailed-exitcode") == 0
