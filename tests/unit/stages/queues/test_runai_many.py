"""1,200 projects in Run:ai: changed while they are listed, applied by runs that are killed, drifted, repaired and removed."""

import os
import subprocess  # noqa: TID251 - the process is killed
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.stages.queues.runai import apply
from tests.support.runai.organisation import Site, organised, ran
from tests.support.runai.server import Effect
from tests.support.runai.world import World

MANY = 1200
MOMENTS = (0, 1, 2, 3, 49, 120, 250, 400, 77, 5)
"""Writes that a run makes before it is killed: more each time until most of the tree is there."""
ROOT = Path(__file__).parents[4]


def tree(count: int, quota: str = "0.02") -> str:
    """Departments of 100 projects, each with a member."""
    units = "".join(f"    - {{name: d-{i:02}}}\n" for i in range((count + 99) // 100))
    rows = "".join(
        f"    - {{name: p-{i:04}, department: d-{i // 100:02}, users: [u-{i:04}], queues: [{{name: train, gpu: {{quota: {quota}}}}}]}}\n"
        for i in range(count)
    )
    return f"\n  sharing: unenforced\n  departments:\n{units}  projects:\n{rows}"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(apply, "POLL_S", 0.01)
    with organised(tmp_path, World(settles=0)) as made:
        made.write(tree(MANY))
        yield made


def killed_at(site: Site, methods: str, writes: int) -> int:
    """``queue apply`` as a process that ends by SIGKILL after so many writes; its exit code.

    The next write has arrived. It is carried out if ``writes`` is even.
    """
    words = ["queue", "apply", "--yes", "--site", os.fspath(site.folder)]
    process = subprocess.Popen(
        [sys.executable, "-m", "appliance", *words],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    effect: Effect = "cut-before" if writes % 2 else "act"
    site.stand_in.plant(effect, methods, "/api/v1", skip=writes, call=process.kill)
    try:
        _, said = process.communicate(timeout=120)
        assert process.returncode == -9, said.decode()
        return process.returncode
    finally:
        process.kill()
        process.wait()


def all_of(count: int) -> dict[str, Counter[str]]:
    """The objects of ``tree``, each once."""
    departments = {f"d-{i:02}": 1 for i in range((count + 99) // 100)}
    return {
        "departments": Counter(departments | {"default": 1}),
        "projects": Counter(f"p-{i:04}" for i in range(count)),
        "access-rules": Counter(f"u-{i:04} p-{i:04}" for i in range(count)),
    }


def found(site: Site) -> dict[str, Counter[str]]:
    """The same, as the control plane has them."""
    return {kind: site.names(kind) for kind in all_of(0)}


def test_1200_projects_from_creation_to_removal(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    for writes in MOMENTS:
        assert killed_at(site, "POST", writes) == -9
        assert max(max(names.values(), default=1) for names in found(site).values()) == 1
    assert len(site.names("projects")) < MANY
    assert ran(site, "apply", "--yes") == 0, capsys.readouterr().err
    assert found(site) == all_of(MANY)
    capsys.readouterr()

    table = site.stand_in.world.tables["projects"]
    (victim,) = [row.body for row in table.values() if row.body["name"] == "p-0777"]
    (first,) = [key for key, row in table.items() if row.body["name"] == "p-0001"]

    rules = site.stand_in.world.tables["access-rules"]
    (member,) = [key for key, row in rules.items() if row.body["subjectId"] == "u-0001"]

    def change() -> None:
        """Between two pages: one object changes, and one goes, so that the next page begins elsewhere."""
        victim["resources"][0]["gpu"]["deserved"] = 3
        del table[first]
        del rules[member]

    planted = site.stand_in.plant("act", "GET", "projects.*offset=499", call=change)
    assert ran(site, "plan", "--detailed-exitcode") == 2
    assert planted.used == 1
    said = capsys.readouterr().out
    assert "GPU quota 3 GPUs → 0.02 GPUs" in said
    assert "+ Project p-0001" in said
    assert "2 to create, 1 to change" in said
    assert ran(site, "apply", "--yes") == 0
    assert ran(site, "plan", "--detailed-exitcode") == 0
    assert found(site) == all_of(MANY)

    site.write("\n  departments: []\n")
    for writes in (1, 900, 1350):
        assert killed_at(site, "DELETE", writes) == -9
    assert ran(site, "apply", "--yes") == 0, capsys.readouterr().err
    assert found(site) == all_of(0)
    assert ran(site, "plan", "--detailed-exitcode") == 0
