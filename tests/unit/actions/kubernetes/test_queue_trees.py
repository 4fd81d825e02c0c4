"""Volumes and claims of shared trees in a cluster: made as a pair, made anew as a pair, and left alone while a pod mounts them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.kubernetes import KubernetesApi, Ref
from appliance.config.load import load_site
from appliance.errors import ClusterFailed
from appliance.models.queue_plan import QueuePlan
from appliance.stages.queues import changes
from appliance.stages.queues.trees import await_gone
from appliance.stages.scheduler.queues.rendered import rendered
from tests.support.fake_kubernetes import Api, kubeconfig, serving
from tests.support.rendered_queues import make, only

CLAIM = "/api/v1/namespaces/kai-alpha/persistentvolumeclaims/appliance-tree-home"
VOLUME = "/api/v1/persistentvolumes/kai-alpha.appliance-tree-home"
HELD = {"volumes": [{"name": "t", "persistentVolumeClaim": {"claimName": "appliance-tree-home"}}]}
PLACES: dict[str, tuple[str, dict[str, Any]]] = {
    "Pod": ("/api/v1/namespaces/kai-alpha/pods/old", HELD),
    "Job": ("/apis/batch/v1/namespaces/kai-alpha/jobs/old", {"template": {"spec": HELD}}),
    "CronJob": (
        "/apis/batch/v1/namespaces/kai-alpha/cronjobs/old",
        {"jobTemplate": {"spec": {"template": {"spec": HELD}}}},
    ),
    "StatefulSet": (
        "/apis/apps/v1/namespaces/kai-alpha/statefulsets/old",
        {
            "template": {"spec": {}},
            "volumeClaimTemplates": [{"metadata": {"name": "appliance-tree"}}],
        },
    ),
}


class World:
    """A site with trees, and a cluster of its own."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.api = api
        self.folder = folder
        make(folder, "trees")
        kubeconfig(folder, api.url)

    def plan(self, *, apply: bool = False) -> QueuePlan:
        loaded = load_site(self.folder)
        wanted = rendered(loaded.site, loaded.profile)
        with KubernetesApi(self.folder / "kubeconfig", sleep=lambda _: None) as cluster:
            made = changes.plan(loaded.site, wanted, cluster)
            if apply:
                changes.apply(made, wanted, cluster, lambda _: None)
            return made

    def steps(self) -> list[str]:
        """What is planned, applied, and then planned no more."""
        made = self.plan(apply=True)
        assert made.refused == ()
        assert self.plan().work == ()
        return [f"{c.step.value} {c.title}" for c in made.work]

    def edit(self, old: str, new: str) -> None:
        file = self.folder / "site.yml"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))

    def put(self, path: str, **spec: Any) -> None:
        name = path.rsplit("/", 1)[1]
        meta = {"name": name, "namespace": "kai-alpha"}
        self.api.put(path, {"metadata": meta, "spec": spec, "status": {"phase": "Running"}})


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with serving() as api:
        yield World(api, tmp_path)


def test_trees_come_after_all_that_judges_pods_and_the_second_apply_changes_nothing(
    world: World,
) -> None:
    made = world.plan(apply=True)
    kinds = [c.kind for c in made.work]
    trees = [k for k in kinds if k.startswith("PersistentVolume")]
    assert trees == ["PersistentVolume", "PersistentVolumeClaim"] * 4 == kinds[-8:]
    again = world.plan()
    assert (again.changes, again.unchanged) == ((), len(made.work))


def test_a_tree_that_moves_is_made_anew_and_one_that_goes_is_deleted(world: World) -> None:
    world.steps()
    world.edit("path: home}", "path: homes}")
    claim, volume = "kai-alpha/appliance-tree-home", "kai-alpha.appliance-tree-home"
    assert world.steps() == [f"delete {claim}", f"replace {volume}", f"create {claim}"]
    assert world.api.store[VOLUME]["spec"]["nfs"]["path"] == "/srv/shared/homes"
    world.edit("        - {name: home, export: /srv/shared, path: homes}\n", "")
    assert world.steps() == ["change kai-alpha/appliance", f"delete {claim}", f"delete {volume}"]
    assert CLAIM not in world.api.store
    assert VOLUME not in world.api.store


def test_options_of_a_mount_change_in_place(world: World) -> None:
    world.steps()
    world.api.store[VOLUME]["spec"]["mountOptions"] = ["soft"]
    assert world.steps() == ["change kai-alpha.appliance-tree-home"]


@pytest.mark.parametrize("gone", [CLAIM, VOLUME])
def test_a_pair_of_which_one_was_deleted_is_made_anew(world: World, gone: str) -> None:
    world.steps()
    # As the cluster's controller binds them.
    world.api.store[VOLUME]["spec"]["claimRef"]["uid"] = "1"
    del world.api.store[gone]
    claim, volume = "kai-alpha/appliance-tree-home", "kai-alpha.appliance-tree-home"
    assert world.steps() == (
        [f"replace {volume}", f"create {claim}"]
        if gone == CLAIM
        else [f"delete {claim}", f"create {volume}", f"create {claim}"]
    )
    assert "uid" not in world.api.store[VOLUME]["spec"]["claimRef"]


def test_a_claim_whose_volume_is_lost_is_made_anew(world: World) -> None:
    world.steps()
    world.api.store[CLAIM]["status"] = {"phase": "Lost"}
    assert len(world.steps()) == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("path: home}", "path: homes}"),
        ("        - {name: home, export: /srv/shared, path: home}\n", ""),
    ],
)
def test_a_tree_that_a_pod_mounts_stands_in_the_way(world: World, old: str, new: str) -> None:
    world.steps()
    world.put(PLACES["Pod"][0], **HELD)
    world.edit(old, new)
    (refused,) = world.plan().refused
    assert refused.title == "kai-alpha/appliance-tree-home"
    assert "pod kai-alpha/old mounts it" in refused.details[0]


@pytest.mark.parametrize("kind", PLACES)
def test_what_named_a_claim_before_it_was_there_stands_in_the_way(world: World, kind: str) -> None:
    if kind == "StatefulSet":
        world.edit("name: home,", "name: old-0,")
    path, spec = PLACES[kind]
    world.put(path, **spec)
    (refused,) = world.plan().refused
    assert refused.details[0].startswith(f"{kind} kai-alpha/old names this claim")
    del world.api.store[path]
    assert world.plan().refused == ()


def test_what_names_a_claim_that_somebody_deleted_does_not_keep_it_away(world: World) -> None:
    world.steps()
    world.put(PLACES["CronJob"][0], **PLACES["CronJob"][1])
    del world.api.store[CLAIM]
    assert world.steps() == ["create kai-alpha/appliance-tree-home"]


def test_what_is_used_and_does_not_go_ends_the_run(world: World) -> None:
    world.api.put(CLAIM, {"metadata": {"name": "appliance-tree-home"}})
    waits: list[float] = []
    with KubernetesApi(world.folder / "kubeconfig") as cluster:
        ref = Ref("v1", "PersistentVolumeClaim", "appliance-tree-home", "kai-alpha")
        with pytest.raises(ClusterFailed, match="is still there after 60 s"):
            await_gone(cluster, ref, waits.append)
    assert len(waits) == 60


def test_who_has_which_number_stands_on_the_namespace(tmp_path: Path) -> None:
    found = make(tmp_path, "trees")

    def told(space: str) -> dict[str, str]:
        notes = only(found, "Namespace", space)["metadata"]["annotations"]
        return {k: v for k, v in notes.items() if k.partition(".")[0] in {"uid", "gids"}}

    assert told("kai-alpha") == {
        "uid.appliance/2001": "alice",
        "gids.appliance/2001": "3001",
        "uid.appliance/2002": "bob",
    }
    # Who is in a group only the cluster knows.
    assert told("kai-beta") == {**told("kai-alpha"), "uid.appliance/2003": "carla@example.com"}
    assert told("kai-gamma") == {}


def test_a_volume_is_kept_for_its_claim_and_outlives_it(tmp_path: Path) -> None:
    found = make(tmp_path, "trees")
    spec = only(found, "PersistentVolume", "kai-beta.appliance-tree-data")["spec"]
    assert spec["claimRef"]["namespace"] == "kai-beta"
    assert (spec["claimRef"]["name"], spec["persistentVolumeReclaimPolicy"]) == (
        "appliance-tree-data",
        "Retain",
    )
    assert "ro" in spec["mountOptions"]
    home = only(found, "PersistentVolume", "kai-alpha.appliance-tree-home")["spec"]
    assert home["nfs"] == {"server": "10.0.0.10", "path": "/srv/shared/home"}
    assert "ro" not in home["mountOptions"]
    quota = {
        r["metadata"]["namespace"]: r["spec"]["hard"]["persistentvolumeclaims"]
        for r in found.resources
        if r["kind"] == "ResourceQuota"
    }
    assert quota == {"kai-alpha": "103", "kai-beta": "101", "kai-gamma": "100"}
