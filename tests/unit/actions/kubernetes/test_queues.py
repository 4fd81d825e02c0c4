"""Queues against a cluster: the plan in words, the second run without change, and what is refused."""

import base64
import json
import os
from pathlib import Path

import pytest

from appliance.actions.kubernetes import queues as action
from appliance.actions.sites.opening import Target
from appliance.adapters.kubernetes import KubernetesApi, Resource
from appliance.config.finding import InvalidConfig
from appliance.config.load import load_site
from appliance.errors import ClusterFailed, ClusterRefused
from appliance.models.queue_plan import QueuePlan, Step
from appliance.stages.queues import changes
from appliance.stages.queues.work import DEFAULTED, QUEUE_LABEL
from appliance.stages.scheduler.queues.bounds import POD_CPU
from appliance.stages.workloads.network import policies
from appliance.stages.workloads.releases import namespaces
from appliance.stages.workloads.site import WorkloadsOptions
from tests.support.fake_kubernetes import status
from tests.support.impossible_queues import SOUND
from tests.support.queue_world import World, world

__all__ = ["world"]


POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"


def details(plan: QueuePlan) -> dict[str, tuple[str, ...]]:
    return {change.title: change.details for change in plan.changes}


def test_second_apply_changes_nothing(world: World) -> None:
    assert {c.step for c in world.plan().changes} == {Step.CREATE, Step.CHANGE}
    assert world.apply() > 10
    before = dict(world.api.store)
    again = world.plan()
    assert again.changes == ()
    assert again.unchanged > 10
    assert world.apply() == 0
    assert world.api.store == before


def test_parents_are_made_before_their_children(world: World) -> None:
    made = [c.name for c in world.plan().changes if c.kind == "Queue"]
    assert made.index("science") < made.index("physics") < made.index("lattice")
    assert made.index("lattice") < made.index("lattice-train")


def test_a_changed_quota_is_said_in_gpus(world: World) -> None:
    world.apply()
    world.write(SOUND.replace("{quota: 16, limit: 24, weight: 2}", "{quota: 12, limit: 20}"))
    said = details(world.plan())
    assert said["lattice/train"] == (
        "GPU quota 16 GPUs → 12 GPUs",
        "GPU limit 24 GPUs → 20 GPUs",
        "GPU weight 2 → 1",
        "memory quota 1958.5 GB → 1468.8 GB",
        "memory weight 2 → 1",
    )
    memory = "memory quota 1958.5 GB → 1468.8 GB"
    assert said["project lattice"] == ("GPU quota 16 GPUs → 12 GPUs", memory)


def test_somebody_elses_change_is_drift_and_taken_back(world: World) -> None:
    world.apply()
    world.queue("lattice-train")["spec"]["resources"]["cpu"]["quota"] = 1000  # type: ignore[index]
    assert details(world.plan()) == {"lattice/train": ("CPU quota 1 cores → 200 cores",)}
    assert world.apply() == 1
    assert world.plan().changes == ()


def test_running_work_beyond_a_new_guarantee_is_named(world: World) -> None:
    world.apply()
    queue = world.queue("lattice-train")
    queue["spec"]["resources"]["memory"] = {"quota": -1, "limit": -1, "overQuotaWeight": 2}  # type: ignore[index]
    queue["status"] = {
        "allocated": {"cpu": "400", "memory": "8000G"},
        "allocatedNonPreemptible": {"memory": "7000G"},
    }
    meta = {"name": "job", "namespace": "kai-lattice", "labels": {QUEUE_LABEL: "lattice-train"}}
    world.api.put("/api/v1/namespaces/kai-lattice/pods/job", {"metadata": meta})
    assert details(world.plan())["lattice/train"] == (
        "memory quota unbounded → 1958.5 GB",
        "pod kai-lattice/job: 8000 GB in use, 1958.5 guaranteed; KAI may evict what is beyond it when others need their guarantee",
        "its work that is never evicted holds 7000 GB and continues; new work waits",
    )


def test_running_pods_below_a_new_least_request_are_named(world: World) -> None:
    world.apply()
    space = world.api.store["/api/v1/namespaces/kai-lattice"]
    del space["metadata"]["annotations"][POD_CPU]

    def pod(name: str, cpu: str, notes: dict[str, str], phase: str = "Running") -> None:
        box = {"name": "work", "resources": {"requests": {"cpu": cpu}}}
        meta = {"name": name, "namespace": "kai-lattice", "annotations": notes}
        made = {"metadata": meta, "spec": {"containers": [box]}, "status": {"phase": phase}}
        world.api.put(f"/api/v1/namespaces/kai-lattice/pods/{name}", made)

    pod("enough", "480m", {})
    pod("ended", "50m", {}, "Succeeded")
    default = "LimitRanger plugin set: cpu, memory request for container work; memory limit for container work"
    pod("by-default", "50m", {DEFAULTED: default})
    change = "annotations.appliance/pod-cpu - → 480m"
    assert details(world.plan())["kai-lattice"] == (change,)
    pod("small", "479m", {DEFAULTED: default.replace("cpu, ", "")})
    assert details(world.plan())["kai-lattice"] == (
        change,
        "pod kai-lattice/small: requests less than 480m of cpu and continues; new pods request at least this",
    )


def test_a_field_the_site_no_longer_gives_is_taken_out(world: World) -> None:
    world.write(SOUND.replace("priority_class: urgent", "reclaim_min_runtime: 30m"))
    world.apply()
    assert world.queue("lattice-train")["spec"]["reclaimMinRuntime"] == "30m"  # type: ignore[index]
    world.write(SOUND.replace("priority_class: urgent", "priority: 100"))
    assert "runtime before reclaim 30m → -" in details(world.plan())["lattice/train"]
    world.apply()
    assert "reclaimMinRuntime" not in world.queue("lattice-train")["spec"]  # type: ignore[operator]


def test_a_host_that_left_its_pool_loses_the_pools_label(world: World) -> None:
    key, path = "kai.scheduler/node-pool", "/api/v1/nodes/gpu-2"
    world.apply()
    world.api.store[path]["metadata"].setdefault("labels", {})[key] = "former"
    assert details(world.plan()) == {"gpu-2": (f"label {key} former → -",)}
    assert world.apply() == 1
    assert key not in world.api.store[path]["metadata"]["labels"]
    assert world.plan().changes == ()


def test_what_cannot_be_changed_is_replaced(world: World) -> None:
    world.apply()
    world.write(SOUND.replace("value: 60", "value: 70"))
    (change,) = (c for c in world.plan().changes if c.kind == "PriorityClass")
    assert (change.step, change.details) == (Step.REPLACE, ("value 60 → 70",))
    world.apply()
    stored = world.api.store["/apis/scheduling.k8s.io/v1/priorityclasses/urgent"]
    assert stored["value"] == 70


GONE = SOUND[: SOUND.index("        - name: train")] + SOUND[SOUND.index("  priorities") :]


def test_a_queue_without_work_is_deleted(world: World) -> None:
    world.apply()
    world.write(GONE)
    gone = [c.name for c in world.plan().work if c.step is Step.DELETE]
    assert gone == ["lattice-train", "lattice", "physics"]
    world.apply()
    assert world.plan().changes == ()


@pytest.mark.parametrize("how", ["allocated", "requested", "pod"])
def test_a_queue_that_holds_work_stays_and_nothing_is_applied(
    world: World, how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.apply()
    if how == "pod":
        pod = {
            "metadata": {
                "name": "job-0",
                "namespace": "kai-lattice",
                "labels": {"kai.scheduler/queue": "lattice-train"},
            },
            "status": {"phase": "Pending"},
        }
        world.api.put("/api/v1/namespaces/kai-lattice/pods/job-0", pod)
    else:
        world.queue("lattice-train")["status"] = {how: {"nvidia.com/gpu": "2", "cpu": "0"}}
    world.write(GONE.replace("quota: 4.5", "quota: 4"))
    (refused,) = world.plan().refused
    assert refused.name == "lattice-train"
    assert ("job-0" if how == "pod" else "2 nvidia.com/gpu") in refused.details[0]
    before = dict(world.api.store)
    assert world.run(monkeypatch, "apply", "--yes") == 1
    assert world.api.store == before
    assert "nothing is applied" in capsys.readouterr().out


def test_ended_pods_hold_nothing(world: World) -> None:
    world.apply()
    pod = {
        "metadata": {"name": "x", "labels": {"kai.scheduler/queue": "lattice-train"}},
        "status": {"phase": "Succeeded"},
    }
    world.api.put("/api/v1/namespaces/kai-lattice/pods/x", pod)
    world.write(GONE)
    assert world.plan().refused == ()


def test_the_namespace_of_an_add_on_is_no_project_that_was_taken_out(world: World) -> None:
    world.apply()
    known = load_site(world.folder).site
    options = WorkloadsOptions.model_validate({"jobset": {}})
    with_one = known.model_copy(update={"workloads": options})
    (space,), (policy,) = namespaces(with_one), policies(with_one)
    world.api.put("/api/v1/namespaces/jobset-system", space)
    world.api.put(f"{POLICIES.format('jobset-system')}/appliance", policy)
    assert world.plan().changes == ()


def test_a_project_is_closed_by_itself_and_opened_by_word(world: World) -> None:
    world.apply()
    path = f"{POLICIES.format('kai-lattice')}/appliance"
    assert world.api.store[path]["spec"]["ingress"] == [{"from": [{"podSelector": {}}]}]
    assert world.plan().changes == ()
    world.write(SOUND.replace("      users:", "      open_to_cluster: true\n      users:"))
    assert [(c.step, c.kind) for c in world.plan().changes] == [(Step.DELETE, "NetworkPolicy")]
    world.apply()
    assert path not in world.api.store


def test_a_project_taken_out_leaves_its_namespace(world: World) -> None:
    world.apply()
    world.write("\nscheduler:\n  projects: [{name: other, queues: [{name: train}]}]\n")
    left = [c for c in world.plan().changes if c.step is Step.LEAVE]
    assert [(c.name, c.remedy) for c in left] == [
        ("kai-lattice", "kubectl delete namespace kai-lattice")
    ]
    world.apply()
    assert "/api/v1/namespaces/kai-lattice" in world.api.store


def test_a_pool_of_a_host_that_has_not_joined_is_refused(world: World) -> None:
    del world.api.store["/api/v1/nodes/gpu-1"]
    (refused,) = world.plan().refused
    assert refused.name == "gpu-1"
    assert "join" in refused.remedy


def test_the_pull_secret_reaches_the_cluster_and_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "nvapi-0123456789abcdef"
    file = world.folder / "secrets/ngc_api_key"
    file.touch(mode=0o600)
    file.write_text(key)
    site = world.folder / "site.yml"
    given = "  ngc_api_key: {file: secrets/ngc_api_key}"
    site.write_text(site.read_text().replace("secrets:\n", f"secrets:\n{given}\n", 1))
    path = "/api/v1/namespaces/kai-lattice/secrets/ngc"
    assert world.run(monkeypatch, "apply", "--yes") == 0
    content = base64.b64decode(world.api.store[path]["data"][".dockerconfigjson"]).decode()
    assert json.loads(content)["auths"]["nvcr.io"]["password"] == key
    assert world.run(monkeypatch, "plan", "--detailed-exitcode") == 0
    file.write_text("nvapi-another-key-altogether")
    assert world.run(monkeypatch, "plan", "--detailed-exitcode") == 2
    assert world.run(monkeypatch, "render", "--output", os.fspath(world.folder / "out")) == 0
    shown = capsys.readouterr()
    written = "".join(p.read_text() for p in (world.folder / "out").rglob("*.yml"))
    assert "its content is another" in shown.out
    assert "nvapi" not in shown.out + shown.err + written
    assert base64.b64encode(key.encode()).decode()[:12] not in shown.out + written


def test_a_key_that_left_the_site_leaves_the_cluster_too(world: World) -> None:
    text = (world.folder / "site.yml").read_text()
    key = "secrets:\n  ngc_api_key: {file: secrets/munge_key}\n"
    (world.folder / "site.yml").write_text(text.replace("secrets:\n", key))
    secret = "/api/v1/namespaces/kai-lattice/secrets/ngc"
    account = "/api/v1/namespaces/kai-lattice/serviceaccounts/default"
    assert world.apply_with_secrets() > 10
    assert secret in world.api.store
    assert world.api.store[account]["imagePullSecrets"] == [{"name": "ngc"}]
    (world.folder / "site.yml").write_text(text)
    assert world.apply_with_secrets() == 2
    assert secret not in world.api.store
    assert "imagePullSecrets" not in world.api.store[account]
    assert world.plan().changes == ()


@pytest.mark.parametrize(
    ("kept", "changed"), [("409600Mi", 0), ("400Gi", 0), ("0.4Ti", 1), ("300Gi", 1), ("much", 1)]
)
def test_quantities_are_compared_by_their_amount(world: World, kept: str, changed: int) -> None:
    world.apply()
    sizes = world.api.store["/api/v1/namespaces/kai-lattice/limitranges/appliance"]
    sizes["spec"]["limits"][0]["max"]["ephemeral-storage"] = kept
    assert len(world.plan().changes) == changed


def test_a_plan_asks_for_lists_and_not_for_every_resource_of_every_project(world: World) -> None:
    """Of 200 projects 2,600 questions were asked, one after the other."""
    more = "    - {name: team-@, queues: [{name: train, gpu: {quota: 0}}]}\n"

    def asked(projects: int, *, apply: bool) -> int:
        many = "".join(more.replace("@", str(n)) for n in range(projects))
        world.write(SOUND.replace("  priorities:", many + "  priorities:"))
        if apply:
            world.apply()
            assert world.plan().changes == ()
        before = len(world.api.seen)
        assert (world.plan().changes == ()) is apply
        return len(world.api.seen) - before

    # What is not there has no label: the namespace and the two queues of a new project.
    assert asked(1, apply=False) + 4 * 3 == asked(5, apply=False)
    assert asked(1, apply=True) == asked(5, apply=True)


def test_what_is_called_as_ours_and_has_no_label_of_ours_is_still_seen(world: World) -> None:
    world.apply()
    del world.queue("lattice-train")["metadata"]["labels"]  # type: ignore[attr-defined]
    assert [c.name for c in world.plan().changes] == ["lattice-train"]
    assert world.apply() == 1
    assert world.plan().changes == ()


def test_a_killed_run_is_continued_by_the_next(world: World) -> None:
    count = len(world.plan().work)
    world.api.faults.extend([None] * (count + 40))
    reads = len(world.api.seen)
    world.plan()
    reads = len(world.api.seen) - reads
    world.api.faults.clear()
    world.api.faults.extend([None] * (reads + 7) + [status(401, "Unauthorized")])
    with pytest.raises(ClusterFailed, match="does not accept the token"):
        world.apply()
    assert len(world.plan().work) == count - 7
    assert world.apply() == count - 7
    assert world.plan().changes == ()


def test_an_impossible_site_contacts_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.write(SOUND.replace("quota: 16, limit: 24", "quota: 30"))
    with pytest.raises(InvalidConfig):
        action.describe(Target(world.folder))
    for verb in ("show", "plan", "apply"):
        assert world.run(monkeypatch, verb) == 2
        assert "are guaranteed 30" in capsys.readouterr().err
    assert world.api.seen == []


RUNAI = """
software: {kai: "0.18"}
scheduler:
  kind: runai
  runai: {domain: runai.example.com}
  departments: [{name: science}]
  projects:
    - {name: lattice, department: science, queues: [{name: train, gpu: {quota: 8}}]}
"""


def test_run_ais_tree_needs_a_service_account(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.write(RUNAI)
    assert world.run(monkeypatch, "show") == 0
    assert "lattice" in capsys.readouterr().out
    for verb in ("plan", "apply"):
        assert world.run(monkeypatch, verb) == 2
        said = capsys.readouterr().err
        assert "names no service account of Run:ai" in said
        assert "scheduler.runai.client" in said
    assert world.api.seen == []


def test_show_gives_the_tree(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.run(monkeypatch, "show") == 0
    shown = capsys.readouterr().out
    assert "pool interactive: 1 host, 8 GPUs, 4.5 guaranteed" in shown
    assert "pool default: 3 hosts, 24 GPUs, 24 guaranteed" in shown
    assert "lattice-build" in shown
    assert "ends after 8h" in shown
    assert world.run(monkeypatch, "show", "--json") == 0
    assert json.loads(capsys.readouterr().out)["pools"][0]["gpus"] == 24


def test_plan_and_apply_as_a_script_runs_them(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.run(monkeypatch, "plan", "--detailed-exitcode") == 2
    assert "to create" in capsys.readouterr().out
    assert world.run(monkeypatch, "apply", "--json") == 2
    assert world.run(monkeypatch, "apply", "--yes") == 0
    assert "changes made" in capsys.readouterr().out
    assert world.run(monkeypatch, "plan", "--detailed-exitcode") == 0
    assert "nothing to do" in capsys.readouterr().out
    assert world.run(monkeypatch, "plan", "--json") == 0
    assert json.loads(capsys.readouterr().out)["changes"] == []


def test_render_writes_the_same_files_each_time(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        assert world.run(monkeypatch, "render", "--output", os.fspath(tmp_path / name)) == 0
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.yml"))
    assert [os.fspath(f) for f in files] == [
        "charts.yml",
        "node-labels.yml",
        "resources.yml",
        "values/gpu-operator.yml",
        "values/kai-scheduler.yml",
        "values/network-operator.yml",
    ]
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert world.api.seen == []


def test_render_into_what_is_no_folder_says_what_to_name(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    assert world.run(monkeypatch, "render", "--output", os.fspath(tmp_path / "file" / "x")) == 2
    assert "fix: name a folder that you own with --output" in capsys.readouterr().err


def test_what_one_namespace_refuses_keeps_no_other_from_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, wanted = action.describe(Target(world.folder))
    with KubernetesApi(world.folder / "kubeconfig", sleep=lambda _: None) as cluster:
        made = changes.plan(loaded.site, wanted, cluster)
        real = cluster.apply
        lines: list[str] = []

        def full(resource: Resource) -> Resource:
            if resource["kind"] == "ConfigMap":
                raise ClusterRefused("apply it: 200 of 200 configmaps", "delete some")
            return real(resource)

        monkeypatch.setattr(cluster, "apply", full)
        with pytest.raises(ClusterFailed, match="200 of 200 configmaps; and"):
            changes.apply(made, wanted, cluster, lines.append)
    left = [c for c in made.work if c.kind == "ConfigMap"]
    assert len(left) > 1
    assert len(lines) == len(made.work) - len(left)


def test_a_cluster_that_does_not_answer_ends_the_run_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, wanted = action.describe(Target(world.folder))
    asked: list[Resource] = []
    with KubernetesApi(world.folder / "kubeconfig", sleep=lambda _: None) as cluster:
        made = changes.plan(loaded.site, wanted, cluster)

        def gone(resource: Resource) -> Resource:
            asked.append(resource)
            raise ClusterFailed("it does not accept connections", "see whether it runs")

        monkeypatch.setattr(cluster, "apply", gone)
        with pytest.raises(ClusterFailed, match="it does not accept connections"):
            changes.apply(made, wanted, cluster, lambda _: None)
    assert len(asked) == 1
