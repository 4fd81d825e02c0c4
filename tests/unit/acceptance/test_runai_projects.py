"""The scheduler's promises with Run:ai: its projects are the queues, in the stand-in; a KAI in memory has what they say."""

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.acceptance.sandbox import Resource, Settings, clean
from appliance.acceptance.trial import run
from appliance.acceptance.workload import PREFIX, queue
from appliance.actions.sites.opening import Target
from appliance.actions.trials import runai_projects
from appliance.actions.trials.runai_projects import SCHEDULER, projects_of, site_of
from appliance.cli.options import quiet
from appliance.errors import ApplianceError
from appliance.models.result import CheckResult, Status
from tests.support.clusters import FOUR_HOSTS
from tests.support.kai_like import KaiLike
from tests.support.runai.organisation import Site, organised
from tests.support.runai.world import World

QUICK = Settings(scheduler=SCHEDULER, patience=60.0, quiet=20.0)


class Synced(KaiLike):
    """A cluster with a queue for each department and project of the control plane, as Run:ai's controllers make them."""

    def __init__(self, world: World, *faults: str) -> None:
        super().__init__(FOUR_HOSTS, *faults)
        self.world = world
        self.spaces: set[str] = set()

    def queues(self) -> dict[str, Resource]:
        found: dict[str, Resource] = {}
        for kind in ("departments", "projects"):
            for stored in self.world.tables[kind].values():
                for entry in stored.body["resources"]:
                    gpu = entry["gpu"]
                    limit = -1 if gpu["limit"] is None else gpu["limit"]
                    given = {"quota": gpu["deserved"], "limit": limit}
                    found[stored.body["name"]] = {**gpu, **given}
        return found

    def apply(self, resource: Resource) -> None:
        assert resource["kind"] in ("Job", "Pod"), resource["kind"]
        self.spaces.add(resource["metadata"]["namespace"])
        super().apply(copy.deepcopy(resource))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(runai_projects, "POLL_S", 0.01)
    with organised(tmp_path, World(settles=0)) as made:
        yield made


def tried(site: Site, *faults: str) -> tuple[dict[str, CheckResult], Synced]:
    cluster = Synced(site.stand_in.world, *faults)
    loaded = site_of(Target(site.folder), quiet())
    assert loaded
    with projects_of(loaded, cluster) as projects:
        return {one.id: one for one in run(projects, cluster, QUICK)}, cluster


def test_promises_are_tried_in_namespaces_of_projects(site: Site) -> None:
    found, cluster = tried(site)
    kept = {name.removeprefix("scheduler.") for name, r in found.items() if r.status is Status.PASS}
    assert {"quota", "reclaim", "fair_share", "packing"} <= kept
    assert not [r for r in found.values() if r.status in (Status.FAIL, Status.ERROR)]
    assert all(space.startswith(f"runai-{PREFIX}-") for space in cluster.spaces)
    assert "the trial submits pods" in found["scheduler.gang"].cause
    assert "the trial submits pods" in found["scheduler.time_limit"].cause


def test_nothing_is_left_in_run_ai(site: Site) -> None:
    tried(site)
    assert set(site.names("projects")) == set()
    assert set(site.names("departments")) == {"default"}


@pytest.mark.parametrize(
    ("fault", "promise"),
    [("no limits", "quota"), ("nothing given back", "reclaim"), ("spreads", "packing")],
)
def test_a_broken_promise_is_found(site: Site, fault: str, promise: str) -> None:
    found, _ = tried(site, fault)
    assert found[f"scheduler.{promise}"].status is Status.FAIL


def test_what_a_killed_trial_left_is_removed_and_nothing_else(site: Site) -> None:
    cluster = Synced(site.stand_in.world)
    loaded = site_of(Target(site.folder), quiet())
    assert loaded
    with projects_of(loaded, cluster) as projects:
        projects.apply(queue(PREFIX, 4))
        projects.apply(queue(f"{PREFIX}-work", 4, parent=PREFIX))
        (own,) = site.stand_in.world.tables["clusters"]
        site.user.unit("projects", "vision", own)
        clean(projects)
    assert set(site.names("projects")) == {"vision"}


def test_a_project_of_others_with_the_trials_name_is_refused(site: Site) -> None:
    (own,) = site.stand_in.world.tables["clusters"]
    site.user.unit("departments", PREFIX, own)
    loaded = site_of(Target(site.folder), quiet())
    assert loaded
    with (
        projects_of(loaded, Synced(site.stand_in.world)) as projects,
        pytest.raises(ApplianceError, match="not the trial's"),
    ):
        projects.apply(queue(PREFIX, 4))
