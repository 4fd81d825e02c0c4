"""``appliance queue apply`` with Run:ai: each fault of the stand-in once, while a tree is created, changed and removed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters import runai
from appliance.stages.queues.runai import apply
from tests.support.runai.organisation import POOLED, Site, organised, ran
from tests.support.runai.server import Effect

EMPTY = "\n  departments: []\n"
CHANGED = POOLED.replace("quota: 8", "quota: 6").replace("spread", "binpack")
OBJECTS = {
    "node-pools": {"default": 1, "interactive": 1},
    "departments": {"default": 1, "research": 1},
    "projects": {"team": 1, "other": 1},
    "access-rules": {"alice team": 1},
}
"""Objects of the tree with their numbers; the first of the pools and departments are Run:ai's own."""
NOTHING = {"node-pools": {"default": 1}, "departments": {"default": 1}}
PATHS = {
    "node-pools": "node-pools",
    "departments": "org-unit/departments",
    "projects": "org-unit/projects",
    "access-rules": "access-rules",
}


@dataclass(frozen=True)
class Fault:
    """``runs``: of apply until the tree is there. ``said``: words of the error of a first run that fails."""

    effect: Effect
    more: dict[str, Any] = field(default_factory=dict)
    runs: int = 1
    said: str = ""


FAULTS = {
    "conflict": Fault("status", {"status": 409}, 2, "HTTP 409"),
    "forbidden": Fault("status", {"status": 403}, 2, "HTTP 403"),
    "too many requests": Fault("status", {"status": 429, "retry_after": 0}),
    "failed": Fault("status", {"status": 500}),
    "unavailable": Fault("status", {"status": 503}),
    "page of a proxy": Fault("page", {"status": 502}),
    "accepted": Fault("later", {"delay": 12}),
    "cut before": Fault("cut-before"),
    "cut after": Fault("cut-after"),
    "cut in the answer": Fault("cut-body"),
    "slow": Fault("slow", {"seconds": 1.5}),
    "expired token": Fault("expire"),
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(apply, "POLL_S", 0.01)
    monkeypatch.setattr(runai, "READ_S", 1.0)
    shorten(monkeypatch, runai.Runai.__init__, "waits", (0.01,) * 5)
    with organised(tmp_path) as made:
        made.write(POOLED)
        yield made


def shorten(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., None], name: str, value: object
) -> None:
    """Another default of a keyword."""
    known = call.__kwdefaults__
    assert known
    monkeypatch.setitem(known, name, value)


def until_done(site: Site, capsys: pytest.CaptureFixture[str], fault: Fault) -> None:
    """Applies as often as the fault needs; then nothing differs."""
    for left in reversed(range(fault.runs)):
        code = ran(site, "apply", "--yes")
        said = capsys.readouterr()
        assert code == (1 if left else 0), said.err
        assert "Traceback" not in said.err
        assert not left or fault.said in said.err
    assert ran(site, "plan", "--detailed-exitcode") == 0, capsys.readouterr().out


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_while_the_tree_is_created(
    site: Site,
    capsys: pytest.CaptureFixture[str],
    name: str,
    kind: str,
) -> None:
    planted = site.stand_in.plant(FAULTS[name].effect, "POST", PATHS[kind], **FAULTS[name].more)
    until_done(site, capsys, FAULTS[name])
    assert planted.used == 1
    assert {kind: site.names(kind) for kind in OBJECTS} == OBJECTS


@pytest.mark.parametrize("kind", ["node-pools", "projects"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_while_the_tree_is_changed(
    site: Site,
    capsys: pytest.CaptureFixture[str],
    name: str,
    kind: str,
) -> None:
    assert ran(site, "apply", "--yes") == 0
    site.write(CHANGED)
    planted = site.stand_in.plant(
        FAULTS[name].effect, "PUT|PATCH", PATHS[kind], **FAULTS[name].more
    )
    until_done(site, capsys, FAULTS[name])
    assert planted.used == 1
    assert {kind: site.names(kind) for kind in OBJECTS} == OBJECTS


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_while_the_tree_is_removed(
    site: Site,
    capsys: pytest.CaptureFixture[str],
    name: str,
    kind: str,
) -> None:
    assert ran(site, "apply", "--yes") == 0
    site.write(EMPTY)
    planted = site.stand_in.plant(FAULTS[name].effect, "DELETE", PATHS[kind], **FAULTS[name].more)
    until_done(site, capsys, FAULTS[name])
    assert planted.used == 1
    assert {kind: site.names(kind) for kind in OBJECTS} == {kind: {} for kind in OBJECTS} | NOTHING


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda site: site.stand_in.world.stuck.update(team="the agent is away"),
            "Project team is NotReady after 1 s (the agent is away)",
        ),
        (
            lambda site: site.stand_in.plant("later", "POST", "projects", delay=10**9),
            "create project team: Run:ai accepted it, but it does not exist after 1 s",
        ),
        (
            lambda site: setattr(site.stand_in.world, "settles", None),
            "NodePool interactive is Creating after 1 s",
        ),
    ],
    ids=["never ready", "never carried out", "nothing is finished"],
)
def test_what_run_ai_does_not_finish_is_named_and_done_by_the_next_run(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Site], object],
    said: str,
) -> None:
    shorten(monkeypatch, apply.Applying.__init__, "patience", 1)
    spoil(site)
    assert ran(site, "apply", "--yes") == 1
    wrong = capsys.readouterr().err
    assert said in wrong
    assert "shows the cluster as Connected" in wrong
    world = site.stand_in.world
    world.stuck.clear()
    world.settles = 0
    until_done(site, capsys, Fault("act"))
    assert {kind: site.names(kind) for kind in OBJECTS} == OBJECTS


def test_a_change_that_is_never_carried_out_is_named(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shorten(monkeypatch, apply.Applying.__init__, "patience", 1)
    assert ran(site, "apply", "--yes") == 0
    site.write(CHANGED)
    site.stand_in.plant("later", "PUT", "projects", delay=10**9)
    assert ran(site, "apply", "--yes") == 1
    assert "Project team is Ready, and not changed, after 1 s" in capsys.readouterr().err
    until_done(site, capsys, Fault("act"))
